"""The bridge for synchronous programs. It knows nothing about agents."""

from __future__ import annotations

from typing import Any

__all__ = ["SyncMethodsMixin"]


class SyncMethodsMixin:
    """Gives objects of a class the method `sync`."""

    __slots__ = ()

    def sync(self, *, runtime: Any = None) -> Any:
        """Return a blocking view of this object.

        Raises:
            NotImplementedError: Always, in this version: the blocking views are not part of it yet.
        """
        raise NotImplementedError(
            f"{type(self).__name__}.sync() is not available in this version; run asynchronous code with "
            "asyncio.run(...) instead"
        )
