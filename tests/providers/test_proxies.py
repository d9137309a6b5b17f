"""Proxies of the environment: which one is chosen, and what it is sent."""

from __future__ import annotations

import asyncio
import importlib.util
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme

from support.http_service import HttpService, silence, stream
from support.tiny_provider import OK, TinyProvider, collect
from zett_agent.model import RetryOptions, TimeoutOptions
from zett_agent.providers._proxies import Proxy, UnusableProxy, find_proxy
from zett_agent.providers.base import ProviderConnectionError, ProviderTimeoutError

ONCE = RetryOptions(0, 0, 0)


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "ssl_cert_file", "request_method"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


# -- the choice -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, None),
        ({"HTTP_PROXY": "http://p:1"}, Proxy("http", "p", 1)),
        ({"HTTPS_PROXY": "http://p:1"}, None),  # not for a plain address
        ({"ALL_PROXY": "http://p:1"}, Proxy("http", "p", 1)),
        ({"HTTP_PROXY": "http://p:1", "ALL_PROXY": "http://q:2"}, Proxy("http", "p", 1)),
        ({"HTTP_PROXY": "http://p:1", "http_proxy": "http://q:2"}, Proxy("http", "q", 2)),
        ({"HTTP_PROXY": "http://p:1", "http_proxy": ""}, None),
        ({"HTTP_PROXY": "p.example"}, Proxy("http", "p.example", 80)),
        ({"HTTP_PROXY": "p.example:3128"}, Proxy("http", "p.example", 3128)),
        ({"HTTP_PROXY": "https://p"}, Proxy("https", "p", 443)),
        ({"HTTP_PROXY": "http://[::1]:8"}, Proxy("http", "::1", 8)),
        ({"HTTP_PROXY": "http://u%40x:p%3A@p:1"}, Proxy("http", "p", 1, ("u@x", "p:"))),
        ({"ALL_PROXY": "socks5h://p"}, Proxy("socks5", "p", 1080)),
        ({"HTTP_PROXY": "http://p:1", "REQUEST_METHOD": "GET"}, None),  # set by a client of a CGI program
    ],
)
def test_the_proxy_for_a_plain_address(environ: dict[str, str], expected: Proxy | None) -> None:
    assert find_proxy("http", "api.example", 80, environ) == expected


@pytest.mark.parametrize("value", ["ftp://p", "http://", "http://p:port", "http://[::1", "::", "gopher"])
def test_a_proxy_that_makes_no_sense_is_found_out_later(value: str) -> None:
    found = find_proxy("https", "api.example", 443, {"HTTPS_PROXY": value})
    assert isinstance(found, UnusableProxy if value != "gopher" else Proxy)


@pytest.mark.parametrize(
    ("no_proxy", "bypassed"),
    [
        ("*", {"api.example", "10.1.2.3", "::1", "fe80::1", "localhost", "127.0.0.1"}),
        ("api.example", {"api.example"}),
        (".example", {"api.example"}),
        ("*.example", {"api.example"}),
        ("example", {"api.example"}),
        ("pi.example", set()),
        ("API.example:443", {"api.example"}),
        ("api.example:80", set()),
        ("https://api.example", {"api.example"}),
        ("10.0.0.0/8", {"10.1.2.3"}),
        ("10.1.2.3", {"10.1.2.3"}),
        ("10.1.2.0", set()),
        ("::1", {"::1"}),
        ("[::1]", {"::1"}),
        ("[::1]:443", {"::1"}),
        ("[::1]:80", set()),
        ("::1/128,fe80::/10", {"::1", "fe80::1"}),
        ("::1,::1/128,10.0.0.0/8,localhost", {"::1", "10.1.2.3", "localhost"}),
        ("localhost 127.0.0.0/8", {"localhost", "127.0.0.1"}),
        (" , ,", set()),
        ("10.0.0.0/99, nonsense/8, :::", set()),
    ],
)
def test_no_proxy(no_proxy: str, bypassed: set[str]) -> None:
    environ = {"ALL_PROXY": "http://p:1", "NO_PROXY": no_proxy}
    hosts = ["api.example", "10.1.2.3", "::1", "fe80::1", "localhost", "127.0.0.1"]
    assert {host for host in hosts if find_proxy("https", host, 443, environ) is None} == bypassed


def test_the_password_is_not_shown() -> None:
    assert "secret" not in repr(find_proxy("http", "h", 80, {"HTTP_PROXY": "http://u:secret@p"}))


# -- on the wire ------------------------------------------------------------------------------------------


async def test_20_35_a_plain_address_goes_to_the_proxy_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    async with HttpService(stream(OK)) as recorder:
        monkeypatch.setenv("HTTP_PROXY", recorder.url.replace("http://", "http://user:pa%20ss@"))
        async with TinyProvider("http://api.invalid/v1") as provider:
            assert await collect(provider) == "x"
        request = recorder.requests[0]
        assert request.line == "POST http://api.invalid/v1/chat HTTP/1.1"
        assert request.headers["host"] == "api.invalid"
        assert request.headers["proxy-authorization"] == "Basic dXNlcjpwYSBzcw=="
        assert request.headers["authorization"] == "Bearer test-key"

        monkeypatch.setenv("NO_PROXY", "api.invalid")
        async with TinyProvider("http://api.invalid/v1", retry=ONCE) as provider:
            with pytest.raises(ProviderConnectionError, match=r"api\.invalid"):
                await collect(provider)
        monkeypatch.delenv("NO_PROXY")
        transport = httpx.MockTransport(lambda request: httpx.Response(200, content=OK))
        assert await collect(TinyProvider("http://api.invalid/v1", transport=transport)) == "x"
        assert len(recorder.requests) == 1


async def test_the_environment_is_read_at_construction(monkeypatch: pytest.MonkeyPatch) -> None:
    async with HttpService(stream(OK)) as recorder:
        monkeypatch.setenv("HTTP_PROXY", recorder.url.removeprefix("http://"))  # no scheme means http
        provider = TinyProvider("http://api.invalid/v1")
        monkeypatch.delenv("HTTP_PROXY")
        assert await collect(provider) == "x"
        await provider.aclose()


@asynccontextmanager
async def tunnel(
    reply: bytes = b"HTTP/1.1 200 Established\r\n\r\n",
) -> AsyncIterator[tuple[str, list[bytes]]]:
    """A proxy that connects everything to wherever `CONNECT` says, and records what it was asked."""
    asked: list[bytes] = []
    writers: list[asyncio.StreamWriter] = []

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        head = await reader.readuntil(b"\r\n\r\n")
        asked.append(head)
        writer.write(reply)
        if b" 200 " not in reply:
            writer.close()
            return
        host, _, port = head.split(b" ")[1].decode().rpartition(":")
        up_reader, up_writer = await asyncio.open_connection(host.strip("[]"), int(port))
        writers.append(up_writer)
        await asyncio.gather(pump(reader, up_writer), pump(up_reader, writer), return_exceptions=True)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", asked
        for writer in writers:
            writer.transport.abort()
        await asyncio.sleep(0.01)


@pytest.fixture
def tls_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    ca = trustme.CA()
    ca.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("localhost").configure_cert(context)
    return context


async def test_an_encrypted_address_goes_through_a_tunnel(
    tls_service: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with HttpService(stream(OK), tls=tls_service) as service, tunnel() as (proxy, asked):
        monkeypatch.setenv("HTTPS_PROXY", proxy)
        async with TinyProvider(service.url) as provider:
            assert await collect(provider) == "x"
            assert await collect(provider) == "x"
        assert asked[0].startswith(f"CONNECT localhost:{service.port} HTTP/1.1".encode())
        assert b"test-key" not in asked[0]
        assert len(asked) == 1
        assert service.requests[0].line == "POST /chat HTTP/1.1"


async def test_a_proxy_that_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    async with tunnel(b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n") as (
        proxy,
        _,
    ):
        monkeypatch.setenv("HTTPS_PROXY", proxy)
        async with TinyProvider("https://api.invalid", retry=ONCE) as provider:
            with pytest.raises(ProviderConnectionError, match=r"proxy.*407"):
                await collect(provider)


async def test_a_silent_proxy_is_a_slow_connection(monkeypatch: pytest.MonkeyPatch) -> None:

    async with HttpService(silence) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        limits = TimeoutOptions(connect=0.2, first_byte=5, idle=5)
        async with TinyProvider("https://api.invalid", retry=ONCE, timeout=limits) as provider:
            with pytest.raises(ProviderTimeoutError) as caught:
                await collect(provider)
        assert (caught.value.phase, caught.value.seconds) == ("connect", 0.2)


# -- SOCKS ------------------------------------------------------------------------------------------------


async def test_20_36_odd_proxies_never_fail_the_constructor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "::1,::1/128,10.0.0.0/8,localhost")
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
    async with TinyProvider("https://api.invalid", retry=ONCE) as provider:
        with pytest.raises(ProviderConnectionError):
            await collect(provider)
    async with HttpService(stream(OK)) as service:
        provider = TinyProvider(service.url.replace("127.0.0.1", "localhost"))
        assert await collect(provider) == "x"
        await provider.aclose()


async def test_20_b6_socks_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name == "socksio" else real(name, *a)
    )
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
    async with TinyProvider("http://api.invalid", retry=RetryOptions(0, 0, 3)) as provider:
        with pytest.raises(ProviderConnectionError, match=r"ALL_PROXY.*zett-agent\[socks\]"):
            await collect(provider)
    async with HttpService(stream(OK)) as recorder:
        monkeypatch.setenv("HTTP_PROXY", recorder.url)
        async with TinyProvider("http://api.invalid") as provider:
            assert await collect(provider) == "x"


async def test_20_b6_socks_works_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("socksio")
    asked: list[bytes] = []
    writers: list[Any] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        await reader.readexactly(3)
        writer.write(b"\x05\x00")
        head = await reader.readexactly(5)
        name = await reader.readexactly(head[4])
        await reader.readexactly(2)
        asked.append(name)
        writer.write(b"\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x50")
        await reader.readuntil(b"\r\n\r\n")
        body = OK
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        monkeypatch.setenv("ALL_PROXY", f"socks5h://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        async with TinyProvider("http://api.invalid") as provider:
            assert await collect(provider) == "x"
        assert asked == [b"api.invalid"]
        for writer in writers:
            writer.transport.abort()
        await asyncio.sleep(0.01)
