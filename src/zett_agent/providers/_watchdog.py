"""Time limits around awaits, with one timer for all reads of a response.

`asyncio.timeout` and its relatives schedule a timer for every await, which for a streamed token costs more
than reading it. Here the timer is armed once and moved when it rings early.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

__all__ = ["Watchdog"]


class Watchdog:
    """Interrupts the running task when an await takes too long.

    ```
    watchdog.start(seconds)
    try:
        data = await read()
    except BaseException:
        if watchdog.stop():
            raise ... from None    # the limit ran out
        raise                      # the read's own failure, or a real cancellation
    else:
        watchdog.stop()
    ```

    The task is interrupted by cancelling it. When somebody else cancels it too, before or after, that wins:
    `stop` then answers `False`.
    """

    __slots__ = ("_deadline", "_handle", "_loop", "_rang", "_requests", "_task")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[Any] | None = None  # whom to interrupt; None while nothing is awaited
        self._deadline = 0.0
        self._handle: asyncio.TimerHandle | None = None
        self._rang = False
        self._requests = 0

    def start(self, seconds: float | None) -> None:
        """Begin a limit for the running task, in place of the one before; `None` sets none."""
        if seconds is None:
            self._task = None
            return
        task = asyncio.current_task(self._loop)
        assert task is not None
        self._task = task
        self._requests = _cancel_requests(task)
        self._deadline = deadline = self._loop.time() + seconds
        handle = self._handle
        if handle is None:
            self._handle = self._loop.call_at(deadline, self._ring)
        elif handle.when() > deadline:
            handle.cancel()
            self._handle = self._loop.call_at(deadline, self._ring)

    def stop(self) -> bool:
        """End the limit; return whether it ran out and nobody else cancelled the task."""
        task, self._task = self._task, None
        if not self._rang:
            return False
        self._rang = False
        assert task is not None
        return _withdraw(task, self._requests)

    def close(self) -> None:
        """Release the timer."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _ring(self) -> None:
        self._handle = None
        task = self._task
        if task is None or self._rang:
            return  # nothing is awaited; the next start sets the timer again
        if self._loop.time() < self._deadline:
            self._handle = self._loop.call_at(self._deadline, self._ring)
        elif _interrupt(task, self._requests):
            self._rang = True


if sys.version_info >= (3, 11):

    def _cancel_requests(task: asyncio.Task[Any]) -> int:
        return task.cancelling()

    def _interrupt(task: asyncio.Task[Any], requests: int) -> bool:
        if task.cancelling() > requests:
            return False  # somebody else's cancellation is on its way
        task.cancel()
        return True

    def _withdraw(task: asyncio.Task[Any], requests: int) -> bool:
        return task.uncancel() <= requests

else:
    # Python 3.10 does not count cancellations, and two of them reach the task as one. The message that a
    # task keeps for its pending cancellation is overwritten by a second one, which tells them apart.

    _OURS = "the time limit of a provider request"

    def _cancel_requests(task: asyncio.Task[Any]) -> int:
        return 0

    def _interrupt(task: Any, requests: int) -> bool:
        if _being_cancelled(task):
            return False
        task._cancel_message = _OURS
        task.cancel(msg=_OURS)
        return True

    def _withdraw(task: Any, requests: int) -> bool:
        ours = task._cancel_message is _OURS
        task._cancel_message = None
        return ours

    def _being_cancelled(waiter: Any) -> bool:
        # A task passes a cancellation on to what it waits for, which may be a task or a gathering again.
        while waiter is not None:
            if waiter.cancelled() or getattr(waiter, "_must_cancel", False):
                return True
            if getattr(waiter, "_cancel_requested", False):
                return True
            waiter = getattr(waiter, "_fut_waiter", None)
        return False
