"""Notifications: what a run tells its extensions through `on_event`."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from ..messages import AgentMessage, AnyMessage, AssistantMessage, UserMessage
from ..model import ModelUsage

if TYPE_CHECKING:
    from typing_extensions import Self

    from ..events import AgentPhase

__all__ = [
    "CompactionEvent",
    "ContentCompletedEvent",
    "ContentStartedEvent",
    "ExtensionEvent",
    "InternalMessageEvent",
    "MessageAppendedEvent",
    "MessageTiming",
    "ModelOutputLifecycleEvent",
    "PhaseTransitionEvent",
    "ReasoningCompletedEvent",
    "ReasoningStartedEvent",
    "RunCancelledEvent",
    "SteeringMessageEvent",
]


@dataclass(frozen=True, slots=True)
class ExtensionEvent:
    """Base of all notifications. Applications derive their own from it.

    Example:
        >>> @dataclass(frozen=True)
        ... class CacheWarmed(ExtensionEvent):
        ...     entries: int
    """


@dataclass(frozen=True, slots=True)
class PhaseTransitionEvent(ExtensionEvent):
    """The phase changed. `monotonic_ns` is on the `time.monotonic_ns()` scale."""

    previous_phase: AgentPhase
    current_phase: AgentPhase
    occurred_at: datetime
    monotonic_ns: int


@dataclass(frozen=True, slots=True)
class RunCancelledEvent(ExtensionEvent):
    """The request or pass was cancelled or closed early; sent right after its phase transition."""

    previous_phase: AgentPhase
    occurred_at: datetime
    monotonic_ns: int


@dataclass(frozen=True, slots=True)
class MessageTiming:
    """When a message came to be.

    Durations are nanoseconds of a monotonic clock and leave out the time the loop waited for its
    consumer. A span is given whole or not at all.

    Raises:
        ValueError: A duration is negative, or a span is given only in part.
    """

    started_at: datetime
    completed_at: datetime
    duration_ns: int
    reasoning_started_at: datetime | None = None
    reasoning_completed_at: datetime | None = None
    reasoning_duration_ns: int | None = None
    content_started_at: datetime | None = None
    content_completed_at: datetime | None = None
    content_duration_ns: int | None = None

    def __post_init__(self) -> None:
        if self.duration_ns < 0:
            raise ValueError(f"duration_ns cannot be negative, got {self.duration_ns}")
        _check_span(
            "reasoning", self.reasoning_started_at, self.reasoning_completed_at, self.reasoning_duration_ns
        )
        _check_span("content", self.content_started_at, self.content_completed_at, self.content_duration_ns)

    @classmethod
    def instant(cls) -> Self:
        """Return the timing of something that took no time, now."""
        now = datetime.now(timezone.utc)
        return cls(now, now, 0)


def _check_span(name: str, start: datetime | None, end: datetime | None, duration_ns: int | None) -> None:
    if start is None and end is None and duration_ns is None:
        return
    if start is None or end is None or duration_ns is None:
        raise ValueError(f"{name} timing must be given together: started_at, completed_at and duration_ns")
    if duration_ns < 0:
        raise ValueError(f"{name}_duration_ns cannot be negative, got {duration_ns}")


@dataclass(frozen=True, slots=True)
class MessageAppendedEvent(ExtensionEvent):
    """A new message entered the conversation. Restored and compacted history is not announced.

    Raises:
        ValueError: `usage` is given for a message that is not an assistant message.
    """

    message: AnyMessage
    timing: MessageTiming
    usage: ModelUsage | None = None

    def __post_init__(self) -> None:
        if self.usage is not None and not isinstance(self.message, AssistantMessage):
            raise ValueError(f"usage belongs to assistant messages, not to {type(self.message).__name__}")


@dataclass(frozen=True, slots=True)
class InternalMessageEvent(ExtensionEvent):
    """Publish this to queue an instruction for after the current answer.

    Raises:
        TypeError: `message` is not an `AgentMessage`.
    """

    message: AgentMessage

    def __post_init__(self) -> None:
        if not isinstance(self.message, AgentMessage):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"message must be an AgentMessage, got {type(self.message).__name__}")


@dataclass(frozen=True, slots=True)
class SteeringMessageEvent(ExtensionEvent):
    """Publish this to queue urgent user input for the next safe point.

    Raises:
        TypeError: `message` is not a `UserMessage`.
    """

    message: UserMessage

    def __post_init__(self) -> None:
        if not isinstance(self.message, UserMessage):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"message must be a UserMessage, got {type(self.message).__name__}")


@dataclass(frozen=True, slots=True)
class ModelOutputLifecycleEvent(ExtensionEvent):
    """Base of the four boundaries of a model's output."""

    occurred_at: datetime
    monotonic_ns: int

    @classmethod
    def now(cls) -> Self:
        """Return the event with the current times."""
        return cls(datetime.now(timezone.utc), time.monotonic_ns())


@dataclass(frozen=True, slots=True)
class ReasoningStartedEvent(ModelOutputLifecycleEvent):
    """A segment of reasoning begins."""


@dataclass(frozen=True, slots=True)
class ReasoningCompletedEvent(ModelOutputLifecycleEvent):
    """A segment of reasoning ended."""


@dataclass(frozen=True, slots=True)
class ContentStartedEvent(ModelOutputLifecycleEvent):
    """The visible answer begins."""


@dataclass(frozen=True, slots=True)
class ContentCompletedEvent(ModelOutputLifecycleEvent):
    """The visible answer is complete."""


@dataclass(frozen=True, slots=True)
class CompactionEvent(ExtensionEvent):
    """Older messages were replaced by a summary.

    Positions are one-based and inclusive, counted over the non-system messages before this compaction;
    an earlier checkpoint counts as one message.
    """

    compressed_from: int
    compressed_to: int
    kept_from: int
    kept_to: int
    summary: str
    usage: ModelUsage | None = field(default=None, compare=False)
