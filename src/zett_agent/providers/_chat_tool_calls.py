"""Putting together the tool calls of a chat stream, however the service cuts and numbers them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .._text import encodable
from ..messages import ToolCall
from ..model import ToolCallDelta
from ._names import unique_call_id
from ._surrogates import SurrogateJoiner
from .tool_arguments import tool_call_from_arguments
from .wire import read_object, read_str

__all__ = ["ChatToolCalls"]


@dataclass(slots=True, eq=False)
class _Call:
    """One call whose fragments are still coming.

    Attributes:
        index: Its number in our deltas and among the final calls.
        shown: Whether a delta has announced it.
    """

    index: int
    id: str = ""
    name: str = ""
    shown: bool = False
    arguments: list[str] = field(default_factory=list[str])
    shown_arguments: int = 0
    joiner: SurrogateJoiner = field(default_factory=SurrogateJoiner)

    def append(self, arguments: str) -> None:
        if arguments:
            self.arguments.append(arguments)

    def delta(self, id_delta: str, new_name: str) -> list[ToolCallDelta]:
        """Return what no delta has carried yet, if there is anything."""
        name = new_name if self.shown else self.name
        arguments = "".join(self.arguments[self.shown_arguments :])
        self.shown, self.shown_arguments = True, len(self.arguments)
        if not (id_delta or name or arguments):
            return []
        return [ToolCallDelta(self.index, id_delta, name, arguments)]


@dataclass(slots=True)
class _Slot:
    """The calls that were opened under one index of the service."""

    latest: _Call
    by_id: dict[str, _Call] = field(default_factory=dict[str, _Call])


class ChatToolCalls:
    """The calls of one response.

    A call whose first fragment has no id is announced with its second fragment, because some services send
    the id there. Calls that never get one are given an id of ours at the end.
    """

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._slots: dict[int, _Slot] = {}
        self._by_id: dict[str, _Call] = {}
        self._taken: set[int] = set()
        # Where the search for a free number goes on, by the number that was taken.
        self._next_free: dict[int, int] = {}

    def feed(self, fragment: dict[str, Any]) -> list[ToolCallDelta]:
        """Take one fragment and return what can be shown after it."""
        function = read_object(fragment.get("function"))
        call_id = encodable(read_str(fragment.get("id")))
        name = encodable(read_str(function.get("name")))
        arguments = read_str(function.get("arguments"))
        if not (call_id or name or arguments):
            return []
        index = _index(fragment.get("index"))
        call = self._find(index, call_id, name)
        if call is None:
            call = self._open(index)
        opening = not call.shown and not call.arguments and not call.name
        new_name = name if _takes_name(call, call_id, name) else ""
        call.name += new_name
        call.append(call.joiner.feed(arguments))
        id_delta = self._identify(call, index, call_id) if call_id and not call.id else ""
        if opening and not call.id:
            return []
        return call.delta(id_delta, new_name)

    def end(self) -> list[ToolCallDelta]:
        """Return the last deltas: calls not yet announced, missing ids, characters that were cut."""
        deltas: list[ToolCallDelta] = []
        for call in self._calls:
            call.append(call.joiner.flush())
            id_delta = ""
            if not call.id:
                id_delta = call.id = unique_call_id()
            deltas += call.delta(id_delta, "")
        return deltas

    def finish(self, finish_reason: str | None) -> tuple[ToolCall, ...]:
        """Return the calls in the order of their indexes; call `end` first."""
        return tuple(
            tool_call_from_arguments(
                call.id, call.name, "".join(call.arguments), index=call.index, finish_reason=finish_reason
            )
            for call in sorted(self._calls, key=lambda call: call.index)
        )

    def _find(self, index: int | None, call_id: str, name: str) -> _Call | None:
        """Return the call that a fragment continues, or `None` when it starts one."""
        latest = self._calls[-1] if self._calls else None
        if index is None:
            if call_id:
                known = self._by_id.get(call_id)
                return known or (latest if latest is not None and _lacks_id(latest, name) else None)
            return None if latest is None or (name and latest.name) else latest
        slot = self._slots.get(index)
        if slot is None:
            return latest if not call_id and not name else None
        if call_id:
            return slot.by_id.get(call_id) or (None if slot.latest.id else slot.latest)
        return slot.latest

    def _open(self, index: int | None) -> _Call:
        wanted = index if index is not None else 0
        number = wanted
        if number in self._taken:
            number = self._next_free.get(wanted, wanted)
            while number in self._taken:
                number += 1
            self._next_free[wanted] = number + 1
        self._taken.add(number)
        call = _Call(number)
        self._calls.append(call)
        key = index if index is not None else number
        slot = self._slots.get(key)
        if slot is None:
            self._slots[key] = _Slot(call)
        else:
            slot.latest = call
        return call

    def _identify(self, call: _Call, index: int | None, call_id: str) -> str:
        """Give a call the id that its service sent, or one of ours if an earlier call has that one."""
        slot = self._slots[index if index is not None and index in self._slots else call.index]
        slot.by_id[call_id] = call
        call.id = unique_call_id() if call_id in self._by_id else call_id
        self._by_id.setdefault(call_id, call)
        return call.id


def _index(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _takes_name(call: _Call, call_id: str, name: str) -> bool:
    """Return whether a name belongs to what `call` is called, and is not only said again."""
    return not call.name or (name != call.name and not call_id and not call.arguments)


def _lacks_id(call: _Call, name: str) -> bool:
    """Return whether an id without index may be the one that `call` still lacks."""
    return not call.id and (not name or not call.name or name == call.name)
