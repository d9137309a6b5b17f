"""Whatever a service answers, a stream ends with one response or with an error of ours: 20 §10 and §11."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import pytest

from support.spec_data import recordings, request_from
from support.wire_services import NO_RETRY, Answer, RecordingTransport, adapter
from zett_agent.messages import UserMessage
from zett_agent.model import ModelEventType, ModelRequest, ToolDefinition
from zett_agent.providers.base import ProviderError
from zett_agent.storage import encode_messages

ODD: list[Any] = [
    None, True, False, -1, 0, 1, 2**70, 1e400, -1.5, "", " ", "x", "\ud83d", "\udc08", "0", [], [None],
    [[]], {}, {"type": "text"}, {"text": 1}, ["x"], [{}], {"": {}}, "null", "{", "{}", '{"a": 1',
]  # fmt: skip

TIMES = 20

CASES = [
    case
    for case in recordings("stream.chat.*", "stream.responses.*")
    if case.id.startswith(("stream.chat.tool-call", "stream.chat.usage", "stream.responses"))
    or case.id in ("stream.chat.text", "stream.chat.native-finish-reason", "stream.chat.refusal-field")
]


@pytest.mark.parametrize("recording", CASES)
async def test_one_value_is_another(recording: dict[str, Any]) -> None:
    lines = [line for line in text_of(recording).splitlines() if line.startswith("data: {")]
    objects = [loaded for line in lines if isinstance(loaded := load_line(line), dict)]
    chance = random.Random(len(lines))
    for _ in range(TIMES):
        disturbed = copy.deepcopy(objects)
        for _ in range(chance.choice((1, 1, 2))):
            disturb(disturbed, chance)
        body = [b"data: " + json.dumps(data).encode() + b"\n\n" for data in disturbed]
        await check(recording, [*body, b"data: [DONE]\n\n"], disturbed)


@pytest.mark.parametrize("recording", CASES)
async def test_bytes_are_missing_or_doubled(recording: dict[str, Any]) -> None:
    body = text_of(recording).encode("utf-8", "replace")
    chance = random.Random(len(body))
    for _ in range(TIMES):
        start = chance.randrange(len(body) + 1)
        end = min(len(body), start + chance.choice((1, 5, 60)))
        again = body[start:end] if chance.random() < 0.5 else b""
        disturbed = body[:start] + again + again + body[end:]
        await check(recording, [disturbed], disturbed)


def text_of(recording: dict[str, Any]) -> str:
    return "".join(chunk for chunk in recording["http"]["chunks"] if isinstance(chunk, str))


def load_line(line: str) -> Any:
    try:
        return json.loads(line.removeprefix("data: "))
    except ValueError:
        return None


def disturb(value: Any, chance: random.Random) -> None:
    """Replace, remove or double one value somewhere inside."""
    places: list[tuple[Any, Any]] = []
    collect(value, places)
    if not places:
        return
    container, key = chance.choice(places)
    act = chance.random()
    if act < 0.7:
        container[key] = copy.deepcopy(chance.choice(ODD))
    elif act < 0.85:
        del container[key]
    elif isinstance(container, list):
        container.insert(key, copy.deepcopy(container[key]))


def collect(value: Any, places: list[tuple[Any, Any]]) -> None:
    entries = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, inner in entries:
        places.append((value, key))
        collect(inner, places)


async def check(recording: dict[str, Any], body: list[bytes], what: object) -> None:
    request = ModelRequest([UserMessage(content="hi")])
    if "request" in recording:
        request = request_from(recording["request"])
    transport = RecordingTransport(Answer(body))
    provider = adapter(recording["class"])(**recording["constructor"], transport=transport, retry=NO_RETRY)
    events = []
    try:
        async for event in provider.stream(request):
            events.append(event)
    except ProviderError:
        assert all(event.response is None for event in events)
        return
    except BaseException as error:
        raise AssertionError(f"{type(error).__name__} leaves the stream for {what!r}") from error
    *deltas, last = events
    assert last.response is not None
    message = last.response.message
    shown = "".join(event.delta for event in deltas if event.type is ModelEventType.TEXT_DELTA)
    assert shown in ("", message.content) or "responses" in recording["wire"], what
    # The answer can be stored, and sent back.
    encode_messages([message]).encode()
    json.dumps(message.replay_blocks, allow_nan=False, ensure_ascii=False).encode()
    ids = [call.id for call in message.tool_calls]
    assert all(ids) and len(set(ids)) == len(ids), what
    for call in message.tool_calls:
        json.dumps(call.arguments, allow_nan=False, ensure_ascii=False).encode()
    sent_back = RecordingTransport()
    again = adapter(recording["class"])(**recording["constructor"], transport=sent_back, retry=NO_RETRY)
    tools = [ToolDefinition("f", "F.", {"type": "object"})]
    try:
        async for _ in again.stream(ModelRequest([UserMessage(content="hi"), message], tools)):
            pass
    except ProviderError:
        assert sent_back.requests, what
    for turn in sent_back.bodies:
        json.dumps(turn, allow_nan=False)
