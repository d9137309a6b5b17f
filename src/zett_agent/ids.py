"""Time-ordered identifiers for sessions, requests and stored rows."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

__all__ = ["new_uuid7"]

_lock = threading.Lock()
_last = 0
_source: Callable[[], UUID] | None = None

_RANDOM_BITS = (1 << 62) - 1
_VARIANT_AND_RANDOM = 1 << 63


def new_uuid7() -> str:
    """Return a new UUID version 7 as 36 lower-case characters.

    Identifiers made by one process sort in the order in which they were made, across threads, within
    one millisecond and when the wall clock steps back.

    Example:
        >>> first, second = new_uuid7(), new_uuid7()
        >>> first < second
        True
    """
    global _last, _source
    with _lock:
        if _source is None:
            _source = _load_source()
        value = _source().int
        if value <= _last:
            value = _successor(_last)
        _last = value
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _load_source() -> Callable[[], UUID]:
    import uuid

    standard: Callable[[], UUID] | None = getattr(uuid, "uuid7", None)
    if standard is not None:
        return standard
    from uuid6 import uuid7

    return uuid7


def _successor(value: int) -> int:
    """Return the next greater UUID 7, stepping over the version and variant bits."""
    low = value & _RANDOM_BITS
    if low < _RANDOM_BITS:
        return value + 1
    # The 62 low bits are used up: carry into the 12 bits between version and variant, then the time.
    high = value >> 64
    middle = high & 0xFFF
    time_part = high >> 16
    if middle < 0xFFF:
        middle += 1
    else:
        middle = 0
        time_part += 1
    return (time_part << 80) | (0x7 << 76) | (middle << 64) | _VARIANT_AND_RANDOM
