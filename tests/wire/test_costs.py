"""20 §20.33 and §20.34: what an event costs, and that the cost does not grow with the answer."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from support.wire_services import Answer, RecordingTransport
from zett_agent.messages import UserMessage
from zett_agent.model import ModelRequest
from zett_agent.providers import DeepSeekProvider

pytestmark = pytest.mark.no_cover  # measures time

REQUEST = ModelRequest([UserMessage(content="hi")])

WIRES = pytest.mark.parametrize("response", [False, True], ids=["chat", "responses"])


def grouped(events: list[Any], size: int = 50) -> list[bytes]:
    """Return the reads of a stream that brings so many events at a time."""
    lines = [b"data: " + json.dumps(event).encode() + b"\n\n" for event in events]
    return [b"".join(lines[start : start + size]) for start in range(0, len(lines), size)]


async def cost(body: list[bytes], response: bool) -> tuple[float, Any]:
    """Return the CPU seconds of reading an answer, and the answer."""
    # The first answer imports and connects.
    transport = RecordingTransport(Answer(grouped(text_events(response, 1))), Answer(body))
    provider = DeepSeekProvider("deepseek-v4-pro", "k", transport, response=response)
    async for _ in provider.stream(REQUEST):
        pass
    began = time.process_time()
    async for event in provider.stream(REQUEST):
        last = event
    return time.process_time() - began, last.response


def chat_chunk(delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


def text_events(response: bool, count: int) -> list[Any]:
    if response:
        piece = {"type": "response.output_text.delta", "item_id": "m", "output_index": 0, "content_index": 0}
        end = {"type": "response.completed", "response": {"status": "completed", "output": []}}
        return [*({**piece, "delta": "word "} for _ in range(count)), end]
    return [*(chat_chunk({"content": "word "}) for _ in range(count)), chat_chunk({}, "stop")]


def argument_events(response: bool, count: int) -> list[Any]:
    fragments = ['{"text": "', *("twenty characters.. " for _ in range(count)), '"}']
    if not response:
        opening = {"index": 0, "id": "c", "type": "function", "function": {"name": "write", "arguments": ""}}
        following = ({"index": 0, "function": {"arguments": fragment}} for fragment in fragments)
        calls = (chat_chunk({"tool_calls": [fragment]}) for fragment in (opening, *following))
        return [*calls, chat_chunk({}, "tool_calls")]
    item = {"type": "function_call", "id": "f", "call_id": "c", "name": "write"}
    piece = {"type": "response.function_call_arguments.delta", "item_id": "f", "output_index": 0}
    whole = {**item, "arguments": "".join(fragments)}
    return [
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "arguments": ""}},
        *({**piece, "delta": fragment} for fragment in fragments),
        {"type": "response.output_item.done", "output_index": 0, "item": whole},
        {"type": "response.completed", "response": {"status": "completed", "output": [whole]}},
    ]


@WIRES
async def test_20_33_cost_of_a_text_event(response: bool) -> None:
    count = 20_000
    body = grouped(text_events(response, count))
    costs: list[float] = []
    for _ in range(3):  # the machine may be busy
        seconds, answer = await cost(body, response)
        costs.append(seconds / count)
        if costs[-1] <= 40e-6:
            break
    assert answer.message.content == "word " * count
    assert min(costs) <= 40e-6


@WIRES
@pytest.mark.parametrize(
    ("events", "few", "many"),
    [(argument_events, 20_000, 80_000), (text_events, 10_000, 40_000)],
    ids=["arguments", "text"],
)
async def test_20_34_the_cost_of_a_fragment_does_not_grow(
    response: bool, events: Callable[[bool, int], list[Any]], few: int, many: int
) -> None:
    bodies = {count: grouped(events(response, count)) for count in (few, many)}
    costs: dict[int, list[float]] = {few: [], many: []}
    for _ in range(5):  # the machine may be busy
        for count, body in bodies.items():
            seconds, answer = await cost(body, response)
            costs[count].append(seconds / count)
            if events is argument_events:
                assert answer.message.tool_calls[0].arguments == {"text": "twenty characters.. " * count}
        if min(costs[many]) <= 1.3 * min(costs[few]):
            break
    assert min(costs[many]) <= 1.3 * min(costs[few])
