"""How events go from the task of a request to its consumer.

Every event parks its producer until the consumer asks for the next one. Deltas are the exception: they may
run ahead by `RUN_AHEAD`, because handing tokens over one by one costs two task switches each. Before the
request does anything else, it waits in `drain` until the consumer has caught up.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextvars import ContextVar
from typing import TYPE_CHECKING

from ..event_queue import AgentEventQueue
from ..exceptions import AgentProtocolError

if TYPE_CHECKING:
    from ..events import AgentEvent

__all__ = ["RUN_AHEAD", "EventChannel", "WaitMeter", "metered_waits"]

RUN_AHEAD = 64


class WaitMeter:
    """Adds up how long one tool call, with all tasks it starts, waited for the consumer."""

    __slots__ = ("waited_ns",)

    def __init__(self) -> None:
        self.waited_ns = 0


metered_waits: ContextVar[WaitMeter | None] = ContextVar("zett_agent_metered_waits", default=None)


class EventChannel(AgentEventQueue):
    """The event queue of a running request.

    Without a consumer (`consumed=False`) events are dropped and producers never wait.

    Attributes:
        consumed: Whether somebody takes the events.
        waited_ns: How long producers have waited for the consumer, in nanoseconds.
    """

    def __init__(self, *, consumed: bool) -> None:
        super().__init__()
        self.consumed = consumed
        self.waited_ns = 0
        self._pending: deque[tuple[AgentEvent, asyncio.Future[None] | None]] = deque()
        # The producer of the event that the consumer is handling, if that producer waits.
        self._held: asyncio.Future[None] | None = None
        # Whether the consumer has asked for an event and got none yet.
        self._asking = False
        self._wake_consumer: asyncio.Future[None] | None = None
        self._drained: asyncio.Future[None] | None = None

    # What producers use.

    async def put(self, event: AgentEvent) -> None:
        """Hand over an event and wait until the consumer asks for the next one.

        Raises:
            AgentProtocolError: The request has ended.
        """
        if self._closed:
            raise AgentProtocolError(
                f"The request of session {event.session_id} has ended; {event.type} came too late (closed)"
            )
        if not self.consumed:
            return
        taken = asyncio.get_running_loop().create_future()
        self._pending.append((event, taken))
        self._wake()
        await self._wait_for_consumer(taken)

    def push(self, event: AgentEvent) -> bool:
        """Hand over a delta without waiting; return whether the limit is reached and `drain` is due."""
        self._pending.append((event, None))
        self._wake()
        return len(self._pending) >= RUN_AHEAD

    async def drain(self) -> None:
        """Wait until the consumer has taken everything and asked for more."""
        if not self.consumed or self._closed or (self._asking and not self._pending):
            return
        self._drained = asyncio.get_running_loop().create_future()
        await self._wait_for_consumer(self._drained)

    async def _wait_for_consumer(self, waiter: asyncio.Future[None]) -> None:
        started = time.monotonic_ns()
        try:
            await waiter
        finally:
            waited = time.monotonic_ns() - started
            self.waited_ns += waited
            meter = metered_waits.get()
            if meter is not None:
                meter.waited_ns += waited

    def _wake(self) -> None:
        waiter = self._wake_consumer
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    # What the consumer uses.

    def take(self) -> AgentEvent | None:
        """Release the producer of the previous event and return the next one, or `None` to `wait`."""
        held, self._held = self._held, None
        if held is not None and not held.done():
            held.set_result(None)
        if self._pending:
            self._asking = False
            event, self._held = self._pending.popleft()
            return event
        self._asking = True
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        return None

    async def wait(self) -> bool:
        """Wait for an event to take; return `False` once the request has ended."""
        while not self._pending:
            if self._closed:
                return False
            self._wake_consumer = asyncio.get_running_loop().create_future()
            try:
                await self._wake_consumer
            finally:
                self._wake_consumer = None
        return True

    async def get(self) -> AgentEvent:
        """Return the next event.

        Raises:
            AgentProtocolError: The request has ended.
        """
        while (event := self.take()) is None:
            if not await self.wait():
                raise AgentProtocolError("The request has ended; no event follows")
        return event

    @property
    def empty(self) -> bool:
        """Whether no event waits to be taken."""
        return not self._pending

    def abandon(self) -> None:
        """The consumer is gone: drop what is pending, and let producers go on without it."""
        self.consumed = False
        self._release_waiters()

    def end(self) -> None:
        """Drop what is pending, release every producer and let the consumer see the end."""
        self._closed = True
        self._release_waiters()

    def _release_waiters(self) -> None:
        waiters = [waiter for _, waiter in self._pending]
        self._pending.clear()
        for waiter in (*waiters, self._held, self._drained, self._wake_consumer):
            # The loop may be gone already when a forgotten request is collected.
            if waiter is not None and not waiter.done() and not waiter.get_loop().is_closed():
                waiter.set_result(None)

    async def close(self) -> None:
        """See `end`."""
        self.end()
