"""Refusals that services report in other ways than as a stop reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..stop import StopInfo, StopReason
from ._service_text import service_json
from .wire import read_object, read_str

__all__ = [
    "RESPONSES_POLICY_ERROR_CODES",
    "refusal_from_response_error",
    "refusal_from_status_error",
    "withhold_replay_blocks",
]

RESPONSES_POLICY_ERROR_CODES = frozenset({"bio_policy", "image_content_policy_violation"})
"""Error codes of the Responses API that mean the model declined."""

_MODERATION_FIELDS = ("reasons", "flagged_input", "provider_name", "model_slug")


def refusal_from_status_error(status: int, body: object) -> StopInfo | None:
    """Return the stop that an error status stands for, or `None` when it is an ordinary failure.

    Args:
        status: HTTP status.
        body: The parsed `error` object of the answer.
    """
    error = read_object(service_json(body))
    message = read_str(error.get("message")) or None
    if status == 400 and "content_filter" in (error.get("type"), error.get("code")):
        return StopInfo(
            StopReason.REFUSAL, "content_filter", "content_filter", message, detail={"status": status}
        )
    metadata = read_object(error.get("metadata"))
    if status == 403 and metadata.get("reasons"):
        detail = {name: metadata[name] for name in _MODERATION_FIELDS if metadata.get(name) is not None}
        return StopInfo(StopReason.REFUSAL, "403", "moderation", message, detail={"status": status, **detail})
    if status == 403 and metadata.get("patterns"):
        detail = {"status": status, "patterns": metadata["patterns"]}
        return StopInfo(StopReason.REFUSAL, "403", "guardrail", message, detail=detail)
    return None


def refusal_from_response_error(error: object) -> StopInfo | None:
    """Return the stop for an error of a failed Responses stream, or `None` when it is an ordinary failure."""
    details = read_object(service_json(error))
    code = read_str(details.get("code"))
    if code not in RESPONSES_POLICY_ERROR_CODES:
        return None
    message = read_str(details.get("message")) or None
    return StopInfo(StopReason.REFUSAL, code, code, message, detail={"status": "failed"})


def withhold_replay_blocks(
    blocks: Iterable[Mapping[str, Any]], is_tool_call: Callable[[Mapping[str, Any]], bool]
) -> tuple[Mapping[str, Any], ...]:
    """Return the blocks without the tool calls, which are withheld after a refusal or an interruption."""
    return tuple(block for block in blocks if not is_tool_call(block))
