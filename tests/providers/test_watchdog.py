"""The time limit around awaits, and that it is never confused with a cancellation."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from zett_agent.providers._watchdog import Watchdog


async def never() -> None:
    await asyncio.get_running_loop().create_future()


async def shielded() -> None:
    await asyncio.shield(asyncio.get_running_loop().create_future())


async def limited(wait: Callable[[], Awaitable[object]], seconds: float | None) -> str:
    watchdog = Watchdog()
    watchdog.start(seconds)
    try:
        await wait()
    except BaseException as error:
        if watchdog.stop():
            await asyncio.sleep(0.005)  # a leftover cancellation would hit here
            return "limit"
        return "cancelled" if isinstance(error, asyncio.CancelledError) else "failed"
    finally:
        watchdog.close()
    watchdog.stop()
    return "done"


async def test_the_limit_interrupts_the_await() -> None:
    began = time.monotonic()
    assert await limited(never, 0.05) == "limit"
    assert 0.04 < time.monotonic() - began < 0.5


async def test_what_ends_in_time_is_untouched() -> None:
    assert await limited(lambda: asyncio.sleep(0.001), 5) == "done"
    assert await limited(lambda: asyncio.sleep(0.001), None) == "done"


async def test_a_failure_of_the_await_is_its_own() -> None:
    async def fail() -> None:
        raise OSError("broken")

    assert await limited(fail, 5) == "failed"


@pytest.mark.parametrize("offset", [-1e-7, 1e-7], ids=["cancelled_before", "cancelled_after"])
@pytest.mark.parametrize("wait", [never, shielded])
async def test_a_cancellation_in_the_same_turn_of_the_loop_wins(
    wait: Callable[[], Awaitable[object]], offset: float
) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + 0.03
    task = asyncio.ensure_future(limited(wait, 0.03))
    await asyncio.sleep(0)
    loop.call_at(deadline + 0.001 * (1 if offset > 0 else -1), task.cancel)
    time.sleep(0.06)  # both are overdue when the loop runs again, so it calls them in one turn
    assert await task == "cancelled"


async def test_a_cancellation_long_before_is_just_that() -> None:
    task = asyncio.ensure_future(limited(never, 5))
    await asyncio.sleep(0.01)
    task.cancel()
    assert await task == "cancelled"


async def test_one_timer_serves_many_awaits() -> None:
    loop = asyncio.get_running_loop()
    watchdog = Watchdog()
    watchdog.start(0.2)
    timer = watchdog._handle
    for _ in range(20):
        watchdog.start(0.2)
        await asyncio.sleep(0.001)
        assert watchdog.stop() is False
        assert watchdog._handle is timer
    assert watchdog._deadline > loop.time()
    watchdog.close()


async def test_each_await_gets_the_whole_limit() -> None:
    watchdog = Watchdog()
    for _ in range(4):
        watchdog.start(0.1)
        await asyncio.sleep(0.05)
        assert watchdog.stop() is False
    watchdog.close()


async def test_it_may_be_used_from_several_tasks_in_turn() -> None:
    watchdog = Watchdog()

    async def wait(seconds: float) -> str:
        watchdog.start(0.05)
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            assert watchdog.stop()
            return "limit"
        watchdog.stop()
        return "done"

    assert await asyncio.create_task(wait(0.001)) == "done"
    assert await asyncio.create_task(wait(1)) == "limit"
    watchdog.close()


async def test_time_between_awaits_does_not_count() -> None:
    watchdog = Watchdog()
    watchdog.start(0.03)
    await asyncio.sleep(0)
    watchdog.stop()
    await asyncio.sleep(0.06)  # the consumer takes its time
    watchdog.start(0.03)
    await asyncio.sleep(0)
    assert watchdog.stop() is False
    watchdog.close()


@pytest.mark.skipif(
    not hasattr(asyncio.Task, "cancelling"), reason="Python 3.10 does not count cancellations"
)
async def test_the_task_is_left_without_requested_cancellations() -> None:
    assert await limited(never, 0.01) == "limit"
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
