"""The bridge for synchronous programs. It knows nothing about agents."""

from __future__ import annotations

__all__ = ["SyncMethodsMixin"]


class SyncMethodsMixin:
    """Marks a class whose objects offer a blocking view."""

    __slots__ = ()
