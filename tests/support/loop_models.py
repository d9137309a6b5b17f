"""Models for the tests of the loop: every event, wait, error and side effect is written in the test."""

from __future__ import annotations

import asyncio
import copy
import inspect
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from zett_agent.messages import AssistantMessage, ToolCall
from zett_agent.model import ModelEvent, ModelRequest, ModelResponse, ModelUsage, RetryOptions, ToolCallDelta
from zett_agent.stop import StopInfo

__all__ = ["RawModel", "answer", "asks", "pause", "response", "stopped", "text"]

Item = Any
"""One act of a model: an event to yield, seconds to sleep, an error to raise, or a function to call."""


class RawModel:
    """Plays one list of acts for each request, and notes which of its generators are closed.

    Args:
        steps: A list of acts for each request; the last one is repeated when `repeat` is set.
        repeat: Whether the last step answers every further request too.
    """

    retry = RetryOptions(max_retries=0)

    def __init__(self, *steps: Sequence[Item], repeat: bool = False) -> None:
        self.steps = list(steps)
        self.repeat = repeat
        self.requests: list[ModelRequest] = []
        self.opened = 0
        self.closed = 0
        self.yielded = 0

    @property
    def open_streams(self) -> int:
        return self.opened - self.closed

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        index = len(self.requests)
        self.requests.append(request)
        if self.repeat:
            index = min(index, len(self.steps) - 1)
        self.opened += 1
        try:
            for item in self.steps[index]:
                if isinstance(item, ModelEvent):
                    self.yielded += 1
                    yield copy.deepcopy(item) if self.repeat else item
                elif isinstance(item, BaseException):
                    raise item
                elif isinstance(item, (int, float)):
                    await asyncio.sleep(item)
                else:
                    result = item()
                    if inspect.isawaitable(result):
                        await result
        finally:
            self.closed += 1


def text(content: str = "hi", *, usage: ModelUsage | None = None) -> list[Item]:
    """One text delta, then the answer with that text."""
    return [ModelEvent.text(content), pause, response(content, usage=usage)]


def answer(content: str = "done") -> list[Item]:
    """The answer alone, without deltas."""
    return [response(content)]


def asks(*calls: ToolCall, content: str = "", deltas: bool = True) -> list[Item]:
    """An answer that asks for tools, with one delta for each call."""
    shown = [
        ModelEvent.tool_call(ToolCallDelta(index, call.id or "x", call.name))
        for index, call in enumerate(calls)
    ]
    return [*(shown if deltas else []), pause, response(content, calls=calls)]


def stopped(reason: str, content: str = "", *, calls: Sequence[ToolCall] = ()) -> list[Item]:
    """An answer without deltas that ends with a provider's raw stop value."""
    return [pause, response(content, calls=calls, finish=reason)]


def response(
    content: str = "",
    *,
    calls: Sequence[ToolCall] = (),
    finish: str | None = None,
    usage: ModelUsage | None = None,
    stop: StopInfo | None = None,
    **fields: Any,
) -> ModelEvent:
    message = AssistantMessage(content=content, tool_calls=tuple(calls), **fields)
    finish = finish or ("tool_calls" if calls else "stop")
    return ModelEvent.completed(ModelResponse(message, finish, usage or ModelUsage(), stop))


async def pause() -> None:
    """Wait once, as a model that reads from a network does between two events."""
    await asyncio.sleep(0)
