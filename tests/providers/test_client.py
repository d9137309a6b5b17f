"""What is sent, where it goes, and the life of the connections."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import gzip
import logging
import queue
import threading
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

import zett_agent
from support.http_service import HttpService, reply, stream
from support.tiny_provider import OK, REQUEST, TinyProvider, collect
from zett_agent.model import RetryOptions, TimeoutOptions
from zett_agent.providers._client import ProviderClient, StatusFailure
from zett_agent.providers.base import (
    ProviderAuthError,
    ProviderConnectionError,
    ProviderError,
    ProviderHTTPError,
    ProviderResponseError,
)

ONCE = RetryOptions(0, 0, 0)
KEY = "sk-proj-0123456789abcdefghijklmnop"


@contextlib.contextmanager
def service_in_a_thread() -> Iterator[HttpService]:
    """A service that outlives the event loops of the test."""
    started: queue.Queue[HttpService] = queue.Queue()
    stop = threading.Event()

    async def serve() -> None:
        async with HttpService(stream(OK)) as service:
            started.put(service)
            await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        yield started.get(timeout=5)
    finally:
        stop.set()
        thread.join()


async def collect_twice(provider: TinyProvider) -> str:
    return await collect(provider) + await collect(provider)


def answering(*args: Any, **kwargs: Any) -> httpx.MockTransport:
    return httpx.MockTransport(lambda request: httpx.Response(*args, **kwargs))


async def test_the_whole_request() -> None:
    async with HttpService() as service:
        service._scripts = (stream(OK),)
        async with TinyProvider(f"{service.url}/v1/", api_key=KEY, headers={"x-tenant": "t"}) as provider:
            await collect(provider)
        request = service.requests[0]
    assert request.line == "POST /v1/chat HTTP/1.1"
    assert request.body == b'{"stream": true}'
    assert request.headers == {
        "host": f"127.0.0.1:{service.port}",
        "content-length": "16",
        "content-type": "application/json",
        "accept": "application/json",
        "user-agent": f"zett-agent/{zett_agent.__version__}",
        "authorization": f"Bearer {KEY}",
        "x-tenant": "t",
    }


async def test_headers_may_be_replaced_in_any_case_but_not_the_framing() -> None:
    async with HttpService(stream(OK)) as service:
        headers = {"USER-AGENT": "mine", "Authorization": "none", "Content-Length": "7", "Accept": " */* "}
        async with TinyProvider(service.url, headers=headers) as provider:
            await collect(provider)
        raw = service.requests[0].raw_headers
    assert [(n, v) for n, v in raw if n.lower() in ("user-agent", "authorization", "accept")] == [
        ("Accept", "*/*"),
        ("USER-AGENT", "mine"),
        ("Authorization", "none"),
    ]
    assert [v for n, v in raw if n.lower() == "content-length"] == ["16"]


@pytest.mark.parametrize(
    ("base_url", "path", "query", "expected"),
    [
        ("https://h.example", "/chat", {}, "https://h.example/chat"),
        ("https://h.example/", "/chat", {}, "https://h.example/chat"),
        ("https://h.example/a/b/", "/chat", {}, "https://h.example/a/b/chat"),
        (
            "https://h.example/v1?api=1",
            "/chat",
            {"q": "a b&c", "é": "ü"},
            "https://h.example/v1/chat?api=1&q=a%20b%26c&%C3%A9=%C3%BC",
        ),
        ("https://h.example/v1", "/m/x:run?alt=sse", {"k": "v"}, "https://h.example/v1/m/x:run?alt=sse&k=v"),
        ("https://h.example/a%2Fb", "/chat", {}, "https://h.example/a%2Fb/chat"),
        ("https://h.example", "/m/ü x:run", {}, "https://h.example/m/%C3%BC%20x:run"),
        ("https://bücher.example", "/c", {}, "https://xn--bcher-kva.example/c"),
        ("http://[::1]:8080/v1", "/c", {}, "http://[::1]:8080/v1/c"),
    ],
)
async def test_addresses(base_url: str, path: str, query: dict[str, str], expected: str) -> None:
    seen: list[httpx.Request] = []

    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, content=OK)

    client = ProviderClient(
        provider="t", base_url=base_url, headers={}, query=query, transport=httpx.MockTransport(handle)
    )
    async with client.post(path, b"{}", timeout=TimeoutOptions()):
        pass
    assert str(seen[0].url) == expected


@pytest.mark.parametrize(
    "base_url",
    [
        "",
        "h.example",
        "ftp://h.example",
        "http://",
        "https://u:secret-p@h.example",
        "http://[::1",
        "http://h:x",
    ],
)
def test_bad_addresses_are_refused_at_once(base_url: str) -> None:
    with pytest.raises(ValueError, match="base_url") as caught:
        ProviderClient(provider="t", base_url=base_url, headers={})
    assert "secret-p" not in str(caught.value)


def test_bad_headers_are_refused_at_once() -> None:
    for headers in ({"a b": "c"}, {"a": "secret-p\n"}, {"a": "\u20ac secret-p"}):
        with pytest.raises(ValueError, match="headers has") as caught:
            ProviderClient(provider="t", base_url="https://h.example", headers=headers)
        assert "secret-p" not in str(caught.value)


def test_building_needs_no_loop_and_no_network() -> None:
    client = ProviderClient(provider="t", base_url="https://h.example/v1", headers={})
    assert client.host == "h.example"
    provider = TinyProvider("https://h.example/v1", api_key=KEY)
    assert repr(provider) == "TinyProvider(model='tiny-1', host='h.example')"


async def test_20_32_redirects_are_not_followed() -> None:
    async with HttpService(stream(OK)) as other, HttpService(reply(307, location=other.url)) as service:
        async with TinyProvider(service.url) as provider:
            with pytest.raises(ProviderHTTPError) as caught:
                await collect(provider)
        assert caught.value.status_code == 307
        assert (len(service.requests), len(other.requests)) == (1, 0)


async def test_a_redirect_to_nowhere_is_still_that_status() -> None:
    provider = TinyProvider(transport=answering(302, headers={"location": "http://h:port"}), retry=ONCE)
    with pytest.raises(ProviderHTTPError) as caught:
        await collect(provider)
    assert caught.value.status_code == 302


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_compressed_answers(encoding: str) -> None:
    import zlib

    body = gzip.compress(OK) if encoding == "gzip" else zlib.compress(OK)
    async with (
        HttpService(
            stream(*(body[i : i + 5] for i in range(0, len(body), 5)), content_encoding=encoding)
        ) as s,
        TinyProvider(s.url) as provider,
    ):
        assert await collect(provider) == "x"


async def test_a_body_that_is_not_what_it_says() -> None:
    async with (
        HttpService(stream(b"not gzip at all", content_encoding="gzip")) as service,
        TinyProvider(service.url, retry=ONCE) as provider,
    ):
        with pytest.raises(ProviderResponseError, match="cannot be decoded"):
            await collect(provider)


# -- answers that are no stream ---------------------------------------------------------------------------


async def test_a_web_page_with_status_200() -> None:
    page = "<html><head><title>Login &amp; go</title></head><body><h1>Hi</h1></body></html>"
    provider = TinyProvider(transport=answering(200, html=page), retry=ONCE)
    with pytest.raises(ProviderHTTPError, match=r"web page \(Login & go\)") as caught:
        await collect(provider)
    error = caught.value
    assert (error.status_code, error.is_html, error.preview) == (200, True, "Login & go Hi")


async def test_json_with_status_200() -> None:
    provider = TinyProvider(transport=answering(200, json={"error": {"message": "no streaming here"}}))
    with pytest.raises(
        ProviderHTTPError, match=r"application/json instead of an event stream: no streaming"
    ) as e:
        await collect(provider)
    assert (e.value.status_code, e.value.reason, e.value.is_html) == (200, "no streaming here", False)


@pytest.mark.parametrize("content_type", [None, "text/plain", "application/x-ndjson", "text/event-stream"])
async def test_other_content_types_are_streams(content_type: str | None) -> None:
    headers = {"content-type": content_type} if content_type else {}
    assert await collect(TinyProvider(transport=answering(200, headers=headers, content=OK))) == "x"


@pytest.mark.parametrize("body", [b"", b"data: [DONE]\n\n", b": hello\n\n"])
async def test_an_empty_stream(body: bytes) -> None:
    transport = answering(200, headers={"content-type": "text/event-stream"}, content=body)
    with pytest.raises(ProviderResponseError, match=r"empty.*200.*text/event-stream"):
        await collect(TinyProvider(transport=transport))


async def test_json_lines() -> None:
    lines = b'{"text": "a"}\n\n{"text": "b"}'
    assert await collect(TinyProvider(transport=answering(200, content=lines), lines=True)) == "ab"


@pytest.mark.no_cover  # measures time
async def test_20_31_a_large_error_page_costs_little() -> None:
    for piece in (b"<script>", b"<title", b"<", b"<h1>", b"<!--", b"</script", b"&#", b"<style><"):
        page = piece * (2_000_000 // len(piece))
        transport = answering(502, headers={"content-type": "text/html"}, content=page)
        provider = TinyProvider(transport=transport, retry=ONCE)
        spent = []
        for _ in range(5):  # the best of some: the machine may be busy
            began = time.process_time()
            with pytest.raises(ProviderHTTPError) as caught:
                await collect(provider)
            spent.append(time.process_time() - began)
        assert min(spent) < 0.2, piece
        assert caught.value.is_html


async def test_20_31_of_an_endless_error_body_only_the_beginning_is_read() -> None:
    sent = 0

    class Endless(httpx.AsyncByteStream):
        async def __aiter__(self) -> Any:
            nonlocal sent
            while sent < 500_000_000:
                sent += 16384
                yield b"e" * 16384

    provider = TinyProvider(transport=answering(500, stream=Endless()), retry=ONCE)
    with pytest.raises(ProviderHTTPError) as caught:
        await collect(provider)
    assert sent <= 64 * 1024 + 16384
    assert len(caught.value.preview) <= 300


# -- credentials ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "echo",
    [
        KEY,
        f"{KEY[:7]}********{KEY[-4:]}",
        f"{KEY[:12]}...{KEY[-4:]}",
        f"{KEY[:10]}…",
        KEY[:20],
        f"{KEY[:3]}***{KEY[-3:]}",
    ],
)
async def test_20_30_an_echoed_key_is_removed(echo: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    body = {"error": {"message": f"Incorrect API key provided: {echo}. Bye.", "code": echo}}
    for code in (401, 400, 503):
        transport = answering(code, json=body, headers={"x-request-id": f"r-{KEY}"})
        provider = TinyProvider(api_key=KEY, transport=transport, retry=RetryOptions(0, 0, 1))
        with pytest.raises(ProviderError) as caught:
            await collect(provider)
        error = caught.value
        texts = [str(error), repr(error), repr(vars(error)), repr(provider), caplog.text]
        cause = error.__cause__
        assert isinstance(cause, StatusFailure)
        texts += [str(cause), repr(vars(cause)), cause.response.text, repr(cause.response.headers)]
        assert not [text for text in texts if KEY[:8] in text or echo in text]
        assert "Incorrect API key provided" in str(error)


async def test_a_key_echoed_in_the_stream_is_removed() -> None:
    body = f'data: {{"text": "x"}}\n\ndata: {{"broken {KEY}\n\n'.encode()
    provider = TinyProvider(api_key=KEY, transport=answering(200, content=body), retry=ONCE)
    with pytest.raises(ProviderResponseError) as caught:
        await collect(provider)
    assert KEY[:8] not in f"{caught.value} {caught.value.__cause__!r} {vars(caught.value.__cause__)}"


async def test_a_key_in_the_address_is_removed() -> None:
    query = {"api-key": "another-secret-0815"}
    provider = TinyProvider(transport=answering(400, text="no: another-secret-0815"), query=query)
    with pytest.raises(ProviderHTTPError) as caught:
        await collect(provider)
    cause: Any = caught.value.__cause__
    assert "another-secret-0815" not in f"{caught.value} {cause.url} {cause.text}"


async def test_the_service_error_is_described() -> None:
    body = {"error": {"message": "busy\x1b[31m", "type": "overloaded", "code": None}}
    transport = answering(529, json=body, headers={"request-id": "req_7", "retry-after": "9"})
    with pytest.raises(ProviderHTTPError) as caught:
        await collect(TinyProvider(transport=transport, retry=ONCE))
    error = caught.value
    assert str(error) == "tiny: HTTP 529: busy[31m"
    assert (error.error_code, error.request_id, error.retry_after, error.rate_limit) == (
        "overloaded",
        "req_7",
        9,
        None,
    )


async def test_a_rejected_credential() -> None:
    with pytest.raises(ProviderAuthError, match=r"rejected.*HTTP 401.*bad key") as caught:
        await collect(TinyProvider(transport=answering(401, json={"error": {"message": "bad key"}})))
    assert caught.value.status_code == 401


async def test_what_a_hook_is_given() -> None:
    body = {"error": {"message": "m", "type": "t"}}
    client = ProviderClient(
        provider="t", base_url="https://h.example", headers={}, transport=answering(400, json=body)
    )
    with pytest.raises(StatusFailure) as caught:
        async with client.post("/chat", b"{}", timeout=TimeoutOptions()):
            pass
    failure = caught.value
    assert (failure.status_code, failure.body) == (400, body["error"])
    assert failure.response.json() == body
    assert failure.response.status_code == 400
    assert str(failure.response.request.url) == "https://h.example/chat"
    assert "t: HTTP 400: m" == failure.message == str(failure)


# -- lifecycle --------------------------------------------------------------------------------------------


async def test_using_a_closed_provider() -> None:
    provider = TinyProvider(retry=RetryOptions(0, 0, 5))
    await provider.aclose()
    await provider.aclose()
    with pytest.raises(ProviderError, match="closed"):
        await collect(provider)


async def test_closing_closes_the_given_transport_once() -> None:
    class Counting(httpx.MockTransport):
        closed = 0

        async def aclose(self) -> None:
            self.closed += 1

    transport = Counting(lambda request: httpx.Response(200, content=OK))
    async with TinyProvider(transport=transport) as provider:
        assert await collect(provider) == "x"
    await provider.aclose()
    assert transport.closed == 1


async def test_closing_under_a_running_stream() -> None:
    async with HttpService(stream(b'data: {"text": "x"}\n\n', end=False)) as service:
        provider = TinyProvider(service.url)
        events = provider.stream(REQUEST)
        await anext(events)
        waiting = asyncio.ensure_future(anext(events))  # type: ignore[arg-type]
        await asyncio.sleep(0.01)
        await provider.aclose()
        with pytest.raises(ProviderError, match="closed"):
            await asyncio.wait_for(waiting, 1)


def test_20_28_three_event_loops_one_after_the_other() -> None:
    with service_in_a_thread() as service, warnings.catch_warnings():
        warnings.simplefilter("error")
        provider = TinyProvider(service.url, retry=ONCE)
        for _ in range(3):
            assert asyncio.run(collect_twice(provider)) == "xx"
        asyncio.run(provider.aclose())
        gc.collect()
    assert service.connections == 3  # one for each loop, used twice


def test_a_loop_that_was_closed_carelessly_is_forgotten_quietly() -> None:
    with service_in_a_thread() as service:
        provider = TinyProvider(service.url, retry=ONCE)
        for _ in range(3):
            loop = asyncio.new_event_loop()
            assert loop.run_until_complete(collect_twice(provider)) == "xx"
            loop.close()  # without shutting down its generators
        asyncio.run(provider.aclose())
        gc.collect()


def test_two_loops_at_once() -> None:
    with service_in_a_thread() as service:
        provider = TinyProvider(service.url, retry=ONCE)
        with ThreadPoolExecutor(2) as threads:
            answers = [threads.submit(lambda: asyncio.run(collect_twice(provider))) for _ in range(2)]
            assert [answer.result() for answer in answers] == ["xx", "xx"]
        asyncio.run(provider.aclose())


async def test_closing_from_another_loop_than_the_one_in_use() -> None:
    async with HttpService(stream(OK)) as service:
        provider = TinyProvider(service.url)
        assert await collect(provider) == "x"
        await asyncio.to_thread(asyncio.run, provider.aclose())
        await asyncio.wait_for(service.requests[0].gone.wait(), 1)


async def test_places_in_the_pools_are_given_back() -> None:
    async with (
        HttpService(stream(OK), reply(500), stream(b"data: {\n\n"), stream(OK)) as service,
        TinyProvider(service.url, retry=ONCE) as provider,
    ):
        for _ in range(4):
            with contextlib.suppress(ProviderError):
                await collect(provider)
        await asyncio.gather(*(collect(provider) for _ in range(120)))
        (entry,) = provider._client.connections._loops.values()  # type: ignore[union-attr]
        pools: Any = entry.client._transport
        assert len(pools._pools) == 3  # of 50 streams each
        assert [pool.streams for pool in pools._pools] == [0, 0, 0]


async def test_errors_of_a_transport_become_ours_and_bugs_do_not() -> None:
    for failure in (
        httpx.ReadError("x"),
        httpx.RemoteProtocolError("y"),
        httpx.ProxyError("z"),
        OSError(5, "io"),
        EOFError(),
    ):

        def handle(request: httpx.Request, failure: Exception = failure) -> httpx.Response:
            raise failure

        with pytest.raises(ProviderConnectionError, match=r"tiny\.example") as caught:
            await collect(TinyProvider(transport=httpx.MockTransport(handle), retry=ONCE))
        assert caught.value.__cause__ is failure

    def bug(request: httpx.Request) -> httpx.Response:
        raise AssertionError("wrong request")

    with pytest.raises(AssertionError, match="wrong request"):
        await collect(TinyProvider(transport=httpx.MockTransport(bug), retry=ONCE))


async def test_a_broken_protocol() -> None:
    async def nonsense(exchange: Any) -> None:
        await exchange.send(b"SMTP ready\r\n\r\n")

    async def bad_chunk(exchange: Any) -> None:
        await exchange.start()
        await exchange.send(b"zz\r\n")

    async with HttpService(nonsense, bad_chunk) as service, TinyProvider(service.url, retry=ONCE) as provider:
        for _ in range(2):
            with pytest.raises(ProviderConnectionError):
                await collect(provider)
