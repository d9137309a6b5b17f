"""One service endpoint: its address, credentials, connections and lifecycle."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from urllib.parse import quote, urlencode

import httpx

from .. import __version__
from ..model import TimeoutOptions
from ._connections import Connections
from ._exchange import Exchange, StreamResponse
from ._options import validate_header
from ._redaction import Redactor
from ._status import StatusFailure

__all__ = ["ProviderClient", "StatusFailure", "StreamResponse"]

# Headers and query fields that usually hold a credential, whoever set them.
_SECRET_NAMES = re.compile(
    r"authorization|cookie|(?:^|[-_])(?:key|token|secret|password|sig|signature)$", re.I
)
_AUTH_SCHEME = re.compile(r"^(?:bearer|basic|token)\s+", re.I)
# What a path and a query may hold as it is; `%` is among them, so what is encoded already stays as it is.
_URL_CHARACTERS = "/?%:@!$&'()*+,;=~[]"
# How the body travels is decided here, so nobody else may say so.
_FRAMING = {"content-length", "transfer-encoding"}


class ProviderClient:
    """Sends requests to one service.

    Building it does no network I/O and needs no event loop. It may be used under several event loops, one
    after the other or at once; each gets connections of its own.

    Args:
        provider: Name of the service in messages.
        base_url: Its address; a path prefix and a query are kept.
        headers: Sent with every request over our own; a later spelling of a name replaces an earlier one.
        query: Added to every address.
        transport: Replaces the network, proxies and trusted certificates included; closed by `aclose`.
        secrets: Texts that must not appear in any error. Those of the usual headers are found without help.

    Raises:
        ValueError: The address or a header cannot be sent.

    Example:
        >>> client = ProviderClient(provider="acme", base_url="https://api.acme.example/v1", headers={})
        >>> client.host
        'api.acme.example'
    """

    def __init__(
        self,
        *,
        provider: str,
        base_url: str,
        headers: Mapping[str, str],
        query: Mapping[str, str] | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        secrets: Sequence[str] = (),
    ) -> None:
        query = query or {}
        self.provider = provider
        self._base = _base_url(base_url)
        path, _, base_query = self._base.raw_path.decode("ascii").partition("?")
        self._path = path.rstrip("/")
        self._query = "&".join(filter(None, (base_query, urlencode(query, quote_via=quote))))
        self._headers = _headers(headers)
        self._urls: dict[str, httpx.URL] = {}
        self.redactor = Redactor([*secrets, *_secrets(self._headers), *_secrets(list(query.items()))])
        self.connections = Connections(provider, self._base, transport)

    @property
    def host(self) -> str:
        """Host of the service's address."""
        return self._base.host

    @property
    def closed(self) -> bool:
        """Whether `aclose` was called."""
        return self.connections.closed

    async def aclose(self) -> None:
        """Close every connection and the transport; streams in progress fail. Closing again does nothing."""
        await self.connections.aclose()

    def redact(self, text: str) -> str:
        """Return `text` without the credentials of this client."""
        return self.redactor.text(text)

    def post(self, path: str, body: bytes, *, timeout: TimeoutOptions, first_chunk: bool = False) -> Exchange:
        """Return one HTTP attempt, to be entered with `async with`.

        Args:
            path: Path under the base URL, encoded; it may hold a query.
            body: The JSON text to send.
            timeout: Its limits.
            first_chunk: Whether `timeout.first_byte` lasts until the first piece of the body, and not only
                until the headers.

        Raises:
            ProviderError: The client is closed.

        Entering raises:
            StatusFailure: The service answered with an error status.
            ProviderHTTPError: It answered 200 with a web page or a single JSON document.
            ProviderConnectionError: It could not be reached, or the connection broke.
            ProviderTimeoutError: `timeout.connect` or `timeout.first_byte` ran out.

        Cancelling it in any phase closes the connection.

        Example:
            >>> async with client.post("/chat", b"{}", timeout=DEFAULT_TIMEOUT_OPTIONS) as response:
            ...     async for batch in response.batches():  # doctest: +SKIP
            ...         print(batch)
        """
        if self.closed:
            raise self.connections.closed_error()
        request = httpx.Request("POST", self._url(path), headers=self._headers, content=body)
        return Exchange(self, request, timeout, first_chunk=first_chunk)

    def _url(self, path: str) -> httpx.URL:
        url = self._urls.get(path)
        if url is None:
            own_path, _, own_query = path.partition("?")
            query = "&".join(filter(None, (own_query, self._query)))
            target = f"{self._path}{own_path}?{query}" if query else self._path + own_path
            encoded = quote(target, safe=_URL_CHARACTERS).encode("ascii")
            # An adapter has one or two paths, so this stays small.
            url = self._urls[path] = self._base.copy_with(raw_path=encoded)
        return url


def _base_url(text: str) -> httpx.URL:
    try:
        url = httpx.URL(text.strip())
    except httpx.InvalidURL as cause:
        raise ValueError(f"base_url is not a valid address: {cause}") from cause
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError("base_url must be an address that begins with http:// or https://")
    if url.userinfo:
        raise ValueError("base_url cannot hold a user name or password; use api_key or extra_headers")
    return url


def _headers(given: Mapping[str, str]) -> list[tuple[str, str]]:
    headers = {
        "accept": ("accept", "application/json"),
        "content-type": ("content-type", "application/json"),
        "user-agent": ("user-agent", f"zett-agent/{__version__}"),
    }
    for name, value in given.items():
        validate_header(name, value, "headers")
        key = name.lower()
        if key not in _FRAMING:
            headers[key] = (name, value.strip(" \t"))
    return list(headers.values())


def _secrets(items: Sequence[tuple[str, str]]) -> list[str]:
    return [_AUTH_SCHEME.sub("", value) for name, value in items if _SECRET_NAMES.search(name)]
