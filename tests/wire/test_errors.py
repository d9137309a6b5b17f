"""20 §20.4: every recorded HTTP failure of the chat family, and whether it is retried."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.spec_data import Comparison, expected_answer, load
from support.wire_services import OK, Answer, RecordingTransport, adapter, consume
from zett_agent.messages import UserMessage
from zett_agent.model import ModelRequest, RetryOptions

RECORDING = load("errors.chat")
ONE_RETRY = RetryOptions(0, 0, 1)


def answer_of(case: dict[str, Any]) -> Answer:
    # Texts are bodies as they are; the quoted one is a JSON string.
    body = case["body"] if isinstance(case["body"], str) else json.dumps(case["body"])
    return Answer([body.encode()] if body else [], case["status"], case["content_type"])


def case_id(case: dict[str, Any]) -> str:
    return f"{case['status']}-{json.dumps(case['body'])[:40]}"


@pytest.mark.parametrize("response", [False, True], ids=["chat", "responses"])
@pytest.mark.parametrize("case", RECORDING["cases"], ids=case_id)
async def test_20_4_recorded_failures(case: dict[str, Any], response: bool) -> None:
    transport = RecordingTransport(answer_of(case))
    provider = adapter(RECORDING["class"])(
        model="gpt-x", api_key="test-key", transport=transport, retry=ONE_RETRY, response=response
    )
    events, error = await consume(provider, ModelRequest([UserMessage(content="hi")]))

    expected = expected_answer(case)
    Comparison().check(events, expected["events"], "events")
    failure = expected["error"]
    if failure is None:
        assert error is None
        assert len(transport.requests) == 1
        return
    assert type(error).__name__ == failure["class"]
    for name, value in failure.get("attributes", {}).items():
        assert getattr(error, name) == value, name
    assert f"HTTP {case['status']}" in str(error)
    assert len(transport.requests) == 1 + failure["retried"]


@pytest.mark.parametrize("case", [case for case in RECORDING["cases"] if case["status"] >= 500], ids=case_id)
async def test_20_15_a_retry_gives_the_normal_result(case: dict[str, Any]) -> None:
    transport = RecordingTransport(answer_of(case), OK)
    provider = adapter(RECORDING["class"])(
        model="gpt-x", api_key="test-key", transport=transport, retry=ONE_RETRY
    )
    events, error = await consume(provider, ModelRequest([UserMessage(content="hi")]))
    assert error is None
    assert events[-1]["response"]["content"] == "x"
    first, second = transport.requests
    assert (first.url, first.headers, first.content) == (second.url, second.headers, second.content)
