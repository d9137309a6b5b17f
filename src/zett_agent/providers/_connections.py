"""The HTTP clients of one provider: one for each event loop, made when it is needed."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import warnings
from collections.abc import AsyncGenerator
from typing import Any

import httpx

from ._errors import ProviderConnectionError, mark_transient
from ._proxies import Proxy, UnusableProxy, find_proxy
from ._tls import TlsTrust, trusting_nobody

__all__ = ["Connections"]

logger = logging.getLogger("zett_agent.providers")

# As many connections as there are streams; waiting for a place would look like a slow connection.
_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=30.0)


def _http_client(transport: httpx.AsyncBaseTransport) -> httpx.AsyncClient:
    hooks = {"request": [], "response": [_forget_location]}
    return httpx.AsyncClient(transport=transport, trust_env=False, event_hooks=hooks)


async def _forget_location(response: httpx.Response) -> None:
    # Redirects are not followed, but the client would still prepare one and fail where it is malformed.
    response.headers.pop("location", None)


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

    def __init__(self, url: httpx.URL, transport: httpx.AsyncBaseTransport | None) -> None:
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
            ProviderConnectionError: The environment names a proxy that cannot be used, or certificates that
                cannot be read.
        """
        if self._given is not None:
            return self._given
        loop = asyncio.get_running_loop()
        current = self._loops.get(loop)
        if current is not None and not current.client.is_closed:
            return current.client
        self._discard_dead()
        client = await self._build()
        current = self._loops.get(loop)
        if current is not None and not current.client.is_closed:
            return current.client  # made by another request while the certificates were read
        current = self._loops[loop] = _PerLoop(client)
        await current.begin()
        return client

    async def _build(self) -> httpx.AsyncClient:
        proxy = self._proxy
        if isinstance(proxy, UnusableProxy):
            error = ProviderConnectionError(f"{self._url.host} cannot be reached: {proxy.reason}.")
            raise mark_transient(error, transient=False)
        encrypted = self._url.scheme == "https" or (proxy is not None and proxy.scheme == "https")
        context = await self._context() if encrypted else trusting_nobody()
        via: Any = None
        if proxy is not None:
            via = httpx.Proxy(
                proxy.url, auth=proxy.credentials, ssl_context=context if proxy.scheme == "https" else None
            )
        transport = httpx.AsyncHTTPTransport(verify=context, trust_env=False, limits=_LIMITS, proxy=via)
        return _http_client(transport)

    async def _context(self) -> Any:
        assert self._trust is not None
        try:
            return await asyncio.to_thread(self._trust.context)
        except OSError as cause:  # ssl.SSLError is one
            error = ProviderConnectionError(
                f"{self._url.host} cannot be reached: the trusted certificates cannot be read: {cause}"
            )
            raise mark_transient(error, transient=False) from cause

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
            given, self._given = self._given, None
            await given.aclose()
        self._discard_dead()
        while self._loops:
            loop, entry = self._loops.popitem()
            if loop is asyncio.get_running_loop():
                await entry.client.aclose()
            else:
                asyncio.run_coroutine_threadsafe(entry.client.aclose(), loop)
