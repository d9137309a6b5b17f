"""Which failures are tried again, when, and how often."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from support.http_service import HttpService, hang_up, reply, reset_after, stream
from support.tiny_provider import OK, REQUEST, TinyProvider, collect
from zett_agent.messages import AssistantMessage
from zett_agent.model import ModelEvent, ModelRequest, ModelResponse, RetryOptions
from zett_agent.providers.base import (
    ProviderConnectionError,
    ProviderError,
    ProviderHTTPError,
    ProviderResponseError,
    ProviderTimeoutError,
    RetryingProvider,
    mark_transient,
    retry_model_stream,
)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits between attempts, which take no time."""
    seen: list[float] = []

    async def sleep(seconds: float) -> None:
        seen.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    return seen


class Service:
    """A fake transport that gives its answers in order, and the last one for ever."""

    def __init__(self, *answers: httpx.Response | Exception) -> None:
        self._answers = answers
        self.requests = 0

    @property
    def transport(self) -> httpx.MockTransport:
        def handle(request: httpx.Request) -> httpx.Response:
            answer = self._answers[min(self.requests, len(self._answers) - 1)]
            self.requests += 1
            if isinstance(answer, Exception):
                raise answer
            return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)

        return httpx.MockTransport(handle)


def ok() -> httpx.Response:
    return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=OK)


def status(code: int, body: Any = None, **headers: str) -> httpx.Response:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.Response(
        code, json=body if body is not None else {"error": {"message": "no"}}, headers=names
    )


async def test_20_13_the_waits_double_up_to_the_longest(waits: list[float]) -> None:
    service = Service(status(500))
    provider = TinyProvider(transport=service.transport, retry=RetryOptions(1.0, 5.0, 4))
    with pytest.raises(ProviderHTTPError) as caught:
        await collect(provider)
    assert caught.value.status_code == 500
    assert (service.requests, waits) == (5, [1, 2, 4, 5])


async def test_20_14_default_waits(waits: list[float]) -> None:
    service = Service(status(500))
    with pytest.raises(ProviderHTTPError):
        await collect(TinyProvider(transport=service.transport))
    assert (service.requests, waits) == (4, [0.25, 0.5, 1.0])


async def test_20_15_a_busy_service_recovers(waits: list[float]) -> None:
    service = Service(status(503), ok())
    assert await collect(TinyProvider(transport=service.transport)) == "x"
    assert service.requests == 2


async def test_20_16_nothing_is_repeated_after_the_first_event() -> None:
    async with (
        HttpService(reset_after(b'data: {"text": "x"}\n\n')) as service,
        TinyProvider(service.url) as provider,
    ):
        text = ""
        with pytest.raises(ProviderConnectionError, match=r"127\.0\.0\.1.*reset"):
            async for event in provider.stream(REQUEST):
                text += event.delta
    assert text == "x"
    assert len(service.requests) == 1


@pytest.mark.parametrize(
    ("headers", "body", "expected"),
    [
        ({"retry-after": "2"}, None, [2.0]),
        ({"retry-after": "0.5"}, None, [0.5]),
        ({"retry-after": "0.1"}, None, [0.25]),  # the larger of the two
        ({"retry-after-ms": "1500", "retry-after": "9"}, None, [1.5]),
        (
            {"retry-after": "Wed, 21 Oct 2026 07:28:03 GMT", "date": "Wed, 21 Oct 2026 07:28:00 GMT"},
            None,
            [3.0],
        ),
        ({"retry-after": "Wed, 21 Oct 2020 07:28:03 GMT"}, None, [0.25]),
        (
            {},
            {
                "error": {
                    "code": 429,
                    "details": [
                        {"@type": "type.googleapis.com/google.rpc.Help"},
                        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "17s"},
                    ],
                }
            },
            [17.0],
        ),
        ({"retry-after": "soon"}, None, [0.25]),
        ({"retry-after": "-1"}, None, [0.25]),
        ({"retry-after": "inf"}, None, [0.25]),
        ({"retry-after": "nan"}, None, [0.25]),
        ({"retry-after-ms": "x", "retry-after": "3"}, None, [3.0]),
        ({}, {"error": {"details": [{"retryDelay": 5}, "x", {"retryDelay": "soon"}]}}, [0.25]),
    ],
)
async def test_20_17_the_service_says_how_long_to_wait(
    waits: list[float], headers: dict[str, str], body: Any, expected: list[float]
) -> None:
    answer = httpx.Response(429, headers=headers, json=body or {"error": {"message": "slow"}})
    service = Service(answer, ok())
    assert await collect(TinyProvider(transport=service.transport)) == "x"
    assert waits == pytest.approx(expected, abs=0.1)


async def test_20_17_too_long_a_wait_is_left_to_the_caller(waits: list[float]) -> None:
    service = Service(status(429, retry_after="3600"), ok())
    with pytest.raises(ProviderHTTPError) as caught:
        await collect(TinyProvider(transport=service.transport))
    assert caught.value.retry_after == 3600
    assert (service.requests, waits) == (1, [])


async def test_20_18_x_should_retry_false(waits: list[float]) -> None:
    service = Service(status(500, x_should_retry="false"))
    with pytest.raises(ProviderHTTPError):
        await collect(TinyProvider(transport=service.transport))
    assert service.requests == 1


@pytest.mark.parametrize("code", [400, 401, 402, 403, 404, 413, 418, 422, 425, 498, 301, 307])
async def test_20_18_other_statuses_are_final(waits: list[float], code: int) -> None:
    service = Service(status(code))
    with pytest.raises(ProviderError) as caught:
        await collect(TinyProvider(transport=service.transport))
    assert caught.value.status_code == code  # type: ignore[attr-defined]
    assert service.requests == 1


@pytest.mark.parametrize("code", [408, 409, 429, 500, 502, 503, 504, 529, 599])
async def test_statuses_that_may_pass(waits: list[float], code: int) -> None:
    service = Service(status(code), ok())
    assert await collect(TinyProvider(transport=service.transport)) == "x"
    assert service.requests == 2


async def test_an_empty_purse_does_not_fill_by_waiting(waits: list[float]) -> None:
    service = Service(status(429, {"error": {"message": "no credit", "code": "insufficient_quota"}}))
    with pytest.raises(ProviderHTTPError) as caught:
        await collect(TinyProvider(transport=service.transport))
    assert caught.value.error_code == "insufficient_quota"
    assert service.requests == 1


async def test_a_malformed_stream_is_tried_again_before_the_first_event(waits: list[float]) -> None:
    bad = httpx.Response(200, headers={"content-type": "text/event-stream"}, content=b'data: {"id": \n\n')
    service = Service(bad, ok())
    assert await collect(TinyProvider(transport=service.transport)) == "x"


async def test_a_cut_stream_is_tried_again_before_the_first_event() -> None:
    async with (
        HttpService(reset_after(), hang_up, stream(OK)) as service,
        TinyProvider(service.url, retry=RetryOptions(0, 0, 2)) as provider,
    ):
        assert await collect(provider) == "x"
    assert len(service.requests) == 3


async def test_80_a5_a_kept_connection_that_the_service_closes_on_reuse() -> None:
    # Every second request on a connection is met by a close without a byte.
    async def first_only(exchange: Any) -> None:
        earlier = [r for r in service.requests[:-1] if r.connection == exchange.request.connection]
        if earlier:
            exchange.close()
        else:
            await reply(200, OK, "text/event-stream")(exchange)

    async with HttpService(first_only) as service:
        async with TinyProvider(service.url, retry=RetryOptions(0, 0, 1)) as provider:
            assert [await collect(provider) for _ in range(3)] == ["x", "x", "x"]
        assert len(service.requests) == 5
        service.requests.clear()
        async with TinyProvider(service.url, retry=RetryOptions(0, 0, 0)) as provider:
            assert await collect(provider) == "x"
            with pytest.raises(ProviderConnectionError, match="closed the connection without an answer"):
                await collect(provider)
            assert await collect(provider) == "x"


# -- the decorator by itself ------------------------------------------------------------------------------


class Scripted(RetryingProvider):
    """Each attempt is the next script: events to yield, then perhaps an error to raise."""

    def __init__(self, *scripts: tuple[Any, ...], **options: Any) -> None:
        super().__init__(**options)
        self._scripts = list(scripts)
        self.closed: list[int] = []

    @retry_model_stream
    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        script = self._scripts.pop(0)
        try:
            for item in script:
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            self.closed.append(len(self._scripts))


DONE = ModelEvent.completed(ModelResponse(AssistantMessage(content="")))
AGAIN = RetryOptions(0, 0, 3)


async def test_the_last_failure_is_raised_and_earlier_ones_are_not_chained() -> None:
    first, last = ProviderConnectionError("first"), ProviderConnectionError("last")
    provider = Scripted((first,), (last,), retry=RetryOptions(0, 0, 1))
    with pytest.raises(ProviderConnectionError) as caught:
        await collect(provider)
    assert caught.value is last
    assert last.__cause__ is None
    assert last.__context__ is None


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (ProviderTimeoutError("t", phase="connect"), True),
        (ProviderTimeoutError("t", phase="first_byte"), False),
        (ProviderTimeoutError("t", phase="idle"), False),
        (ProviderResponseError("r"), False),
        (mark_transient(ProviderResponseError("r"), transient=True), True),
        (mark_transient(ProviderConnectionError("c"), transient=False), False),
        (ValueError("not ours"), False),
    ],
)
async def test_which_errors_are_tried_again(error: Exception, again: bool) -> None:
    provider = Scripted((error,), (ModelEvent.text("x"), DONE), retry=AGAIN)
    if again:
        assert await collect(provider) == "x"
    else:
        with pytest.raises(type(error)) as caught:
            await collect(provider)
        assert caught.value is error


async def test_retry_is_read_afresh_and_checked() -> None:
    provider = Scripted((ProviderConnectionError("c"),), (DONE,), retry=RetryOptions(0, 0, 0))
    provider.retry = AGAIN
    assert await collect(provider) == ""
    provider.retry = {}  # type: ignore[assignment]
    with pytest.raises(ValueError, match="retry must be a RetryOptions instance"):
        await collect(provider)


async def test_jitter_scales_the_wait_and_never_passes_the_longest(
    waits: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    bounds: list[tuple[float, float]] = []

    def uniform(low: float, high: float) -> float:
        bounds.append((low, high))
        return high

    monkeypatch.setattr("random.uniform", uniform)
    errors = [(ProviderConnectionError("c"),)] * 3
    provider = Scripted(*errors, (DONE,), retry=RetryOptions(1, 3, 3, jitter=0.5))
    await collect(provider)
    assert bounds == [(0.5, 1.5)] * 3
    assert waits == [1.5, 3.0, 3.0]


async def test_a_stream_that_was_never_started_can_be_closed() -> None:
    provider = Scripted((DONE,))
    stream = provider.stream(REQUEST)
    await stream.aclose()  # type: ignore[attr-defined]
    assert [event async for event in stream] == []
    assert provider.closed == []


async def test_closing_in_the_middle_ends_the_attempt() -> None:
    provider = Scripted((ModelEvent.text("a"), ModelEvent.text("b"), DONE))
    stream: Any = provider.stream(REQUEST)
    assert (await stream.__anext__()).delta == "a"
    await stream.aclose()
    assert provider.closed == [0]
    assert [event async for event in stream] == []


async def test_an_exception_can_be_thrown_into_the_stream() -> None:
    provider = Scripted((ModelEvent.text("a"), DONE))
    stream: Any = provider.stream(REQUEST)
    assert (await stream.asend(None)).delta == "a"
    with pytest.raises(KeyError):
        await stream.athrow(KeyError("k"))
    assert provider.closed == [0]


async def test_a_stream_ends_for_good_after_a_failure() -> None:
    stream = Scripted((ProviderResponseError("r"),)).stream(REQUEST)
    with pytest.raises(ProviderResponseError):
        await anext(stream)
    assert [event async for event in stream] == []


async def test_the_log_names_the_failure_but_not_its_text(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", logger="zett_agent.providers")
    http = ProviderHTTPError("tiny: HTTP 503: quoting your secret plans", status_code=503)
    await collect(Scripted((http,), (DONE,), retry=AGAIN))
    assert "HTTP 503" in caplog.text
    assert "secret plans" not in caplog.text
