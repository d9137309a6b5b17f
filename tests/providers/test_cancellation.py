"""Ending a request early: by cancelling it, closing it, or dropping it. `20 §17`."""

from __future__ import annotations

import asyncio
import gc
import random
import socket
import time
from contextlib import aclosing
from typing import Any

import anyio
import pytest

from support.http_service import HttpService, reply, silence, stream
from support.tiny_provider import OK, REQUEST, TinyProvider, collect
from zett_agent.model import RetryOptions, TimeoutOptions

X = b'data: {"text": "x"}\n\n'


async def cancelled_within(task: asyncio.Task[Any], seconds: float) -> None:
    began = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - began < seconds


def other_tasks() -> set[Any]:
    gc.collect()
    return {
        task
        for task in asyncio.all_tasks() - {asyncio.current_task()}
        if "_Connection._serve" not in repr(task.get_coro())
    }


async def test_20_25_while_waiting_for_headers() -> None:
    async with HttpService(silence, stream(OK)) as service, TinyProvider(service.url) as provider:
        task = asyncio.create_task(collect(provider))
        await service.wait_for_requests(1)
        await cancelled_within(task, 0.05)
        await asyncio.wait_for(service.requests[0].gone.wait(), 0.2)
        assert await collect(provider) == "x"


async def test_20_25_between_chunks() -> None:
    async with (
        HttpService(stream(X, end=False), stream(OK)) as service,
        TinyProvider(service.url) as provider,
    ):
        begun = asyncio.Event()

        async def consume() -> None:
            async for _ in provider.stream(REQUEST):
                begun.set()

        task = asyncio.create_task(consume())
        await begun.wait()
        await asyncio.sleep(0.01)
        await cancelled_within(task, 0.05)
        await asyncio.wait_for(service.requests[0].gone.wait(), 0.2)
        assert await collect(provider) == "x"


async def test_20_25_in_a_retry_wait() -> None:
    async with (
        HttpService(reply(503), stream(OK)) as service,
        TinyProvider(service.url, retry=RetryOptions(30, 30, 3)) as provider,
    ):
        task = asyncio.create_task(collect(provider))
        await service.wait_for_requests(1)
        await asyncio.sleep(0.05)
        await cancelled_within(task, 0.05)
        assert await collect(provider) == "x"


async def test_20_25_while_connecting() -> None:
    with socket.socket() as full, socket.socket() as first, socket.socket() as second:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for waiting in (first, second):
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        async with TinyProvider(f"http://127.0.0.1:{full.getsockname()[1]}") as provider:
            task = asyncio.create_task(collect(provider))
            await asyncio.sleep(0.1)
            await cancelled_within(task, 0.05)


async def test_20_26_leaving_the_loop_early() -> None:
    async with HttpService(stream(X, X, end=False)) as service, TinyProvider(service.url) as provider:
        async with aclosing(provider.stream(REQUEST)) as events:  # type: ignore[type-var]
            async for _ in events:
                break
        assert other_tasks() == set()
        await asyncio.wait_for(service.requests[0].gone.wait(), 0.2)
        await asyncio.sleep(0)
        assert other_tasks() == set()


async def test_a_dropped_stream_is_released() -> None:
    async with HttpService(stream(X, end=False)) as service, TinyProvider(service.url) as provider:
        events = provider.stream(REQUEST)
        await anext(events)
        del events
        gc.collect()
        await asyncio.wait_for(service.requests[0].gone.wait(), 0.5)


async def test_20_27_five_hundred_streams_at_once() -> None:
    at_once = asyncio.Event()

    async def held(exchange: Any) -> None:
        await exchange.start()
        await exchange.chunk(X)
        if len(service.requests) == 500:
            at_once.set()
        await at_once.wait()
        await asyncio.sleep(0.5)
        await exchange.chunk(b"data: [DONE]\n\n")
        await exchange.end()

    limits = TimeoutOptions(connect=5, first_byte=50, idle=50)
    async with HttpService(held) as service, TinyProvider(service.url, timeout=limits) as provider:
        answers = await asyncio.gather(*(collect(provider) for _ in range(500)))
        assert answers == ["x"] * 500
        await asyncio.sleep(0.1)
        assert len(service.open) <= 20


async def test_a_complete_answer_keeps_the_connection_and_others_do_not() -> None:
    async with (
        HttpService(
            stream(OK), stream(OK), reply(400), stream(X, end=False), stream(b"data: {\n\n"), stream(OK)
        ) as service,
        TinyProvider(service.url, retry=RetryOptions(0, 0, 0)) as provider,
    ):
        await collect(provider)
        await collect(provider)
        assert service.connections == 1
        with pytest.raises(Exception, match="400"):
            await collect(provider)
        async with aclosing(provider.stream(REQUEST)) as events:  # type: ignore[type-var]
            await anext(events)
        with pytest.raises(Exception, match="malformed"):
            await collect(provider)
        await collect(provider)
        numbers = [request.connection for request in service.requests]
        # After the error, the early close and the malformed stream there is a new one each.
        assert numbers == [0, 0, 0, 1, 2, 3]


async def test_repeated_cancellation_still_closes_the_connection() -> None:
    async with HttpService(stream(X, end=False)) as service, TinyProvider(service.url) as provider:
        task = asyncio.create_task(collect(provider))
        await service.wait_for_requests(1)
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(service.requests[0].gone.wait(), 0.2)


async def test_cancelling_at_any_moment_leaks_nothing() -> None:
    async def slow(exchange: Any) -> None:
        await asyncio.sleep(0.002)
        await exchange.start()
        for _ in range(3):
            await exchange.chunk(X)
            await asyncio.sleep(0.001)
        await exchange.chunk(b"data: [DONE]\n\n")
        await exchange.end()

    randomness = random.Random(20)
    async with HttpService(slow) as service, TinyProvider(service.url) as provider:

        async def once() -> str:
            task = asyncio.create_task(collect(provider))
            await asyncio.sleep(randomness.uniform(0, 0.015))
            task.cancel()
            if randomness.random() < 0.3:
                await asyncio.sleep(0)
                task.cancel()
            try:
                return await task
            except asyncio.CancelledError:
                return "cancelled"

        for _ in range(12):
            outcomes = await asyncio.gather(*(once() for _ in range(20)))
            assert set(outcomes) <= {"cancelled", "xxx"}
        await asyncio.sleep(0.1)
        assert len(service.open) <= 20
        assert other_tasks() == set()
        assert await collect(provider) == "xxx"


async def test_a_limit_around_the_stream_is_the_callers_own() -> None:
    async with HttpService(silence) as service, TinyProvider(service.url) as provider:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(collect(provider), 0.1)
        await asyncio.wait_for(service.requests[0].gone.wait(), 0.2)


async def test_cancelled_by_a_scope_that_repeats_itself_at_every_await() -> None:
    async with HttpService(silence, stream(X, end=False)) as service, TinyProvider(service.url) as provider:
        for number in range(2):
            with anyio.move_on_after(0.1) as scope:
                await collect(provider)
            assert scope.cancelled_caught
            await asyncio.wait_for(service.requests[number].gone.wait(), 0.2)
        assert other_tasks() == set()


async def test_streams_may_be_read_from_changing_tasks() -> None:
    async with (
        HttpService(stream(X, 0.01, X, 0.01, b"data: [DONE]\n\n")) as service,
        TinyProvider(service.url) as provider,
    ):
        events: Any = provider.stream(REQUEST)
        text = ""
        while True:
            try:
                text += (await asyncio.create_task(events.__anext__())).delta
            except StopAsyncIteration:
                break
        assert text == "xx"
