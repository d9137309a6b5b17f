"""Sending a request again after a failure that may pass."""

from __future__ import annotations

import asyncio
import functools
import logging
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ..model import ModelEvent, ModelRequest, RetryOptions, validate_retry
from ._errors import ProviderConnectionError, ProviderError, ProviderHTTPError, ProviderTimeoutError

if TYPE_CHECKING:
    from .base import RetryingProvider

__all__ = ["is_transient", "retry_delay", "retry_model_stream"]

logger = logging.getLogger("zett_agent.providers")

_StreamMethod = TypeVar("_StreamMethod", bound=Callable[..., AsyncIterator[ModelEvent]])

_TRANSIENT_STATUSES = {408, 409, 429, *range(500, 600)}

TRANSIENT_CODES = frozenset(
    {
        "overloaded_error",
        "api_error",
        "rate_limit_error",
        "timeout_error",
        "server_error",
        "internal_server_error",
        "internal_error",
        "rate_limit_exceeded",
        "service_unavailable",
        "engine_overloaded",
        "overloaded",
        "slow_down",
        "bad_gateway",
        "gateway_timeout",
        "UNAVAILABLE",
        "RESOURCE_EXHAUSTED",
        "INTERNAL",
        "DEADLINE_EXCEEDED",
    }
)
"""Codes, types and states of failures reported inside a stream that may pass."""


def is_transient(error: ProviderError) -> bool:
    """Return whether the request that failed with `error` may succeed when it is sent again."""
    if error._transient is not None:
        return error._transient
    match error:
        case ProviderHTTPError():
            return error.status_code in _TRANSIENT_STATUSES
        case ProviderTimeoutError():
            # In the other phases the first request may still be running, and be billed.
            return error.phase == "connect"
        case _:
            return isinstance(error, ProviderConnectionError)


def retry_delay(retry: RetryOptions, attempt: int, error: ProviderError) -> float | None:
    """Return the seconds to wait after failure number `attempt` (from 1), or `None` to give up."""
    if attempt > retry.max_retries or not is_transient(error):
        return None
    delay = retry.delay(attempt)
    if retry.jitter:
        delay = min(delay * random.uniform(1 - retry.jitter, 1 + retry.jitter), retry.max_delay)
    if error.retry_after is None:
        return delay
    return None if error.retry_after > retry.max_retry_after else max(delay, error.retry_after)


def retry_model_stream(method: _StreamMethod) -> _StreamMethod:
    """Give a provider's own `stream` method, an async generator, the retry policy of `self.retry`.

    The method makes one attempt. As long as it has yielded nothing, a transient `ProviderError` makes it run
    again after the wait that `RetryOptions` and the service ask for; the last failure is raised. What it
    raises after its first event is passed on, like everything that is no `ProviderError`.

    Example:
        >>> class Acme(RetryingProvider):
        ...     @retry_model_stream
        ...     async def stream(self, request):
        ...         async with self.client.post("/chat", body, timeout=self.timeout) as response:
        ...             ...  # doctest: +SKIP
    """

    @functools.wraps(method)
    def stream(self: RetryingProvider, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        return _RetriedStream(self, method, request)

    return cast(_StreamMethod, stream)


class _RetriedStream(AsyncGenerator[ModelEvent, None]):
    """A stream that may begin several times. From its first event on it is the attempt's own stream.

    A generator around the attempt would be resumed for every event; this hands out the attempt's own
    awaitables instead, which costs a method call.
    """

    __slots__ = ("__weakref__", "_attempt", "_closed", "_emitted", "_method", "_provider", "_request")

    def __init__(self, provider: Any, method: Callable[[Any, Any], Any], request: ModelRequest) -> None:
        self._provider = provider
        self._method = method
        self._request = request
        self._attempt: Any = None  # the method's own generator
        self._emitted = False
        self._closed = False

    def __anext__(self) -> Any:
        if self._emitted:
            return self._attempt.__anext__()
        return self._first()

    async def _first(self) -> ModelEvent:
        if self._closed:
            raise StopAsyncIteration
        name = type(self._provider).__name__
        retry = validate_retry(self._provider.retry)
        failures = 0
        while True:
            self._attempt = self._method(self._provider, self._request)
            try:
                event = await self._attempt.__anext__()
            except ProviderError as error:
                failures += 1
                delay = retry_delay(retry, failures, error)
                if delay is None:
                    self._closed = True
                    raise
                # The status and the kind of failure only: the text may quote the conversation.
                logger.info("%s: %s; retry %d in %.2f s", name, _kind(error), failures, delay)
            except BaseException:
                self._closed = True
                raise
            else:
                self._emitted = True
                return event
            if delay:
                await asyncio.sleep(delay)
                if self._closed:
                    raise StopAsyncIteration

    async def asend(self, value: None) -> ModelEvent:
        """Return the next event, like `__anext__`."""
        return await self.__anext__()

    async def athrow(self, typ: Any, val: Any = None, tb: Any = None) -> ModelEvent:
        """Raise an exception inside the stream."""
        self._closed = True
        if self._attempt is None:
            self._attempt = self._method(self._provider, self._request)
        self._emitted = True
        if val is None and tb is None:
            return await self._attempt.athrow(typ)
        return await self._attempt.athrow(typ, val, tb)

    async def aclose(self) -> None:
        """End the stream and release its connection."""
        self._closed = True
        if self._attempt is not None and hasattr(self._attempt, "aclose"):
            await self._attempt.aclose()


def _kind(error: ProviderError) -> str:
    status = getattr(error, "status_code", None)
    return f"HTTP {status}" if status is not None else type(error).__name__
