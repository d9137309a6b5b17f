"""The HTTP clients of one provider: one for each event loop, made when it is needed."""

from __future__ import annotations

import asyncio
import gc
import os
import ssl
import warnings
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, cast

import httpx

from ._errors import ProviderConnectionError, ProviderError, mark_transient
from ._proxies import Proxy, UnusableProxy, find_proxy
from ._tls import TlsTrust, trusting_nobody

__all__ = ["Connections"]

_KEPT_IDLE = 20
_IDLE_SECONDS = 30.0
# A pool looks at all its connections for each request; with a thousand streams that is most of their cost.
_STREAMS_PER_POOL = 50


def _http_client(transport: httpx.AsyncBaseTransport) -> httpx.AsyncClient:
    hooks = {"request": [], "response": [_forget_location]}
    return httpx.AsyncClient(transport=transport, trust_env=False, event_hooks=hooks)


async def _forget_location(response: httpx.Response) -> None:
    # Redirects are not followed, but the client would still prepare one and fail where it is malformed.
    response.headers.pop("location", None)


class _Pool:
    """A pool without a limit, and how many streams use it now."""

    def __init__(self, kept_idle: int, options: dict[str, Any]) -> None:
        # Waiting for a place would look like a slow connection, so there is always one.
        limits = httpx.Limits(
            max_connections=None, max_keepalive_connections=kept_idle, keepalive_expiry=_IDLE_SECONDS
        )
        self.transport = httpx.AsyncHTTPTransport(limits=limits, **options)
        self.streams = 0


class _Pools(httpx.AsyncBaseTransport):
    """Any number of connections, of which the first pool keeps idle ones."""

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._pools = [_Pool(_KEPT_IDLE, options)]

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request over the first pool that is not full."""
        pool = next((pool for pool in self._pools if pool.streams < _STREAMS_PER_POOL), None)
        if pool is None:
            pool = _Pool(0, self._options)
            self._pools.append(pool)
        pool.streams += 1
        try:
            response = await pool.transport.handle_async_request(request)
        except BaseException:
            pool.streams -= 1
            raise
        response.stream = _PooledStream(cast("httpx.AsyncByteStream", response.stream), pool)
        return response

    async def aclose(self) -> None:
        """Close all connections."""
        for pool in self._pools:
            await pool.transport.aclose()


class _PooledStream(httpx.AsyncByteStream):
    """A body that frees its place in the pool when it is closed."""

    def __init__(self, stream: httpx.AsyncByteStream, pool: _Pool) -> None:
        self._stream = stream
        self._pool: _Pool | None = pool

    def __aiter__(self) -> AsyncIterator[bytes]:
        return aiter(self._stream)

    async def aclose(self) -> None:
        """Close the body; once is enough."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.streams -= 1
            await self._stream.aclose()


class _PerLoop:
    """A client and what closes it when its loop ends."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client
        self._anchor = self._until_shutdown()

    async def begin(self) -> None:
        await self._anchor.__anext__()

    async def _until_shutdown(self) -> AsyncGenerator[None, None]:
        # `asyncio.run` closes the asynchronous generators that are still open before it closes the loop. This
        # one is never run to its end, so it tells us in time to close the connections.
        try:
            yield
        finally:
            await self.client.aclose()


class Connections:
    """Gives each event loop its own client, since connections cannot move between loops.

    Proxies and trusted certificates are read from the environment when the object is made; they do not apply
    to a transport that was passed in.
    """

    def __init__(self, provider: str, url: httpx.URL, transport: httpx.AsyncBaseTransport | None) -> None:
        self._provider = provider
        self._url = url
        self._proxy: Proxy | UnusableProxy | None = None
        self._trust: TlsTrust | None = None
        self._loops: dict[asyncio.AbstractEventLoop, _PerLoop] = {}
        self._given = _http_client(transport) if transport is not None else None
        if transport is None:
            port = url.port or (443 if url.scheme == "https" else 80)
            self._proxy = find_proxy(url.scheme, url.host, port, os.environ)
            self._trust = TlsTrust.read(os.environ)
        self.closed = False

    @property
    def own(self) -> bool:
        """Whether the network is reached by clients made here, not by a transport that was passed in."""
        return self._given is None

    async def client(self) -> httpx.AsyncClient:
        """Return the client of the running loop.

        Raises:
            ProviderError: Everything was closed.
            ProviderConnectionError: The environment names a proxy that cannot be used, or certificates that
                cannot be read.
        """
        self._require_open()
        if self._given is not None:
            return self._given
        loop = asyncio.get_running_loop()
        current = self._loops.get(loop)
        if current is not None and not current.client.is_closed:
            return current.client
        self._discard_dead()
        # Reading the certificates takes a while, in which another request may do the same.
        context = await self._context()
        self._require_open()
        current = self._loops.get(loop)
        if current is None or current.client.is_closed:
            current = self._loops[loop] = _PerLoop(self._build(context))
            await current.begin()
        return current.client

    def _build(self, context: ssl.SSLContext) -> httpx.AsyncClient:
        via = None
        if isinstance(self._proxy, Proxy):
            encrypted = self._proxy.scheme == "https"
            via = httpx.Proxy(
                self._proxy.url,
                auth=self._proxy.credentials,
                ssl_context=context if encrypted else None,
            )
        return _http_client(_Pools(verify=context, trust_env=False, proxy=via))

    async def _context(self) -> ssl.SSLContext:
        proxy = self._proxy
        if isinstance(proxy, UnusableProxy):
            error = ProviderConnectionError(
                f"{self._provider}: {self._url.host} cannot be reached: {proxy.reason}."
            )
            raise mark_transient(error, transient=False)
        if self._trust is None or (
            self._url.scheme != "https" and (proxy is None or proxy.scheme != "https")
        ):
            return trusting_nobody()
        try:
            return await asyncio.to_thread(self._trust.context)
        except OSError as cause:  # ssl.SSLError is one
            error = ProviderConnectionError(
                f"{self._provider}: the trusted certificates cannot be read: {cause}"
            )
            raise mark_transient(error, transient=False) from cause

    def closed_error(self) -> ProviderError:
        """Build the error for using a closed provider."""
        error = ProviderError(f"{self._provider}: this provider is closed; build a new one.")
        return mark_transient(error, transient=False)

    def _require_open(self) -> None:
        if self.closed:
            raise self.closed_error()

    def _discard_dead(self) -> None:
        dead = [loop for loop in self._loops if loop.is_closed()]
        abandoned = [not self._loops.pop(loop).client.is_closed for loop in dead]
        if any(abandoned):
            # Such a loop was closed without shutting down its generators. Its transports cannot be closed any
            # more; collecting them here keeps their complaints about that from surfacing anywhere else.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ResourceWarning)
                gc.collect()

    async def aclose(self) -> None:
        """Close all connections and a given transport; calling it again does nothing."""
        self.closed = True
        if self._given is not None:
            await self._given.aclose()
        self._discard_dead()
        while self._loops:
            loop, entry = self._loops.popitem()
            if loop is asyncio.get_running_loop():
                await entry.client.aclose()
            else:
                asyncio.run_coroutine_threadsafe(entry.client.aclose(), loop)
