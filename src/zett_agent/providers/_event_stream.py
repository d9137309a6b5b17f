"""Reading server-sent events and JSON lines from bytes that may be cut anywhere."""

from __future__ import annotations

import math
from collections.abc import Callable
from json import JSONDecodeError, JSONDecoder
from typing import Any, cast

__all__ = ["MAX_EVENT_BYTES", "EventStreamDecoder", "JsonLinesDecoder", "StreamDecoder", "StreamError"]

JsonObject = dict[str, Any]

MAX_EVENT_BYTES = 64 * 1024 * 1024
"""Largest event or line; a service that sends more at once is broken or hostile."""

_PREVIEW = 200


class StreamError(Exception):
    """The stream cannot be read on; the message says why, without naming the service."""


def _finite(literal: str) -> float | None:
    # 1e999 is valid JSON and infinity in Python, which no JSON writer may give back.
    value = float(literal)
    return value if math.isfinite(value) else None


# NaN and Infinity are no JSON, yet some servers write them, mostly as log probabilities. Losing an answer
# for them helps nobody; letting them into a history would make it impossible to store or send.
_DECODER = JSONDecoder(parse_float=_finite, parse_constant=lambda _: None)
_scan: Callable[[str, int], tuple[Any, int]] = vars(_DECODER)["scan_once"]


class _LineDecoder:
    """Splits incoming bytes into lines and hands the JSON found in them to the subclass.

    `feed` never raises: what was readable before a fault is returned first and the fault kept in `error`.

    Attributes:
        done: Whether the end mark of the stream was met; nothing after it is read.
        error: Why reading stopped, or `None`.
    """

    __slots__ = ("_held", "_held_size", "_limit", "_skip_newline", "_started", "done", "error")

    def __init__(self, *, limit: int = MAX_EVENT_BYTES) -> None:
        self.done = False
        self.error: StreamError | None = None
        self._limit = limit
        self._held: list[bytes] = []  # the beginning of a line whose end has not come yet
        self._held_size = 0
        self._skip_newline = False  # the last read ended with CR, so LF would belong to it
        self._started = False

    def feed(self, data: bytes) -> list[JsonObject]:
        """Return the JSON objects that `data` completes, in order."""
        objects: list[JsonObject] = []
        if self.done or self.error is not None or not data:
            return objects
        if self._skip_newline:
            self._skip_newline = False
            if data[0] == 10:
                data = data[1:]
        # Everything up to the last line end is complete, and no character is cut there.
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if not end:
            self._hold(data)
            return objects
        if self._held:
            self._held.append(data[:end])
            complete = b"".join(self._held)
            self._held.clear()
            self._held_size = 0
        else:
            complete = data[:end]
        self._skip_newline = complete.endswith(b"\r")
        if end < len(data):
            self._hold(data[end:])
        text = complete.decode("utf-8", "replace")
        if not self._started:
            self._started = True
            text = text.removeprefix("\ufeff")
        if "\r" in text:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        lines = text.split("\n")
        lines.pop()  # what follows the last line end: nothing
        self._take(lines, objects)
        return objects

    def finish(self) -> list[JsonObject]:
        """Return the JSON objects that the end of the body completes."""
        objects: list[JsonObject] = []
        if self.done or self.error is not None:
            return objects
        rest = b"".join(self._held).decode("utf-8", "replace")
        self._held.clear()
        if not self._started:
            rest = rest.removeprefix("\ufeff")
        # A blank line completes an event that is still open, and is ignored where lines are all there is.
        self._take([rest, ""] if rest else [""], objects)
        return objects

    def _hold(self, data: bytes) -> None:
        self._held.append(data)
        self._held_size += len(data)
        if self._held_size > self._limit:
            self._oversize()

    def _oversize(self) -> None:
        self._held.clear()
        self.error = StreamError(f"the stream has more than {self._limit} bytes in one event")

    def _take(self, lines: list[str], objects: list[JsonObject]) -> None:
        raise NotImplementedError

    def _parse(self, text: str, objects: list[JsonObject]) -> None:
        """Append the object that `text` is; anything that is JSON but no object is skipped."""
        try:
            try:
                # The scanner itself, since `json.loads` adds a third to the cost of a small event.
                value, end = _scan(text, 0)
            except StopIteration:
                value, end = None, -1
            if end != len(text):
                value = _DECODER.decode(text)  # blanks around the value, or no JSON at all
        except (ValueError, RecursionError) as cause:
            self._malformed(text, cause)
            return
        if type(value) is dict:
            objects.append(cast("JsonObject", value))

    def _malformed(self, text: str, cause: BaseException) -> None:
        shown = text.strip()
        shown = shown if len(shown) <= _PREVIEW else shown[: _PREVIEW - 1] + "…"
        what = "it is nested too deep" if isinstance(cause, RecursionError) else "it is not valid JSON"
        if isinstance(cause, JSONDecodeError):
            cause.doc = ""  # it holds the whole event, which may be large and is quoted already
        self.error = StreamError(f"the stream is malformed: {what}: {shown}")
        self.error.__cause__ = cause


class EventStreamDecoder(_LineDecoder):
    """Reads server-sent events whose data is JSON, up to `data: [DONE]`.

    Example:
        >>> decoder = EventStreamDecoder()
        >>> decoder.feed(b'data: {"n": 1}\\n\\ndata: {"n"'), decoder.feed(b": 2}\\r\\n\\r\\n")
        ([{'n': 1}], [{'n': 2}])
    """

    __slots__ = ("_data", "_data_size")

    def __init__(self, *, limit: int = MAX_EVENT_BYTES) -> None:
        super().__init__(limit=limit)
        self._data: list[str] = []  # the data lines of the open event
        self._data_size = 0

    def _take(self, lines: list[str], objects: list[JsonObject]) -> None:
        data = self._data
        for line in lines:
            if not line:
                if data:
                    self._dispatch(data[0] if len(data) == 1 else "\n".join(data), objects)
                    data.clear()
                    self._data_size = 0
                    if self.done or self.error is not None:
                        return
            elif line.startswith("data:"):
                value = line[6:] if line.startswith(" ", 5) else line[5:]
                data.append(value)
                self._data_size += len(value)
                if self._data_size > self._limit:
                    self._oversize()
                    return
            elif line == "data":
                data.append("")
            # Everything else is a comment, a field that says nothing here, or unknown.

    def _dispatch(self, text: str, objects: list[JsonObject]) -> None:
        if text.startswith("{"):
            self._parse(text, objects)
        elif text.strip() == "[DONE]":
            self.done = True
        elif text and not text.isspace():
            self._parse(text, objects)


class JsonLinesDecoder(_LineDecoder):
    """Reads one JSON object per line; blank lines are ignored.

    Example:
        >>> decoder = JsonLinesDecoder()
        >>> decoder.feed(b'{"n": 1}\\n{"n":'), decoder.feed(b" 2}"), decoder.finish()
        ([{'n': 1}], [], [{'n': 2}])
    """

    __slots__ = ()

    def _take(self, lines: list[str], objects: list[JsonObject]) -> None:
        for line in lines:
            if line and not line.isspace():
                self._parse(line, objects)
                if self.error is not None:
                    return


StreamDecoder = EventStreamDecoder | JsonLinesDecoder
