"""The copy of the recorded data is the specification's, and the comparison can fail."""

from __future__ import annotations

from typing import Any

import pytest

from support.spec_data import COPY, Comparison, shared_data


def test_the_copy_is_the_original() -> None:
    original = shared_data()
    if original is None:
        pytest.skip("there is no other data than the copy")
    for path in (COPY / "wire").iterdir():
        assert path.read_bytes() == (original / "wire" / path.name).read_bytes(), path.name


def test_the_copy_is_whole() -> None:
    """The tests take whole families, so a family that is only partly copied would go unnoticed."""
    original = shared_data()
    if original is None:
        pytest.skip("there is no other data than the copy")
    copied = {path.name for path in (COPY / "wire").iterdir()}
    families = {_family(name) for name in copied}
    assert copied == {path.name for path in (original / "wire").iterdir() if _family(path.name) in families}


def _family(name: str) -> str:
    return ".".join(name.split(".")[:2])


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        (1, 2),
        (True, 1),
        ("", "{{unique}}"),
        ("image of call_a", "{{label: image of add call_a}}"),
        ({"a": 1, "b": 2}, {"a": 1}),
        ({}, {"a": 1}),
        ([1], [1, 2]),
        ([1, 2], [1]),
        (None, []),
        (["x", "y"], ["{{unique}}", "{{unique}}"]),
        ("bad f: send valid JSON", {"set": True, "must_mention": ["f"], "cause": "output_limit"}),
        ("bad: send valid JSON", {"set": True, "must_mention": ["tool_f"], "cause": "invalid"}),
        (None, {"set": True, "must_mention": [], "cause": "invalid"}),
    ],
)
def test_differences_are_seen(actual: Any, expected: Any) -> None:
    with pytest.raises(AssertionError):
        Comparison().check(actual, expected)


def test_what_is_the_same() -> None:
    Comparison().check(
        {"id": "c-1", "calls": ["c-1", "c-2"], "note": "see below", "n": 1.0},
        {"id": "{{unique}}", "calls": ["{{unique}}", "c-2"], "note": "{{note: it follows}}", "n": 1},
    )
