"""Failure, cancellation and early close (11 §11 and §16)."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from typing import Any

import pytest

from support.loop_models import RawModel, answer, asks, response, text
from support.loop_probe import Probe, Seed
from support.loop_tools import make_tool, serial_tool
from zett_agent.agent import Agent, AgentRunConfig
from zett_agent.events import AgentEvent, AgentEventType, AgentPhase
from zett_agent.exceptions import AgentProtocolError
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.events import MessageAppendedEvent, PhaseTransitionEvent, RunCancelledEvent
from zett_agent.extensions.memory import InMemoryMessageAccumulator
from zett_agent.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from zett_agent.model import ModelEvent

S = AgentRunConfig(session_id="s")
CALL = ToolCall("c1", "t")


class Abort(BaseException):
    """Not an `Exception`, as the failure of a test framework."""


def notes(error: BaseException) -> str:
    return "\n".join(getattr(error, "__notes__", ()))


async def assert_free_and_usable(agent: Agent, *, settle: int = 0) -> None:
    assert not agent.pending and not agent.is_conflict("s")
    for _ in range(settle):
        await asyncio.sleep(0)
    assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    result = await agent.run("next", config=S, model=RawModel(answer("fine")))
    assert result.content == "fine"


def named(name: str, **actions: Any) -> Probe:
    probe = Probe(**actions)
    probe.name = name
    return probe


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


# B-A15


class Abandons(AgentExtension):
    """Leaves the inner stream in the middle, without closing it."""

    async def on_model_request(self, context: Any, request: Any, call_next: Any) -> Any:
        self.inner = call_next(request)
        async for _event in self.inner:
            break
        yield response("instead")


async def test_b_a15_provider_stream_is_closed_before_generating_is_left() -> None:
    model = RawModel(text())
    open_at: list[tuple[str, int]] = []

    def on_event(context: Any, event: Any) -> None:
        if isinstance(event, PhaseTransitionEvent) and event.previous_phase is AgentPhase.GENERATING:
            open_at.append((event.current_phase.value, model.open_streams))

    agent = await Agent.create(model, extensions=[Abandons(), Probe(on_event=on_event)])
    result = await agent.run("go", config=S)
    assert result.content == "instead"
    assert open_at == [("ready", 0)]


async def test_b_a15_also_when_the_middleware_fails_after_leaving() -> None:
    failures = [KeyError("middleware")]

    class Fails(Abandons):
        async def on_model_request(self, context: Any, request: Any, call_next: Any) -> Any:
            async for event in super().on_model_request(context, request, call_next):
                if failures:
                    raise failures.pop()
                yield replace(
                    event, response=replace(event.response, message=AssistantMessage(content="fine"))
                )

    model = RawModel(text())
    agent = await Agent.create(model, extensions=[Fails()])
    with pytest.raises(KeyError):
        await agent.run("go", config=S)
    assert model.open_streams == 0
    await assert_free_and_usable(agent, settle=5)  # the loop closes the generator that the test abandons


async def test_b_a15_also_when_the_middleware_leaks_a_cancellation_while_it_is_closed() -> None:
    class Leaks(AgentExtension):
        async def on_model_request(self, context: Any, request: Any, call_next: Any) -> Any:
            self.inner = call_next(request)
            try:
                async for _event in self.inner:
                    raise KeyError("middleware")
                yield response("never")
            finally:
                await leaked_cancellation()

    model = RawModel(text())
    agent = await Agent.create(model, extensions=[Leaks()])
    with pytest.raises((KeyError, asyncio.CancelledError)):
        await agent.run("go", config=S)
    assert model.open_streams == 0
    assert not agent.pending and not agent.is_conflict("s")


async def leaked_cancellation() -> None:
    victim = asyncio.ensure_future(asyncio.sleep(10))
    await asyncio.sleep(0)
    victim.cancel()
    await victim


async def test_middleware_may_replace_the_request_filter_events_and_call_again() -> None:
    class Retries(AgentExtension):
        async def on_model_request(self, context: Any, request: Any, call_next: Any) -> Any:
            request = replace(request, tool_choice="t", messages=request.messages[1:])
            try:
                async for event in call_next(request):
                    yield event
            except ConnectionError:
                async for event in call_next(request):
                    if event.delta != "b":
                        yield event

    again = [ModelEvent.text("a"), ModelEvent.text("b"), response("ab")]
    model = RawModel([ConnectionError("reset")], again)
    agent = await Agent.create(model, tools=[make_tool("t")], extensions=[Retries()])
    deltas = [event.delta async for event in agent.stream("go", config=S) if event.delta]
    assert deltas == ["a"]
    assert [request.tool_choice for request in model.requests] == ["t", "t"]
    assert [m.role for m in model.requests[1].messages] == ["user"]
    assert model.open_streams == 0 and len(agent.state.messages) == 3


async def test_middleware_that_swallows_the_response_breaks_the_protocol() -> None:
    class Swallows(AgentExtension):
        async def on_model_request(self, context: Any, request: Any, call_next: Any) -> Any:
            async for event in call_next(request):
                if event.response is None:
                    yield event

    agent = await Agent.create(RawModel(text()), extensions=[Swallows()])
    with pytest.raises(AgentProtocolError):
        await agent.run("go", config=S)


async def test_middleware_that_never_calls_next_makes_no_provider_call() -> None:
    class Answers(AgentExtension):
        async def on_model_request(self, context: Any, request: Any, call_next: Any) -> Any:
            yield response("cached")

    model = RawModel()
    agent = await Agent.create(model, extensions=[Answers()])
    assert (await agent.run("go", config=S)).content == "cached"
    assert model.requests == []


# Model contract: 10 B-MD1, B-MD2, B-MD5


class PlainIterator:
    """An async iterator that is no generator and has no `aclose`."""

    def __init__(self, *events: Any) -> None:
        self.events = list(events)

    def __aiter__(self) -> PlainIterator:
        return self

    async def __anext__(self) -> Any:
        if not self.events:
            raise StopAsyncIteration
        return self.events.pop(0)


class ReturnsIterator:
    retry = RawModel.retry

    def stream(self, request: Any) -> Any:
        return PlainIterator(ModelEvent.text("x"), response("x"))


class CoroutineReturnsIterator(ReturnsIterator):
    async def stream(self, request: Any) -> Any:
        return PlainIterator(ModelEvent.text("x"), response("x"))


class ReturnsList(ReturnsIterator):
    def stream(self, request: Any) -> Any:
        return [response("x")]


class ReturnsSyncGenerator(ReturnsIterator):
    def stream(self, request: Any) -> Any:
        yield response("x")


async def test_b_md1_any_async_iterator_will_do() -> None:
    agent = await Agent.create(ReturnsIterator())  # type: ignore[arg-type]
    assert (await agent.run("go", config=S)).content == "x"


async def test_b_md2_a_coroutine_that_returns_the_iterator_is_awaited_or_explained() -> None:
    agent = await Agent.create(CoroutineReturnsIterator())  # type: ignore[arg-type]
    try:
        assert (await agent.run("go", config=S)).content == "x"
    except AgentProtocolError as error:
        assert "CoroutineReturnsIterator" in str(error) and "stream" in str(error)


@pytest.mark.parametrize("model", [ReturnsList(), ReturnsSyncGenerator()])
async def test_b_md2_a_synchronous_iterator_is_explained(model: Any) -> None:
    agent = await Agent.create(model)
    with pytest.raises(AgentProtocolError) as caught:
        await agent.run("go", config=S)
    assert type(model).__name__ in str(caught.value) and "SyncModelAdapter" in str(caught.value)
    await assert_free_and_usable(agent)


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
