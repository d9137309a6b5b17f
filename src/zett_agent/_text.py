"""Making text encodable before it is stored or sent."""

from __future__ import annotations

import re
from typing import Any, cast

__all__ = ["encodable", "encodable_json"]

_PAIR = re.compile("([\ud800-\udbff])([\udc00-\udfff])")
_SURROGATE = re.compile("[\ud800-\udfff]")


def encodable(text: str) -> str:
    """Return `text` without surrogates: pairs are joined, unpaired halves become U+FFFD.

    Text without surrogates, which is nearly all text, is returned as it is.

    Example:
        >>> encodable("cat \\ud83d\\udc08 \\ud83d") == "cat 🐈 \\ufffd"
        True
    """
    if text.isascii() or _SURROGATE.search(text) is None:
        return text
    return _SURROGATE.sub("\ufffd", _PAIR.sub(_join, text))


def _join(match: re.Match[str]) -> str:
    high, low = ord(match[1]), ord(match[2])
    return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))


def encodable_json(value: Any) -> Any:
    """Return JSON data without surrogates in any key or text; data without any is returned as it is."""
    return _rebuilt(value) if _has_surrogates(value) else value


def _has_surrogates(value: Any) -> bool:
    # Without recursion: this runs for all data, however deep a model nested it.
    pending = [value]
    seen: set[int] = set()  # arguments that a program built by hand may contain themselves
    while pending:
        item = pending.pop()
        if isinstance(item, (dict, list)):
            if id(item) in seen:  # pyright: ignore[reportUnknownArgumentType]
                continue
            seen.add(id(item))  # pyright: ignore[reportUnknownArgumentType]
        if isinstance(item, str):
            if not item.isascii() and _SURROGATE.search(item) is not None:
                return True
        elif isinstance(item, dict):
            entries = cast("dict[Any, Any]", item)
            pending.extend(entries)
            pending.extend(entries.values())
        elif isinstance(item, list):
            pending.extend(cast("list[Any]", item))
    return False


def _rebuilt(value: Any) -> Any:
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, dict):
        entries = cast("dict[Any, Any]", value)
        return {_rebuilt(key): _rebuilt(item) for key, item in entries.items()}
    if isinstance(value, list):
        return [_rebuilt(item) for item in cast("list[Any]", value)]
    return value
