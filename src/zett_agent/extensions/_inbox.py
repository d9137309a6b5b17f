"""Messages that wait to be taken by a running request: the common part of the two built-in inboxes."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from ..exceptions import AgentProtocolError

if TYPE_CHECKING:
    from ..agent import AgentRunConfig, AgentRunContext
    from ..messages import AgentMessage, UserMessage

__all__ = ["InboxTable"]

logger = logging.getLogger("zett_agent")

_Message = TypeVar("_Message", "UserMessage", "AgentMessage")

# Operations without a model step: input for one is ignored there, because nothing would ever take it.
_PASSES = frozenset({"compact", "resume_point"})
# What was dropped is offered again for so many sessions, and so many messages of each.
_REMEMBERED_SESSIONS = 16
_REMEMBERED_MESSAGES = 256


class _Inbox(Generic[_Message]):
    __slots__ = ("accepting", "messages", "request_id", "session_id")

    def __init__(self, config: AgentRunConfig) -> None:
        self.session_id = config.session_id
        self.request_id = config.request_id
        self.messages: deque[_Message] = deque()
        self.accepting = True


class InboxTable(Generic[_Message]):
    """The inboxes of all open requests. Every method may be called from any thread.

    Args:
        label: How errors call the inbox, such as `"Steering"`.
    """

    def __init__(self, label: str) -> None:
        self._label = label
        self._lock = threading.Lock()
        self._by_context: dict[AgentRunContext, _Inbox[_Message]] = {}
        self._by_session: dict[str, list[_Inbox[_Message]]] = {}
        self._unconsumed: OrderedDict[str, deque[_Message]] = OrderedDict()

    def open(self, context: AgentRunContext) -> None:
        """Begin to accept messages for a request.

        Raises:
            AgentProtocolError: The request's inbox is open already.
        """
        inbox: _Inbox[_Message] = _Inbox(context.config)
        with self._lock:
            if context in self._by_context:
                raise AgentProtocolError(f"{self._label} inbox of this request is already active")
            self._by_context[context] = inbox
            self._by_session.setdefault(context.session_id, []).append(inbox)

    def close(self, context: AgentRunContext) -> list[_Message]:
        """Stop accepting for good and return what nobody took. Closing again returns nothing."""
        with self._lock:
            inbox = self._by_context.pop(context, None)
            if inbox is None:
                return []
            inbox.accepting = False
            session = self._by_session[context.session_id]
            session.remove(inbox)
            if not session:
                del self._by_session[context.session_id]
            dropped = list(inbox.messages)
            if dropped:
                kept = self._unconsumed.setdefault(context.session_id, deque(maxlen=_REMEMBERED_MESSAGES))
                kept.extend(dropped)
                self._unconsumed.move_to_end(context.session_id)
                while len(self._unconsumed) > _REMEMBERED_SESSIONS:
                    self._unconsumed.popitem(last=False)
            return dropped

    def take_unconsumed(self, session_id: str) -> tuple[_Message, ...]:
        """Return, once, the messages of a session that were accepted but dropped when a request ended."""
        with self._lock:
            return tuple(self._unconsumed.pop(session_id, ()))

    def offer(self, config: AgentRunConfig | None, message: _Message, *, limit: int | None = None) -> bool:
        """Queue a message from outside; return whether exactly one open inbox took it."""
        if config is None or not config.session_id:
            return False
        with self._lock:
            matching = [
                inbox
                for inbox in self._by_session.get(config.session_id, ())
                if inbox.accepting and config.request_id in (None, inbox.request_id)
            ]
            if len(matching) != 1 or (limit is not None and len(matching[0].messages) >= limit):
                return False
            matching[0].messages.append(message)
            return True

    def post(self, context: AgentRunContext, message: _Message) -> None:
        """Queue a message that an extension published.

        Raises:
            AgentProtocolError: The inbox is closed: the request has its final answer.
        """
        if context.operation in _PASSES:
            logger.debug("%s message ignored: a %s has no model step", self._label, context.operation)
            return
        with self._lock:
            inbox = self._by_context.get(context)
            if inbox is None or not inbox.accepting:
                raise AgentProtocolError(
                    f"{self._label} inbox is closed: session {context.session_id} takes no more input in "
                    "this request; publish before its last turn ends"
                )
            inbox.messages.append(message)

    def take(self, context: AgentRunContext) -> _Message | None:
        """Return the next message, or `None`."""
        with self._lock:
            inbox = self._by_context.get(context)
            return inbox.messages.popleft() if inbox is not None and inbox.messages else None

    def take_or_close(
        self, context: AgentRunContext, keep_open: Callable[[], bool] = lambda: False
    ) -> _Message | None:
        """Return the next message; if there is none, stop accepting unless `keep_open()` says otherwise.

        Looking and closing are one act, so no message can be accepted in between and lost.
        """
        with self._lock:
            inbox = self._by_context.get(context)
            if inbox is None:
                return None
            if inbox.messages:
                return inbox.messages.popleft()
            if not keep_open():
                inbox.accepting = False
            return None
