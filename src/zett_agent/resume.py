"""Whether, and how, a session can be continued without new input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ._strenum import StrEnum
from .exceptions import AgentResumeError
from .messages import (
    AgentMessage,
    AnyMessage,
    AssistantMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from .stop import StopInfo, StopReason

__all__ = ["ResumeKind", "ResumePoint", "classify_resume"]


class ResumeKind(StrEnum):
    """What a resume would do first."""

    CALL_MODEL = "call_model"
    RECOVER_TOOLS = "recover_tools"
    RETRY_RESPONSE = "retry_response"
    CONTINUE_RESPONSE = "continue_response"


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """Where a session stands.

    Attributes:
        kind: What a resume would do first.
        description: One sentence for a person.
        unanswered_tool_calls: For `RECOVER_TOOLS`, the calls without result, in call order.
        stop: How the last answer ended, when that is the reason.
    """

    kind: ResumeKind
    description: str
    unanswered_tool_calls: tuple[ToolCall, ...] = ()
    stop: StopInfo | None = None


PAUSE_MARK = "zett_agent.paused"
"""Attribute of an assistant message whose turn the provider paused and the loop meant to continue."""

_NOT_RESUMABLE = {
    StopReason.REFUSAL: ("refused", "The last answer was refused ({}); send a new message instead."),
    StopReason.CONTEXT_FULL: (
        "context_full",
        "The context window is full ({}); compact the session before going on.",
    ),
}
_RESUMABLE = {
    StopReason.INTERRUPTED: (
        ResumeKind.RETRY_RESPONSE,
        "The last answer was interrupted ({}); it would be asked for again.",
    ),
    StopReason.MAX_OUTPUT: (
        ResumeKind.CONTINUE_RESPONSE,
        "The last answer reached the output limit ({}); it would be continued.",
    ),
    StopReason.PAUSED: (
        ResumeKind.CALL_MODEL,
        "The provider paused the last turn ({}); it would be continued.",
    ),
}


def classify_resume(messages: Sequence[AnyMessage]) -> ResumePoint:
    """Say how a history would be resumed. Looks only at its end and ignores system messages.

    Args:
        messages: The conversation, oldest first.

    Raises:
        AgentResumeError: There is nothing to resume; `reason` says why.

    Example:
        >>> classify_resume([UserMessage(content="Hi")]).kind
        <ResumeKind.CALL_MODEL: 'call_model'>
    """
    tail = _last_dialogue(messages, len(messages))
    if tail is None:
        raise AgentResumeError("empty", "The session has no messages; there is nothing to resume.")
    last = messages[tail]
    match last:
        case ToolMessage():
            return _after_tool_results(messages, tail)
        case AssistantMessage():
            return _after_answer(last)
        case UserMessage() | AgentMessage():
            return ResumePoint(ResumeKind.CALL_MODEL, "The last message has no answer yet.")
        case _:
            raise AgentResumeError("malformed", f"The history ends in a {type(last).__name__}.")


def unanswered_calls(messages: Sequence[AnyMessage]) -> tuple[ToolCall, ...]:
    """Return the calls without result of the tool batch that ends a history, or nothing."""
    tail = _last_dialogue(messages, len(messages))
    if tail is None:
        return ()
    if isinstance(messages[tail], ToolMessage):
        batch = _batch(messages, tail)
        return batch[1] if batch is not None else ()
    last = messages[tail]
    return last.tool_calls if isinstance(last, AssistantMessage) else ()


def _last_dialogue(messages: Sequence[AnyMessage], before: int) -> int | None:
    """Return the index of the last message before `before` that is not a system message."""
    for index in range(before - 1, -1, -1):
        if not isinstance(messages[index], SystemMessage):
            return index
    return None


def _batch(messages: Sequence[AnyMessage], tail: int) -> tuple[AssistantMessage, tuple[ToolCall, ...]] | None:
    """Return the assistant message that the tool results ending at `tail` answer, and what is unanswered."""
    answered: list[str] = []
    index: int | None = tail
    while index is not None and isinstance(message := messages[index], ToolMessage):
        answered.append(message.tool_call_id)
        index = _last_dialogue(messages, index)
    if index is None:
        return None
    request = messages[index]
    if not isinstance(request, AssistantMessage) or not request.tool_calls:
        return None
    known = set(answered)
    return request, tuple(call for call in request.tool_calls if call.id not in known)


def _after_tool_results(messages: Sequence[AnyMessage], tail: int) -> ResumePoint:
    batch = _batch(messages, tail)
    if batch is None:
        raise AgentResumeError(
            "malformed", "The history ends in tool results that no tool call of an answer asked for."
        )
    if batch[1]:
        return _recover(batch[1])
    return ResumePoint(ResumeKind.CALL_MODEL, "All tool results are there; the model has not seen them yet.")


def _recover(calls: tuple[ToolCall, ...]) -> ResumePoint:
    names = ", ".join(sorted({call.name for call in calls}))
    return ResumePoint(
        ResumeKind.RECOVER_TOOLS,
        f"Tool calls without a result: {names}. They would be marked as having an unknown outcome.",
        calls,
    )


def _after_answer(answer: AssistantMessage) -> ResumePoint:
    if answer.tool_calls:
        return _recover(answer.tool_calls)
    stop = answer.stop
    if stop is None and answer.attributes.get(PAUSE_MARK):
        return ResumePoint(ResumeKind.CALL_MODEL, "The provider paused the last turn; it would be continued.")
    if stop is None or stop.ok:
        raise AgentResumeError("completed", "The last answer is complete; there is nothing to resume.")
    if stop.reason in _RESUMABLE:
        kind, text = _RESUMABLE[stop.reason]
        return ResumePoint(kind, text.format(stop.describe()), stop=stop)
    reason, text = _NOT_RESUMABLE.get(
        stop.reason,
        ("unknown_stop", "The last answer stopped for a reason the library does not know ({})."),
    )
    raise AgentResumeError(reason, text.format(stop.describe()))
