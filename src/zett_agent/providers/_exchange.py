"""One HTTP request and its streamed answer, within its time limits."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

import httpx

from ..model import TimeoutOptions
from ._decompression import can_decompress, decompressed
from ._errors import ProviderError, ProviderResponseError, mark_transient
from ._event_stream import EventStreamDecoder, JsonLinesDecoder, JsonObject
from ._failures import network_error, timeout_error
from ._status import StatusFailure, empty_stream, is_not_a_stream, not_a_stream, request_id
from ._watchdog import Watchdog

if TYPE_CHECKING:
    from ._client import ProviderClient

__all__ = ["Exchange", "StreamResponse"]

logger = logging.getLogger("zett_agent.providers")

MAX_ERROR_BODY = 64 * 1024
# How long the text of an error may take. The status is known by then, and no reason is worth waiting for.
_ERROR_BODY_SECONDS = 5.0
# How long the end of the body may follow the end mark, for the connection to be kept.
_TAIL_SECONDS = 0.25


class Exchange:
    """One attempt: entering sends the request and waits for the headers, leaving releases the connection.

    Leaving after a complete answer keeps the connection; leaving in any other way closes it.
    """

    def __init__(
        self, client: ProviderClient, request: httpx.Request, timeout: TimeoutOptions, *, first_chunk: bool
    ) -> None:
        self._client = client
        self._request = request
        self._timeout = timeout
        self._first_chunk = first_chunk  # whether `first_byte` lasts until the first piece of the body
        self._idle = timeout.idle
        self._phase = "connect"
        self._sent_at = 0.0
        self._response: httpx.Response | None = None
        self._socket: Any = None  # the HTTP client's stream over a socket opened for this request
        self._pieces: AsyncIterator[bytes] | None = None
        self._complete = False
        self._headers: Mapping[str, str] = {}

    async def __aenter__(self) -> StreamResponse:
        self._loop = asyncio.get_running_loop()
        self._watchdog = Watchdog()
        try:
            await self._send()
            await self._require_stream()
        except BaseException as error:
            self._complete = False  # whatever was read, a connection that gave an error is not kept
            await self._close()
            self._finish_error(error)
            raise
        assert self._response is not None
        return StreamResponse(self, self._response.status_code, self._headers, self._client.provider)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if error is None and not self._complete:
                await self._read_tail()
        finally:
            await self._close()
        if error is not None:
            self._finish_error(error)

    # -- sending ------------------------------------------------------------------------------------------

    async def _send(self) -> None:
        connections = self._client.connections
        http = await connections.client()
        self._request.extensions = {
            "timeout": httpx.Timeout(
                connect=self._timeout.connect,
                pool=self._timeout.connect,
                write=self._timeout.first_byte,
                read=None,
            ).as_dict(),
            "trace": self._trace,
        }
        # A given transport need not tell when it has connected, and most have nothing to connect to.
        self._begin("connect" if connections.own else "first_byte")
        try:
            response = await http.send(self._request, stream=True)
        except BaseException as cause:
            raise self._meaning(cause)  # noqa: B904 (the cause is set there)
        self._watchdog.stop()
        self._response = response
        self._headers = _joined(response.headers)
        encoding = self._headers.get("content-encoding", "identity")
        if not response.is_closed and can_decompress(encoding):
            self._pieces = decompressed(aiter(cast("httpx.AsyncByteStream", response.stream)))
        elif response.is_closed or (encoding != "identity" and "," not in encoding):
            self._pieces = response.aiter_bytes()
        else:
            # `aiter_raw` without its bookkeeping, which costs as much as reading. Several encodings on top of
            # each other are left as they are: no service sends them, and a few bytes could become gigabytes.
            self._pieces = aiter(cast("httpx.AsyncByteStream", response.stream))

    async def _trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Called by the HTTP client at each step."""
        if event.endswith("send_request_headers.started"):
            # CONNECT is still part of opening the connection, through a proxy.
            if info["request"].method != b"CONNECT":
                self._begin("first_byte")
        elif event.endswith("connect_tcp.started"):
            self._begin("connect")
        elif event.endswith("connect_tcp.complete"):
            self._socket = info["return_value"]

    # -- time limits --------------------------------------------------------------------------------------

    def _begin(self, phase: str) -> None:
        self._phase = phase
        if phase == "first_byte":
            self._sent_at = self._loop.time()
        self._watchdog.start(getattr(self._timeout, phase))

    def _meaning(self, cause: BaseException) -> BaseException:
        """Return what a failed wait means: a limit that ran out, a failure of the network, or itself."""
        if self._watchdog.stop():
            error: ProviderError | None = timeout_error(self._phase, getattr(self._timeout, self._phase))
            error.__suppress_context__ = True  # the cancellation was only the means
            return error
        if not isinstance(cause, Exception):
            return cause
        client = self._client
        if client.closed:
            error = client.connections.closed_error()
        else:
            error = network_error(
                cause, provider=client.provider, host=client.host, phase=self._phase, timeout=self._timeout
            )
        if error is None or error is cause:
            return cause
        error.__cause__ = cause
        return error

    # -- reading ------------------------------------------------------------------------------------------

    async def read(self) -> bytes:
        """Return the next piece of the body, never an empty one, or `b""` at its end."""
        assert self._pieces is not None
        self._begin_read()
        try:
            while not (data := await self._pieces.__anext__()):
                pass
        except StopAsyncIteration:
            self._watchdog.stop()
            self._complete = True
            return b""
        except BaseException as cause:
            raise self._meaning(cause)  # noqa: B904 (the cause is set there)
        self._watchdog.stop()
        return data

    def _begin_read(self) -> None:
        if not self._first_chunk:
            self._phase = "idle"
            self._watchdog.start(self._idle)
            return
        self._first_chunk = False
        self._phase = "first_byte"
        limit = self._timeout.first_byte
        passed = self._loop.time() - self._sent_at
        self._watchdog.start(None if limit is None else max(0.0, limit - passed))

    async def _read_tail(self) -> None:
        """Read what follows the end mark, so that the connection can be kept; it is usually there already."""
        assert self._pieces is not None
        self._watchdog.start(_TAIL_SECONDS)
        size = 0
        try:
            async for data in self._pieces:
                size += len(data)
                if size > MAX_ERROR_BODY:
                    break
            else:
                self._complete = True
        except Exception:
            self._watchdog.stop()
        except BaseException:
            if not self._watchdog.stop():
                raise
        else:
            self._watchdog.stop()

    # -- answers that are no stream -----------------------------------------------------------------------

    async def _require_stream(self) -> None:
        assert self._response is not None
        status = self._response.status_code
        content_type = self._headers.get("content-type")
        if not 200 <= status < 300:
            text = await self._read_text()
            url = self._client.redactor.text(str(self._request.url))
            headers = {name: self._client.redactor.text(value) for name, value in self._headers.items()}
            raise StatusFailure(status, headers=headers, text=text, url=url, provider=self._client.provider)
        if is_not_a_stream(content_type):
            raise not_a_stream(self._client.provider, status, content_type, await self._read_text())

    async def _read_text(self) -> str:
        """Return the body's text, up to 64 KiB of it, without credentials."""
        parts: list[bytes] = []
        size = 0
        self._first_chunk = False
        try:
            patience = _ERROR_BODY_SECONDS if self._idle is None else min(self._idle, _ERROR_BODY_SECONDS)
            deadline = self._loop.time() + patience
            while size < MAX_ERROR_BODY and (left := deadline - self._loop.time()) > 0:
                self._idle = left
                data = await self.read()
                if not data:
                    break
                parts.append(data)
                size += len(data)
        except ProviderError:
            pass  # what came so far has to do
        charset = self._response.charset_encoding if self._response is not None else None
        body = b"".join(parts)[:MAX_ERROR_BODY]
        try:
            text = body.decode(charset or "utf-8", "replace")
        except LookupError:
            text = body.decode("utf-8", "replace")
        return self._client.redactor.text(text.removeprefix("\ufeff"))

    # -- leaving ------------------------------------------------------------------------------------------

    async def _close(self) -> None:
        self._watchdog.close()
        pieces, self._pieces = self._pieces, None
        response, self._response = self._response, None
        self._request.extensions = {}  # it refers back here
        try:
            if response is None:
                # Cancelled in a TLS handshake, the HTTP client forgets to close the socket.
                if self._socket is not None and self._client.connections.own:
                    await self._socket.aclose()
                return
            if self._complete:
                await response.aclose()
            elif self._client.connections.own:
                await self._abort(response, pieces)
            else:
                if isinstance(pieces, AsyncGenerator):
                    await pieces.aclose()
                await response.aclose()
        except Exception as error:
            logger.debug("%s: closing a response failed: %r", self._client.provider, error)

    async def _abort(self, response: httpx.Response, pieces: AsyncIterator[bytes] | None) -> None:
        """Close the connection of an answer that is not complete."""
        # The socket first: its closing begins before anything is awaited, so that even a second cancellation
        # cannot come in between.
        await response.extensions["network_stream"].aclose()
        await response.aclose()
        if pieces is None:
            return
        # The HTTP client reads through several generators. Let the closed connection end them all: otherwise
        # the event loop would do so later, in tasks that outlive this call.
        with contextlib.suppress(Exception):
            async for _ in pieces:
                pass

    def _finish_error(self, error: BaseException) -> None:
        if isinstance(error, ProviderError):
            if error.request_id is None:
                error.request_id = request_id(self._headers)
            self._client.redactor.error(error)


class StreamResponse:
    """A successful answer that is read piece by piece. Exactly one of its iterators is used.

    Attributes:
        status_code: HTTP status.
        headers: The answer's headers; names are in lower case.
        done: Whether the service's end mark `data: [DONE]` was met.
        empty: Whether no event has come yet; the end mark is none.
    """

    def __init__(
        self, exchange: Exchange, status_code: int, headers: Mapping[str, str], provider: str
    ) -> None:
        self._exchange = exchange
        self._provider = provider
        self.status_code = status_code
        self.headers = headers
        self.done = False
        self.empty = True

    def batches(self) -> AsyncIterator[list[JsonObject]]:
        """Iterate over the event stream's JSON objects, those that one network read completes at a time.

        Nothing is read before it is asked for, and nothing after the end mark.

        Raises:
            ProviderResponseError: The stream is malformed, or an event is larger than 64 MiB.
            ProviderConnectionError: The connection broke.
            ProviderTimeoutError: Nothing came for `timeout.idle` seconds.
        """
        return _Batches(self, EventStreamDecoder())

    def json_lines(self) -> AsyncIterator[list[JsonObject]]:
        """Iterate over the objects of a body with one JSON object per line; else like `batches`."""
        return _Batches(self, JsonLinesDecoder())

    def empty_error(self) -> ProviderResponseError:
        """Build the error for a stream that ended without any event."""
        return empty_stream(self._provider, self.status_code, self.headers.get("content-type"))


class _Batches:
    # A class and not a generator: nothing has to be closed when the caller stops in the middle.

    __slots__ = ("_decoder", "_ended", "_read", "_response")

    def __init__(self, response: StreamResponse, decoder: EventStreamDecoder | JsonLinesDecoder) -> None:
        self._response = response
        self._read = response._exchange.read
        self._decoder = decoder
        self._ended = False

    def __aiter__(self) -> _Batches:
        return self

    async def __anext__(self) -> list[JsonObject]:
        decoder = self._decoder
        while not self._ended:
            data = await self._read()
            objects = decoder.feed(data) if data else decoder.finish()
            self._ended = not data or decoder.done or decoder.error is not None
            if decoder.done:
                self._response.done = True
            if objects:
                self._response.empty = False
                return objects
        if decoder.error is not None:
            error = ProviderResponseError(f"{self._response._provider}: {decoder.error}")
            raise mark_transient(error, transient=True) from decoder.error.__cause__
        raise StopAsyncIteration


def _joined(headers: httpx.Headers) -> dict[str, str]:
    joined: dict[str, str] = {}
    for name, value in headers.multi_items():
        name = name.lower()
        joined[name] = f"{joined[name]}, {value}" if name in joined else value
    return joined
