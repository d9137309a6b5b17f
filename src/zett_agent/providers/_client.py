"""One service endpoint: its address, credentials, connections and lifecycle."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ..model import TimeoutOptions
from ._errors import ProviderConnectionError, ProviderError, ProviderResponseError

if TYPE_CHECKING:
    import httpx

__all__ = ["ProviderClient", "StatusFailure", "StreamResponse"]

JsonObject = dict[str, Any]


class StatusFailure(Exception):
    """An answer with an error status, as a `status_error` hook receives it; never leaves the adapter.

    Attributes:
        status_code: HTTP status.
        body: The parsed `error` object when the body has one, else the parsed body, else its text or `None`.
        message: One line for logs.
        response: The answer, its body read up to 64 KiB and credentials removed.
    """

    def __init__(self, status_code: int, body: Any, message: str, response: httpx.Response) -> None:
        super().__init__(message)
        self.status_code = status_code
        self.body = body
        self.message = message
        self.response = response


class ProviderClient:
    """Sends requests to one service."""

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
        import httpx

        self._url = httpx.URL(base_url.rstrip("/"))
        self._provider = provider
        self._client = httpx.AsyncClient(
            headers=dict(headers), params=dict(query or {}), transport=transport, follow_redirects=False
        )
        self._closed = False

    @property
    def host(self) -> str:
        """Host of the service's address."""
        return self._url.host

    async def aclose(self) -> None:
        """Close every connection and the transport; calling it again does nothing."""
        self._closed = True
        await self._client.aclose()

    def redact(self, text: str) -> str:
        """Return `text` without the credentials of this client."""
        return text

    def post(self, path: str, body: bytes, *, timeout: TimeoutOptions) -> Exchange:
        """Return one HTTP attempt, to be entered with `async with`."""
        if self._closed:
            raise ProviderError(f"This {self._provider} provider is closed; build a new one.")
        request = self._client.build_request(
            "POST", str(self._url) + path, content=body, headers={"content-type": "application/json"}
        )
        return Exchange(self._client, request)


class Exchange:
    """One HTTP request and its answer: entering sends the request and waits for the headers."""

    def __init__(self, client: httpx.AsyncClient, request: httpx.Request) -> None:
        self._client = client
        self._request = request
        self._response: httpx.Response | None = None

    async def __aenter__(self) -> StreamResponse:
        import httpx

        try:
            response = await self._client.send(self._request, stream=True)
        except httpx.HTTPError as cause:
            raise ProviderConnectionError(str(cause)) from cause
        self._response = response
        if not 200 <= response.status_code < 300:
            await response.aread()
            try:
                parsed = response.json()
            except ValueError:
                parsed = response.text or None
            body = parsed.get("error", parsed) if isinstance(parsed, dict) else parsed
            await response.aclose()
            raise StatusFailure(response.status_code, body, f"HTTP {response.status_code}", response)
        return StreamResponse(response)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._response is not None:
            await self._response.aclose()


class StreamResponse:
    """A successful answer that is read piece by piece.

    Attributes:
        status_code: HTTP status.
        headers: The answer's headers.
        done: Whether the service's end mark `data: [DONE]` was met.
    """

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self.status_code = response.status_code
        self.headers: Mapping[str, str] = response.headers
        self.done = False

    async def batches(self) -> AsyncIterator[list[JsonObject]]:
        """Yield the event stream's JSON objects, those completed by one network read at a time."""
        async for line in self._response.aiter_lines():
            if not line.startswith("data:"):
                continue
            data = line[5:].strip()
            if data == "[DONE]":
                self.done = True
                return
            yield [self._parse(data)]

    async def json_lines(self) -> AsyncIterator[list[JsonObject]]:
        """Yield the JSON objects of a body with one object per line, as `batches` does."""
        async for line in self._response.aiter_lines():
            if line.strip():
                yield [self._parse(line)]

    @staticmethod
    def _parse(data: str) -> JsonObject:
        try:
            return json.loads(data)
        except ValueError as cause:
            raise ProviderResponseError(f"malformed stream: {data[:200]}") from cause
