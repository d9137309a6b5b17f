"""A scripted HTTP service on a loopback port, for tests of what really happens on the wire.

Each request is answered by a script: an async function that gets an `Exchange` and does with the connection
what it likes. Ready-made scripts cover the usual answers:

    async with HttpService(reply(503), stream(b"data: {}\\n\\n")) as service:
        ...  # the first request gets a 503, all later ones the stream
        service.requests[0].headers["authorization"]
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

Script = Callable[["Exchange"], Awaitable[None]]

OK_STREAM = (
    b'data: {"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}]}\n\n'
    b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
    b"data: [DONE]\n\n"
)


@dataclass
class Request:
    """A request as it arrived.

    Attributes:
        line: The request line.
        headers: By lower-case name.
        raw_headers: Names and values as sent, in order.
        body: The whole body.
        connection: Number of the connection it came on, from 0.
        gone: Set when the client has hung up.
        gone_at: Loop time of that.
    """

    line: str
    raw_headers: list[tuple[str, str]]
    body: bytes
    connection: int
    gone: asyncio.Event
    gone_at: list[float] = field(default_factory=list)

    @property
    def method(self) -> str:
        return self.line.split(" ")[0]

    @property
    def target(self) -> str:
        return self.line.split(" ")[1]

    @property
    def headers(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self.raw_headers}


class Exchange:
    """One request and the means to answer it."""

    def __init__(self, request: Request, connection: _Connection) -> None:
        self.request = request
        self._connection = connection

    async def send(self, data: bytes) -> None:
        """Send raw bytes."""
        self._connection.transport.write(data)
        await asyncio.sleep(0)

    async def start(
        self, status: int = 200, content_type: str | None = "text/event-stream", **headers: str
    ) -> None:
        """Send a head that announces a chunked body."""
        lines = [f"HTTP/1.1 {status} Scripted", "transfer-encoding: chunked"]
        if content_type is not None:
            lines.append(f"content-type: {content_type}")
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        await self.send("\r\n".join(lines).encode() + b"\r\n\r\n")

    async def chunk(self, data: bytes) -> None:
        """Send a piece of the body."""
        if data:
            await self.send(b"%x\r\n%s\r\n" % (len(data), data))

    async def end(self) -> None:
        """End the body."""
        await self.send(b"0\r\n\r\n")

    def close(self) -> None:
        """Hang up."""
        self._connection.transport.close()

    def reset(self) -> None:
        """Break the connection, so that the client sees a reset."""
        sock: Any = self._connection.transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._connection.transport.abort()


class HttpService:
    """Answers its n-th request with its n-th script, and further ones with the last."""

    def __init__(self, *scripts: Script, tls: ssl.SSLContext | None = None, keep_alive: bool = True) -> None:
        self._scripts = scripts or (stream(OK_STREAM),)
        self._tls = tls
        self.keep_alive = keep_alive
        self.requests: list[Request] = []
        self.connections = 0
        self.open: set[_Connection] = set()
        self.arrived = asyncio.Condition()
        self.failures: list[BaseException] = []

    async def __aenter__(self) -> HttpService:
        self._server = await asyncio.get_running_loop().create_server(
            lambda: _Connection(self), "127.0.0.1", 0, ssl=self._tls, backlog=2048
        )
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for connection in list(self.open):
            connection.transport.abort()
            connection.task.cancel()
        tasks = [connection.task for connection in self.open]
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)
        if self.failures:
            raise self.failures[0]

    @property
    def url(self) -> str:
        host = "localhost" if self._tls else "127.0.0.1"
        return f"{'https' if self._tls else 'http'}://{host}:{self.port}"

    async def wait_for_requests(self, number: int) -> None:
        """Wait until that many requests have arrived."""
        async with self.arrived:
            await self.arrived.wait_for(lambda: len(self.requests) >= number)

    async def answer(self, request: Request, connection: _Connection) -> None:
        script = self._scripts[min(len(self.requests), len(self._scripts) - 1)]
        async with self.arrived:
            self.requests.append(request)
            self.arrived.notify_all()
        await script(Exchange(request, connection))


class _Connection(asyncio.Protocol):
    def __init__(self, service: HttpService) -> None:
        self._service = service
        self._buffer = b""
        self._more = asyncio.Event()
        self._gone = asyncio.Event()
        self._current: Request | None = None
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.number = self._service.connections
        self._service.connections += 1
        self._service.open.add(self)
        self.task = asyncio.get_running_loop().create_task(self._serve())

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._more.set()

    def eof_received(self) -> bool:
        self._hung_up()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._hung_up()
        self._service.open.discard(self)

    def _hung_up(self) -> None:
        if not self._gone.is_set() and self._current is not None:
            self._current.gone_at.append(asyncio.get_running_loop().time())
        self._gone.set()
        self._more.set()

    async def _until(self, found: Callable[[], bool]) -> bool:
        while not found():
            if self._gone.is_set():
                return False
            self._more.clear()
            await self._more.wait()
        return True

    async def _serve(self) -> None:
        try:
            while await self._until(lambda: b"\r\n\r\n" in self._buffer):
                head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
                line, *header_lines = head.decode("latin-1").split("\r\n")
                headers = [(n, v.strip()) for n, _, v in (h.partition(":") for h in header_lines)]
                length = int({n.lower(): v for n, v in headers}.get("content-length", "0"))
                if not await self._until(lambda length=length: len(self._buffer) >= length):
                    return
                body, self._buffer = self._buffer[:length], self._buffer[length:]
                self._current = Request(line, headers, body, self.number, self._gone)
                await self._service.answer(self._current, self)
                if not self._service.keep_alive or self.transport.is_closing():
                    break
            self.transport.close()
        except asyncio.CancelledError:
            raise
        except BaseException as failure:
            self._service.failures.append(failure)
            self.transport.abort()


# -- scripts ----------------------------------------------------------------------------------------------


def reply(
    status: int = 200, body: bytes = b"", content_type: str | None = "application/json", **headers: str
) -> Script:
    """Answer at once with a complete body."""

    async def script(exchange: Exchange) -> None:
        lines = [f"HTTP/1.1 {status} Scripted", f"content-length: {len(body)}"]
        if content_type is not None:
            lines.append(f"content-type: {content_type}")
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        await exchange.send("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    return script


def stream(*pieces: bytes | float, end: bool = True, **headers: str) -> Script:
    """Answer with an event stream; a number among the pieces is a pause in seconds."""

    async def script(exchange: Exchange) -> None:
        await exchange.start(**headers)
        for piece in pieces:
            if isinstance(piece, bytes):
                await exchange.chunk(piece)
            else:
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(exchange.request.gone.wait(), piece)
        if end:
            await exchange.end()
        else:
            await exchange.request.gone.wait()

    return script


async def silence(exchange: Exchange) -> None:
    """Never answer; return when the client hangs up."""
    await exchange.request.gone.wait()


async def hang_up(exchange: Exchange) -> None:
    """Close the connection without an answer."""
    exchange.close()


def reset_after(*pieces: bytes) -> Script:
    """Begin an event stream and break the connection."""

    async def script(exchange: Exchange) -> None:
        await exchange.start()
        for piece in pieces:
            await exchange.chunk(piece)
        await asyncio.sleep(0.05)  # else the reset overtakes the data
        exchange.reset()

    return script
