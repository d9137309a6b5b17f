"""Putting together the tool calls of a chat stream, however the service cuts and numbers them."""

from __future__ import annotations

from typing import Any

from ..messages import ToolCall
from ..model import ToolCallDelta
from ._names import unique_call_id
from ._surrogates import SurrogateJoiner
from .tool_arguments import tool_call_from_arguments
from .wire import read_object, read_str

__all__ = ["ChatToolCalls"]


class _Call:
    """One call whose fragments are still coming.

    Attributes:
        index: Its number in our deltas and among the final calls.
        id: Its id, or `""` while the service has given none and we have not made one up.
        made_up: Whether the id is ours, so that one of the service comes too late.
        waiting: Whether the first fragment is held back because its id may follow.
    """

    __slots__ = ("_arguments", "_joiner", "_shown_arguments", "id", "index", "made_up", "name", "waiting")

    def __init__(self, index: int) -> None:
        self.index = index
        self.id = ""
        self.name = ""
        self.made_up = False
        self.waiting = False
        self._arguments: list[str] = []
        self._shown_arguments = 0
        self._joiner = SurrogateJoiner()

    @property
    def has_arguments(self) -> bool:
        return bool(self._arguments)

    def append(self, arguments: str) -> None:
        text = self._joiner.feed(arguments)
        if text:
            self._arguments.append(text)

    def unshown_arguments(self) -> str:
        """Return the arguments that no delta has carried yet."""
        text = "".join(self._arguments[self._shown_arguments :])
        self._shown_arguments = len(self._arguments)
        return text

    def all_arguments(self) -> str:
        return "".join(self._arguments)

    def flush(self) -> None:
        """Take what a cut character held back."""
        rest = self._joiner.flush()
        if rest:
            self._arguments.append(rest)


class ChatToolCalls:
    """The calls of one response.

    A call whose first fragment has no id waits for one more fragment, because some services send the id in
    the second; after that it gets an id of ours.
    """

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        # The calls that were opened under an index of the service, oldest first.
        self._opened: dict[int, list[_Call]] = {}
        self._by_id: dict[str, _Call] = {}
        self._waiting: _Call | None = None

    def __bool__(self) -> bool:
        return bool(self._calls)

    def feed(self, fragment: dict[str, Any]) -> list[ToolCallDelta]:
        """Take one fragment and return what can be shown after it."""
        function = read_object(fragment.get("function"))
        call_id = read_str(fragment.get("id"))
        name = read_str(function.get("name"))
        arguments = read_str(function.get("arguments"))
        if not (call_id or name or arguments):
            return []
        index = _index(fragment.get("index"))
        call = self._find(index, call_id, name)
        deltas: list[ToolCallDelta] = []
        if call is None:
            deltas += self.settle()
            call = self._open(index)
        return deltas + self._extend(call, call_id, name, arguments)

    def settle(self) -> list[ToolCallDelta]:
        """Stop waiting for an id, because something else came or the stream ended."""
        call, self._waiting = self._waiting, None
        if call is None:
            return []
        call.waiting = False
        self._make_up_id(call)
        return self._delta(call, call.id, call.name)

    def finish(self, finish_reason: str | None) -> tuple[ToolCall, ...]:
        """Return the calls in the order of their indexes; call `settle` first."""
        calls = sorted(self._calls, key=lambda call: call.index)
        for call in calls:
            call.flush()
        return tuple(
            tool_call_from_arguments(
                call.id, call.name, call.all_arguments(), index=call.index, finish_reason=finish_reason
            )
            for call in calls
        )

    def _find(self, index: int | None, call_id: str, name: str) -> _Call | None:
        """Return the call that a fragment continues, or `None` when it starts one."""
        latest = self._calls[-1] if self._calls else None
        if index is None:
            if call_id:
                known = self._by_id.get(call_id)
                return known or (latest if latest is not None and _lacks(latest, name) else None)
            return None if latest is None or (name and latest.name) else latest
        opened = self._opened.get(index)
        if opened is None:
            return latest if not call_id and not name else None
        if call_id:
            same = next((call for call in opened if call.id == call_id), None)
            return same or (opened[-1] if not opened[-1].id or opened[-1].made_up else None)
        return opened[-1]

    def _open(self, index: int | None) -> _Call:
        taken = {call.index for call in self._calls}
        number = index if index is not None else 0
        while number in taken:
            number += 1
        call = _Call(number)
        self._calls.append(call)
        self._opened.setdefault(index if index is not None else number, []).append(call)
        return call

    def _extend(self, call: _Call, call_id: str, name: str, arguments: str) -> list[ToolCallDelta]:
        new_name = name if self._takes_name(call, call_id, name) else ""
        call.name += new_name
        call.append(arguments)
        if not call.id:
            if call_id:
                return self._identify(call, call_id, new_name)
            if not call.waiting:
                call.waiting = True
                self._waiting = call
                return []
            return self.settle()
        return self._delta(call, "", new_name)

    def _identify(self, call: _Call, call_id: str, new_name: str) -> list[ToolCallDelta]:
        """Give a call the id that its service sent, unless an earlier call has it."""
        was_waiting, call.waiting = call.waiting, False
        if was_waiting:
            self._waiting = None
        if call_id in self._by_id:
            self._make_up_id(call)
        else:
            call.id = call_id
            self._by_id[call_id] = call
        return self._delta(call, call.id, call.name if was_waiting else new_name)

    def _make_up_id(self, call: _Call) -> None:
        call.id = unique_call_id()
        call.made_up = True

    @staticmethod
    def _takes_name(call: _Call, call_id: str, name: str) -> bool:
        if not call.name:
            return True
        return name != call.name and not call_id and not call.has_arguments

    @staticmethod
    def _delta(call: _Call, id_delta: str, name_delta: str) -> list[ToolCallDelta]:
        arguments = call.unshown_arguments()
        if not (id_delta or name_delta or arguments):
            return []
        return [ToolCallDelta(call.index, id_delta, name_delta, arguments)]


def _index(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _lacks(call: _Call, name: str) -> bool:
    """Return whether an id without index may be the one that `call` still lacks."""
    return not call.id and (not name or not call.name or name == call.name)
