"""Models for tests: one plays a script, one asks a function."""

from __future__ import annotations

import copy
import inspect
import itertools
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from ..exceptions import AgentError
from ..messages import AnyMessage, AssistantMessage, ToolMessage, UserMessage
from ..model import ModelEvent, ModelRequest, RetryOptions, ToolDefinition
from ._steps import Step, check_step, play

__all__ = [
    "FunctionModel",
    "ScriptExhausted",
    "ScriptUnfinished",
    "ScriptedModel",
    "StepFunction",
    "StepInfo",
]

_SHOWN = 200


class ScriptExhausted(AgentError, AssertionError):
    """A `ScriptedModel` was asked once more than its script has steps."""


class ScriptUnfinished(AgentError, AssertionError):
    """A `ScriptedModel` was asked fewer times than its script has steps."""


@dataclass(frozen=True, slots=True)
class StepInfo:
    """What a `FunctionModel`'s function learns beside the request.

    Attributes:
        index: How many requests the model had before this one.
        tools: The local tools that are offered.
        session_id: The request's `cache_key`, which is the session's id unless the run configures another.
        output_format: `None` for now.
        settings: `None` for now.
    """

    index: int
    tools: Sequence[ToolDefinition]
    session_id: str | None
    output_format: Any = None
    settings: Any = None


class _TestModel:
    """What the models here share: a name, no retries, and numbered call ids."""

    retry: RetryOptions = RetryOptions(max_retries=0)

    def __init__(self, provider: str, model: str, profile: Any) -> None:
        self.provider = provider
        self.model = model
        self.profile = profile
        self._call_numbers = itertools.count(1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(model={self.model!r})"

    def next_call_id(self) -> str:
        """Return `call_1`, then `call_2`, …"""
        return f"call_{next(self._call_numbers)}"  # `next` on a count is atomic, in every thread


class ScriptedModel(_TestModel):
    """A model that answers each request with the next step of a script.

    May be used by many sessions, threads and event loops at once.

    Args:
        steps: The answers, in order; see `Step`.
        profile: Kept as the attribute of that name.
        provider: Goes into each answer's `provider`.
        model: Goes into each answer's `model`.
        inspect: Called as `inspect(request, index)` before each step. What it raises reaches the caller of
            `run` as it is, so it may hold assertions.
        per_session: Whether each session gets the whole script. Otherwise all share one sequence.

    Attributes:
        requests: A snapshot of each request; what happens to the messages afterwards does not change it.

    Raises:
        TypeError: A step is none.

    Example:
        >>> model = ScriptedModel(call("add", a=2, b=3), "The sum is 5.")
        >>> agent = await Agent.create(model, tools=[add])  # doctest: +SKIP
        >>> (await agent.run("2 + 3?")).content  # doctest: +SKIP
        'The sum is 5.'
        >>> model.assert_finished()  # doctest: +SKIP
    """

    def __init__(
        self,
        *steps: Step,
        profile: Any = None,
        provider: str = "scripted",
        model: str = "scripted",
        inspect: Callable[[ModelRequest, int], None] | None = None,
        per_session: bool = False,
    ) -> None:
        super().__init__(provider, model, profile)
        for index, step in enumerate(steps):
            check_step(step, f"Step {index} of the script")
        self.requests: list[ModelRequest] = []
        self._steps = steps
        self._inspect = inspect
        self._per_session = per_session
        self._taken: dict[str | None, int] = {}
        self._lock = threading.Lock()

    @property
    def remaining(self) -> int:
        """How many steps are left; with `per_session`, in all the sessions that have begun."""
        with self._lock:
            return sum(max(0, len(self._steps) - taken) for taken in self._taken.values() or (0,))

    def reset(self) -> None:
        """Start the script again: forget the requests, the sessions and the call ids given out."""
        with self._lock:
            self.requests = []
            self._taken = {}
            self._call_numbers = itertools.count(1)

    def assert_finished(self) -> None:
        """Check that every step was used.

        Raises:
            ScriptUnfinished: A step is left, or with `per_session` no session has begun.
        """
        with self._lock:
            unfinished = {key: taken for key, taken in self._taken.items() if taken < len(self._steps)}
            if not self._taken and self._steps:
                unfinished = {None: 0}
        for session, taken in unfinished.items():
            where = f" in session {session!r}" if self._per_session and session is not None else ""
            raise ScriptUnfinished(
                f"The script has {len(self._steps)} steps, but only {taken} were used{where}; "
                f"the next one is {_shorten(repr(self._steps[taken]))}"
            )

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield the events of the next step.

        Raises:
            ScriptExhausted: There is no next step.
            BaseException: What the step or `inspect` raises.
        """
        index = self._take(request)
        if index >= len(self._steps):
            raise ScriptExhausted(
                f"The model was asked for step {index}, but the script has only {len(self._steps)} steps; "
                f"the last message is {_describe(request.messages)}"
            )
        if self._inspect is not None:
            self._inspect(request, index)
        step = self._steps[index]
        async with aclosing(play(step, message_count=len(request.messages), origin=self)) as events:
            async for event in events:
                yield event

    def _take(self, request: ModelRequest) -> int:
        key = request.cache_key if self._per_session else None
        with self._lock:
            self.requests.append(_snapshot(request))
            index = self._taken.get(key, 0)
            self._taken[key] = index + 1
            return index


StepFunction: TypeAlias = Callable[
    [ModelRequest, StepInfo], Step | Awaitable[Step] | AsyncIterator[ModelEvent]
]
"""A function that answers a request, in any of the three ways."""


class FunctionModel(_TestModel):
    """A model that asks a function what to answer.

    May be used by many sessions at once, if the function may.

    Args:
        function: Called as `function(request, info)` for each request. It returns a `Step`, or is `async`
            and returns one, or is an async generator of `ModelEvent`, which is closed with the stream.
        profile: Kept as the attribute of that name.
        model: Goes into each answer's `model`.

    Example:
        >>> def shout(request, info):
        ...     return request.messages[-1].text.upper()
        >>> FunctionModel(shout)
        FunctionModel(model='function')
    """

    def __init__(self, function: StepFunction, *, profile: Any = None, model: str = "function") -> None:
        super().__init__("function", model, profile)
        self._function = function
        self._indexes = itertools.count()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield the events of the function's answer.

        Raises:
            TypeError: The function returned something that is no `Step`.
            BaseException: What the function raises.
        """
        index = next(self._indexes)
        answer = self._function(request, StepInfo(index, request.tools, request.cache_key))
        if isinstance(answer, AsyncIterator):
            events = answer
        else:
            step = await answer if inspect.isawaitable(answer) else answer
            check_step(step, f"What the model function returned for request {index}")
            events = play(step, message_count=len(request.messages), origin=self)
        try:
            async for event in events:
                yield event
        finally:
            if isinstance(events, AsyncGenerator):
                await events.aclose()


def _snapshot(request: ModelRequest) -> ModelRequest:
    return replace(request, messages=tuple(_copy_message(message) for message in request.messages))


def _copy_message(message: AnyMessage) -> AnyMessage:
    """Copy as deep as the loop and its hooks change messages; application objects stay the same ones."""
    twin = copy.copy(message)
    twin.attributes = dict(message.attributes)
    match twin:
        case AssistantMessage():
            twin.tool_calls = tuple(
                replace(item, arguments=copy.deepcopy(item.arguments)) for item in twin.tool_calls
            )
        case UserMessage() | ToolMessage() if not isinstance(twin.content, str):
            twin.content = list(twin.content)
        case _:
            pass
    return twin


def _describe(messages: Sequence[AnyMessage]) -> str:
    if not messages:
        return "missing: the request has no messages"
    last = messages[-1]
    text = last.text if isinstance(last, (UserMessage, ToolMessage)) else last.content
    return f"{type(last).__name__} {_shorten(repr(text))}"


def _shorten(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
