"""Which field a refused request is sent without (chapter 20, B9)."""

from __future__ import annotations

from typing import Any

import pytest

from zett_agent.providers._option_fallback import OptionMemory

BODY: dict[str, Any] = {
    "messages": [],
    "stream_options": {},
    "reasoning_effort": "max",
    "thinking": {"type": "enabled"},
}


def learned(
    error: Any, *, status: int = 400, body: dict[str, Any] = BODY, own: Any = ()
) -> dict[str, Any] | None:
    """Return the next body, or `None` when the request is not worth sending again."""
    memory = OptionMemory()
    if not memory.learn("m", status, error, body=body, caller_fields=own):
        return None
    following = dict(body)
    memory.apply("m", following)
    return following


@pytest.mark.parametrize(
    ("error", "left_out"),
    [
        ({"message": "bad", "param": "reasoning_effort"}, "reasoning_effort"),
        ({"message": "Unknown parameter: 'stream_options.include_usage'"}, "stream_options"),
        ({"message": "This model does not support thinking"}, "thinking"),
        (
            {"detail": [{"loc": ["body", "stream_options"], "msg": "extra fields not permitted"}]},
            "stream_options",
        ),
        ({"detail": "stream_options is not allowed"}, "stream_options"),
        ("reasoning_effort: unexpected", "reasoning_effort"),
    ],
    ids=["param", "quoted path", "not supported", "detail list", "detail text", "plain text"],
)
def test_the_named_field_is_left_out(error: Any, left_out: str) -> None:
    assert learned(error) == {name: value for name, value in BODY.items() if name != left_out}


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ({"message": "bad messages", "param": "messages"}, 400),
        ({"message": "The `reasoning_content` in the thinking mode must be passed back"}, 400),
        ({"message": "something else"}, 400),
        ({"message": "bad", "param": "reasoning_effort"}, 500),
        (None, 400),
    ],
    ids=["another field", "everyday word", "no field", "another status", "no body"],
)
def test_other_refusals_are_left_alone(error: Any, status: int) -> None:
    assert learned(error, status=status) is None


def test_what_the_caller_set_is_never_changed() -> None:
    assert learned({"param": "reasoning_effort"}, own={"reasoning_effort": "max"}) is None


def test_an_effort_is_lowered_once_and_only_that_effort() -> None:
    memory = OptionMemory()
    error = {"param": "reasoning_effort", "message": "Supported values are: 'low', 'medium' and 'high'"}
    assert memory.learn("m", 400, error, body={"reasoning_effort": "max"}, caller_fields=())
    for sent, following in (("max", "high"), ("low", "low"), ("medium", "medium")):
        body: dict[str, Any] = {"reasoning_effort": sent}
        memory.apply("m", body)
        assert body == {"reasoning_effort": following}
    assert memory.learn("m", 400, error, body={"reasoning_effort": "high"}, caller_fields=())
    body = {"reasoning_effort": "max"}
    memory.apply("m", body)
    assert body == {}


def test_the_effort_of_a_reasoning_object_is_lowered_in_place() -> None:
    body = {"reasoning": {"effort": "high", "summary": "auto"}}
    error = {"param": "reasoning.effort", "message": "Supported values: none, minimal, low"}
    assert learned(error, body=body) == {"reasoning": {"effort": "low", "summary": "auto"}}


def test_what_one_model_refuses_another_may_take() -> None:
    memory = OptionMemory()
    assert memory.learn("m", 400, {"param": "thinking"}, body=BODY, caller_fields=())
    body = dict(BODY)
    memory.apply("other", body)
    assert body == BODY
