"""What a service says about itself is cleaned before it reaches history (chapter 20, B12 and §19.4)."""

from __future__ import annotations

import pytest

from zett_agent.providers._service_text import service_json, service_text
from zett_agent.providers.stop_reasons import refusal_from_response_error, refusal_from_status_error


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("bad \ud800", "bad \ufffd"),
        ("\ud83d\ude00", "😀"),
        ("\x1b[31mred\x00", " [31mred "),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("plain", "plain"),
    ],
    ids=["half", "pair", "controls", "blanks", "plain"],
)
def test_text(said: str, shown: str) -> None:
    assert service_text(said) == shown


def test_json_keeps_its_shape_and_loses_what_json_does_not_have() -> None:
    said = {"a\ud800": [float("nan"), float("inf"), 1, True, None, "x\x00"], "b": {"c": 1.5}}
    assert service_json(said) == {"a\ufffd": [None, None, 1, True, None, "x "], "b": {"c": 1.5}}


def test_refusals_are_built_from_clean_text() -> None:
    filtered = refusal_from_status_error(400, {"code": "content_filter", "message": "no \ud800"})
    guarded = refusal_from_status_error(403, {"metadata": {"patterns": [float("nan")]}})
    policy = refusal_from_response_error({"code": "bio_policy", "message": "no \ud800"})
    assert filtered is not None and filtered.message == "no \ufffd"
    assert guarded is not None and guarded.detail == {"status": 403, "patterns": [None]}
    assert policy is not None and policy.message == "no \ufffd"
