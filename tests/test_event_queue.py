"""The event queue: every row of its contract, with and without acknowledgement."""

from __future__ import annotations

import asyncio

import pytest

from zett_agent.event_queue import AgentEventQueue
from zett_agent.events import AgentEvent, AgentEventType
from zett_agent.exceptions import AgentProtocolError


def progress(name="progress"):
    return AgentEvent(AgentEventType.CUSTOM, "s1", name=name)


def completed():
    return AgentEvent(AgentEventType.RUN_COMPLETED, "s1")


def acknowledging():
    queue = AgentEventQueue()
    queue.enable_acknowledgements()
    return queue


async def settle():
    """Let every task run until it waits for something."""
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.fixture
async def tasks():
    """Start tasks that are cancelled at the end, so that a failed test leaves none behind."""
    started = []

    def start(coroutine):
        started.append(asyncio.ensure_future(coroutine))
        return started[-1]

    yield start
    for task in started:
        task.cancel()
    await asyncio.gather(*started, return_exceptions=True)


def test_ev9_it_can_be_created_outside_a_loop():
    queue = AgentEventQueue()

    async def use():
        await queue.put(progress())
        return await queue.get()

    assert asyncio.run(use()).name == "progress"


async def test_ev9_properties():
    queue = AgentEventQueue()
    assert (queue.closed, queue.empty) == (False, True)
    await queue.put(progress())
    assert (queue.closed, queue.empty) == (False, False)
    await queue.close()
    assert (queue.closed, queue.empty) == (True, False)
    await queue.get()
    assert (queue.closed, queue.empty) == (True, True)


async def test_ev9_put_without_acknowledgement_returns_at_once():
    queue = AgentEventQueue()
    events = [progress(str(n)) for n in range(3)]
    for event in events:
        await queue.put(event)
    assert [await queue.get() for _ in events] == events
    queue.acknowledge()  # nothing to release


async def test_ev9_get_returns_the_same_object():
    queue = AgentEventQueue()
    event = progress()
    await queue.put(event)
    assert await queue.get() is event


async def test_ev9_get_waits_for_an_event(tasks):
    queue = AgentEventQueue()
    getter = tasks(queue.get())
    await settle()
    assert not getter.done()
    await queue.put(progress())
    assert (await getter).name == "progress"


async def test_ev9_put_with_acknowledgement_waits(tasks):
    queue = acknowledging()
    producer = tasks(queue.put(progress()))
    await settle()
    assert not queue.empty
    await queue.get()
    await settle()
    assert not producer.done()
    queue.acknowledge()
    await producer


async def test_ev9_several_producers_are_released_in_order(tasks):
    queue = acknowledging()
    producers = [tasks(queue.put(progress(str(n)))) for n in range(3)]
    await settle()
    for n, producer in enumerate(producers):
        assert (await queue.get()).name == str(n)
        assert not producer.done()
        queue.acknowledge()
        await producer


async def test_ev9_extra_acknowledgements_do_nothing(tasks):
    queue = acknowledging()
    queue.acknowledge()
    producers = [tasks(queue.put(progress(str(n)))) for n in range(2)]
    await settle()
    await queue.get()
    queue.acknowledge()
    queue.acknowledge()
    await settle()
    assert [producer.done() for producer in producers] == [True, False]


async def test_ev9_acknowledgements_cannot_begin_with_events_queued():
    queue = AgentEventQueue()
    await queue.put(progress())
    with pytest.raises(AgentProtocolError):
        queue.enable_acknowledgements()
    await queue.get()
    queue.enable_acknowledgements()


@pytest.mark.parametrize("make", [AgentEventQueue, acknowledging])
async def test_ev9_put_after_the_end_is_an_error(make):
    closed, failed = make(), make()
    await closed.close()
    await failed.fail(KeyError("k"))
    for queue in (closed, failed):
        with pytest.raises(AgentProtocolError, match="closed"):
            await queue.put(progress())


async def test_ev9_nothing_follows_run_completed():
    queue = AgentEventQueue()
    await queue.put(completed())
    with pytest.raises(AgentProtocolError, match="closed"):
        await queue.put(progress())
    assert (await queue.get()).type is AgentEventType.RUN_COMPLETED


async def test_bev4_a_late_event_is_named_with_its_session():
    queue = AgentEventQueue()
    await queue.close()
    with pytest.raises(AgentProtocolError, match=r"custom.*s1"):
        await queue.put(progress())


@pytest.mark.parametrize("make", [AgentEventQueue, acknowledging])
async def test_ev9_get_raises_the_error_given_to_fail(make):
    queue = make()
    error = KeyError("k")
    await queue.fail(error)
    with pytest.raises(KeyError) as caught:
        await queue.get()
    assert caught.value is error


@pytest.mark.parametrize("make", [AgentEventQueue, acknowledging])
async def test_ev9_get_after_close(make):
    queue = make()
    await queue.close()
    with pytest.raises(AgentProtocolError, match="without RUN_COMPLETED"):
        await queue.get()


async def test_ev9_events_queued_before_the_end_are_delivered_first():
    queue = AgentEventQueue()
    await queue.put(progress())
    await queue.fail(KeyError("k"))
    assert (await queue.get()).name == "progress"
    with pytest.raises(KeyError):
        await queue.get()


async def test_ev9_the_first_end_wins():
    failed, closed = AgentEventQueue(), AgentEventQueue()
    await failed.fail(KeyError("first"))
    await failed.fail(ValueError("second"))
    await failed.close()
    with pytest.raises(KeyError, match="first"):
        await failed.get()
    await closed.close()
    await closed.fail(KeyError("late"))
    with pytest.raises(AgentProtocolError, match="without RUN_COMPLETED"):
        await closed.get()


@pytest.mark.parametrize("end", ["fail", "close"])
async def test_ev9_the_end_wakes_everybody_and_never_waits(tasks, end):
    queue = AgentEventQueue()
    getters = [tasks(queue.get()) for _ in range(2)]
    await settle()
    finish = queue.fail(KeyError("k")) if end == "fail" else queue.close()
    with pytest.raises(StopIteration):  # a coroutine that never suspends
        finish.send(None)
    for getter in getters:
        with pytest.raises(KeyError if end == "fail" else AgentProtocolError):
            await getter


async def test_ev9_the_end_releases_waiting_producers(tasks):
    queue = acknowledging()
    producers = [tasks(queue.put(progress())) for _ in range(2)]
    await settle()
    await queue.get()
    await queue.close()
    await asyncio.wait_for(asyncio.gather(*producers), 1)


async def test_ev9_bev2_a_second_get_before_acknowledge(tasks):
    queue = acknowledging()
    producers = [tasks(queue.put(progress(str(n)))) for n in range(2)]
    await settle()
    await queue.get()
    with pytest.raises(AgentProtocolError, match="not acknowledged"):
        await queue.get()
    # The refused call took nothing: the second event is still there, and its producer is released.
    queue.acknowledge()
    assert (await queue.get()).name == "1"
    queue.acknowledge()
    await asyncio.wait_for(asyncio.gather(*producers), 1)


async def test_bev1_the_terminal_state_is_sticky():
    failed, closed = AgentEventQueue(), AgentEventQueue()
    error = KeyError("k")
    await failed.fail(error)
    await closed.close()
    for _ in range(3):
        with pytest.raises(KeyError) as caught:
            await asyncio.wait_for(failed.get(), 1)
        assert caught.value is error
        with pytest.raises(AgentProtocolError, match="without RUN_COMPLETED"):
            await asyncio.wait_for(closed.get(), 1)


async def test_a_cancelled_get_loses_no_event(tasks):
    queue = AgentEventQueue()
    first, second = tasks(queue.get()), tasks(queue.get())
    await settle()
    await queue.put(progress())
    first.cancel()  # it was about to be woken
    with pytest.raises(asyncio.CancelledError):
        await first
    assert (await asyncio.wait_for(second, 1)).name == "progress"


async def test_a_cancelled_put_leaves_its_event(tasks):
    queue = acknowledging()
    producer = tasks(queue.put(progress()))
    await settle()
    producer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await producer
    assert (await queue.get()).name == "progress"
    queue.acknowledge()
