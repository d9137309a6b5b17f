"""Removing credentials from texts."""

from __future__ import annotations

import time

import pytest

from zett_agent.providers._redaction import Redactor

KEY = "sk-proj-0123456789abcdefghijklmnop"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"key {KEY}!", "key [redacted]!"),
        (f"{KEY}{KEY}", "[redacted][redacted]"),
        ("key sk-proj-**********mnop!", "key [redacted]!"),
        ("key sk-pr...mnop!", "key [redacted]!"),
        ("key sk-p\u2026nop!", "key [redacted]!"),
        ("key sk-p[...]nop!", "key [redacted]!"),
        ("key sk-****!", "key sk-****!"),  # the beginning of every such key
        ("key sk-proj-0123!", "key [redacted]!"),
        ("ends in ijklmnop", "ends in [redacted]"),
        ("nothing here... or *** there", "nothing here... or *** there"),
    ],
)
def test_whole_and_shortened_secrets(text: str, expected: str) -> None:
    assert Redactor([KEY]).text(text) == expected


def test_short_secrets_are_ordinary_words() -> None:
    assert Redactor(["key", ""]).text("bad key") == "bad key"


def test_errors_are_cleaned_with_their_causes() -> None:
    error, cause = ValueError(f"outer {KEY}"), OSError(5, f"inner {KEY}")
    error.detail = f"attribute {KEY}"  # type: ignore[attr-defined]
    error.__cause__ = cause
    cause.__context__ = error  # a loop is no trap
    Redactor([KEY]).error(error)
    assert KEY not in f"{error} {error.detail} {cause!r} {cause.args}"  # type: ignore[attr-defined]
    assert error.args == ("outer [redacted]",)


@pytest.mark.no_cover  # measures time
def test_long_texts_take_linear_time() -> None:
    redactor = Redactor([KEY])
    for piece in ("*.", "sk-p...", "sk-proj-", "[", "x" * 50 + "."):
        text = (piece * 65536)[:65536]
        began = time.process_time()
        redactor.text(text)
        assert time.process_time() - began < 0.3, piece
