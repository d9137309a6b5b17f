"""Cancellation and early close, and the clean-up after them (11 §11 and §16)."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from typing import Any

import pytest

from support.loop_checks import assert_free_and_usable, named
from support.loop_models import RawModel, answer, asks
from support.loop_probe import Probe, Seed
from support.loop_tools import make_tool, serial_tool
from zett_agent.agent import Agent, AgentRunConfig
from zett_agent.events import AgentEvent, AgentEventType, AgentPhase
from zett_agent.exceptions import AgentProtocolError
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.events import MessageAppendedEvent, RunCancelledEvent
from zett_agent.extensions.memory import InMemoryMessageAccumulator
from zett_agent.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage

S = AgentRunConfig(session_id="s")
CALL = ToolCall("c1", "t")


# Cancellation


@pytest.mark.parametrize(
    ("hook", "stored"),
    [
        ("on_tool", []),
        ("on_state", []),
        ("on_message", []),
        ("before_run", ["user"]),
        ("before_turn", ["user"]),
        ("before_model", ["user"]),
        ("on_model_request", ["user"]),
        ("after_model", ["user", "assistant", "tool"]),
        ("before_tool", ["user", "assistant", "tool"]),
        ("on_tool_call", ["user", "assistant", "tool"]),
        ("after_tool", ["user", "assistant", "tool"]),
        ("after_turn", ["user", "assistant", "tool"]),
    ],
)
async def test_what_is_stored_depends_on_where_the_cancellation_lands(hook: str, stored: list[str]) -> None:
    inside = asyncio.Event()

    async def hang(*_: Any) -> None:
        if not inside.is_set():
            inside.set()
            await asyncio.Event().wait()

    memory = InMemoryMessageAccumulator()
    agent = await Agent.create(
        RawModel(asks(CALL), answer()),
        tools=[make_tool("t")],
        extensions=[memory, named("hangs", **{hook: hang}), last := named("last")],
    )
    run = asyncio.create_task(agent.run("go", config=S))
    await inside.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert [message.role for message in memory.messages("s")] == stored
    assert agent.get_state("s").phase is AgentPhase.CANCELLED
    assert last.trace[-1].startswith("E:run_cancelled")
    assert not [line for line in last.trace if line.startswith(("H:on_error", "H:after_run", "H:on_success"))]
    await assert_free_and_usable(agent)


async def test_cancelled_calls_get_the_fixed_text_in_call_order() -> None:
    started = asyncio.Event()

    async def handler(**_: Any) -> str:
        started.set()
        await asyncio.Event().wait()
        return "x"

    agent = await Agent.create(
        RawModel(asks(ToolCall("c1", "ser"), ToolCall("c2", "t"), ToolCall("c3", "t"))),
        tools=[make_tool("t", handler), serial_tool("ser")],
    )
    run = asyncio.create_task(agent.run("go", config=S))
    await started.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    results = [m for m in agent.state.messages if isinstance(m, ToolMessage)]
    assert [(m.tool_call_id, m.content, m.success) for m in results] == [
        (f"c{number}", "Request cancelled before tool completion", False) for number in (1, 2, 3)
    ]


async def test_running_handlers_are_cancelled_and_awaited_and_the_stream_is_closed() -> None:
    ended: list[str] = []
    started = asyncio.Event()

    async def handler(**_: Any) -> str:
        try:
            started.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            for _step in range(3):
                await asyncio.sleep(0)
            ended.append("handler")
            raise
        return "x"

    agent = await Agent.create(RawModel(asks(CALL)), tools=[make_tool("t", handler)])
    run = asyncio.create_task(agent.run("go", config=S))
    await started.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert ended == ["handler"]
    await assert_free_and_usable(agent)


async def test_handler_that_ends_in_spite_of_its_cancellation_has_its_true_result() -> None:
    """B-A8: its effect happened."""
    started = asyncio.Event()

    async def handler(**_: Any) -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "finished anyway"
        return "x"

    agent = await Agent.create(RawModel(asks(CALL)), tools=[make_tool("t", handler)])
    run = asyncio.create_task(agent.run("go", config=S))
    await started.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    result = agent.state.messages[-1]
    assert isinstance(result, ToolMessage) and result.content == "finished anyway" and result.success
    await assert_free_and_usable(agent)


@pytest.mark.parametrize("place", ["handler", "subscriber"])
async def test_emission_during_the_cleanup_waits_for_nobody(place: str) -> None:
    contexts: list[Any] = []

    async def emit() -> None:
        with suppress(AgentProtocolError):  # also fine: the request has ended
            await contexts[0].emit(AgentEvent(AgentEventType.CUSTOM, "s", name="late"))

    async def handler(**_: Any) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            if place == "handler":
                await emit()
        return "x"

    async def on_event(context: Any, event: Any) -> None:
        if place == "subscriber" and isinstance(event, RunCancelledEvent):
            await emit()

    agent = await Agent.create(
        RawModel(asks(CALL)),
        tools=[make_tool("t", handler)],
        extensions=[Probe(on_tool=contexts.append, on_event=on_event)],
    )
    stream = agent.stream("go", config=S)
    async for event in stream:
        if event.type is AgentEventType.TOOL_STARTED:
            break
    pending = asyncio.create_task(stream.__anext__())  # type: ignore[arg-type]
    await asyncio.sleep(0.005)
    pending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(pending, 5)
    await assert_free_and_usable(agent)


async def test_sync_tool_in_its_thread_is_not_waited_for() -> None:
    import threading
    import time

    from zett_agent.tools.base import tool

    release, started = threading.Event(), threading.Event()

    @tool
    def blocks() -> str:
        """Block.

        Guidelines:
            - Block.
        """
        started.set()
        release.wait(5)
        return "x"

    agent = await Agent.create(RawModel(asks(ToolCall("c1", "blocks"))), tools=[blocks])
    run = asyncio.create_task(agent.run("go", config=S))
    while not started.is_set():
        await asyncio.sleep(0.001)
    run.cancel()
    before = time.monotonic()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert time.monotonic() - before < 1
    release.set()
    await assert_free_and_usable(agent)


# B-A2


class SlowDisk(AgentExtension):
    """Takes a while to write each tool result."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.written: list[str] = []

    async def on_event(self, context: Any, event: Any) -> None:
        if isinstance(event, MessageAppendedEvent) and isinstance(event.message, ToolMessage):
            await asyncio.sleep(self.seconds)
            self.written.append(event.message.tool_call_id)


async def cancelled_during_cleanup(agent: Agent, times: int, pause: float) -> None:
    run = asyncio.create_task(agent.run("go", config=S))
    while agent.get_state("s") is None or agent.get_state("s").phase is not AgentPhase.RUNNING_TOOL:
        await asyncio.sleep(0)
    for _ in range(3):
        await asyncio.sleep(0)
    for _ in range(times):
        run.cancel()
        await asyncio.sleep(pause)
    with pytest.raises(asyncio.CancelledError):
        await run


def hanging_tools() -> dict[str, Any]:
    async def handler(**_: Any) -> str:
        await asyncio.Event().wait()
        return "x"

    calls = [ToolCall(f"c{number}", "t") for number in range(3)]
    return {"model": RawModel(asks(*calls)), "tools": [make_tool("t", handler)]}


async def test_b_a2_a_second_cancellation_waits_for_the_cleanup() -> None:
    disk = SlowDisk(0.02)
    agent = await Agent.create(**hanging_tools(), extensions=[disk])
    assert agent.cleanup_timeout == 10.0
    await cancelled_during_cleanup(agent, times=3, pause=0.005)
    assert disk.written == ["c0", "c1", "c2"]
    assert agent.get_state("s").phase is AgentPhase.CANCELLED
    await assert_free_and_usable(agent)


async def test_b_a2_cleanup_that_takes_too_long_is_given_up_in_a_terminal_phase() -> None:
    disk = SlowDisk(30)
    agent = await Agent.create(**hanging_tools(), extensions=[disk])
    agent.cleanup_timeout = 0.05
    started = asyncio.get_running_loop().time()
    await cancelled_during_cleanup(agent, times=2, pause=0.01)
    assert asyncio.get_running_loop().time() - started < 5
    assert agent.get_state("s").phase is AgentPhase.CANCELLED
    disk.seconds = 0
    # What was given up is stopped too: it must not write into the session later.
    await assert_free_and_usable(agent, settle=5)


async def test_b_a2_closing_twice_from_a_cancelled_task() -> None:
    disk = SlowDisk(0.02)
    agent = await Agent.create(**hanging_tools(), extensions=[disk])

    async def consume() -> None:
        async with aclosing(agent.stream("go", config=S)) as stream:
            async for event in stream:
                if event.type is AgentEventType.TOOL_STARTED:
                    return

    task = asyncio.create_task(consume())
    while agent.get_state("s") is None or agent.get_state("s").phase is not AgentPhase.RUNNING_TOOL:
        await asyncio.sleep(0)
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert disk.written == ["c0", "c1", "c2"]
    assert agent.get_state("s").phase is AgentPhase.CANCELLED
    await assert_free_and_usable(agent)


async def test_b_a2_cancellation_during_the_cleanup_of_a_failure_waits_for_it() -> None:
    """A hook fails while finished parallel results are not yet in history; then the task is cancelled."""
    disk = SlowDisk(0.02)
    told: list[str] = []

    async def on_error(context: Any, error: Exception) -> None:
        await asyncio.sleep(0.02)
        told.append("on_error")

    def fail(context: Any, call: ToolCall, *_: Any) -> None:
        if call.id == "c0":
            raise KeyError("hook")

    calls = [ToolCall(f"c{number}", "t") for number in range(3)]
    agent = await Agent.create(
        RawModel(asks(*calls)),
        tools=[make_tool("t")],
        extensions=[disk, Probe(after_tool=fail, on_error=on_error)],
    )
    run = asyncio.create_task(agent.run("go", config=S))
    while not any(isinstance(m, ToolMessage) for m in agent.state.messages):
        await asyncio.sleep(0)
    await asyncio.sleep(0.005)
    run.cancel()
    with pytest.raises((asyncio.CancelledError, KeyError)):
        await run
    assert disk.written == ["c1", "c2"]
    assert told == ["on_error"]
    assert agent.get_state("s").phase is AgentPhase.FAILED
    await assert_free_and_usable(agent)


# B-A4


async def test_b_a4_compact_raises_a_protocol_error_of_its_hook() -> None:
    def fail(context: Any) -> None:
        raise AgentProtocolError("hook")

    agent = await Agent.create(RawModel(), extensions=[probe := Probe(on_compact=fail)])
    with pytest.raises(AgentProtocolError, match="hook"):
        async for _ in agent.compact(config=S):
            pass
    assert agent.get_state("s").phase is AgentPhase.FAILED
    assert probe.trace[-1] == "H:on_error AgentProtocolError"
    await assert_free_and_usable(agent)


async def test_compact_can_be_left_early() -> None:
    async def compacts(context: Any) -> None:
        await context.emit(AgentEvent(AgentEventType.COMPACTION_STARTED, "s"))
        await asyncio.Event().wait()

    agent = await Agent.create(RawModel(), extensions=[probe := Probe(on_compact=compacts)])
    async with aclosing(agent.compact(config=S)) as stream:
        async for event in stream:
            assert event.phase is AgentPhase.COMPACTING
            assert agent.is_conflict("s")
            break
    assert probe.trace[-2:] == ["E:compacting>cancelled", "E:run_cancelled prev=compacting"]
    await assert_free_and_usable(agent)


# B-A9


async def test_b_a9_cancellation_while_loading_does_not_close_calls_of_an_earlier_request() -> None:
    inside = asyncio.Event()

    async def hang(*_: Any) -> None:
        inside.set()
        await asyncio.Event().wait()

    memory = InMemoryMessageAccumulator()
    history = [UserMessage(content="old"), AssistantMessage(tool_calls=(CALL,))]
    for hook in ("on_state", "on_message"):
        agent = await Agent.create(
            RawModel(answer()), extensions=[Seed(*history), memory, named(hook, **{hook: hang})]
        )
        run = asyncio.create_task(agent.run("go", config=S))
        await inside.wait()
        inside.clear()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert [message.role for message in memory.messages("s")] == ["user", "assistant"]
