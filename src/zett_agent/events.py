"""What a run tells its caller: event types, phases, the event record and the output boundaries."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from ._strenum import StrEnum
from .exceptions import AgentProtocolError
from .extensions.events import (
    ContentCompletedEvent,
    ContentStartedEvent,
    ExtensionEvent,
    MessageTiming,
    ModelOutputLifecycleEvent,
    PhaseTransitionEvent,
    ReasoningCompletedEvent,
    ReasoningStartedEvent,
)
from .model import ModelEvent, ModelEventType

if TYPE_CHECKING:
    from .extensions.events import CompactionEvent
    from .json_types import JsonValue
    from .messages import AgentMessage, AssistantMessage, ToolCall, ToolMessage, UserMessage
    from .model import ModelResponse, ServerToolCall, ServerToolInputDelta, ServerToolResult, ToolCallDelta
    from .stop import StopInfo

__all__ = [
    "AgentEvent",
    "AgentEventType",
    "AgentPhase",
    "AgentPhaseTransitionMixin",
    "ModelOutputTracker",
    "PhaseContext",
    "PhaseState",
    "event_to_dict",
]


class AgentEventType(StrEnum):
    """Every kind of event of a run. Failures and cancellation are raised, never sent."""

    COMPACTION_STARTED = "compaction_started"
    COMPACTION_TEXT_DELTA = "compaction_text_delta"
    COMPACTION_REASONING_DELTA = "compaction_reasoning_delta"
    COMPACTION_COMPLETED = "compaction_completed"
    MODEL_STARTED = "model_started"
    CONTENT_STARTED = "content_started"
    CONTENT_COMPLETED = "content_completed"
    REASONING_STARTED = "reasoning_started"
    REASONING_COMPLETED = "reasoning_completed"
    TEXT_DELTA = "text_delta"
    REASONING_DELTA = "reasoning_delta"
    TOOL_CALL_DELTA = "tool_call_delta"
    SERVER_TOOL_STARTED = "server_tool_started"
    SERVER_TOOL_INPUT_DELTA = "server_tool_input_delta"
    SERVER_TOOL_COMPLETED = "server_tool_completed"
    SERVER_TOOL_FAILED = "server_tool_failed"
    MODEL_COMPLETED = "model_completed"
    MODEL_STOPPED = "model_stopped"
    TOOL_STARTED = "tool_started"
    TOOL_COMPLETED = "tool_completed"
    TOOL_FAILED = "tool_failed"
    TOOL_SKIPPED = "tool_skipped"
    STEERING_STARTED = "steering_started"
    STEERING_COMPLETED = "steering_completed"
    STEERING_INTERRUPTED = "steering_interrupted"
    INTERNAL_MESSAGE_STARTED = "internal_message_started"
    INTERNAL_MESSAGE_COMPLETED = "internal_message_completed"
    INTERNAL_MESSAGE_INTERRUPTED = "internal_message_interrupted"
    RUN_COMPLETED = "run_completed"
    CUSTOM = "custom"


class AgentPhase(StrEnum):
    """Where a request stands."""

    CREATED = "created"
    LOADING_CONTEXT = "loading_context"
    READY = "ready"
    COMPACTING = "compacting"
    GENERATING = "generating"
    RUNNING_TOOL = "running_tool"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def accepts_new_request(self) -> bool:
        """Whether nothing is going on, so that the session could start a request."""
        return self in _IDLE_PHASES


_IDLE_PHASES = frozenset({AgentPhase.CREATED, AgentPhase.COMPLETED, AgentPhase.FAILED, AgentPhase.CANCELLED})


@dataclass(slots=True)
class AgentEvent:
    """One event of a run. Which fields are set depends on `type`; the others keep their defaults.

    `phase` is set by the loop when the event is emitted.

    Raises:
        ValueError: The type is `CUSTOM` and `name` is missing or blank.

    Example:
        >>> async for event in agent.stream("Hello"):
        ...     if event.type is AgentEventType.TEXT_DELTA:
        ...         print(event.delta, end="")
    """

    type: AgentEventType
    session_id: str
    phase: AgentPhase | None = None
    delta: str = ""
    tool_call_delta: ToolCallDelta | None = None
    tool_calls: list[ToolCall] = field(default_factory=list["ToolCall"])
    server_tool_call: ServerToolCall | None = None
    server_tool_input_delta: ServerToolInputDelta | None = None
    server_tool_result: ServerToolResult | None = None
    response: ModelResponse | None = None
    stop: StopInfo | None = None
    message: AssistantMessage | ToolMessage | None = None
    internal_message: AgentMessage | None = None
    steering_message: UserMessage | None = None
    error: Exception | None = None
    compaction: CompactionEvent | None = None
    applied: bool | None = None
    name: str | None = None
    payload: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.type == AgentEventType.CUSTOM and not (isinstance(self.name, str) and self.name.strip()):
            raise ValueError("A CUSTOM event needs a non-empty name")


class PhaseState(Protocol):
    """Anything that has a phase."""

    phase: AgentPhase


class PhaseContext(Protocol):
    """Anything that has a state and can publish notifications."""

    @property
    def state(self) -> PhaseState:
        """The state whose phase counts."""
        ...

    async def publish(self, event: ExtensionEvent) -> None:
        """Deliver a notification."""
        ...


class AgentPhaseTransitionMixin:
    """Base of `Agent` without members; kept so that programs which import it keep running."""

    __slots__ = ()


# Event types and notifications of one boundary, as `ModelOutputTracker` reports them.
_REASONING_STARTED = (AgentEventType.REASONING_STARTED, ReasoningStartedEvent)
_REASONING_COMPLETED = (AgentEventType.REASONING_COMPLETED, ReasoningCompletedEvent)
_CONTENT_STARTED = (AgentEventType.CONTENT_STARTED, ContentStartedEvent)
_CONTENT_COMPLETED = (AgentEventType.CONTENT_COMPLETED, ContentCompletedEvent)


@dataclass(slots=True)
class ModelOutputTracker:
    """Finds the boundaries in the output of one model step, and checks the order of its events.

    Attributes:
        reasoning_started: Start of the first reasoning segment.
        reasoning_completed: End of the last reasoning segment.
        content_started: Start of the visible answer.
        content_completed: Its end.
    """

    reasoning_started: ReasoningStartedEvent | None = None
    reasoning_completed: ReasoningCompletedEvent | None = None
    content_started: ContentStartedEvent | None = None
    content_completed: ContentCompletedEvent | None = None
    _reasoning_open: bool = field(default=False, init=False, repr=False)
    _content_open: bool = field(default=False, init=False, repr=False)
    _sealed: bool = field(default=False, init=False, repr=False)
    _server_tools: dict[str, str] = field(default_factory=dict[str, str], init=False, repr=False)
    # Who sent the events, for error messages.
    _source: str = field(default="The model", init=False, repr=False, compare=False)
    # Nanoseconds that the producer had waited for its consumer, now and at each boundary recorded above.
    # The loop keeps the first one up to date; spans leave the difference out.
    _waited_ns: int = field(default=0, init=False, repr=False)
    _waited_at: dict[str, int] = field(default_factory=dict[str, int], init=False, repr=False)

    async def observe(self, context: PhaseContext, event: ModelEvent) -> tuple[AgentEventType, ...]:
        """Publish the boundaries due before `event` is relayed, and return their event types in order.

        Raises:
            AgentProtocolError: The phase is not `generating`; the response was already seen; the event
                has no payload; hosted tools do not match.
        """
        phase = context.state.phase
        if phase is not AgentPhase.GENERATING:
            raise AgentProtocolError(
                f"Model output belongs to phase {AgentPhase.GENERATING}, but the phase is {phase}"
            )
        self._check(event)
        due = self._boundaries(event)
        self._sealed = event.type == ModelEventType.RESPONSE
        for _, notification in due:
            await context.publish(self._record(notification))
        return tuple(event_type for event_type, _ in due)

    def _check(self, event: ModelEvent) -> None:
        if self._sealed:
            raise AgentProtocolError(f"{self._source} sent {event.type} after its response")
        payload_field = _PAYLOAD_FIELDS.get(event.type)
        if payload_field is not None and getattr(event, payload_field) is None:
            raise AgentProtocolError(f"{self._source} sent {event.type} without its {payload_field}")
        check = _SERVER_TOOL_CHECKS.get(event.type)
        if check is not None:
            check(self, event)

    def _quiet(self, event: ModelEvent) -> bool:
        """Return whether `observe` would find nothing to do: the cheap question asked for every delta."""
        kind = event.type
        if kind == ModelEventType.TEXT_DELTA:
            return (self._content_open and not self._reasoning_open) or not event.delta
        if kind == ModelEventType.REASONING_DELTA:
            return self._reasoning_open or not event.delta
        if kind == ModelEventType.TOOL_CALL_DELTA:
            return event.tool_call_delta is not None and not self._reasoning_open
        if kind == ModelEventType.SERVER_TOOL_INPUT_DELTA:
            delta = event.server_tool_input_delta
            return delta is not None and delta.call_id in self._server_tools
        return False

    def _boundaries(self, event: ModelEvent) -> list[tuple[AgentEventType, type[ModelOutputLifecycleEvent]]]:
        """Return what is due before `event`: event types with the notifications to `_record`."""
        due: list[tuple[AgentEventType, type[ModelOutputLifecycleEvent]]] = []
        kind = event.type
        if kind == ModelEventType.REASONING_DELTA:
            if event.delta and not self._reasoning_open:
                due.append(_REASONING_STARTED)
        elif kind == ModelEventType.TEXT_DELTA:
            if event.delta:
                self._close_reasoning(due)
                if not self._content_open:
                    due.append(_CONTENT_STARTED)
        elif kind == ModelEventType.TOOL_CALL_DELTA:
            self._close_reasoning(due)
        elif kind == ModelEventType.RESPONSE:
            self._close_reasoning(due)
            if self._content_open:
                due.append(_CONTENT_COMPLETED)
        return due

    def _close_reasoning(self, due: list[tuple[AgentEventType, type[ModelOutputLifecycleEvent]]]) -> None:
        if self._reasoning_open:
            due.append(_REASONING_COMPLETED)

    def _record(self, notification: type[ModelOutputLifecycleEvent]) -> ModelOutputLifecycleEvent:
        """Note that a boundary is passed now and return the notification to publish."""
        event = notification.now()
        if isinstance(event, ReasoningStartedEvent):
            self._reasoning_open = True
            if self.reasoning_started is None:
                self.reasoning_started = event
                self._waited_at["reasoning_started"] = self._waited_ns
        elif isinstance(event, ReasoningCompletedEvent):
            self._reasoning_open = False
            self.reasoning_completed = event
            self._waited_at["reasoning_completed"] = self._waited_ns
        elif isinstance(event, ContentStartedEvent):
            self._content_open = True
            self.content_started = event
            self._waited_at["content_started"] = self._waited_ns
        elif isinstance(event, ContentCompletedEvent):
            self._content_open = False
            self.content_completed = event
            self._waited_at["content_completed"] = self._waited_ns
        return event

    def message_timing(self, started: PhaseTransitionEvent, completed: PhaseTransitionEvent) -> MessageTiming:
        """Combine entering and leaving `generating` with the recorded spans."""
        duration = completed.monotonic_ns - started.monotonic_ns - self._waited_ns
        return MessageTiming(
            started.occurred_at,
            completed.occurred_at,
            max(0, duration),
            *self._span("reasoning", self.reasoning_started, self.reasoning_completed),
            *self._span("content", self.content_started, self.content_completed),
        )

    def _span(
        self, name: str, start: ModelOutputLifecycleEvent | None, end: ModelOutputLifecycleEvent | None
    ) -> tuple[Any, Any, Any]:
        if start is None or end is None:
            return (None, None, None)
        waited = self._waited_at.get(f"{name}_completed", 0) - self._waited_at.get(f"{name}_started", 0)
        duration = end.monotonic_ns - start.monotonic_ns - waited
        return (start.occurred_at, end.occurred_at, max(0, duration))

    def _check_server_tool_started(self, event: ModelEvent) -> None:
        call = event.server_tool_call
        assert call is not None
        if call.id in self._server_tools:
            raise AgentProtocolError(f"{self._source} started server tool call {call.id!r} twice")
        self._server_tools[call.id] = call.name

    def _check_server_tool_input(self, event: ModelEvent) -> None:
        delta = event.server_tool_input_delta
        assert delta is not None
        if delta.call_id not in self._server_tools:
            raise AgentProtocolError(
                f"{self._source} sent input for server tool call {delta.call_id!r}, never started"
            )

    def _check_server_tool_ended(self, event: ModelEvent) -> None:
        result = event.server_tool_result
        assert result is not None
        if self._server_tools.get(result.call_id) != result.name:
            raise AgentProtocolError(
                f"{self._source} ended server tool {result.name!r}, call {result.call_id!r}, never started"
            )
        del self._server_tools[result.call_id]

    def _check_response(self, event: ModelEvent) -> None:
        if self._server_tools:
            running = ", ".join(self._server_tools)
            raise AgentProtocolError(f"{self._source} sent its response while server tools ran: {running}")


_PAYLOAD_FIELDS: dict[str, str] = {
    ModelEventType.TOOL_CALL_DELTA: "tool_call_delta",
    ModelEventType.SERVER_TOOL_STARTED: "server_tool_call",
    ModelEventType.SERVER_TOOL_INPUT_DELTA: "server_tool_input_delta",
    ModelEventType.SERVER_TOOL_COMPLETED: "server_tool_result",
    ModelEventType.SERVER_TOOL_FAILED: "server_tool_result",
    ModelEventType.RESPONSE: "response",
}

_SERVER_TOOL_CHECKS = {
    ModelEventType.SERVER_TOOL_STARTED: ModelOutputTracker._check_server_tool_started,
    ModelEventType.SERVER_TOOL_INPUT_DELTA: ModelOutputTracker._check_server_tool_input,
    ModelEventType.SERVER_TOOL_COMPLETED: ModelOutputTracker._check_server_tool_ended,
    ModelEventType.SERVER_TOOL_FAILED: ModelOutputTracker._check_server_tool_ended,
    ModelEventType.RESPONSE: ModelOutputTracker._check_response,
}


def event_to_dict(event: AgentEvent) -> dict[str, JsonValue]:
    """Return an event as JSON values, for sending it to another process.

    Always there are `type`, `session_id` and `phase`; of the other fields those that are set. Messages
    have the envelope shape `{"kind", "data"}` of stored history, errors `{"type", "message"}`.

    Raises:
        TypeError: A payload holds an object that JSON cannot represent.

    Example:
        >>> event_to_dict(AgentEvent(AgentEventType.TEXT_DELTA, "s1", delta="Hi"))
        {'type': 'text_delta', 'session_id': 's1', 'phase': None, 'delta': 'Hi'}
    """
    from ._message_codec import event_record

    return event_record(event)
