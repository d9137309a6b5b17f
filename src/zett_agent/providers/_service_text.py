"""Cleaning what a service says about itself before it reaches a message, an error or a log."""

from __future__ import annotations

import math
import re
from typing import Any, cast

from .._text import encodable

__all__ = ["service_json", "service_text"]

_CONTROLS = re.compile("[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f]")


def service_text(text: str) -> str:
    """Return text without control characters and surrogates; line breaks and tabs stay."""
    return _CONTROLS.sub(" ", encodable(text))


def service_json(value: Any) -> Any:
    """Return a copy of a small JSON value with clean text and without numbers that JSON does not have."""
    if isinstance(value, str):
        return service_text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        entries = cast("dict[str, Any]", value)
        return {service_text(name): service_json(item) for name, item in entries.items()}
    if isinstance(value, list):
        return [service_json(item) for item in cast("list[Any]", value)]
    return value
