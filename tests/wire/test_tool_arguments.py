"""20 §20.5: every recorded payload of tool arguments, as text and as it comes through a stream."""

from __future__ import annotations

from typing import Any

import pytest

from support.spec_data import Comparison, expected_answer, load
from support.wire_services import NO_RETRY, RecordingTransport, adapter, chat, consume
from zett_agent.messages import UserMessage
from zett_agent.model import ModelRequest
from zett_agent.providers.tool_arguments import ToolArgumentsError, decode_tool_arguments

CASES = load("tool-arguments")["cases"]
TOOL_CALLS = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
LENGTH = {"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}


def case_id(case: dict[str, Any]) -> str:
    return ascii(case["payload"])


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_20_5_recorded_payloads(case: dict[str, Any]) -> None:
    expected = expected_answer(case)
    if "error" in expected:
        with pytest.raises(ToolArgumentsError, match="call 3"):
            decode_tool_arguments(case["payload"], index=3)
        return
    Comparison().check(decode_tool_arguments(case["payload"], index=3), expected["arguments"])


@pytest.mark.parametrize("case", CASES, ids=case_id)
async def test_20_5_recorded_payloads_in_a_stream(case: dict[str, Any]) -> None:
    call = await call_with(case["payload"], TOOL_CALLS)
    expected = expected_answer(case)
    Comparison().check(call["arguments"], expected.get("arguments", {}))
    assert ("error" in call) == ("error" in expected)
    if "error" in call:
        assert "look" in call["error"]
        assert "valid JSON" in call["error"]


@pytest.mark.parametrize("case", CASES, ids=case_id)
async def test_20_10_3_nothing_is_repaired_after_an_output_limit(case: dict[str, Any]) -> None:
    call = await call_with(case["payload"], LENGTH)
    if "error" in call:
        assert call["arguments"] == {}
        assert "smaller" in call["error"]
    else:
        Comparison().check(call["arguments"], expected_answer(case)["arguments"])


async def test_20_10_3_a_limit_leaves_only_whole_payloads() -> None:
    repaired = {"{\"a\": 1, \"b\": 2,}", "{a: 1}", "{\"a\": {\"b\": 1}", "{\"a\":1}}"}  # fmt: skip
    assert repaired <= {case["payload"] for case in CASES}
    for payload in repaired:
        assert "error" not in await call_with(payload, TOOL_CALLS)
        assert "error" in await call_with(payload, LENGTH)


async def call_with(payload: str, end: dict[str, Any]) -> dict[str, Any]:
    """Return the call that results when a service sends these arguments."""
    fragment = {"index": 0, "id": "c1", "function": {"name": "look", "arguments": payload}}
    provider = adapter("OpenAIProvider")(
        model="m", api_key="k", transport=RecordingTransport(chat([fragment], end)), retry=NO_RETRY
    )
    events, error = await consume(provider, ModelRequest([UserMessage(content="hi")]))
    assert error is None
    [call] = events[-1]["response"]["tool_calls"]
    return call
