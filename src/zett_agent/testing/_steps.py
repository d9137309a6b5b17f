"""What a test model answers to one request, and how that answer becomes a stream of events."""

from __future__ import annotations

import asyncio
import copy
import json
import re
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias, cast

from ..messages import AssistantMessage, ToolCall
from ..model import ModelEvent, ModelResponse, ModelUsage, ToolCallDelta
from ..stop import StopInfo, StopReason, classify_stop

__all__ = ["Origin", "Step", "call", "calls", "check_step", "fail", "hang", "play", "say"]

INPUT_TOKENS_PER_MESSAGE = 10
CHARACTERS_PER_OUTPUT_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Say:
    """Text, streamed in pieces. Built by `say`."""

    text: str
    chunks: int | None = None
    reasoning: str | None = None
    usage: ModelUsage | None = None
    stop: StopInfo | str | None = None
    delay: float = 0


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call. Built by `call`."""

    name: str
    arguments: dict[str, Any]
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Calls:
    """Several tool calls in one answer. Built by `calls`."""

    calls: tuple[Call, ...]
    text: str = ""


@dataclass(frozen=True, slots=True)
class Fail:
    """An error, perhaps after some events. Built by `fail`."""

    error: BaseException
    after: str | Sequence[ModelEvent] | None = None


@dataclass(frozen=True, slots=True)
class Hang:
    """No answer at all. Built by `hang`."""


Step: TypeAlias = (
    str
    | AssistantMessage
    | ModelResponse
    | BaseException
    | Sequence[ModelEvent]
    | Say
    | Call
    | Calls
    | Fail
    | Hang
)
"""What one model request answers: a text, a message, a response, an exception to raise, the very events to
yield, or what `say`, `call`, `calls`, `fail` and `hang` return."""


def say(
    text: str,
    *,
    chunks: int | None = None,
    reasoning: str | None = None,
    usage: ModelUsage | None = None,
    stop: StopInfo | str | None = None,
    delay: float = 0,
) -> Say:
    """Answer with text.

    Args:
        text: The answer.
        chunks: Into how many deltas the text is split; one for each word when left out. A text with fewer
            characters than that gives one delta for each character.
        reasoning: Readable reasoning, streamed before the text.
        usage: Token counts; 10 for each message of the request and 1 for each 4 characters otherwise.
        stop: How the answer ends: a `StopReason`, a provider's raw stop value or a whole `StopInfo`.
        delay: Seconds to wait before each event.

    Raises:
        ValueError: `chunks` is below 1, or `delay` is negative.

    Example:
        >>> say("hello world", chunks=3)  # doctest: +SKIP
    """
    if chunks is not None and chunks < 1:
        raise ValueError(f"chunks must be at least 1, got {chunks}")
    if delay < 0:
        raise ValueError(f"delay cannot be negative, got {delay}")
    return Say(text, chunks, reasoning, usage, stop, delay)


def call(name: str, /, *, id: str | None = None, **arguments: Any) -> Call:
    """Answer with one tool call.

    Args:
        name: The tool's name.
        id: The call's id; `call_1`, `call_2`, … in the order in which the model makes them when left out.
        arguments: The tool's keyword arguments. For a tool that has an argument called `id`, answer with
            an `AssistantMessage` instead.

    Example:
        >>> ScriptedModel(call("add", a=2, b=3), "The sum is 5.")  # doctest: +SKIP
    """
    return Call(name, arguments, id)


def calls(*calls: Call, text: str = "") -> Calls:
    """Answer with several tool calls at once, and some text before them.

    Raises:
        ValueError: No call is given.
        TypeError: Something else than the result of `call` is given.

    Example:
        >>> calls(call("read", path="a"), call("read", path="b"))  # doctest: +SKIP
    """
    if not calls:
        raise ValueError("calls() needs at least one call(...); use say(...) to answer with text only")
    for item in calls:
        if not isinstance(item, Call):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"calls() takes what call(...) returns, got {type(item).__name__}")
    return Calls(calls, text)


def fail(error: BaseException, *, after: str | Sequence[ModelEvent] | None = None) -> Fail:
    """Raise an error instead of answering.

    Args:
        error: What to raise.
        after: What comes first: a text (one delta) or the very events.

    Example:
        >>> fail(ConnectionError("reset"), after="The sum i")  # doctest: +SKIP
    """
    return Fail(error, after)


def hang() -> Hang:
    """Never answer. The step ends only when the request is cancelled or its stream is closed."""
    return Hang()


class Origin(Protocol):
    """What a step needs to know of the model that plays it."""

    @property
    def provider(self) -> str:
        """Goes into the answer's `provider`."""
        ...

    @property
    def model(self) -> str:
        """Goes into the answer's `model`."""
        ...

    def next_call_id(self) -> str:
        """Return the id of the next tool call that names none."""
        ...


def check_step(step: object, where: str) -> None:
    """Raise `TypeError` unless `step` is a `Step`; `where` says which one it is."""
    if isinstance(step, (str, AssistantMessage, ModelResponse, BaseException, Say, Call, Calls, Fail, Hang)):
        return
    if isinstance(step, Sequence):
        for item in cast("Sequence[object]", step):
            if not isinstance(item, ModelEvent):
                raise TypeError(
                    f"{where} is a sequence with a {type(item).__name__}; a sequence is taken for the events "
                    "of one answer, so give several answers as separate arguments"
                )
        return
    raise TypeError(
        f"{where} is a {type(step).__name__}; a step is a str, AssistantMessage, ModelResponse, exception, "
        "sequence of ModelEvent, or what say(), call(), calls(), fail() or hang() returns"
    )


async def play(step: Step, *, message_count: int, origin: Origin) -> AsyncGenerator[ModelEvent, None]:
    """Yield the events of one answer.

    Args:
        step: The answer.
        message_count: How many messages the request has, for the default usage.
        origin: The model that answers.
    """
    match step:
        case Hang():
            await asyncio.Event().wait()
        case BaseException():
            raise step
        case Fail(error, after):
            for event in [ModelEvent.text(after)] if isinstance(after, str) else after or ():
                yield event
            raise error
        case str() | Say() | Call() | Calls() | AssistantMessage() | ModelResponse():
            response = _response(step, message_count, origin)
            chunks, delay = (step.chunks, step.delay) if isinstance(step, Say) else (None, 0)
            for event in _events(response, chunks):
                if delay:
                    await asyncio.sleep(delay)
                yield event
        case _:
            for event in step:
                yield event


def _response(
    step: str | Say | Call | Calls | AssistantMessage | ModelResponse, message_count: int, origin: Origin
) -> ModelResponse:
    # A script may be played several times, and the loop and its hooks change the messages they get: whatever
    # is mutable in a step is copied.
    usage, stop = None, None
    match step:
        case ModelResponse():
            return replace(step, message=copy.deepcopy(step.message))
        case AssistantMessage():
            message = copy.deepcopy(step)
            stop = message.stop
        case str():
            return _response(Say(step), message_count, origin)
        case Say():
            message = AssistantMessage(content=step.text, reasoning=step.reasoning)
            usage, stop = step.usage, _stop_info(step.stop)
        case Call():
            return _response(Calls((step,)), message_count, origin)
        case Calls():
            message = AssistantMessage(
                content=step.text,
                tool_calls=tuple(
                    ToolCall(item.id or origin.next_call_id(), item.name, copy.deepcopy(item.arguments))
                    for item in step.calls
                ),
            )
    if message.provider is None and message.model is None:
        message.provider, message.model = origin.provider, origin.model
    finish_reason = stop.raw if stop else "tool_calls" if message.tool_calls else "stop"
    return ModelResponse(message, finish_reason, usage or _usage(message, message_count), stop)


def _stop_info(stop: StopInfo | str | None) -> StopInfo | None:
    if stop is None or isinstance(stop, StopInfo):
        return stop
    return StopInfo(stop, raw=stop.value) if isinstance(stop, StopReason) else classify_stop(stop)


def _usage(message: AssistantMessage, message_count: int) -> ModelUsage:
    characters = len(message.content) + len(message.reasoning or "")
    return ModelUsage(
        INPUT_TOKENS_PER_MESSAGE * message_count, max(1, characters // CHARACTERS_PER_OUTPUT_TOKEN)
    )


def _events(response: ModelResponse, chunks: int | None) -> list[ModelEvent]:
    message = response.message
    return [
        *(ModelEvent.reasoning(piece) for piece in _pieces(message.reasoning or "", None)),
        *(ModelEvent.text(piece) for piece in _pieces(message.content, chunks)),
        *(
            ModelEvent.tool_call(
                ToolCallDelta(index, item.id, item.name, json.dumps(item.arguments, default=str))
            )
            for index, item in enumerate(message.tool_calls)
        ),
        ModelEvent.completed(response),
    ]


def _pieces(text: str, chunks: int | None) -> list[str]:
    """Split `text` into words with the blanks before them, or into `chunks` pieces of about one length."""
    if chunks is None:
        return re.findall(r"\s*\S+|\s+", text)
    count = min(chunks, len(text))
    return [text[len(text) * n // count : len(text) * (n + 1) // count] for n in range(count)]
