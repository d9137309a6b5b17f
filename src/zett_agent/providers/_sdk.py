"""Reading the stream of a vendor's SDK client with our time limits and checks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ..model import TimeoutOptions
from ._errors import timeout_error
from ._status import empty_stream, is_not_a_stream, not_a_stream
from ._watchdog import Watchdog

if TYPE_CHECKING:
    import httpx

__all__ = ["SDKStream", "empty_stream_message", "guard_idle", "httpx_timeout", "require_event_stream"]

_Item = TypeVar("_Item")
_ItemCo = TypeVar("_ItemCo", covariant=True)


class SDKStream(Protocol[_ItemCo]):
    """The stream object that vendors' SDKs return.

    Attributes:
        response: The HTTP answer that is being read.
    """

    @property
    def response(self) -> httpx.Response:
        """The HTTP answer that is being read."""
        ...

    def __aiter__(self) -> AsyncIterator[_ItemCo]: ...

    async def close(self) -> None:
        """Release the connection."""
        ...


def httpx_timeout(options: TimeoutOptions) -> httpx.Timeout:
    """Return the limits as the HTTP client knows them; `idle` is not among them, see `guard_idle`."""
    import httpx

    return httpx.Timeout(connect=options.connect, pool=options.connect, write=options.first_byte, read=None)


async def guard_idle(
    stream: AsyncIterator[_Item], options: TimeoutOptions, *, first: float | None = None
) -> AsyncIterator[_Item]:
    """Yield the items of `stream` as long as they come in time.

    Args:
        stream: Any asynchronous iterator; it is not closed here.
        options: `idle` limits the wait for each item.
        first: Another limit for the first item, reported as `first_byte`.

    Raises:
        ProviderTimeoutError: An item did not come in time.
    """
    watchdog = Watchdog()
    phase, limit = ("first_byte", first) if first is not None else ("idle", options.idle)
    try:
        while True:
            watchdog.start(limit)
            try:
                item = await stream.__anext__()
            except StopAsyncIteration:
                watchdog.stop()
                return
            except BaseException:
                if watchdog.stop():
                    raise timeout_error(phase, limit) from None
                raise
            watchdog.stop()
            yield item
            phase, limit = "idle", options.idle
    finally:
        watchdog.close()


async def require_event_stream(stream: SDKStream[Any], provider: str) -> None:
    """Raise `ProviderHTTPError` if a successful answer is a web page or a single JSON document."""
    response = stream.response
    content_type = response.headers.get("content-type")
    if not is_not_a_stream(content_type):
        return
    parts: list[bytes] = []
    size = 0
    try:
        async for data in response.aiter_bytes():
            parts.append(data)
            size += len(data)
            if size >= 64 * 1024:
                break
    finally:
        await response.aclose()
    text = b"".join(parts)[: 64 * 1024].decode("utf-8", "replace")
    raise not_a_stream(provider, response.status_code, content_type, text)


def empty_stream_message(provider: str, stream: SDKStream[Any]) -> str:
    """Say that a stream ended without any event, and what kind of answer it was."""
    response = stream.response
    return str(empty_stream(provider, response.status_code, response.headers.get("content-type")))
