"""Telling an orderly end from a coroutine that is thrown away together with its event loop."""

from __future__ import annotations

import asyncio

__all__ = ["loop_is_gone"]


def loop_is_gone(loop: asyncio.AbstractEventLoop) -> bool:
    """Return whether `loop` does not run this code, so that nothing can be awaited any more.

    That is so when a pending request is forgotten, its loop closed, and Python collects what is left.
    """
    try:
        return asyncio.get_running_loop() is not loop
    except RuntimeError:
        return True
