"""Text that arrives in pieces, with characters cut in the middle."""

from __future__ import annotations

from .._text import encodable

__all__ = ["SurrogateJoiner"]


class SurrogateJoiner:
    """Joins a character whose two surrogate halves came in different pieces of one text.

    The first half is held back until the next piece; a half without its other becomes U+FFFD.

    Example:
        >>> joiner = SurrogateJoiner()
        >>> joiner.feed("a\\ud83d"), joiner.feed("\\ude00b"), joiner.flush()
        ('a', '😀b', '')
    """

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str) -> str:
        """Return what can be shown after this piece; maybe nothing."""
        if self._held:
            text, self._held = self._held + text, ""
        elif text.isascii():
            return text
        if text and "\ud800" <= text[-1] <= "\udbff":
            self._held, text = text[-1], text[:-1]
        return encodable(text)

    def flush(self) -> str:
        """Return what was held back, after the last piece."""
        held, self._held = self._held, ""
        return encodable(held)
