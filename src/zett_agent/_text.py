"""Making text encodable before it is stored or sent."""

from __future__ import annotations

import re

__all__ = ["encodable"]

_PAIR = re.compile("([\ud800-\udbff])([\udc00-\udfff])")
_SURROGATE = re.compile("[\ud800-\udfff]")


def encodable(text: str) -> str:
    """Return `text` without surrogates: pairs are joined, unpaired halves become U+FFFD.

    Text without surrogates, which is nearly all text, is returned as it is.

    Example:
        >>> encodable("cat \\ud83d\\udc08 \\ud83d") == "cat 🐈 \\ufffd"
        True
    """
    if text.isascii():
        return text
    if _SURROGATE.search(text) is None:
        return text
    return _SURROGATE.sub("\ufffd", _PAIR.sub(_join, text))


def _join(match: re.Match[str]) -> str:
    high, low = ord(match[1]), ord(match[2])
    return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))
