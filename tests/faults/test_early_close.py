"""Consumers that leave at each event, in each way there is (11 §11)."""

from __future__ import annotations

import asyncio
import gc

import pytest

from support.loop_faults import SESSION, SHAPES, Rig, Shape, cancelled_after
from zett_agent.events import AgentEvent, AgentEventType, AgentPhase


async def check_left(rig: Rig, last: AgentEvent | None, where: str) -> None:
    rig.check(where=where, open_tail=False)
    rig.check_notified(where)
    rig.check_effects(where)
    finished = last is None or last.type is AgentEventType.RUN_COMPLETED
    state = rig.agent.get_state(SESSION)
    assert state.phase is (AgentPhase.COMPLETED if finished else AgentPhase.CANCELLED), where
    await rig.check_next_run(where)


@pytest.mark.parametrize("pauses", [False, True], ids=["quick", "slow"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
async def test_closed_at_each_event(shape: Shape, pauses: bool) -> None:
    number = 0
    while True:
        rig = await shape()
        events = await rig.consume(leave_at=number, pauses=pauses)
        if len(events) <= number:
            break
        where = f"{shape.__name__} closed at event {number}, {events[-1].type}"
        rig.check_nothing_ran_ahead(events, where)
        await check_left(rig, events[-1], where)
        number += 1
    assert number == len(events) > 3


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
async def test_closed_by_another_task_at_each_event(shape: Shape) -> None:
    number = 0
    while True:
        rig = await shape()
        stream = rig.stream()
        last = None
        for _ in range(number + 1):
            try:
                last = await asyncio.create_task(_next(stream))
            except _Ended:
                last = None
                break
        await asyncio.create_task(stream.aclose())
        await check_left(rig, last, f"{shape.__name__} closed by another task at event {number}")
        if last is None:
            break
        number += 1


class _Ended(Exception):
    pass


async def _next(stream: object) -> AgentEvent:
    try:
        return await stream.__anext__()  # type: ignore[attr-defined]
    except StopAsyncIteration:
        raise _Ended from None


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
async def test_dropped_at_each_event(shape: Shape) -> None:
    number = 0
    while True:
        rig = await shape()
        events = []
        async for event in rig.stream():
            events.append(event)
            if len(events) > number:
                break
        if len(events) <= number:
            break
        for _ in range(500):
            await asyncio.sleep(0)
            if len(asyncio.all_tasks()) == 1:
                break
        await check_left(rig, events[-1], f"{shape.__name__} dropped at event {number}, {events[-1].type}")
        number += 1
    gc.collect()


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
async def test_b_a2_cancelled_while_the_stream_is_being_closed(shape: Shape) -> None:
    """The consumer leaves at each event, and its task is cancelled at each step of the clean-up."""
    number = 0
    while True:
        distance = 1
        while True:
            rig = await shape()
            left: list[int] = []
            events: list[AgentEvent] = []

            async def leave(
                rig: Rig = rig, left: list[int] = left, events: list[AgentEvent] = events
            ) -> None:
                stream = rig.stream()
                async for event in stream:
                    events.append(event)
                    if len(events) > number:  # noqa: B023
                        break
                left.append(0)
                await stream.aclose()

            def cancel(step: int, left: list[int] = left, distance: int = distance) -> bool:
                if left:
                    left[0] += 1
                return bool(left) and left[0] == distance

            outcome = await cancelled_after(leave(), cancel)
            where = f"{shape.__name__} closed at event {number}, cancelled {distance} steps later"
            assert outcome.error is None or isinstance(outcome.error, asyncio.CancelledError), where
            rig.check(where=where, open_tail=False)
            rig.check_notified(where)
            rig.check_effects(where)
            await rig.check_next_run(where)
            if left[0] <= distance:
                break
            distance += 1
        if len(events) <= number:
            break
        number += 3


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
async def test_error_in_the_consumer_at_each_event_reaches_its_caller(shape: Shape) -> None:
    number = 0
    while True:
        rig = await shape()
        try:
            await _raise_at(rig, number)
        except LookupError as error:
            assert error.args == (number,)
            where = f"{shape.__name__}, consumer failed at event {number}"
            rig.check(where=where, open_tail=False)
            await rig.check_next_run(where)
            number += 1
        else:
            break


async def _raise_at(rig: Rig, number: int) -> None:
    from contextlib import aclosing

    count = 0
    async with aclosing(rig.stream()) as stream:
        async for _ in stream:
            if count == number:
                raise LookupError(number)
            count += 1
