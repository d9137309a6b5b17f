"""The data of one request: its configuration, its state, and the context that hooks work through."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, SupportsIndex

from ..event_queue import AgentEventQueue
from ..events import AgentEvent, AgentEventType, AgentPhase
from ..exceptions import AgentProtocolError
from ..extensions.base import AgentExtension, hook_type_error, note_emission
from ..extensions.events import ExtensionEvent, MessageAppendedEvent, MessageTiming
from ..json_types import JsonValue
from ..messages import AgentMessage, AnyMessage, UserMessage
from ..model import AgentModel, ModelUsage, ServerToolDefinition
from ..tools.base import AgentTool, copy_for_request
from .cleaning import clean_message
from .hooks import Hooks, call_hook
from .phases import transition

__all__ = ["AgentRunConfig", "AgentRunContext", "AgentState"]


@dataclass(frozen=True, slots=True)
class AgentRunConfig:
    """Identity of a request.

    `session_id`, `request_id` and `cache_key` are stripped, and blank ones become `None`.

    Attributes:
        session_id: The conversation. Left out, a request gets a new one of its own.
        request_id: For correlation only. Left out, each request gets a new one.
        parent_session_id: The session on whose behalf this one runs.
        cache_key: Prompt-cache routing key, instead of the session id.

    Raises:
        ValueError: `parent_session_id` is blank or equals `session_id`.
    """

    session_id: str | None = None
    request_id: str | None = None
    parent_session_id: str | None = None
    cache_key: str | None = None

    def __post_init__(self) -> None:
        for name in ("session_id", "request_id", "cache_key"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, value.strip() or None)
        if self.parent_session_id is not None:
            if not self.parent_session_id.strip():
                raise ValueError("parent_session_id cannot be blank; use None for no parent")
            if self.parent_session_id == self.session_id:
                raise ValueError("parent_session_id cannot be the session's own id")


class _MessageSnapshot(tuple[AnyMessage, ...]):
    """The messages at one moment. Reads like a tuple; the list methods change the state it came from."""

    _owner: weakref.ref[AgentState] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (tuple(self),)

    def _messages(self) -> list[AnyMessage]:
        owner = self._owner() if self._owner is not None else None
        if owner is None:
            raise AgentProtocolError("The state of these messages no longer exists; they can only be read")
        return owner._edit()

    def append(self, message: AnyMessage) -> None:
        """Append a message to the state, without announcing it."""
        self._messages().append(message)

    def extend(self, messages: Iterable[AnyMessage]) -> None:
        """Append several messages to the state, without announcing them."""
        self._messages().extend(messages)

    def insert(self, index: SupportsIndex, message: AnyMessage) -> None:
        """Insert a message into the state, without announcing it."""
        self._messages().insert(index, message)

    def remove(self, message: AnyMessage) -> None:
        """Remove the first equal message from the state."""
        self._messages().remove(message)

    def pop(self, index: SupportsIndex = -1) -> AnyMessage:
        """Remove a message from the state and return it."""
        return self._messages().pop(index)

    def clear(self) -> None:
        """Remove all messages from the state."""
        self._messages().clear()


class _WeakReferable:
    __slots__ = ("__weakref__",)


@dataclass(slots=True)
class AgentState(_WeakReferable):
    """Where a request stands and what has been said. One fresh state per request or pass.

    Attributes:
        phase: Owned by the loop; extensions only read it.
        parent_session_id: The session on whose behalf this one runs.
    """

    phase: AgentPhase = AgentPhase.CREATED
    parent_session_id: str | None = None
    _history: list[AnyMessage] = field(
        default_factory=list[AnyMessage], init=False, repr=False, compare=False
    )
    _snapshot: _MessageSnapshot | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def messages(self) -> _MessageSnapshot:
        """The conversation now, as a tuple that later changes do not alter.

        The tuple also has `append`, `extend`, `insert`, `remove`, `pop` and `clear`, which change this
        state and announce nothing; programs use them to restore history.
        """
        snapshot = self._snapshot
        if snapshot is None:
            snapshot = self._snapshot = _MessageSnapshot(self._history)
            snapshot._owner = weakref.ref(self)
        return snapshot

    def _edit(self) -> list[AnyMessage]:
        """Return the list behind `messages` for changing it."""
        self._snapshot = None
        return self._history

    def __deepcopy__(self, memo: dict[int, Any]) -> AgentState:
        duplicate = AgentState(self.phase, self.parent_session_id)
        duplicate._history = copy.deepcopy(self._history, memo)
        return duplicate

    def __getstate__(self) -> tuple[Any, ...]:
        return self.phase, self.parent_session_id, self._history

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.phase, self.parent_session_id, self._history = state
        self._snapshot = None


@dataclass(slots=True)
class _QueuedAppend:
    message: AnyMessage
    usage: ModelUsage | None


_EMITTABLE = frozenset(
    {
        AgentEventType.CUSTOM,
        AgentEventType.COMPACTION_STARTED,
        AgentEventType.COMPACTION_TEXT_DELTA,
        AgentEventType.COMPACTION_REASONING_DELTA,
        AgentEventType.COMPACTION_COMPLETED,
    }
)
_COMPACTION_DELTAS = frozenset(
    {AgentEventType.COMPACTION_TEXT_DELTA, AgentEventType.COMPACTION_REASONING_DELTA}
)


@dataclass(eq=False)
class AgentRunContext:
    """What hooks, middleware and tools of one request work with. Compared and hashed by identity.

    Attributes:
        config: The request's configuration with its generated ids filled in.
        state: Phase and messages.
        tools: Tools of this request by name. Changes never reach the agent or other requests.
        extensions: The agent's extensions in priority order.
        model: The model of this request.
        metadata: The caller's data for extensions and storage; never sent to a provider.
        tags: The caller's labels, likewise.
        input_message: The user message until it is appended; `None` on resume and in passes.
        server_tools: Hosted tools of this request by wire type.
        event_queue: Where emitted events go.

    Example:
        >>> context = AgentRunContext(AgentRunConfig("s1"), AgentState(), {})
        >>> context.session_id
        's1'
    """

    config: AgentRunConfig
    state: AgentState
    tools: dict[str, AgentTool]
    extensions: tuple[AgentExtension, ...] = ()
    model: AgentModel | None = None
    metadata: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    tags: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    input_message: UserMessage | None = None
    server_tools: dict[str, ServerToolDefinition] = field(default_factory=dict[str, ServerToolDefinition])
    event_queue: AgentEventQueue = field(default_factory=AgentEventQueue)

    def __post_init__(self) -> None:
        self._operation = "run"
        self._discarded_inputs: tuple[UserMessage | AgentMessage, ...] = ()
        self._hooks: Hooks | None = None
        # Append events waiting for `flush_message_events`, by the identity of their message.
        self._queued_appends: dict[int, _QueuedAppend] = {}
        # Whether the queue's order is the order of the messages, so that no look at the history is needed.
        self._queue_in_order = True

    @property
    def operation(self) -> str:
        """What is going on: `"run"`, `"resume"`, `"resume_point"` or `"compact"`.

        In the last two no model step follows.
        """
        return self._operation

    @property
    def session_id(self) -> str:
        """The session of this request.

        Raises:
            AgentProtocolError: The configuration names none.
        """
        if self.config.session_id is None:
            raise AgentProtocolError("This context has no session id; give its AgentRunConfig one")
        return self.config.session_id

    @property
    def discarded_inputs(self) -> tuple[UserMessage | AgentMessage, ...]:
        """Steering and internal messages that were accepted but dropped by a failure or cancellation.

        Empty until the request has failed or was cancelled; set before `on_error` and `RunCancelledEvent`.
        """
        return self._discarded_inputs

    def register_tool(self, tool: AgentTool) -> None:
        """Offer a copy of `tool` in this request.

        Raises:
            ValueError: The name is taken.
        """
        if tool.name in self.tools:
            raise ValueError(f"Tool {tool.name!r} is already registered; choose another name or pop it first")
        self.tools[tool.name] = copy_for_request(tool)

    def register_server_tool(self, tool: ServerToolDefinition) -> None:
        """Offer a copy of a hosted tool in this request.

        Raises:
            ValueError: The type is taken.
        """
        if tool.type in self.server_tools:
            raise ValueError(f"Server tool {tool.type!r} is already registered in this request")
        self.server_tools[tool.type] = replace(tool, configuration=copy.deepcopy(dict(tool.configuration)))

    def add_message(
        self, message: AnyMessage, *, index: int | None = None, usage: ModelUsage | None = None
    ) -> None:
        """Insert a message now (at the end when `index` is `None`) and announce it at the next flush."""
        clean_message(message)
        history = self.state._edit()
        if index is None:
            history.append(message)
        else:
            self._queue_in_order = False
            history.insert(index, message)
        self.add_message_event(message, usage)

    def replace_messages(self, messages: Sequence[AnyMessage], *, emit_new: bool = True) -> None:
        """Replace the whole conversation.

        With `emit_new`, every message object that was not there before is announced at the next flush.
        """
        history = self.state._edit()
        known = {id(message) for message in history} if emit_new else frozenset[int]()
        history[:] = messages
        self._queue_in_order = False
        if emit_new:
            for message in history:
                if id(message) not in known:
                    clean_message(message)
                    self.add_message_event(message)

    def add_message_event(self, message: AnyMessage, usage: ModelUsage | None = None) -> None:
        """Announce, at the next flush, a message that is in the state already."""
        if not self.state._history or self.state._history[-1] is not message:
            self._queue_in_order = False
        self._queued_appends[id(message)] = _QueuedAppend(message, usage)

    async def flush_message_events(self) -> None:
        """Publish the queued append events in the order of their messages, each object once.

        Messages that are no longer in the state are dropped. The loop calls this when loading is done and
        before each model step.
        """
        if not self._queued_appends:
            return
        queued, self._queued_appends = self._queued_appends, {}
        ordered = list(queued.values())
        # Nearly always they are the last messages, in order; then the rest of the history is not looked at.
        tail = self.state._history[-len(ordered) :]
        if not self._queue_in_order or [id(m) for m in tail] != [id(entry.message) for entry in ordered]:
            found = {id(message): None for message in self.state._history if id(message) in queued}
            ordered = [queued[key] for key in found]
        self._queue_in_order = True
        for entry in ordered:
            await self.publish(MessageAppendedEvent(entry.message, MessageTiming.instant(), entry.usage))

    async def append_message(
        self, message: AnyMessage, timing: MessageTiming, usage: ModelUsage | None = None
    ) -> None:
        """Append a message and announce it at once. A failing subscriber does not undo the append."""
        clean_message(message)
        self.state._edit().append(message)
        await self.publish(MessageAppendedEvent(message, timing, usage))

    async def publish(self, event: ExtensionEvent, *, target: str | None = None) -> None:
        """Deliver a notification to every extension in priority order, or to the one named `target`.

        The first failing subscriber stops the delivery; its error is raised here.

        Raises:
            ValueError: `target` is blank, unknown or ambiguous.
        """
        hooks = self._hook_table()
        if target is None:
            for extension in hooks.subscribers(type(event)):
                awaitable = extension.on_event(self, event)
                if not hasattr(awaitable, "__await__"):
                    raise hook_type_error(extension, "on_event", "an async function")
                await awaitable
        else:
            await call_hook(self._find(target), "on_event", self, event)

    def _hook_table(self) -> Hooks:
        hooks = self._hooks
        if hooks is None or hooks.extensions is not self.extensions:
            hooks = self._hooks = Hooks(self.extensions)
            self.extensions = hooks.extensions
        return hooks

    def _find(self, target: object) -> AgentExtension:
        if not isinstance(target, str) or not target.strip():
            raise ValueError(f"target must be a non-empty string, got {target!r}")
        found = [extension for extension in self.extensions if extension.name == target]
        if not found:
            names = ", ".join(extension.name for extension in self.extensions) or "none"
            raise ValueError(f"Unknown extension {target!r}; this request has: {names}")
        if len(found) > 1:
            raise ValueError(f"Extension name {target!r} is ambiguous: {len(found)} extensions have it")
        return found[0]

    async def emit(self, event: AgentEvent) -> None:
        """Send an event to the caller of `stream` and wait until it asks for the next one.

        Extensions may send `CUSTOM` and the four `COMPACTION_*` events; `COMPACTION_STARTED` and
        `COMPACTION_COMPLETED` change the phase first.

        Raises:
            AgentProtocolError: Another type, another session, the wrong phase, or the request has ended.
        """
        if event.type not in _EMITTABLE:
            raise AgentProtocolError(
                f"Extensions cannot emit {event.type}; allowed: {', '.join(sorted(_EMITTABLE))}"
            )
        if event.session_id != self.session_id:
            raise AgentProtocolError(
                f"{event.type} belongs to another session ({event.session_id!r}, not {self.session_id!r})"
            )
        if self.event_queue.closed:
            raise AgentProtocolError(
                f"The request of session {self.session_id} has ended; {event.type} came too late (closed)"
            )
        if event.type == AgentEventType.COMPACTION_STARTED:
            await transition(self, AgentPhase.COMPACTING)
        elif event.type == AgentEventType.COMPACTION_COMPLETED:
            if self.state.phase is not AgentPhase.COMPACTING:
                raise AgentProtocolError(
                    f"{event.type} needs phase {AgentPhase.COMPACTING}, the phase is {self.state.phase}"
                )
            await transition(self, AgentPhase.READY)
        elif event.type in _COMPACTION_DELTAS and self.state.phase is not AgentPhase.COMPACTING:
            raise AgentProtocolError(
                f"{event.type} needs phase {AgentPhase.COMPACTING}, the phase is {self.state.phase}"
            )
        event.phase = self.state.phase
        note_emission(self, event)
        await self.event_queue.put(event)
