"""Urgent input of the user while a request runs. Built into every agent."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..messages import ImageContent, UserMessage
from ._inbox import InboxTable
from .base import AgentExtension, receives
from .events import ExtensionEvent, SteeringMessageEvent

if TYPE_CHECKING:
    from ..agent import AgentRunConfig, AgentRunContext
    from .external import ExternalEvent

__all__ = ["STEERING_MESSAGE_EVENT_NAME", "SteeringExtension"]

STEERING_MESSAGE_EVENT_NAME = "steering_message"


class SteeringExtension(AgentExtension):
    """Queues user messages that take effect at the next safe point of a running request.

    A message comes from outside as an external event named `"steering_message"` with the payload
    `{"message": UserMessage}` or `{"content": str}`, or from an extension that publishes
    `SteeringMessageEvent`. It never interrupts a model call or a tool that is running; calls that have
    not started are skipped.

    Example:
        >>> agent.emit_external_event(ExternalEvent("steering_message", {"content": "Stop after this one"}))
        ['SteeringExtension']
    """

    def __init__(self) -> None:
        self._inboxes: InboxTable[UserMessage] = InboxTable("Steering")
        self.max_messages: int | None = None

    def open(self, context: AgentRunContext) -> None:
        """Begin to accept messages for a request.

        Raises:
            AgentProtocolError: Its inbox is already active.
        """
        self._inboxes.open(context)

    def close(self, context: AgentRunContext) -> None:
        """Stop accepting messages for a request; closing again does nothing."""
        self._inboxes.close(context)

    def take(self, context: AgentRunContext) -> UserMessage | None:
        """Return the next message of a request, or `None`."""
        return self._inboxes.take(context)

    def select_next(
        self, context: AgentRunContext, reserve_other_input: Callable[[], bool]
    ) -> UserMessage | None:
        """Return the next message; without one, stop accepting unless other input was reserved.

        `reserve_other_input` is called under the lock that `accept` takes, so that no message is accepted
        and then lost. It must not wait.
        """
        return self._inboxes.take_or_close(context, reserve_other_input)

    def take_unconsumed(self, session_id: str) -> tuple[UserMessage, ...]:
        """Return, once, messages that were accepted but dropped because their request ended early.

        The last 16 sessions are remembered.
        """
        return self._inboxes.take_unconsumed(session_id)

    def accept(self, config: AgentRunConfig | None, event: ExternalEvent) -> bool:
        """Queue the message of a `"steering_message"` event. Thread-safe."""
        if event.name != STEERING_MESSAGE_EVENT_NAME:
            return False
        message = _steering_message(event.payload)
        return message is not None and self._inboxes.offer(config, message, limit=self.max_messages)

    @receives(SteeringMessageEvent)
    async def on_event(self, context: AgentRunContext, event: ExtensionEvent) -> None:
        """Queue the message of a `SteeringMessageEvent`."""
        if isinstance(event, SteeringMessageEvent):
            self._inboxes.post(context, event.message)


def _steering_message(payload: dict[str, Any]) -> UserMessage | None:
    message = payload.get("message")
    if isinstance(message, UserMessage):
        return message if _says_something(message) else None
    content = payload.get("content")
    if isinstance(content, str) and content.strip():
        return UserMessage(content=content)
    return None


def _says_something(message: UserMessage) -> bool:
    return bool(message.text.strip()) or any(isinstance(part, ImageContent) for part in message.parts)
