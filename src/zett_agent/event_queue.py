"""A queue of agent events with optional acknowledgement by the consumer."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from .exceptions import AgentProtocolError

if TYPE_CHECKING:
    from .events import AgentEvent

__all__ = ["AgentEventQueue"]


class AgentEventQueue:
    """Carries events from producers to one consumer. May be created outside a running loop.

    Example:
        >>> queue = AgentEventQueue()
        >>> await queue.put(AgentEvent("custom", "s1", name="progress"))
        >>> (await queue.get()).name
        'progress'
    """

    def __init__(self) -> None:
        self._events: deque[tuple[AgentEvent, asyncio.Future[None] | None]] = deque()
        self._getters: deque[asyncio.Future[None]] = deque()
        self._acknowledging = False
        self._unacknowledged: asyncio.Future[None] | None = None
        self._handed_over = False
        self._completed = False
        self._closed = False
        self._error: BaseException | None = None

    @property
    def closed(self) -> bool:
        """Whether `close` or `fail` was called."""
        return self._closed

    @property
    def empty(self) -> bool:
        """Whether no event waits to be taken."""
        return not self._events

    def enable_acknowledgements(self) -> None:
        """From now on `put` waits until the consumer acknowledged the event.

        Raises:
            AgentProtocolError: Something is already queued.
        """
        if self._events:
            raise AgentProtocolError("Acknowledgements must be enabled before anything is queued")
        self._acknowledging = True

    async def put(self, event: AgentEvent) -> None:
        """Append an event; with acknowledgements, wait until it was acknowledged.

        Cancelling the wait leaves the event in the queue.

        Raises:
            AgentProtocolError: The queue is closed, or `RUN_COMPLETED` was already put.
        """
        if self._closed or self._completed:
            raise AgentProtocolError(
                f"The event queue is closed; {event.type} of session {event.session_id} came too late"
            )
        self._completed = event.type == "run_completed"
        waiter = asyncio.get_running_loop().create_future() if self._acknowledging else None
        self._events.append((event, waiter))
        self._wake()
        if waiter is not None:
            await waiter

    async def get(self) -> AgentEvent:
        """Return the next event, waiting for one.

        Raises:
            AgentProtocolError: The queue was closed without `RUN_COMPLETED`, or the previous event was
                not acknowledged.
            BaseException: The error that `fail` was called with.
        """
        while True:
            if self._handed_over:
                raise AgentProtocolError("The previous event was not acknowledged; call acknowledge() first")
            if self._events:
                event, self._unacknowledged = self._events.popleft()
                self._handed_over = self._acknowledging
                return event
            if self._error is not None:
                raise self._error
            if self._closed:
                raise AgentProtocolError("The event queue ended without RUN_COMPLETED")
            getter = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except BaseException:
                if getter in self._getters:
                    self._getters.remove(getter)
                elif self._events:
                    # Woken and cancelled at once: what it was woken for is there for the next one.
                    self._wake()
                raise

    def acknowledge(self) -> None:
        """Release the producer of the event taken last. Further calls do nothing."""
        self._handed_over = False
        waiter, self._unacknowledged = self._unacknowledged, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def fail(self, error: BaseException) -> None:
        """End the queue with an error that `get` raises once it is empty. Only the first end counts."""
        if not self._closed:
            self._error = error
            self._end()

    async def close(self) -> None:
        """End the queue. Only the first end counts."""
        if not self._closed:
            self._end()

    def _end(self) -> None:
        self._closed = True
        # Nobody may wait for ever: producers are released, and every getter sees the end.
        for _, waiter in self._events:
            if waiter is not None and not waiter.done():
                waiter.set_result(None)
        if self._unacknowledged is not None and not self._unacknowledged.done():
            self._unacknowledged.set_result(None)
        while self._getters:
            self._wake()

    def _wake(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return
