"""Requests cancelled after each step of any of their tasks (11 §11, B-A1, B-A2, B-A8)."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from typing import Any

import pytest

from support.loop_faults import (
    CONFIG,
    SESSION,
    SHAPES,
    Outcome,
    Rig,
    Saboteur,
    Shape,
    cancelled_after,
    examine,
)
from support.loop_tools import make_tool
from zett_agent.events import AgentPhase

MODES: dict[str, Callable[[Rig], Any]] = {
    "run": Rig.drive,
    "stream": Rig.consume,
    "slow consumer": lambda rig: rig.consume(pauses=True),
    "client": Rig.drive_client,
}


async def check_cancelled(rig: Rig, outcome: Outcome, where: str) -> None:
    """Check a request that was cancelled somewhere, or had just ended."""
    assert outcome.error is None or isinstance(outcome.error, asyncio.CancelledError), (
        f"{where}: {outcome.error!r}"
    )
    rig.check(where=where, open_tail=False)
    rig.check_notified(where)
    state = rig.agent.get_state(SESSION)
    if state is not None:
        assert state.phase in (AgentPhase.CANCELLED, AgentPhase.COMPLETED), where
        rig.check_effects(where)
    if outcome.error is None:
        assert state.phase is AgentPhase.COMPLETED, where
    await rig.check_next_run(where)


async def sweep(
    shape: Shape, mode: str, cancel_at: Callable[[int], Callable[[int], bool]], stride: int = 1
) -> int:
    """Cancel at step 1, 2, … until the request ends before it is cancelled; return how many steps it has."""
    trouble: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: trouble.append(context))
    at = 1
    while True:
        rig = await shape()
        outcome = await cancelled_after(MODES[mode](rig), cancel_at(at))
        await check_cancelled(rig, outcome, f"{shape.__name__}, {mode}, cancelled after step {at}")
        if outcome.steps < at:
            break
        at += stride
    gc.collect()
    assert not trouble, trouble
    assert outcome.error is None
    return outcome.steps


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
async def test_cancelled_once_after_each_step(shape: Shape, mode: str) -> None:
    steps = await sweep(shape, mode, lambda at: lambda step: step == at)
    assert steps > 20


@pytest.mark.parametrize("distance", [1, 2, 5])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
async def test_b_a2_cancelled_again_during_the_cleanup(shape: Shape, distance: int) -> None:
    mode = "run" if distance % 2 else "stream"
    await sweep(shape, mode, lambda at: lambda step: step in (at, at + distance))


@pytest.mark.parametrize("mode", ["run", "stream", "client"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
async def test_b_a2_cancelled_at_every_step_from_one_on(shape: Shape, mode: str) -> None:
    """As an enclosing cancel scope does that repeats its cancellation until everybody has left."""
    await sweep(shape, mode, lambda at: lambda step: step >= at, stride=3)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
async def test_b_a1_subscribers_that_fail_during_the_cleanup(shape: Shape) -> None:
    at = 1
    while True:
        saboteur = Saboteur(0, None, lasting=True, priority=1, only="on_event")
        rig = await shape(saboteur)
        rig.store.complete = False

        def cancel(step: int, at: int = at, saboteur: Saboteur = saboteur) -> bool:
            if step == at:
                saboteur.error = KeyError("disk")
            return step == at

        outcome = await cancelled_after(rig.drive(), cancel)
        where = f"{shape.__name__}, cancelled after step {at} with failing subscribers"
        assert outcome.error is None or isinstance(outcome.error, (asyncio.CancelledError, KeyError)), where
        saboteur.error = None
        rig.check(where=where, open_tail=True)
        if rig.agent.get_state(SESSION) is not None:
            rig.check_effects(where)
        await rig.check_next_run(where)
        if outcome.steps < at:
            break
        at += 2


@pytest.mark.parametrize("mode", ["run", "stream"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
async def test_every_task_cancelled_after_each_step(shape: Shape, mode: str) -> None:
    """As at the end of a program: not even the clean-up is spared, but nobody hangs, the session is free."""
    at = 1
    while True:
        rig = await shape()
        rig.store.complete = False
        outcome = await cancelled_after(MODES[mode](rig), lambda step, at=at: step == at, everybody=True)
        where = f"{shape.__name__}, {mode}, every task cancelled after step {at}"
        assert outcome.error is None or isinstance(outcome.error, asyncio.CancelledError), where
        rig.check(where=where, open_tail=True)
        await rig.check_next_run(where)
        if outcome.steps < at:
            break
        at += 2


async def test_anyio_cancel_scope_that_repeats_its_cancellation() -> None:
    anyio = pytest.importorskip("anyio")
    rig = await SHAPES["three_parallel"]()
    rig.agent.tools["t1"] = make_tool("t1", rig.handler("t1", 10_000_000))
    with anyio.move_on_after(0.02) as scope:
        await rig.drive()
    assert scope.cancelled_caught
    rig.check(where="anyio", open_tail=False)
    rig.check_notified("anyio")
    rig.check_effects("anyio")
    with anyio.CancelScope() as outer:
        rig.model.steps = [[60]]
        rig.model.requests.clear()
        async with anyio.create_task_group() as group:
            group.start_soon(rig.drive)
            await anyio.sleep(0.01)
            group.cancel_scope.cancel()
    assert not outer.cancel_called
    await rig.check_next_run("anyio")


def test_stream_that_is_still_open_when_the_program_ends() -> None:
    for leave_at in (0, 3, 6):
        rigs: list[Rig] = []

        async def program(leave_at: int = leave_at, rigs: list[Rig] = rigs) -> None:
            rig = await SHAPES["one_tool"]()
            rigs.append(rig)
            stream = rig.stream()
            for _ in range(leave_at + 1):
                await stream.__anext__()
            rigs.append(stream)

        asyncio.run(program())
        rig = rigs[0]
        assert not rig.agent.pending and rig.model.open_streams == 0
        assert rig.agent.get_state(SESSION).phase is AgentPhase.CANCELLED
        problems, unanswered = examine(rig.agent.get_state(SESSION).messages)
        assert not problems and not unanswered


async def test_cancelled_before_anything_happened() -> None:
    rig = await SHAPES["plain"]()
    task = asyncio.create_task(rig.drive())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    rig.check(where="before the first step", open_tail=False)
    await rig.check_next_run("before the first step")


async def test_timeout_around_a_run_is_a_timeout() -> None:
    rig = await SHAPES["plain"]()
    rig.model.steps = [[60]]
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(rig.drive(), 0.02)
    rig.check(where="timeout", open_tail=False)
    await rig.check_next_run("timeout")


async def test_cancelling_one_session_leaves_the_others_alone() -> None:
    from support.loop_models import RawModel, response
    from zett_agent.agent import Agent, AgentRunConfig

    agent = await Agent.create(RawModel([0.03, response("x")], repeat=True))
    runs = {name: asyncio.create_task(agent.run("go", config=AgentRunConfig(name))) for name in "abc"}
    await asyncio.sleep(0.01)
    runs["b"].cancel()
    results = await asyncio.gather(*runs.values(), return_exceptions=True)
    assert [type(result).__name__ for result in results] == [
        "AssistantMessage",
        "CancelledError",
        "AssistantMessage",
    ]
    assert CONFIG.session_id == SESSION and not agent.pending
