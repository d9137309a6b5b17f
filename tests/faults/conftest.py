"""Thousands of disturbed requests: their log records are asked for elsewhere, and formatting them is slow."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def quiet_log() -> Iterator[None]:
    logger = logging.getLogger("zett_agent")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    yield
    logger.setLevel(before)
