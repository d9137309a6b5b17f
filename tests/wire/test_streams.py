"""20 §20.3 and §20.7: every recorded answer, cut in several ways, over fakes and real connections."""

from __future__ import annotations

from typing import Any

import pytest

import zett_agent.providers
from support.http_service import HttpService
from support.spec_data import Comparison, expected_answer, recordings, request_from
from support.wire_services import (
    NO_RETRY,
    STAND_INS,
    Answer,
    RecordingTransport,
    adapter,
    consume,
    cut,
    serve,
)
from zett_agent.messages import UserMessage
from zett_agent.model import ModelRequest, RetryOptions
from zett_agent.providers.base import ProviderError, ProviderHTTPError

# Recordings of behaviour that only their own adapter has. A row goes when the adapter comes.
NEEDS_AN_ADAPTER_OF_A_LATER_VERSION = {
    "stream.chat.openrouter-reasoning-details": "OpenRouterProvider",  # merge_replay of its own
}

RUNNABLE = [
    case
    for case in recordings("stream.chat.*", "stream.responses.*")
    if case.id not in NEEDS_AN_ADAPTER_OF_A_LATER_VERSION
]

# Whether a failure is worth a second request: 20 §10.6 and §12, and the notes of the recordings.
RETRIED = {
    "stream.chat.connection-dropped-first": True,
    "stream.chat.connection-dropped-after-text": False,
    "stream.chat.error-chunk-after-text": False,
    "stream.chat.error-chunk-first": True,
    "stream.chat.error-chunk-first-string-code": True,
    "stream.chat.html-200": False,
    "stream.chat.json-200": False,
    "stream.chat.malformed-json-first": True,
    "stream.chat.malformed-json-after-text": False,
    "stream.responses.connection-dropped-after-text": False,
    "stream.responses.error-event-first": True,
    "stream.responses.error-event-nested": True,
    "stream.responses.error-event-after-text": False,
    "stream.responses.failed-first": True,
    "stream.responses.failed-policy": False,
    "stream.responses.malformed-json": True,
    "stream.responses.unterminated-nothing": True,
    "stream.responses.unterminated-item-open": False,
}


def test_adapters_that_have_come_are_no_longer_replaced() -> None:
    absent = {*STAND_INS, *NEEDS_AN_ADAPTER_OF_A_LATER_VERSION.values()}
    assert not absent & set(zett_agent.providers.__all__), "remove these rows from the tables"


@pytest.mark.parametrize("how", ["as recorded", "line by line", "single bytes"])
@pytest.mark.parametrize("recording", RUNNABLE)
async def test_20_3_and_7_recorded_answers(recording: dict[str, Any], how: str) -> None:
    answer = Answer.recorded(recording["http"])
    answer.body = cut(answer.body, how)
    check(recording, *await play(recording, transport=RecordingTransport(answer)))


@pytest.mark.parametrize("recording", RUNNABLE)
async def test_20_3_recorded_answers_over_a_connection(recording: dict[str, Any]) -> None:
    async with HttpService(serve(Answer.recorded(recording["http"]))) as service:
        check(recording, *await play(recording, base_url=service.url))


@pytest.mark.parametrize("name", RETRIED)
async def test_20_12_which_failures_are_retried(name: str) -> None:
    [case] = recordings(name)
    [recording] = case.values
    transport = RecordingTransport(Answer.recorded(recording["http"]))
    check(recording, *await play(recording, transport=transport, retry=RetryOptions(0, 0, 1)))
    assert len(transport.requests) == 1 + RETRIED[name]


async def test_20_10_6_an_error_chunk_with_a_status_is_an_http_error() -> None:
    [case] = recordings("stream.chat.error-chunk-first")
    transport = RecordingTransport(Answer.recorded(case.values[0]["http"]))
    _, error = await play(case.values[0], transport=transport)
    assert isinstance(error, ProviderHTTPError)
    assert error.status_code == 502
    assert "overloaded" in str(error)


@pytest.mark.parametrize("recording", recordings("stream.chat.empty-body", "stream.chat.only-done"))
async def test_20_10_1_an_empty_stream_names_status_and_content_type(recording: dict[str, Any]) -> None:
    _, error = await play(recording, transport=RecordingTransport(Answer.recorded(recording["http"])))
    assert "200" in str(error)
    assert "text/event-stream" in str(error)


async def play(
    recording: dict[str, Any], **options: Any
) -> tuple[list[dict[str, Any]], ProviderError | None]:
    request = ModelRequest([UserMessage(content="hi")])
    if "request" in recording:
        request = request_from(recording["request"])
    provider = adapter(recording["class"])(**{"retry": NO_RETRY, **recording["constructor"], **options})
    async with provider:
        return await consume(provider, request)


def check(recording: dict[str, Any], events: list[dict[str, Any]], error: ProviderError | None) -> None:
    expected = expected_answer(recording)
    Comparison().check(events, expected["events"], "events")
    check_error(error, expected["error"])
    check_contract(events, error)


def check_error(error: ProviderError | None, expected: dict[str, Any] | None) -> None:
    if expected is None:
        assert error is None
        return
    # A more specific class is the named one too: 20 §10.6 asks for it where the service gives a status.
    assert expected["class"] in {kind.__name__ for kind in type(error).__mro__}, repr(error)
    for name, value in expected.get("attributes", {}).items():
        assert getattr(error, name) == value, name
    cause = expected.get("cause_class", "")
    if cause and not cause.startswith("openai."):
        assert error is not None
        kind = type(error.__cause__)
        assert f"{kind.__module__}.{kind.__qualname__}" == cause


def check_contract(events: list[dict[str, Any]], error: ProviderError | None) -> None:
    """Check what 20 §10 promises of every stream."""
    types = [event["type"] for event in events]
    if error is not None:
        assert "response" not in types
        return
    assert types.index("response") == len(types) - 1
    response = events[-1]["response"]
    for kind, whole in (("text_delta", response["content"]), ("reasoning_delta", response["reasoning"])):
        shown = "".join(event["delta"] for event in events if event["type"] == kind)
        assert shown in ("", whole or "")
    ids = [call["id"] for call in response["tool_calls"]]
    assert all(ids)
    assert len(set(ids)) == len(ids)
    deltas = [event["tool_call_delta"] for event in events if event["type"] == "tool_call_delta"]
    opened: dict[int, str] = {}
    for delta in deltas:
        opened[delta["index"]] = opened.get(delta["index"], "") + delta.get("id_delta", "")
    shown_ids = [opened[index] for index in sorted(opened)]
    assert shown_ids == [
        call_id for call_id in ids if call_id in shown_ids
    ]  # some come only with the response
