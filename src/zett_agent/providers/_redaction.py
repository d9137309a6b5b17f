"""Keeping credentials out of everything that a person or a log may see."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

__all__ = ["Redactor"]

_MARK = "[redacted]"
# Shorter secrets cannot be told from ordinary words; no service gives out such keys.
_SHORTEST = 8
# How services shorten a key: its beginning, something that stands for the rest, its end.
_MASK = re.compile(r"[*•·●xX#_]{2,}|\.{2,}|…|\[[^\]\n]{0,40}\]")
_LONGEST_EDGE = 32


class Redactor:
    """Replaces the secrets of one provider in texts, also where they are shortened to beginning and end.

    Example:
        >>> redactor = Redactor(["sk-abcdefghijkl"])
        >>> redactor.text("bad key sk-abcdefghijkl"), redactor.text("bad key sk-a***ijkl")
        ('bad key [redacted]', 'bad key [redacted]')
    """

    __slots__ = ("_secrets",)

    def __init__(self, secrets: Iterable[str]) -> None:
        # The longest first, since one may be part of another.
        known = {secret.strip() for secret in secrets}
        self._secrets = sorted((s for s in known if len(s) >= _SHORTEST), key=len, reverse=True)

    def text(self, text: str) -> str:
        """Return `text` without the secrets."""
        for secret in self._secrets:
            text = text.replace(secret, _MARK)
            text = _without_masked(text, secret)
            text = _without_edges(text, secret)
        return text

    def value(self, value: Any) -> Any:
        """Return `value` with its texts cleaned; only texts and tuples of them are looked into."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, tuple):
            return tuple(self.value(item) for item in value)  # pyright: ignore[reportUnknownVariableType]
        return value

    def error(self, error: BaseException) -> None:
        """Clean an error and its causes in place: their arguments and their text attributes."""
        if not self._secrets:
            return
        seen: set[int] = set()
        current: BaseException | None = error
        while current is not None and id(current) not in seen:
            seen.add(id(current))
            current.args = self.value(current.args)
            for name, value in vars(current).items():
                cleaned = self.value(value)
                if cleaned is not value:
                    setattr(current, name, cleaned)
            current = current.__cause__ or current.__context__


def _without_masked(text: str, secret: str) -> str:
    """Remove `secret` where its middle is masked: `sk-ab***yz`, `sk-ab...yz`, `sk-ab...`."""
    pieces: list[str] = []
    end = 0
    for match in _MASK.finditer(text):
        if match.start() < end:
            continue
        before = _common_end(text, end, match.start(), secret)
        after = _common_start(text, match.end(), secret)
        # Both edges, or so much of the beginning that it cannot be chance.
        if (before >= 2 and after >= 2) or before >= 4 or after >= 6:
            pieces += (text[end : match.start() - before], _MARK)
            end = match.end() + after
    if not pieces:
        return text
    pieces.append(text[end:])
    return "".join(pieces)


def _common_end(text: str, start: int, end: int, secret: str) -> int:
    """How many characters of `secret`'s beginning stand directly before `end`."""
    for size in range(min(_LONGEST_EDGE, len(secret), end - start), 0, -1):
        if text.startswith(secret[:size], end - size):
            return size
    return 0


def _common_start(text: str, start: int, secret: str) -> int:
    """How many characters of `secret`'s end stand directly at `start`."""
    for size in range(min(_LONGEST_EDGE, len(secret), len(text) - start), 0, -1):
        if text.startswith(secret[-size:], start):
            return size
    return 0


def _without_edges(text: str, secret: str) -> str:
    """Remove the first and the last eight characters of `secret` with whatever of it is attached to them."""
    head, tail = secret[:_SHORTEST], secret[-_SHORTEST:]
    pieces: list[str] = []
    end = 0
    while (start := text.find(head, end)) >= 0:
        pieces += (text[end:start], _MARK)
        end = start + _SHORTEST
        for character in secret[_SHORTEST:]:
            if not text.startswith(character, end):
                break
            end += 1
    pieces.append(text[end:])
    return "".join(pieces).replace(tail, _MARK)
