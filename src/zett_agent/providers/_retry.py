"""Sending a request again after a failure that may pass."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, TypeVar

from ..model import ModelEvent, ModelRequest, validate_retry
from ._errors import ProviderConnectionError, ProviderError, ProviderHTTPError, ProviderTimeoutError

if TYPE_CHECKING:
    from .base import RetryingProvider

__all__ = ["is_transient", "retry_model_stream"]

_Provider = TypeVar("_Provider", bound="RetryingProvider")


def is_transient(error: ProviderError) -> bool:
    """Return whether the request that failed with `error` may succeed when it is sent again."""
    if error._transient is not None:
        return error._transient
    if isinstance(error, ProviderHTTPError):
        return error.status_code in (408, 409, 429) or 500 <= error.status_code <= 599
    if isinstance(error, ProviderTimeoutError):
        return error.phase == "connect"
    return isinstance(error, ProviderConnectionError)


def retry_model_stream(
    method: Callable[[_Provider, ModelRequest], AsyncIterator[ModelEvent]],
) -> Callable[[_Provider, ModelRequest], AsyncIterator[ModelEvent]]:
    """Give a provider's own `stream` method the retry policy of `self.retry`."""

    @functools.wraps(method)
    async def stream(self: _Provider, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        retry = validate_retry(self.retry)
        attempt = 0
        while True:
            emitted = False
            try:
                async for event in method(self, request):
                    emitted = True
                    yield event
                return
            except ProviderError as error:
                attempt += 1
                if emitted or attempt > retry.max_retries or not is_transient(error):
                    raise
            await asyncio.sleep(retry.delay(attempt))

    return stream
