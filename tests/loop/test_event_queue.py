"""The public queue of agent events (12 §7, EV-9, B-EV1, B-EV2)."""

from __future__ import annotations

import asyncio

import pytest

from zett_agent.event_queue import AgentEventQueue
from zett_agent.events import AgentEvent, AgentEventType
from zett_agent.exceptions import AgentProtocolError


def event(name: str = "x") -> AgentEvent:
    return AgentEvent(AgentEventType.CUSTOM, "s", name=name)


def run_completed() -> AgentEvent:
    return AgentEvent(AgentEventType.RUN_COMPLETED, "s")


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_ev9_can_be_created_outside_a_loop() -> None:
    queue = AgentEventQueue()
    assert queue.empty and not queue.closed

    async def use() -> str | None:
        await queue.put(event())
        return (await queue.get()).name

    assert asyncio.run(use()) == "x"


@pytest.fixture(params=[False, True], ids=["plain", "acknowledged"])
def queue(request: pytest.FixtureRequest) -> AgentEventQueue:
    queue = AgentEventQueue()
    if request.param:
        queue.enable_acknowledgements()
    return queue


async def test_ev9_put_without_acknowledgement_returns_at_once() -> None:
    queue = AgentEventQueue()
    await queue.put(event("a"))
    await queue.put(event("b"))
    assert not queue.empty
    assert [(await queue.get()).name for _ in range(2)] == ["a", "b"]
    assert queue.empty
    queue.acknowledge()  # extra calls do nothing


async def test_ev9_put_with_acknowledgement_waits_for_it() -> None:
    queue = AgentEventQueue()
    queue.enable_acknowledgements()
    put = asyncio.create_task(queue.put(event("a")))
    assert (await queue.get()).name == "a"
    await settled()
    assert not put.done()
    queue.acknowledge()
    await asyncio.wait_for(put, 1)
    queue.acknowledge()


async def test_ev9_acknowledgements_cannot_be_enabled_late() -> None:
    queue = AgentEventQueue()
    await queue.put(event())
    with pytest.raises(AgentProtocolError):
        queue.enable_acknowledgements()


async def test_ev9_b_ev2_second_get_before_acknowledge_loses_nothing() -> None:
    queue = AgentEventQueue()
    queue.enable_acknowledgements()
    puts = [asyncio.create_task(queue.put(event(name))) for name in "ab"]
    await settled()
    await queue.get()
    with pytest.raises(AgentProtocolError, match="not acknowledged"):
        await queue.get()
    queue.acknowledge()
    assert (await queue.get()).name == "b"
    queue.acknowledge()
    await asyncio.wait_for(asyncio.gather(*puts), 1)


async def test_ev9_get_waits_for_an_event(queue: AgentEventQueue) -> None:
    get = asyncio.create_task(queue.get())
    await settled()
    assert not get.done()
    put = asyncio.create_task(queue.put(event("a")))
    assert (await asyncio.wait_for(get, 1)).name == "a"
    queue.acknowledge()
    await asyncio.wait_for(put, 1)


async def test_ev9_nothing_follows_run_completed(queue: AgentEventQueue) -> None:
    put = asyncio.create_task(queue.put(run_completed()))
    await settled()
    with pytest.raises(AgentProtocolError):
        await queue.put(event())
    assert (await queue.get()).type is AgentEventType.RUN_COMPLETED
    queue.acknowledge()
    await put
    with pytest.raises(AgentProtocolError):
        await queue.put(event())


async def test_ev9_closed_queue(queue: AgentEventQueue) -> None:
    await queue.close()
    assert queue.closed
    with pytest.raises(AgentProtocolError, match="closed"):
        await queue.put(event())
    for _ in range(3):  # B-EV1: the end is sticky
        with pytest.raises(AgentProtocolError, match="without RUN_COMPLETED"):
            await asyncio.wait_for(queue.get(), 1)


async def test_ev9_failed_queue(queue: AgentEventQueue) -> None:
    error = KeyError("model")
    await queue.fail(error)
    with pytest.raises(AgentProtocolError, match="closed"):
        await queue.put(event())
    for _ in range(3):
        with pytest.raises(KeyError) as caught:
            await asyncio.wait_for(queue.get(), 1)
        assert caught.value is error


async def test_ev9_first_end_wins(queue: AgentEventQueue) -> None:
    await queue.fail(KeyError("first"))
    await queue.fail(ValueError("second"))
    await queue.close()
    with pytest.raises(KeyError):
        await queue.get()
    other = AgentEventQueue()
    await other.close()
    await other.fail(KeyError("late"))
    with pytest.raises(AgentProtocolError):
        await other.get()


async def test_ev9_end_wakes_a_waiting_consumer(queue: AgentEventQueue) -> None:
    get = asyncio.create_task(queue.get())
    await settled()
    await queue.close()
    with pytest.raises(AgentProtocolError, match="without RUN_COMPLETED"):
        await asyncio.wait_for(get, 1)


async def test_ev9_end_never_waits_and_leaves_no_producer_behind() -> None:
    queue = AgentEventQueue()
    queue.enable_acknowledgements()
    put = asyncio.create_task(queue.put(event("a")))
    await settled()
    await asyncio.wait_for(queue.close(), 1)
    await queue.get()
    queue.acknowledge()
    done, _ = await asyncio.wait({put}, timeout=1)
    assert done


async def test_cancelled_consumer_loses_no_event(queue: AgentEventQueue) -> None:
    get = asyncio.create_task(queue.get())
    await settled()
    get.cancel()
    with pytest.raises(asyncio.CancelledError):
        await get
    put = asyncio.create_task(queue.put(event("a")))
    assert (await asyncio.wait_for(queue.get(), 1)).name == "a"
    queue.acknowledge()
    await put


async def test_many_producers_are_served_in_order() -> None:
    queue = AgentEventQueue()
    queue.enable_acknowledgements()
    puts = [asyncio.create_task(queue.put(event(str(number)))) for number in range(20)]
    names = []
    for _ in puts:
        names.append((await asyncio.wait_for(queue.get(), 1)).name)
        queue.acknowledge()
    await asyncio.wait_for(asyncio.gather(*puts), 1)
    assert names == [str(number) for number in range(20)]
