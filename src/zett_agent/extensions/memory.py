"""The default memory of an agent: conversations kept in the process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..messages import AnyMessage, SystemMessage
from .base import AgentExtension, receives
from .events import CompactionEvent, ExtensionEvent, MessageAppendedEvent

if TYPE_CHECKING:
    from ..agent import AgentRunContext

__all__ = ["InMemoryMessageAccumulator"]


class _Conversation:
    __slots__ = ("has_sticky", "messages", "seeded")

    def __init__(self, messages: list[AnyMessage]) -> None:
        self.messages = messages
        # Whether a system message is remembered; nearly always not.
        self.has_sticky = False
        # Messages of the first request that were in the state already and whose append event may still
        # come. The objects are kept with their ids, which are free for others once an object is gone.
        self.seeded = {id(message): message for message in messages}


class InMemoryMessageAccumulator(AgentExtension):
    """Remembers each session's messages and restores them, as the same objects, for its next request.

    Agents that share an instance share the conversations. Nothing is written to disk; nothing is dropped
    except by compaction or `clear`.

    Example:
        >>> memory = InMemoryMessageAccumulator()
        >>> agent = await Agent.create(model, extensions=[memory])
        >>> await agent.run("Hi", config=AgentRunConfig("s1"))
        >>> [message.role for message in memory.messages("s1")]
        [<MessageRole.USER: 'user'>, <MessageRole.ASSISTANT: 'assistant'>]
    """

    def __init__(self) -> None:
        self._conversations: dict[str, _Conversation] = {}

    def messages(self, session_id: str) -> tuple[AnyMessage, ...]:
        """Return what is remembered of a session; nothing for an unknown one."""
        conversation = self._conversations.get(session_id)
        return tuple(conversation.messages) if conversation is not None else ()

    def clear(self, session_id: str) -> None:
        """Forget a session. Unknown ones are fine."""
        self._conversations.pop(session_id, None)

    async def on_state(self, context: AgentRunContext) -> None:
        """Put the remembered messages behind the system messages."""
        state = context.state.messages
        system = [message for message in state if isinstance(message, SystemMessage)]
        conversation = self._conversations.get(context.session_id)
        if conversation is None:
            dialogue = [message for message in state if _is_dialogue(message)]
            conversation = self._conversations[context.session_id] = _Conversation(dialogue)
        else:
            conversation.seeded.clear()
        remembered = conversation.messages
        if conversation.has_sticky:
            remembered = [
                message
                for message in remembered
                if not (isinstance(message, SystemMessage) and message in system)
            ]
        context.replace_messages([*system, *remembered], emit_new=False)

    @receives(MessageAppendedEvent, CompactionEvent)
    async def on_event(self, context: AgentRunContext, event: ExtensionEvent) -> None:
        """Follow the conversation."""
        if isinstance(event, MessageAppendedEvent):
            if event.message.include_in_messages:
                self._remember(context, event.message)
        elif isinstance(event, CompactionEvent):
            conversation = self._conversation(context)
            conversation.seeded.clear()
            conversation.messages = [message for message in context.state.messages if _is_dialogue(message)]

    def _conversation(self, context: AgentRunContext) -> _Conversation:
        conversation = self._conversations.get(context.session_id)
        if conversation is None:
            conversation = self._conversations[context.session_id] = _Conversation([])
        return conversation

    def _remember(self, context: AgentRunContext, message: AnyMessage) -> None:
        conversation = self._conversation(context)
        if id(message) in conversation.seeded:
            del conversation.seeded[id(message)]
            return
        if isinstance(message, SystemMessage):
            # A sticky instruction is added anew by each request; it must not pile up.
            conversation.has_sticky = True
            for index, known in enumerate(conversation.messages):
                if known == message:
                    conversation.messages[index] = message
                    return
        conversation.messages.append(message)


def _is_dialogue(message: AnyMessage) -> bool:
    return message.include_in_messages and not isinstance(message, SystemMessage)
