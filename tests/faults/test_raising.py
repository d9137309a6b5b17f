"""Errors in each call of each hook, subscriber and middleware (11 §11, B-A3, B-A11)."""

from __future__ import annotations

import asyncio
import gc

import pytest

from support.loop_faults import SESSION, SHAPES, Abort, Outcome, Rig, Saboteur, Shape, cancelled_after
from zett_agent.events import AgentPhase
from zett_agent.messages import ToolMessage


def failed_call(saboteur: Saboteur) -> str | None:
    """The call whose own `after_tool` raised first: it stays without result."""
    place = saboteur.raised_in[0]
    return place.split()[1] if place.startswith("after_tool ") else None


async def check_failed(
    rig: Rig, outcome: Outcome, saboteur: Saboteur, error: BaseException, where: str
) -> None:
    place = saboteur.raised_in[0]
    where = f"{where}: raised in {place}"
    phase = rig.agent.get_state(SESSION).phase
    if place.startswith("on_tool_call") and isinstance(error, Exception):
        assert outcome.error is None, f"{where}: {outcome.error!r}"  # a failed tool result
        assert phase is AgentPhase.COMPLETED, where
    else:
        assert outcome.error is error, f"{where}: {outcome.error!r}"
        ended = place == "on_event PhaseTransitionEvent completed"
        assert phase is (AgentPhase.COMPLETED if ended else AgentPhase.FAILED), f"{where}: {phase}"
        if isinstance(error, Exception):
            assert rig.store.errors == [error], where
    saboteur.error = None
    rig.check(where=where, open_tail=True)
    if not place.startswith("on_tool_call"):
        rig.check_effects(where, but=failed_call(saboteur))
        stored = [m.tool_call_id for m in rig.agent.get_state(SESSION).messages if isinstance(m, ToolMessage)]
        assert failed_call(saboteur) not in stored, where
    await rig.check_next_run(where)


async def sweep(
    shape: Shape, kind: type[BaseException], priority: int, *, lasting: bool, streamed: bool
) -> int:
    trouble: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: trouble.append(context))
    at = 1
    while True:
        error = kind(f"call {at}")
        saboteur = Saboteur(at, error, lasting=lasting, priority=priority)
        rig = await shape(saboteur)
        outcome = await cancelled_after(rig.consume() if streamed else rig.drive(), lambda step: False)
        if not saboteur.raised_in:
            break
        await check_failed(rig, outcome, saboteur, error, f"{shape.__name__}, call {at}")
        at += 1
    gc.collect()
    assert not trouble, trouble
    return at


@pytest.mark.parametrize(("priority", "kind"), [(1, KeyError), (200, Abort)], ids=["first", "last"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
async def test_error_in_each_call_of_an_extension(
    shape: Shape, priority: int, kind: type[BaseException]
) -> None:
    assert await sweep(shape, kind, priority, lasting=False, streamed=priority == 1) > 10


@pytest.mark.parametrize("later", [RuntimeError, Abort])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
async def test_extension_that_fails_from_some_call_on_cannot_hide_the_first_error(
    shape: Shape, later: type[BaseException]
) -> None:
    """B-A11: neither may it keep the others from cleaning up."""
    at = 1
    while True:
        error = KeyError(f"call {at}")
        saboteur = Saboteur(at, error, lasting=True, priority=1)
        saboteur.later = later
        rig = await shape(saboteur)
        outcome = await cancelled_after(rig.drive(), lambda step: False)
        if not saboteur.raised_in:
            break
        where = f"{shape.__name__}, call {at} and all later ones, first in {saboteur.raised_in[0]}"
        if not saboteur.raised_in[0].startswith("on_tool_call"):
            assert outcome.error is error, f"{where}: {outcome.error!r}"
            assert rig.store.errors == [error], where
            rig.check_effects(where, but=failed_call(saboteur))
        saboteur.error = None
        rig.check(where=where, open_tail=True)
        await rig.check_next_run(where)
        at += 2


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
async def test_cancelled_error_leaked_by_an_extension_leaves_nothing_behind(shape: Shape) -> None:
    """Nobody cancelled the request, so what reaches the caller is open; that the session is free is not."""
    at = 1
    while True:
        saboteur = Saboteur(at, asyncio.CancelledError("leaked"))
        rig = await shape(saboteur)
        await cancelled_after(rig.drive(), lambda step: False)
        if not saboteur.raised_in:
            break
        where = f"{shape.__name__}, CancelledError leaked from {saboteur.raised_in[0]}"
        saboteur.error = None
        rig.check(where=where, open_tail=True)
        await rig.check_next_run(where)
        at += 1


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
async def test_cancelled_while_a_failure_is_cleaned_up(shape: Shape) -> None:
    """An error in one hook, and a cancellation at each step after it."""
    rig = await shape(saboteur := Saboteur(0, None))
    await cancelled_after(rig.drive(), lambda step: False)
    calls = saboteur.calls
    for at in range(3, calls, 7):
        distance = 1
        while True:
            error = KeyError("hook")
            saboteur = Saboteur(at, error)
            rig = await shape(saboteur)
            since: list[int] = []

            def cancel(
                step: int, since: list[int] = since, saboteur: Saboteur = saboteur, d: int = distance
            ) -> bool:
                if saboteur.raised_in and not since:
                    since.append(step)
                return bool(since) and step == since[0] + d

            outcome = await cancelled_after(rig.drive(), cancel)
            where = f"{shape.__name__}, error in {saboteur.raised_in[:1]}, cancelled {distance} steps later"
            assert outcome.error is error or isinstance(
                outcome.error, (asyncio.CancelledError, type(None))
            ), where
            saboteur.error = None
            rig.check(where=where, open_tail=True)
            await rig.check_next_run(where)
            if outcome.steps < since[0] + distance:
                break
            distance += 1


@pytest.mark.parametrize("kind", [KeyError, Abort])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
async def test_model_that_fails_at_each_of_its_acts(shape: Shape, kind: type[BaseException]) -> None:
    rig = await shape()
    lengths = [len(step) for step in rig.model.steps]
    for step, length in enumerate(lengths):
        for act in range(length):
            rig = await shape()
            error = kind("model")
            items = list(rig.model.steps[step])
            rig.model.steps[step] = [*items[:act], error, *items[act:]]
            outcome = await cancelled_after(rig.drive(), lambda step: False)
            where = f"{shape.__name__}, model failed in act {act} of step {step}"
            assert outcome.error is error, f"{where}: {outcome.error!r}"
            rig.check(where=where, open_tail=False)
            rig.check_effects(where)
            assert rig.agent.get_state(SESSION).phase is AgentPhase.FAILED, where
            await rig.check_next_run(where)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
async def test_undisturbed_shapes_complete(shape: Shape) -> None:
    rig = await shape()
    outcome = await cancelled_after(rig.drive(), lambda step: False)
    assert outcome.error is None
    rig.check(where=shape.__name__, open_tail=False)
    rig.check_notified(shape.__name__)
    rig.check_effects(shape.__name__)
    assert rig.agent.get_state(SESSION).phase is AgentPhase.COMPLETED
    assert rig.model.opened == len(rig.model.steps)
    await rig.check_next_run(shape.__name__)
