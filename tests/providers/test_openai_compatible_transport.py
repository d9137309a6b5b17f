"""The transport under a real adapter: what chapter 20 asks of every wire, on the chat and Responses wires."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from typing import Any

import httpx
import pytest

from support.http_service import HttpService, reply, silence, stream
from zett_agent.messages import UserMessage
from zett_agent.model import ModelRequest, RetryOptions, TimeoutOptions
from zett_agent.providers import OpenAICompatibleProvider
from zett_agent.providers.base import (
    ProviderAuthError,
    ProviderConnectionError,
    ProviderError,
    ProviderHTTPError,
    ProviderTimeoutError,
)

REQUEST = ModelRequest([UserMessage(content="hi")])
LIMITS = TimeoutOptions(connect=1, first_byte=0.4, idle=0.5)
KEY = "sk-proj-0123456789abcdefghijklmnop"
DELTA = b'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n'

pytestmark = pytest.mark.parametrize("response", [False, True], ids=["chat", "responses"])


def build(base_url: str = "http://api.example/v1", **options: Any) -> OpenAICompatibleProvider:
    return OpenAICompatibleProvider(**{"model": "m", "api_key": KEY, "base_url": base_url, **options})


async def collect(provider: OpenAICompatibleProvider) -> str:
    return "".join([event.delta async for event in provider.stream(REQUEST)])


@pytest.mark.parametrize("code", [400, 402, 403, 404, 413, 418, 422, 425, 498])
async def test_20_18_final_statuses(response: bool, code: int) -> None:
    requests: list[httpx.Request] = []

    def handle(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return httpx.Response(code, json={"error": {"message": "no"}})

    with pytest.raises(ProviderHTTPError) as caught:
        await collect(build(transport=httpx.MockTransport(handle), response=response))
    assert caught.value.status_code == code
    assert len(requests) == 1


async def test_20_21_a_silent_service(response: bool) -> None:
    async with (
        HttpService(silence) as service,
        build(service.url, timeout=LIMITS, response=response) as provider,
    ):
        began = time.monotonic()
        with pytest.raises(ProviderTimeoutError) as caught:
            await collect(provider)
        assert 0.4 <= time.monotonic() - began < 0.8
        assert (caught.value.phase, caught.value.seconds) == ("first_byte", 0.4)
        assert len(service.requests) == 1


async def test_20_24_a_closed_port(response: bool) -> None:
    async with HttpService() as service:
        url = service.url
    async with build(url, retry=RetryOptions(0, 0, 2), response=response) as provider:
        with pytest.raises(ProviderConnectionError, match="refused"):
            await collect(provider)


async def test_20_25_cancelled_while_waiting(response: bool) -> None:
    async with HttpService(silence) as service, build(service.url, response=response) as provider:
        task = asyncio.create_task(collect(provider))
        await service.wait_for_requests(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(service.requests[0].gone.wait(), 0.2)


async def test_20_26_leaving_early(response: bool) -> None:
    piece = b'data: {"type":"response.output_text.delta","delta":"x"}\n\n' if response else DELTA
    async with (
        HttpService(stream(piece, end=False)) as service,
        build(service.url, response=response) as provider,
    ):
        async with aclosing(provider.stream(REQUEST)) as events:
            async for _ in events:
                break
        await asyncio.wait_for(service.requests[0].gone.wait(), 0.2)


async def test_20_30_the_key_is_never_shown(response: bool, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    for echo in (KEY, f"{KEY[:8]}****{KEY[-4:]}"):
        body = {"error": {"message": f"Incorrect API key: {echo}", "code": "invalid_api_key"}}
        transport = httpx.MockTransport(lambda request, body=body: httpx.Response(401, json=body))
        with pytest.raises(ProviderAuthError) as caught:
            await collect(build(transport=transport, response=response))
        error = caught.value
        assert KEY[:8] not in f"{error!r} {error.__cause__} {error.__context__} {vars(error)} {caplog.text}"


async def test_20_32_redirects(response: bool) -> None:
    async with HttpService() as other, HttpService(reply(307, location=other.url)) as service:
        async with build(service.url, response=response) as provider:
            with pytest.raises(ProviderHTTPError) as caught:
                await collect(provider)
        assert caught.value.status_code == 307
        assert (len(service.requests), len(other.requests)) == (1, 0)


async def test_20_29_nothing_is_read_from_the_environment(
    response: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [
        "OPENAI_ORG_ID",
        "OPENAI_PROJECT_ID",
        "OPENAI_CUSTOM_HEADERS",
        "ANTHROPIC_CUSTOM_HEADERS",
        "ANTHROPIC_AUTH_TOKEN",
        "OPENAI_BASE_URL",
        "ANTHROPIC_BASE_URL",
        "GOOGLE_API_KEY",
        "GEMINI_API_KEY",
        "GOOGLE_GEMINI_BASE_URL",
        "GOOGLE_GENAI_USE_VERTEXAI",
        "OLLAMA_HOST",
        "OLLAMA_API_KEY",
        "OPENAI_API_KEY",
    ]
    for name in names:
        monkeypatch.setenv(name, "marker-from-the-environment")
    async with HttpService(reply(400)) as service, build(service.url, response=response) as provider:
        with pytest.raises(ProviderHTTPError):
            await collect(provider)
        request = service.requests[0]
        assert "marker" not in f"{request.line} {request.raw_headers} {request.body!r}"


async def test_using_it_closed(response: bool) -> None:
    provider = build(response=response)
    await provider.aclose()
    with pytest.raises(ProviderError, match="closed"):
        await collect(provider)
    assert KEY not in repr(provider)
