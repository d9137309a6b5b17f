"""The three time limits of a request, against a real service. `20 §20` 21 to 24."""

from __future__ import annotations

import asyncio
import socket
import time
from typing import Any

import httpx
import pytest

from support.http_service import HttpService, reply, silence, stream
from support.tiny_provider import OK, REQUEST, TinyProvider, collect
from zett_agent.model import RetryOptions, TimeoutOptions
from zett_agent.providers.base import ProviderConnectionError, ProviderHTTPError, ProviderTimeoutError

LIMITS = TimeoutOptions(connect=1, first_byte=0.4, idle=0.5)
ONCE = RetryOptions(0, 0, 0)
X = b'data: {"text": "x"}\n\n'


async def test_20_21_a_silent_service() -> None:
    async with HttpService(silence) as service, TinyProvider(service.url, timeout=LIMITS) as provider:
        began = time.monotonic()
        with pytest.raises(ProviderTimeoutError, match="respond within") as caught:
            await collect(provider)
        assert 0.4 <= time.monotonic() - began < 0.8
        assert (caught.value.phase, caught.value.seconds) == ("first_byte", 0.4)
        await asyncio.wait_for(service.requests[0].gone.wait(), 0.2)
        assert len(service.requests) == 1


async def test_20_22_a_service_that_stops_in_the_middle() -> None:
    async with (
        HttpService(stream(X, end=False)) as service,
        TinyProvider(service.url, timeout=LIMITS) as provider,
    ):
        text, began = "", 0.0
        with pytest.raises(ProviderTimeoutError, match="stopped sending") as caught:
            async for event in provider.stream(REQUEST):
                text += event.delta
                began = time.monotonic()
        assert 0.45 <= time.monotonic() - began < 0.9
        assert (text, caught.value.phase, caught.value.seconds) == ("x", "idle", 0.5)
        await asyncio.wait_for(service.requests[0].gone.wait(), 0.2)


async def test_20_23_any_byte_shows_that_the_service_is_alive() -> None:
    pieces: list[bytes | float] = [X]
    for _ in range(10):
        pieces += [0.2, b": keep-alive\n\n"]
    async with (
        HttpService(stream(*pieces, X, b"data: [DONE]\n\n")) as service,
        TinyProvider(service.url, timeout=LIMITS) as provider,
    ):
        assert await collect(provider) == "xx"


async def test_20_24_a_closed_port() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    provider = TinyProvider(f"http://127.0.0.1:{port}", retry=RetryOptions(0, 0, 2))
    attempts = 0
    send = provider._client.connections.client  # type: ignore[union-attr]

    async def counted() -> Any:
        nonlocal attempts
        attempts += 1
        return await send()

    provider._client.connections.client = counted  # type: ignore[union-attr,method-assign]
    with pytest.raises(ProviderConnectionError, match=r"127\.0\.0\.1.*refused") as caught:
        await collect(provider)
    assert attempts == 3
    assert isinstance(caught.value.__cause__, httpx.ConnectError)
    await provider.aclose()


async def test_the_connect_limit_and_its_retries() -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        with socket.socket() as first, socket.socket() as second:
            # Fill the queue of connections, so that the next one is never answered.
            for waiting in (first, second):
                waiting.setblocking(False)
                waiting.connect_ex(full.getsockname())
            limits = TimeoutOptions(connect=0.2, first_byte=5, idle=5)
            url = f"http://127.0.0.1:{full.getsockname()[1]}"
            async with TinyProvider(url, timeout=limits, retry=RetryOptions(0, 0, 1)) as provider:
                began = time.monotonic()
                with pytest.raises(ProviderTimeoutError, match="connected to within") as caught:
                    await collect(provider)
                assert 0.4 <= time.monotonic() - began < 1.5  # twice
                assert (caught.value.phase, caught.value.seconds) == ("connect", 0.2)


async def test_a_stalled_upload_is_no_idle_response() -> None:
    async def read_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await enough.wait()
        writer.transport.abort()

    enough = asyncio.Event()
    server = await asyncio.start_server(read_nothing, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with TinyProvider(url, timeout=LIMITS) as provider:
            client: Any = provider._client
            with pytest.raises(ProviderTimeoutError) as caught:
                async with client.post("/chat", b"x" * 50_000_000, timeout=LIMITS):
                    pass
            assert caught.value.phase == "first_byte"
        enough.set()
        await asyncio.sleep(0.01)


async def test_first_byte_may_cover_the_first_piece() -> None:
    async def headers_only(exchange: Any) -> None:
        await exchange.start()
        await exchange.request.gone.wait()

    async with HttpService(headers_only) as service:
        async with TinyProvider(service.url, timeout=LIMITS, first_chunk=True) as provider:
            with pytest.raises(ProviderTimeoutError) as caught:
                await collect(provider)
            assert (caught.value.phase, caught.value.seconds) == ("first_byte", 0.4)
        async with TinyProvider(service.url, timeout=LIMITS) as provider:
            with pytest.raises(ProviderTimeoutError) as caught:
                await collect(provider)
            assert caught.value.phase == "idle"


async def test_no_limits() -> None:
    limits = TimeoutOptions(connect=None, first_byte=None, idle=None)
    async with (
        HttpService(stream(0.05, X, 0.05, b"data: [DONE]\n\n")) as service,
        TinyProvider(service.url, timeout=limits) as provider,
    ):
        assert await collect(provider) == "x"


async def test_a_slow_consumer_is_not_a_slow_service() -> None:
    limits = TimeoutOptions(connect=1, first_byte=1, idle=0.1)
    async with (
        HttpService(stream(X, X, b"data: [DONE]\n\n")) as service,
        TinyProvider(service.url, timeout=limits) as provider,
    ):
        text = ""
        async for event in provider.stream(REQUEST):
            text += event.delta
            await asyncio.sleep(0.15)
        assert text == "xx"


async def test_timeout_is_read_afresh() -> None:
    async with HttpService(silence) as service, TinyProvider(service.url, retry=ONCE) as provider:
        provider.timeout = TimeoutOptions(connect=1, first_byte=0.05, idle=1)
        with pytest.raises(ProviderTimeoutError) as caught:
            await collect(provider)
        assert caught.value.seconds == 0.05


@pytest.mark.parametrize(
    ("failure", "phase", "seconds"),
    [
        (httpx.ConnectTimeout("t"), "connect", 1),
        (httpx.PoolTimeout("t"), "connect", 1),
        (httpx.WriteTimeout("t"), "first_byte", 0.4),
        (httpx.ReadTimeout("t"), "first_byte", 0.4),
    ],
)
async def test_time_limits_of_a_given_transport(failure: Exception, phase: str, seconds: float) -> None:
    def handle(request: httpx.Request) -> httpx.Response:
        raise failure

    provider = TinyProvider(transport=httpx.MockTransport(handle), timeout=LIMITS, retry=ONCE)
    with pytest.raises(ProviderTimeoutError) as caught:
        await collect(provider)
    assert (caught.value.phase, caught.value.seconds) == (phase, seconds)


async def test_a_given_transport_that_hangs() -> None:
    class Hanging(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            await asyncio.sleep(30)
            raise AssertionError

    provider = TinyProvider(transport=Hanging(), timeout=LIMITS)
    with pytest.raises(ProviderTimeoutError) as caught:
        await collect(provider)
    assert caught.value.phase == "first_byte"


async def test_an_error_is_reported_although_its_text_never_ends() -> None:
    async def endless(exchange: Any) -> None:
        await exchange.start(503, "text/plain")
        await exchange.chunk(b"upstream down")
        await exchange.request.gone.wait()

    limits = TimeoutOptions(connect=1, first_byte=1, idle=0.2)
    async with (
        HttpService(endless) as service,
        TinyProvider(service.url, timeout=limits, retry=ONCE) as provider,
    ):
        began = time.monotonic()
        with pytest.raises(ProviderHTTPError, match="upstream down"):
            await collect(provider)
        assert time.monotonic() - began < 1


async def test_the_service_may_answer_before_it_has_read_the_request() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\ncontent-length: 9\r\n\r\ntoo large")
        await writer.drain()
        await asyncio.sleep(0.3)
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with TinyProvider(url) as provider:
            client: Any = provider._client
            from zett_agent.providers._client import StatusFailure

            limits = TimeoutOptions(connect=1, first_byte=2, idle=1)
            with pytest.raises((StatusFailure, ProviderConnectionError)):
                async with client.post("/chat", b"x" * 20_000_000, timeout=limits):
                    pass


async def test_the_answer_of_a_finished_stream_is_not_held_back_by_its_tail() -> None:
    async def lingering(exchange: Any) -> None:
        await exchange.start()
        await exchange.chunk(OK)
        await exchange.request.gone.wait()

    async with (
        HttpService(lingering, reply(200, OK, "text/event-stream")) as service,
        TinyProvider(service.url) as provider,
    ):
        began = time.monotonic()
        assert await collect(provider) == "x"
        assert time.monotonic() - began < 1
        assert await collect(provider) == "x"
    assert service.connections == 2
