"""Instructions from extensions to the running agent. Built into every agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..messages import AgentMessage
from ._inbox import InboxTable
from .base import AgentExtension, receives
from .events import ExtensionEvent, InternalMessageEvent

if TYPE_CHECKING:
    from ..agent import AgentRunConfig, AgentRunContext
    from .external import ExternalEvent

__all__ = ["INTERNAL_MESSAGE_EVENT_NAME", "InternalMessageExtension"]

INTERNAL_MESSAGE_EVENT_NAME = "internal_message"


class InternalMessageExtension(AgentExtension):
    """Queues instructions that the agent works on after its current answer.

    They come from an extension that publishes `InternalMessageEvent`, or from outside as an external
    event named `"internal_message"` with the payload `{"content": str}`. `max_internal_messages` of the
    agent limits how many one request may take.
    """

    def __init__(self) -> None:
        self._inboxes: InboxTable[AgentMessage] = InboxTable("Internal")

    def open(self, context: AgentRunContext) -> None:
        """Begin to accept messages for a request.

        Raises:
            AgentProtocolError: Its inbox is already active.
        """
        self._inboxes.open(context)

    def close(self, context: AgentRunContext) -> None:
        """Stop accepting messages for a request; closing again does nothing."""
        self._inboxes.close(context)

    def next_message(self, context: AgentRunContext) -> AgentMessage | None:
        """Return the next message of a request; without one, stop accepting."""
        return self._inboxes.take_or_close(context)

    def accept(self, config: AgentRunConfig | None, event: ExternalEvent) -> bool:
        """Queue the message of an `"internal_message"` event. Thread-safe."""
        if event.name != INTERNAL_MESSAGE_EVENT_NAME:
            return False
        content = event.payload.get("content")
        if not isinstance(content, str) or not content.strip():
            return False
        return self._inboxes.offer(config, AgentMessage(content=content))

    @receives(InternalMessageEvent)
    async def on_event(self, context: AgentRunContext, event: ExtensionEvent) -> None:
        """Queue the message of an `InternalMessageEvent`."""
        if isinstance(event, InternalMessageEvent):
            self._inboxes.post(context, event.message)
