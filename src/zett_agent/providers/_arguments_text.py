"""Writing the arguments of a stored tool call, for the wires that want them as text."""

from __future__ import annotations

import json
from typing import Any

from ..messages import ToolCall
from .base import ProviderResponseError

__all__ = ["encode_arguments"]


def encode_arguments(call: ToolCall) -> str:
    """Return the arguments of a call as JSON text; numbers that JSON does not have become `null`.

    Raises:
        ProviderResponseError: They hold what JSON cannot represent.
    """
    try:
        try:
            return json.dumps(call.arguments, ensure_ascii=False, allow_nan=False)
        except ValueError:
            return json.dumps(_without_constants(call.arguments), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as cause:
        raise ProviderResponseError(
            f"The arguments of the call {call.id!r} to tool {call.name!r} cannot be sent as JSON: {cause}. "
            "A hook or an extension put them into the history; they must be plain JSON values."
        ) from cause


def _without_constants(arguments: dict[str, Any]) -> Any:
    # A cycle raises ValueError here too, and is reported.
    return json.loads(json.dumps(arguments), parse_constant=lambda _: None)
