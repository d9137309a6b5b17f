"""Closing tool calls that will never get their real result, and preparing a history for resuming."""

from __future__ import annotations

from ..messages import AgentMessage, ToolCall, ToolMessage
from ..resume import ResumeKind

__all__ = ["CANCELLED_TOOL", "SUPERSEDED_TOOL", "UNKNOWN_OUTCOME", "failed_result", "resume_instruction"]

CANCELLED_TOOL = "Request cancelled before tool completion"
SUPERSEDED_TOOL = "Superseded by a steering message"
UNKNOWN_OUTCOME = (
    "The process stopped while this tool was running. Its outcome is unknown: it may or may not have "
    "completed. Check the current state before running it again."
)

_INSTRUCTIONS = {
    ResumeKind.RETRY_RESPONSE: (
        "Your last response was cut off by an interruption. Start it again from the beginning."
    ),
    ResumeKind.CONTINUE_RESPONSE: (
        "Your last response was cut off at the output limit. Continue exactly where it stopped, without "
        "repeating anything."
    ),
}


def failed_result(call: ToolCall, text: str) -> ToolMessage:
    """Return the failed result that closes a call which did not run to its end."""
    return ToolMessage(tool_call_id=call.id, name=call.name, content=text, success=False)


def resume_instruction(kind: ResumeKind) -> AgentMessage | None:
    """Return what the model must be told before it goes on, or `None` when the history speaks for itself."""
    text = _INSTRUCTIONS.get(kind)
    return None if text is None else AgentMessage(content=text, attributes={"resume": kind.value})
