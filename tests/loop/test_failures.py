"""Errors of hooks, tools and subscribers, and how they reach the caller (11 §11 and §16)."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import pytest

from support.loop_checks import assert_free_and_usable, named, notes
from support.loop_models import RawModel, answer, asks, response, text
from support.loop_probe import Probe
from support.loop_tools import make_tool, serial_tool
from zett_agent.agent import Agent, AgentRunConfig
from zett_agent.events import AgentEventType, AgentPhase
from zett_agent.exceptions import AgentProtocolError
from zett_agent.extensions.events import MessageAppendedEvent, PhaseTransitionEvent, RunCancelledEvent
from zett_agent.extensions.memory import InMemoryMessageAccumulator
from zett_agent.messages import ToolCall, ToolMessage
from zett_agent.model import ModelEvent

S = AgentRunConfig(session_id="s")
CALL = ToolCall("c1", "t")


class Abort(BaseException):
    """Not an `Exception`, as the failure of a test framework."""


#

HOOKS = [
    "on_tool", "on_state", "on_message", "before_run", "before_turn", "before_model", "on_model_request",
    "after_model", "before_tool", "after_tool", "after_turn", "after_run", "on_success",
]  # fmt: skip

RESUME_AFTER_FAILURE = {
    "on_tool": None,  # nothing of the request is stored
    "on_state": None,
    "on_message": None,
    "before_run": "call_model",
    "before_turn": "call_model",
    "before_model": "call_model",
    "on_model_request": "call_model",
    "after_model": "recover_tools",
    "before_tool": "recover_tools",
    "after_tool": "recover_tools",
    "after_turn": "call_model",
    "after_run": None,
    "on_success": None,
}


@pytest.mark.parametrize("error_type", [KeyError, AgentProtocolError, Abort])
@pytest.mark.parametrize("hook", HOOKS)
async def test_a18_b_a3_error_of_a_hook_reaches_the_caller_unchanged(
    hook: str, error_type: type[BaseException]
) -> None:
    error = error_type("hook")
    active = [True]

    def fail(*_: Any) -> None:
        if active:
            active.clear()
            raise error

    first, last = named("first"), named("last")
    agent = await Agent.create(
        RawModel(asks(CALL), answer()),
        tools=[make_tool("t")],
        extensions=[InMemoryMessageAccumulator(), first, named("failing", **{hook: fail}), last],
    )
    with pytest.raises(error_type) as caught:
        await agent.run("go", config=S)

    assert caught.value is error
    assert agent.get_state("s").phase is AgentPhase.FAILED
    if isinstance(error, Exception):
        for probe in (first, last):
            assert probe.trace[-1] == f"H:on_error {error_type.__name__}"
    point = await agent.resume_point(config=S)
    assert (None if point is None else point.kind.value) == RESUME_AFTER_FAILURE[hook]
    await assert_free_and_usable(agent)


@pytest.mark.parametrize("hook", HOOKS)
async def test_first_failing_extension_stops_its_hook_group(hook: str) -> None:
    def fail(*_: Any) -> None:
        raise KeyError("hook")

    last = named("last")
    agent = await Agent.create(
        RawModel(asks(CALL), answer()),
        tools=[make_tool("t")],
        extensions=[named("failing", **{hook: fail}), last],
    )
    with pytest.raises(KeyError):
        await agent.run("go", config=S)
    entry = "M:enter" if hook == "on_model_request" else f"H:{hook}"
    assert not [line for line in last.trace if line.split(" ")[0] == entry]


@pytest.mark.parametrize("make", [make_tool, serial_tool])
async def test_b_a3_base_exception_of_a_tool_ends_the_request_as_it_is(make: Any) -> None:
    error = Abort("tool")

    async def handler(**_: Any) -> str:
        raise error

    agent = await Agent.create(
        RawModel(asks(CALL, ToolCall("c2", "u"))), tools=[make("t", handler), make("u")]
    )
    with pytest.raises(Abort) as caught:
        await agent.run("go", config=S)
    assert caught.value is error
    assert agent.get_state("s").phase is AgentPhase.FAILED
    await assert_free_and_usable(agent)


async def test_b_a3_the_failure_of_a_test_framework_in_a_hook() -> None:
    agent = await Agent.create(
        RawModel(answer()), extensions=[Probe(before_model=lambda *_: pytest.fail("assertion in a hook"))]
    )
    with pytest.raises(pytest.fail.Exception, match="assertion in a hook"):
        await agent.run("go", config=S)
    assert agent.get_state("s").phase is AgentPhase.FAILED


@pytest.mark.parametrize("place", ["hook", "parallel tool", "serial tool", "model"])
def test_b_a3_system_exit_reaches_the_program(place: str) -> None:
    def leave(*_: Any, **__: Any) -> None:
        raise SystemExit(3)

    async def handler(**_: Any) -> str:
        leave()
        return "x"

    agents: list[Agent] = []

    async def program() -> None:
        agent = await Agent.create(
            RawModel([leave, response("x")] if place == "model" else asks(CALL)),
            tools=[(serial_tool if place == "serial tool" else make_tool)("t", handler)],
            extensions=[Probe(before_turn=leave)] if place == "hook" else [],
        )
        agents.append(agent)
        await agent.run("go", config=S)

    with pytest.raises(SystemExit) as caught:
        asyncio.run(program())
    assert caught.value.code == 3
    assert agents[0].get_state("s").phase in (AgentPhase.FAILED, AgentPhase.CANCELLED)
    assert not agents[0].pending


# Notifications and on_error


async def test_error_of_on_error_becomes_a_note_and_the_others_still_run() -> None:  # B-A11
    def fail(*_: Any) -> None:
        raise ValueError("in on_error")

    last = named("last")
    agent = await Agent.create(
        RawModel([RuntimeError("model")]), extensions=[named("failing", on_error=fail), last]
    )
    with pytest.raises(RuntimeError, match="model") as caught:
        await agent.run("go", config=S)
    assert "in on_error" in notes(caught.value)
    assert last.trace[-1] == "H:on_error RuntimeError"
    await assert_free_and_usable(agent)


async def test_error_that_takes_no_note_is_raised_all_the_same() -> None:
    @dataclass(frozen=True)
    class Frozen(Exception):
        text: str

    def fail(*_: Any) -> None:
        raise ValueError("in on_error")

    error = Frozen("model")
    agent = await Agent.create(RawModel([error]), extensions=[Probe(on_error=fail)])
    with pytest.raises(Frozen) as caught:
        await agent.run("go", config=S)
    assert caught.value is error
    await assert_free_and_usable(agent)


async def test_b_a11_failing_subscriber_of_the_terminal_transition_silences_nobody() -> None:
    def fail(context: Any, event: Any) -> None:
        if isinstance(event, PhaseTransitionEvent) and event.current_phase is AgentPhase.FAILED:
            raise ValueError("in on_event")

    last = named("last")
    agent = await Agent.create(
        RawModel([RuntimeError("model")]), extensions=[named("failing", on_event=fail), last]
    )
    with pytest.raises(RuntimeError, match="model") as caught:
        await agent.run("go", config=S)
    assert "in on_event" in notes(caught.value)
    assert last.trace[-2:] == ["E:generating>failed", "H:on_error RuntimeError"]


@pytest.mark.parametrize("failing_type", [PhaseTransitionEvent, RunCancelledEvent])
async def test_b_a11_b_a12_failing_subscriber_during_cancellation(
    failing_type: type, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(context: Any, event: Any) -> None:
        if isinstance(event, failing_type) and context.state.phase is AgentPhase.CANCELLED:
            raise ValueError("in cleanup")

    last = named("last")
    agent = await Agent.create(RawModel(text()), extensions=[named("failing", on_event=fail), last])
    with caplog.at_level(logging.ERROR, "zett_agent"):
        async with aclosing(agent.stream("go", config=S)) as stream:
            async for event in stream:
                if event.type is AgentEventType.TEXT_DELTA:
                    break
    assert last.trace[-2:] == ["E:generating>cancelled", "E:run_cancelled prev=generating"]
    assert [record for record in caplog.records if record.name.startswith("zett_agent")]
    assert "in cleanup" in caplog.text
    await assert_free_and_usable(agent)


async def test_b_a12_cleanup_error_is_a_note_on_the_cancellation_and_a_log_record(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(context: Any, event: Any) -> None:
        if isinstance(event, MessageAppendedEvent) and isinstance(event.message, ToolMessage):
            raise OSError("disk full")

    started = asyncio.Event()

    async def handler(**_: Any) -> str:
        started.set()
        await asyncio.Event().wait()
        return "x"

    agent = await Agent.create(
        RawModel(asks(CALL)), tools=[make_tool("t", handler)], extensions=[Probe(on_event=fail)]
    )
    caught: list[BaseException] = []

    async def consume() -> None:
        try:
            await agent.run("go", config=S)
        except asyncio.CancelledError as error:
            caught.append(error)  # before Python 3.11 whoever awaits the task gets another one
            raise

    run = asyncio.create_task(consume())
    await started.wait()
    run.cancel()
    with caplog.at_level(logging.ERROR, "zett_agent"), pytest.raises(asyncio.CancelledError):
        await run
    # B-A1: the session is free and terminal whatever the subscriber does
    assert agent.get_state("s").phase is AgentPhase.CANCELLED
    assert "disk full" in caplog.text
    assert "disk full" in notes(caught[0])
    await assert_free_and_usable(agent)


async def test_subscriber_of_the_completed_transition_leaves_the_phase_completed() -> None:
    failures = [ValueError("late")]

    def fail(context: Any, event: Any) -> None:
        if (
            isinstance(event, PhaseTransitionEvent)
            and event.current_phase is AgentPhase.COMPLETED
            and failures
        ):
            raise failures.pop()

    probe = Probe(on_event=fail)
    agent = await Agent.create(RawModel(answer()), extensions=[probe])
    types: list[str] = []
    with pytest.raises(ValueError, match="late"):
        async for event in agent.stream("go", config=S):
            types.append(event.type)
    assert agent.get_state("s").phase is AgentPhase.COMPLETED
    assert "run_completed" not in types
    assert probe.trace[-1] == "H:on_error ValueError"
    await assert_free_and_usable(agent)


async def test_b_a11_completed_transition_reaches_every_subscriber_although_one_fails() -> None:
    def fail(context: Any, event: Any) -> None:
        if isinstance(event, PhaseTransitionEvent) and event.current_phase is AgentPhase.COMPLETED:
            raise ValueError("late")

    last = named("last")
    agent = await Agent.create(RawModel(answer()), extensions=[named("failing", on_event=fail), last])
    with pytest.raises(ValueError, match="late"):
        await agent.run("go", config=S)
    assert last.trace[-2:] == ["E:ready>completed", "H:on_error ValueError"]


async def test_b_a11_completed_transition_reaches_every_subscriber_although_the_task_is_cancelled() -> None:
    inside = asyncio.Event()

    async def wait(context: Any, event: Any) -> None:
        if isinstance(event, PhaseTransitionEvent) and event.current_phase is AgentPhase.COMPLETED:
            inside.set()
            await asyncio.sleep(0.01)

    last = named("last")
    agent = await Agent.create(RawModel(answer()), extensions=[named("slow", on_event=wait), last])
    run = asyncio.create_task(agent.run("go", config=S))
    await inside.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert agent.get_state("s").phase is AgentPhase.COMPLETED
    assert last.trace[-1] == "E:ready>completed"
    assert not agent.is_conflict("s")


async def test_partial_text_of_a_failed_step_is_not_stored() -> None:
    agent = await Agent.create(RawModel([ModelEvent.text("par"), RuntimeError("reset")]))
    with pytest.raises(RuntimeError):
        await agent.run("go", config=S)
    assert [type(message).__name__ for message in agent.state.messages] == ["SystemMessage", "UserMessage"]


# A loop that is gone


@pytest.mark.parametrize("place", ["model", "tool", "hook"])
@pytest.mark.parametrize("streamed", [True, False])
def test_request_whose_loop_is_gone_is_dropped_quietly(place: str, streamed: bool) -> None:
    import gc

    async def hang(*_: Any, **__: Any) -> str:
        await asyncio.Event().wait()
        return "x"

    async def begin() -> tuple[Agent, asyncio.Task[Any]]:
        agent = await Agent.create(
            RawModel([hang]) if place == "model" else RawModel(asks(CALL)),
            tools=[make_tool("t", hang)],
            extensions=[Probe(before_run=hang)] if place == "hook" else [],
        )

        async def consume() -> None:
            async for _ in agent.stream("go", config=S):
                pass

        task = loop.create_task(consume() if streamed else agent.run("go", config=S))  # type: ignore[arg-type]
        for _ in range(50):
            await asyncio.sleep(0)
        assert agent.is_conflict("s")
        return agent, task

    loop = asyncio.new_event_loop()
    agent, task = loop.run_until_complete(begin())
    tasks = asyncio.all_tasks(loop)
    loop.close()
    for each in tasks:
        each._log_destroy_pending = False  # type: ignore[attr-defined]
    del agent, task, tasks, each
    gc.collect()  # an error in here fails the test: nothing may be raised where nobody can catch it
