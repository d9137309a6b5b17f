"""Putting streamed tool calls together, for adapters whose service numbers them properly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from ..messages import ToolCall
from ..model import ToolCallDelta

__all__ = ["ToolCallAccumulator", "parse_tool_calls"]


class ToolCallAccumulator:
    """One tool call whose fragments are still coming.

    Attributes:
        index: The service's number of the call.
        call_id: Its id, as far as it has come.
        name: Its tool, as far as it has come.

    Example:
        >>> call = ToolCallAccumulator(0, "c1", "look")
        >>> call.append(ToolCallDelta(0, arguments_delta='{"n":'))
        >>> call.append(ToolCallDelta(0, arguments_delta=" 1}"))
        >>> call.argument_buffer
        '{"n": 1}'
    """

    __slots__ = ("_arguments", "call_id", "index", "name")

    def __init__(self, index: int, call_id: str = "", name: str = "", argument_buffer: str = "") -> None:
        self.index = index
        self.call_id = call_id
        self.name = name
        # A list: a text that grows by one fragment at a time is copied each time.
        self._arguments = [argument_buffer]

    @property
    def argument_buffer(self) -> str:
        """The arguments' JSON, as far as it has come."""
        if len(self._arguments) > 1:
            self._arguments = ["".join(self._arguments)]
        return self._arguments[0]

    def append(self, delta: ToolCallDelta) -> None:
        """Add a fragment."""
        self.call_id += delta.id_delta
        self.name += delta.name_delta
        if delta.arguments_delta:
            self._arguments.append(delta.arguments_delta)


def parse_tool_calls(
    streams: Mapping[int, ToolCallAccumulator] | Iterable[ToolCallAccumulator],
    finish_reason: str | None = None,
) -> tuple[ToolCall, ...]:
    """Return the calls in the order of their indexes; bad arguments become the call's `error`.

    Args:
        streams: The calls, with all their fragments.
        finish_reason: Why the model stopped; it decides what the model is told about bad arguments.
    """
    from .tool_arguments import tool_call_from_arguments

    if isinstance(streams, Mapping):
        streams = cast("Mapping[int, ToolCallAccumulator]", streams).values()
    return tuple(
        tool_call_from_arguments(
            call.call_id, call.name, call.argument_buffer, index=call.index, finish_reason=finish_reason
        )
        for call in sorted(streams, key=lambda call: call.index)
    )
