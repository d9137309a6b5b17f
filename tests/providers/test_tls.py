"""Encrypted connections: whom we trust, and what is said when we do not."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
import trustme

from support.http_service import HttpService, stream
from support.tiny_provider import OK, TinyProvider, collect
from zett_agent.model import RetryOptions, TimeoutOptions
from zett_agent.providers import _tls
from zett_agent.providers.base import ProviderConnectionError, ProviderTimeoutError

AGAIN = RetryOptions(0, 0, 3)


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    """A private authority's certificate; the service's own is signed by it."""
    ca = trustme.CA()
    file = tmp_path / "ca.pem"
    ca.cert_pem.write_to_path(str(file))
    ca.issue_cert("localhost", "127.0.0.1").private_key_and_cert_chain_pem.write_to_path(
        str(tmp_path / "service.pem")
    )
    return file


@pytest.fixture
def service_context(authority: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.parent / "service.pem")
    return context


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)


async def attempts_until_refused(service: HttpService) -> int:
    """Count the greetings until the certificate is refused for good."""
    hellos: list[object] = []
    assert service._tls is not None
    service._tls.sni_callback = lambda *hello: hellos.append(hello)
    async with TinyProvider(service.url, retry=AGAIN) as provider:
        with pytest.raises(ProviderConnectionError, match=r"(?i)localhost.*certificate") as caught:
            await collect(provider)
        assert caught.value.__cause__ is not None
    return len(hellos)


async def test_20_19_an_unknown_certificate_is_refused_once(service_context: ssl.SSLContext) -> None:
    async with HttpService(stream(OK), tls=service_context) as service:
        assert await attempts_until_refused(service) == 1
        assert service.requests == []


async def test_20_19_ssl_cert_file_adds_trust(
    authority: Path, service_context: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    async with HttpService(stream(OK), tls=service_context) as service:
        async with TinyProvider(service.url) as provider:
            assert await collect(provider) == "x"
            assert await collect(provider) == "x"
        assert service.connections == 1


@pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("openssl") is None,
    reason="a hashed directory is OpenSSL's way, and its program makes the name",
)
async def test_ssl_cert_dir_adds_trust(
    authority: Path, service_context: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    directory = tmp_path / "certs"
    directory.mkdir()
    name = subprocess.run(
        ["openssl", "x509", "-hash", "-noout", "-in", str(authority)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    (directory / f"{name}.0").write_bytes(authority.read_bytes())
    monkeypatch.setenv("SSL_CERT_DIR", f"{tmp_path / 'missing'}:{directory}")
    async with HttpService(stream(OK), tls=service_context) as service, TinyProvider(service.url) as provider:
        assert await collect(provider) == "x"


async def test_other_variables_do_not(
    authority: Path, service_context: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(authority))
    async with HttpService(stream(OK), tls=service_context) as service:
        assert await attempts_until_refused(service) == 1


async def test_the_environment_is_read_at_construction(
    authority: Path, service_context: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with HttpService(stream(OK), tls=service_context) as service:
        provider = TinyProvider(service.url, retry=AGAIN)
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        with pytest.raises(ProviderConnectionError):
            await collect(provider)
        await provider.aclose()


async def test_a_wrong_name_is_refused(
    authority: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ca = trustme.CA()
    ca.cert_pem.write_to_path(str(tmp_path / "other-ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("elsewhere.example").configure_cert(context)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "other-ca.pem"))
    async with HttpService(stream(OK), tls=context) as service:
        assert await attempts_until_refused(service) == 1


async def test_a_missing_file_fails_nothing_but_the_handshake(
    service_context: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere/ca.pem")
    async with HttpService(stream(OK), tls=service_context) as service:
        assert await attempts_until_refused(service) == 1
    assert "SSL_CERT_FILE is ignored" in caplog.text


async def test_a_broken_file_is_reported_when_it_is_needed(
    service_context: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "broken.pem").write_text("no certificate")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "broken.pem"))
    async with HttpService(stream(OK), tls=service_context) as service:
        async with TinyProvider(service.url, retry=AGAIN) as provider:
            with pytest.raises(ProviderConnectionError, match="trusted certificates cannot be read"):
                await collect(provider)
        assert service.connections == 0


async def test_plain_addresses_build_no_tls_context(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> ssl.SSLContext:
        raise AssertionError("certificates were read")

    monkeypatch.setattr(_tls, "_context", fail)
    async with HttpService(stream(OK)) as service, TinyProvider(service.url) as provider:
        assert await collect(provider) == "x"


async def test_a_service_that_does_not_speak_tls() -> None:
    async def complain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(5)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(complain, "127.0.0.1", 0)
    async with server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with TinyProvider(url, retry=RetryOptions(0, 0, 0)) as provider:
            with pytest.raises(ProviderConnectionError, match="TLS"):
                await collect(provider)


async def test_cancelled_in_the_middle_of_the_handshake() -> None:
    gone = asyncio.Event()

    async def stall(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(65536)
        greeted.set()
        await reader.read(65536)
        gone.set()
        writer.close()

    for limit in (30, 0.2):
        greeted = asyncio.Event()
        gone.clear()
        server = await asyncio.start_server(stall, "127.0.0.1", 0)
        async with server:
            url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            limits = TimeoutOptions(connect=limit)
            async with TinyProvider(url, retry=RetryOptions(0, 0, 0), timeout=limits) as provider:
                task = asyncio.create_task(collect(provider))
                await greeted.wait()
                if limit == 30:
                    task.cancel()
                with pytest.raises((asyncio.CancelledError, ProviderTimeoutError)):
                    await task
                await asyncio.wait_for(gone.wait(), 0.2)


def test_the_context_is_shared_and_verifies() -> None:
    trust = _tls.TlsTrust(None, None)
    context = trust.context()
    assert trust.context() is context
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.check_hostname
    assert _tls.trusting_nobody().verify_mode == ssl.CERT_REQUIRED
