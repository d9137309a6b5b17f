"""Why a model stopped, in one vocabulary for all providers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ._strenum import StrEnum

__all__ = ["StopInfo", "StopReason", "classify_stop"]


class StopReason(StrEnum):
    """The neutral reasons. Only `END_TURN` and `TOOL_USE` are normal ends."""

    END_TURN = "end_turn"
    TOOL_USE = "tool_use"
    MAX_OUTPUT = "max_output"
    CONTEXT_FULL = "context_full"
    REFUSAL = "refusal"
    PAUSED = "paused"
    INTERRUPTED = "interrupted"
    OTHER = "other"


_NORMAL = frozenset({StopReason.END_TURN, StopReason.TOOL_USE})
_TRUNCATED = frozenset({StopReason.MAX_OUTPUT, StopReason.CONTEXT_FULL})
# Reasons whose provider value is itself the best label, when the adapter gives none.
_CATEGORIZED_BY_RAW = frozenset({StopReason.REFUSAL, StopReason.INTERRUPTED})

_RAW_VALUES: dict[StopReason, tuple[str, ...]] = {
    StopReason.END_TURN: ("stop", "end_turn", "stop_sequence", "completed"),
    StopReason.TOOL_USE: ("tool_calls", "tool_use", "function_call"),
    StopReason.MAX_OUTPUT: ("length", "max_tokens", "max_output_tokens"),
    StopReason.CONTEXT_FULL: ("model_context_window_exceeded", "model_length", "context_length_exceeded"),
    StopReason.REFUSAL: (
        "refusal",
        "content_filter",
        "sensitive",
        "safety",
        "recitation",
        "blocklist",
        "prohibited_content",
        "spii",
        "image_safety",
        "image_prohibited_content",
        "image_recitation",
        "jailbreak",
        "model_armor",
    ),
    StopReason.PAUSED: ("pause_turn",),
    StopReason.INTERRUPTED: ("error", "network_error", "insufficient_system_resource", "aborted"),
}
_REASON_BY_RAW = {raw: reason for reason, values in _RAW_VALUES.items() for raw in values}


@dataclass(frozen=True, slots=True)
class StopInfo:
    """How one response ended.

    Attributes:
        reason: The neutral reason.
        raw: The provider's own value, unchanged, or `None` when it gave none.
        category: A finer label, such as the kind of refusal.
        message: An explanation for a person.
        recommended_model: A model the provider suggests instead.
        detail: Further JSON-compatible facts; copied on construction, not part of the hash.
    """

    reason: StopReason
    raw: str | None = None
    category: str | None = None
    message: str | None = None
    recommended_model: str | None = None
    detail: Mapping[str, Any] = field(default_factory=dict[str, Any], hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "detail", dict(self.detail))

    @property
    def ok(self) -> bool:
        """Whether the response ended normally."""
        return self.reason in _NORMAL

    @property
    def refused(self) -> bool:
        """Whether the model or a safety layer declined."""
        return self.reason is StopReason.REFUSAL

    @property
    def truncated(self) -> bool:
        """Whether a length limit cut the response."""
        return self.reason in _TRUNCATED

    def describe(self) -> str:
        """Return one line for logs: the reason, then its label and message when there are any.

        Example:
            >>> StopInfo(StopReason.INTERRUPTED, raw="error", message="upstream reset").describe()
            'interrupted (error): upstream reset'
        """
        label = self.category or (self.raw if self.raw != self.reason.value else None)
        text = f"{self.reason.value} ({label})" if label else self.reason.value
        return f"{text}: {self.message}" if self.message else text


def classify_stop(
    raw: str | None,
    *,
    has_tool_calls: bool = False,
    category: str | None = None,
    message: str | None = None,
    recommended_model: str | None = None,
    detail: Mapping[str, Any] | None = None,
) -> StopInfo:
    """Translate a provider's stop value.

    Case and surrounding blanks do not matter; a missing or blank value is a normal end. The other
    arguments are taken over as they are. A refusal or interruption without a category takes `raw`.

    Args:
        raw: The provider's value.
        has_tool_calls: Whether the response asks for tools; turns a normal end into `TOOL_USE`.
        category: See `StopInfo`.
        message: See `StopInfo`.
        recommended_model: See `StopInfo`.
        detail: See `StopInfo`.

    Example:
        >>> classify_stop("length").reason
        <StopReason.MAX_OUTPUT: 'max_output'>
    """
    if raw is not None and not raw.strip():
        raw = None
    reason = StopReason.END_TURN if raw is None else _REASON_BY_RAW.get(raw.strip().lower(), StopReason.OTHER)
    if reason is StopReason.END_TURN and has_tool_calls:
        reason = StopReason.TOOL_USE
    if category is None and reason in _CATEGORIZED_BY_RAW:
        category = raw
    return StopInfo(reason, raw, category, message, recommended_model, detail or {})
