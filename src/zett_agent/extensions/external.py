"""Events from outside, and the base class of extensions that wait for one: questions and approvals."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import AsyncGenerator, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, TypeGuard, cast
from weakref import WeakKeyDictionary

from ..events import AgentPhase
from ..exceptions import AgentError
from ..messages import ToolMessage
from ..tools._running import current_tool_call_id, running_context
from .base import AgentExtension, receives, watch_emissions
from .events import ExtensionEvent, MessageAppendedEvent, PhaseTransitionEvent, RunCancelledEvent

if TYPE_CHECKING:
    from ..agent import AgentRunConfig, AgentRunContext
    from ..events import AgentEvent

__all__ = ["ExternalEvent", "ExternalEventExtension", "ExternalEventTimeout", "PendingExternalRequest"]


@dataclass(frozen=True, slots=True)
class ExternalEvent:
    """Something that happened outside: a person answered, a job ended.

    Send it with `Agent.emit_external_event`. Which session it is for is said there, by the configuration,
    and never read from the payload.

    Attributes:
        name: What kind of event it is.
        payload: Its data, passed on untouched.

    Raises:
        ValueError: `name` is blank or not a string.
        TypeError: `payload` is not a dictionary with string keys.

    Example:
        >>> agent.emit_external_event(ExternalEvent("steering_message", {"content": "Use Rust instead"}))
        ['SteeringExtension']
    """

    name: str
    payload: dict[str, Any]

    def __post_init__(self) -> None:
        if not _is_text(self.name):
            raise ValueError(f"ExternalEvent name cannot be empty, got {self.name!r}")
        payload = cast(object, self.payload)
        if not isinstance(payload, dict) or not all(isinstance(key, str) for key in cast("Any", payload)):
            raise TypeError("ExternalEvent payload must be a dictionary with string keys")


class ExternalEventTimeout(AgentError, TimeoutError):
    """Nobody answered in time. Raised in the tool that waited, so that only its call fails.

    Attributes:
        correlation_id: What was waited for.
        seconds: How long.
    """

    def __init__(self, correlation_id: str, seconds: float) -> None:
        super().__init__(f"No external response to {correlation_id!r} arrived within {seconds:g} seconds")
        self.correlation_id = correlation_id
        self.seconds = seconds


@dataclass(frozen=True, slots=True)
class PendingExternalRequest:
    """A wait that nobody has answered yet, so that a user interface can show the question again.

    Attributes:
        session_id: The session that waits.
        request_id: The request that waits.
        correlation_id: What the response has to name.
        response_event_names: The events that would be taken as the response.
        event: The `CUSTOM` event by which the question was asked, once it was.
        created_at: When the wait began, in UTC.
    """

    session_id: str
    request_id: str | None
    correlation_id: str
    response_event_names: frozenset[str]
    event: AgentEvent | None
    created_at: datetime


@dataclass(slots=True, eq=False)
class _Wait:
    """One wait. `done` belongs to the waiting task's loop; the lock of the extension guards the rest."""

    session_id: str
    request_id: str | None
    correlation_id: str
    names: frozenset[str]
    done: asyncio.Future[None]
    created_at: datetime = field(default_factory=lambda: datetime.now(timezone.utc))
    question: AgentEvent | None = None
    response: ExternalEvent | None = None
    failure: Exception | None = None

    @property
    def key(self) -> tuple[str, str]:
        return self.session_id, self.correlation_id

    @property
    def dead(self) -> bool:
        return self.done.get_loop().is_closed()

    def wake(self, *, cancel: bool = False) -> bool:
        """Let the waiting task go on, from any thread; return whether it still can."""
        try:
            self.done.get_loop().call_soon_threadsafe(_finish, self.done, cancel)
        except RuntimeError:  # the loop is closed
            return False
        return True


def _finish(done: asyncio.Future[None], cancel: bool) -> None:
    if done.done():
        return
    if cancel:
        done.cancel()
    else:
        done.set_result(None)


@dataclass(slots=True, eq=False)
class _Request:
    """What one request has in this extension: its waits, and by tool call what they ended with."""

    waits: set[_Wait] = field(default_factory=set[_Wait])
    staged: dict[str, ExternalEvent | ExternalEventTimeout] = field(
        default_factory=dict[str, "ExternalEvent | ExternalEventTimeout"]
    )


class ExternalEventExtension(AgentExtension):
    """Base class of extensions whose tools wait for a decision from outside.

    A subclass asks and waits in `before_tool`, under the id of the call, and takes the response inside the
    tool:

    Args:
        response_event_name: The name, or names, of events that can be a response.
        correlation_field: The payload's key that says which wait a response is for.
        response_timeout: Seconds that a wait lasts by default; `None` for ever.

    Raises:
        ValueError: A name or the field is blank, or the timeout is not a positive number.

    Example:
        >>> class Confirm(ExternalEventExtension):
        ...     def __init__(self):
        ...         super().__init__(response_event_name="confirmed", correlation_field="call_id")
        ...
        ...     async def before_tool(self, context, call):
        ...         if call.name == "deploy":
        ...             question = {"call_id": call.id, "target": call.arguments["target"]}
        ...             async with self._wait_for_external_event(context, call.id):
        ...                 await context.emit(
        ...                     AgentEvent("custom", context.session_id, name="confirm", payload=question)
        ...                 )
        ...
        ...     async def on_tool_call(self, context, call, call_next):
        ...         if call.name == "deploy" and not self._take_external_event(context).payload["yes"]:
        ...             raise PermissionError("The user declined")
        ...         return await call_next()
    """

    def __init__(
        self,
        *,
        response_event_name: str | Collection[str],
        correlation_field: str,
        response_timeout: float | None = None,
    ) -> None:
        self._response_event_names = _names(response_event_name)
        if not _is_text(correlation_field):
            raise ValueError("correlation_field cannot be empty")
        self._correlation_field = correlation_field
        self._response_timeout = _seconds("response_timeout", response_timeout)
        # Reentrant, because a signal handler may deliver an event while its own thread is in here.
        self._external_lock = threading.RLock()
        # Every open wait by session and correlation id, in the order in which they began.
        self._external_waits: dict[tuple[str, str], _Wait] = {}
        self._external_requests: WeakKeyDictionary[AgentRunContext, _Request] = WeakKeyDictionary()

    def pending_requests(self, session_id: str | None = None) -> tuple[PendingExternalRequest, ...]:
        """Return the waits nobody has answered yet, of all sessions or of one, oldest first. Thread-safe."""
        with self._external_lock:
            return tuple(
                PendingExternalRequest(
                    wait.session_id,
                    wait.request_id,
                    wait.correlation_id,
                    wait.names,
                    wait.question,
                    wait.created_at,
                )
                for wait in self._external_waits.values()
                if wait.response is None and session_id in (None, wait.session_id) and not wait.dead
            )

    def _wait_for_external_event(
        self,
        context: AgentRunContext,
        correlation_id: str,
        *,
        response_event_name: str | None = None,
        timeout: float | None = None,
    ) -> AbstractAsyncContextManager[None]:
        """Register a wait, run the body of the `async with`, then wait for the response and stage it.

        The body asks the question. The wait exists before it, so even an answer given while the question is
        being delivered is taken. A body that raises ends the wait. The time limit counts from the end of
        the body; when it is over the wait ends normally, and `_take_external_event` raises.

        Args:
            context: The request that waits.
            correlation_id: What the response has to name: in `before_tool`, the id of the call.
            response_event_name: The only name that is a response to this wait.
            timeout: Seconds to wait; the extension's default when left out. `math.inf` for no limit.

        Raises:
            ValueError: `correlation_id` is blank, `response_event_name` is none of the extension's, or
                `timeout` is not a positive number.
            RuntimeError: The session already waits under that id.
        """
        names = self._response_event_names
        if not _is_text(correlation_id):
            raise ValueError("correlation_id cannot be empty")
        if response_event_name is not None:
            if response_event_name not in names:
                raise ValueError(
                    f"Unsupported response event name {response_event_name!r}; this extension takes "
                    f"{', '.join(sorted(names))}"
                )
            names = frozenset({response_event_name})
        seconds = _seconds("timeout", timeout) if timeout is not None else self._response_timeout
        return self._waiting(context, correlation_id, names, seconds)

    @asynccontextmanager
    async def _waiting(
        self, context: AgentRunContext, correlation_id: str, names: frozenset[str], seconds: float | None
    ) -> AsyncGenerator[None, None]:
        done = asyncio.get_running_loop().create_future()
        wait = _Wait(context.session_id, context.config.request_id, correlation_id, names, done)
        # Inside a tool the response is for the call that runs; before it, for the call named by the id.
        running = current_tool_call_id() if running_context() is context else None
        call_id = running or correlation_id
        self._begin(context, wait, call_id)
        try:
            with watch_emissions(lambda source, event: self._note_question(source, event, context, wait)):
                yield
            await self._until_done(wait, seconds)
            self._stage(context, wait, call_id, seconds)
        finally:
            self._end(context, wait)

    def _begin(self, context: AgentRunContext, wait: _Wait, call_id: str) -> None:
        with self._external_lock:
            earlier = self._external_waits.get(wait.key)
            if earlier is not None and not earlier.dead:
                raise RuntimeError(
                    f"A wait for {wait.correlation_id!r} is already pending in session {wait.session_id!r}"
                )
            request = self._external_requests.get(context)
            if request is None:
                request = self._external_requests[context] = _Request()
            self._external_waits[wait.key] = wait
            request.waits.add(wait)
            # A response left over from an earlier call of this id must not answer this one.
            request.staged.pop(call_id, None)

    def _note_question(
        self, source: AgentRunContext, event: AgentEvent, context: AgentRunContext, wait: _Wait
    ) -> None:
        if source is context and wait.question is None and event.type == "custom":
            with self._external_lock:
                wait.question = event

    async def _until_done(self, wait: _Wait, seconds: float | None) -> None:
        timer = None
        if seconds is not None:
            timer = wait.done.get_loop().call_later(seconds, _finish, wait.done, False)
        try:
            await wait.done
        finally:
            if timer is not None:
                timer.cancel()

    def _stage(self, context: AgentRunContext, wait: _Wait, call_id: str, seconds: float | None) -> None:
        """Decide, once and for all, how a wait ended."""
        with self._external_lock:
            if wait.failure is not None:
                raise wait.failure
            self._forget(wait)  # from here on, no response is accepted
            request = self._external_requests.get(context)
            if request is None:
                return  # the request ended; its calls are over
            if wait.response is not None:
                request.staged[call_id] = wait.response
            else:
                request.staged[call_id] = ExternalEventTimeout(wait.correlation_id, cast(float, seconds))

    def _end(self, context: AgentRunContext, wait: _Wait) -> None:
        with self._external_lock:
            self._forget(wait)
            request = self._external_requests.get(context)
            if request is not None:
                request.waits.discard(wait)
                if not request.waits and not request.staged:
                    del self._external_requests[context]

    def _forget(self, wait: _Wait) -> None:
        if self._external_waits.get(wait.key) is wait:
            del self._external_waits[wait.key]

    def _take_external_event(self, context: AgentRunContext) -> ExternalEvent:
        """Return the response to the tool call that is running, once.

        Raises:
            ExternalEventTimeout: Nobody answered in time.
            RuntimeError: There is no response for this call, or it was taken, or no tool call is running.
        """
        call_id = current_tool_call_id()
        outcome = None if call_id is None else self._unstage(context, call_id)
        if outcome is None:
            raise RuntimeError(
                f"Tool call {call_id!r} runs without an accepted external response: wait for one with "
                "_wait_for_external_event() first, and take it once"
            )
        if isinstance(outcome, ExternalEventTimeout):
            raise outcome
        return outcome

    def _unstage(self, context: AgentRunContext, call_id: str) -> ExternalEvent | ExternalEventTimeout | None:
        with self._external_lock:
            request = self._external_requests.get(context)
            if request is None:
                return None
            outcome = request.staged.pop(call_id, None)
            if not request.waits and not request.staged:
                del self._external_requests[context]
            return outcome

    def accept(self, config: AgentRunConfig | None, event: ExternalEvent) -> bool:
        """Take an event that is the response to an open wait. Any thread; at most one taker per wait."""
        if event.name not in self._response_event_names or config is None:
            return False
        correlation_id = event.payload.get(self._correlation_field)
        session_id = config.session_id
        if not _is_text(correlation_id) or not _is_text(session_id):
            return False
        with self._external_lock:
            wait = self._external_waits.get((session_id, correlation_id))
            if (
                wait is None
                or wait.response is not None
                or event.name not in wait.names
                or config.request_id not in (None, wait.request_id)
            ):
                return False
            if not wait.wake():
                self._forget(wait)
                return False
            wait.response = event
            return True

    @receives(PhaseTransitionEvent, RunCancelledEvent, MessageAppendedEvent)
    async def on_event(self, context: AgentRunContext, event: ExtensionEvent) -> None:
        """Clean up when a call or a request ends. A subclass that overrides it must call it."""
        match event:
            case RunCancelledEvent() | PhaseTransitionEvent(current_phase=AgentPhase.COMPLETED):
                self._end_request(context, None)
            case MessageAppendedEvent(message=ToolMessage(tool_call_id=call_id)):
                self._unstage(context, call_id)  # the call is over; nobody took its response
            case _:
                pass

    async def on_error(self, context: AgentRunContext, error: Exception) -> None:
        """End the waits of a failed request with its error. A subclass that overrides it must call it."""
        self._end_request(context, error)

    def _end_request(self, context: AgentRunContext, error: Exception | None) -> None:
        with self._external_lock:
            request = self._external_requests.pop(context, None)
            if request is None:
                return
            for wait in request.waits:
                self._forget(wait)
                wait.failure = error
                wait.wake(cancel=error is None)


def _is_text(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and bool(value.strip())


def _names(value: object) -> frozenset[str]:
    names = (value,) if isinstance(value, str) else value
    if not isinstance(names, Collection) or not names or not all(map(_is_text, cast("Any", names))):
        raise ValueError("response_event_name cannot be empty; give one non-blank name or several")
    return frozenset(cast("Collection[str]", names))


def _seconds(name: str, value: float | None) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(f"{name} must be a number of seconds above 0, got {value!r}")
    return None if value == math.inf else value
