"""Decoding the arguments that a model wrote for a tool."""

from __future__ import annotations

import json
import math
from typing import Any, cast

from .._text import encodable_json
from ..messages import ToolCall
from ._names import UNNAMED_TOOL

__all__ = [
    "ToolArgumentsError",
    "decode_tool_arguments",
    "invalid_arguments_message",
    "tool_call_from_arguments",
]

MAX_DEPTH = 128

# Repairing guesses, and on hostile text its time grows with the square of the length: what is larger than
# any slip of a model is sent back instead.
_MAX_REPAIR_LENGTH = 16 * 1024
_MAX_REPAIR_QUOTES = 400

# Finish reasons after which the text may be cut anywhere, so that "repairing" it would invent its end.
_OUTPUT_LIMITS = frozenset({"max_tokens", "length", "max_output_tokens", "model_context_window_exceeded"})
_INCOMPLETE = frozenset({None, "", "incomplete"})


class ToolArgumentsError(ValueError):
    """The arguments of a tool call cannot be decoded; the message says what is wrong with them."""


def decode_tool_arguments(payload: str, *, index: int, repair: bool = True) -> dict[str, Any]:
    """Return the arguments that `payload` holds.

    An empty or blank payload is `{}`. Control characters inside strings are accepted; of repeated keys the
    last one counts. A payload with both outer braces that is not valid JSON is repaired.

    Args:
        payload: JSON text of an object.
        index: Number of the call in its response, for the error message.
        repair: Whether repairing is allowed.

    Raises:
        ToolArgumentsError: It is not an object, cannot be repaired, or holds what JSON does not allow.

    Example:
        >>> decode_tool_arguments('{"city": "Rome",}', index=0)
        {'city': 'Rome'}
    """
    text = payload.strip()
    if not text:
        return {}
    try:
        value: object = json.loads(text, strict=False)
    except RecursionError as cause:
        raise ToolArgumentsError(_too_deep(index)) from cause
    except ValueError as cause:
        if not (repair and text.startswith("{") and text.endswith("}")):
            raise ToolArgumentsError(f"arguments of call {index} are not valid JSON: {cause}") from cause
        value = _repaired(text, index)
    if not isinstance(value, dict):
        raise ToolArgumentsError(f"arguments of call {index} must be a JSON object, not {_json_type(value)}")
    arguments = cast("dict[str, Any]", value)
    _check(arguments, index)
    return cast("dict[str, Any]", encodable_json(arguments))


def _repaired(text: str, index: int) -> object:
    if len(text) > _MAX_REPAIR_LENGTH or text.count('"') > _MAX_REPAIR_QUOTES or _depth(text) > MAX_DEPTH:
        raise ToolArgumentsError(f"arguments of call {index} are not valid JSON and too large to repair")
    import json_repair

    try:
        value: object = json_repair.loads(text, skip_json_loads=True)
    except RecursionError as cause:
        raise ToolArgumentsError(_too_deep(index)) from cause
    except Exception as cause:
        raise ToolArgumentsError(f"arguments of call {index} cannot be read as JSON: {cause}") from cause
    return value


def _check(arguments: dict[str, Any], index: int) -> None:
    """Refuse what a history could not store: numbers that are not finite, and excessive nesting."""
    level: list[Any] = [arguments]
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for container in level:
            values = cast("list[Any]", container.values() if isinstance(container, dict) else container)
            for value in values:
                if isinstance(value, float) and not math.isfinite(value):
                    raise ToolArgumentsError(f"arguments of call {index} hold {value}, which is not JSON")
                if isinstance(value, (dict, list)):
                    below.append(value)
        if not below:
            return
        level = below
    raise ToolArgumentsError(_too_deep(index))


def _depth(text: str) -> int:
    """Return how deep brackets are nested in `text`, those in strings counted too."""
    depth = deepest = 0
    for character in text:
        if character in "{[":
            depth += 1
            deepest = max(deepest, depth)
        elif character in "}]":
            depth -= 1
    return deepest


def _too_deep(index: int) -> str:
    return f"arguments of call {index} are nested more than {MAX_DEPTH} levels deep"


def _json_type(value: object) -> str:
    names: dict[type, str] = {
        type(None): "null",
        bool: "a boolean",
        int: "a number",
        float: "a number",
        str: "a string",
    }
    return names.get(type(value), "an array")


def invalid_arguments_message(name: str, detail: str, finish_reason: str | None) -> str:
    """Return what the model is told about a call whose arguments could not be decoded.

    Args:
        name: The tool.
        detail: What was wrong.
        finish_reason: Why the response ended; decides what the model should do next.
    """
    if finish_reason in _OUTPUT_LIMITS:
        advice = "The call was cut off by the output limit. Retry with a much smaller call."
    elif finish_reason in _INCOMPLETE:
        advice = "The response stream ended before the call was complete. Retry the call."
    else:
        advice = "Send the call again with complete, valid JSON arguments."
    return f"Tool {name} was not run: {detail}. {advice}"


def tool_call_from_arguments(
    call_id: str, name: str, payload: str, *, index: int, finish_reason: str | None
) -> ToolCall:
    """Return a tool call; payloads that cannot be decoded, and missing names, become its `error`.

    After an output limit or a stream that ended early nothing is repaired, because the end of the text is
    missing and a tool must not run with part of its input.

    Args:
        call_id: Id of the call.
        name: Name of the tool; may be empty.
        payload: JSON text of the arguments.
        index: Number of the call in its response.
        finish_reason: Why the response ended.
    """
    if not name.strip():
        error = "The call was not run: it gave no tool name. Send it again with the name of a tool."
        return ToolCall(call_id, UNNAMED_TOOL, {}, error)
    whole = finish_reason not in _OUTPUT_LIMITS and finish_reason not in _INCOMPLETE
    try:
        return ToolCall(call_id, name, decode_tool_arguments(payload, index=index, repair=whole))
    except ToolArgumentsError as error:
        return ToolCall(call_id, name, {}, invalid_arguments_message(name, str(error), finish_reason))
