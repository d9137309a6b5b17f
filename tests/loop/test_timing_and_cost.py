"""Durations in the log (A-21, B-A20) and what a step costs (B-A13, B-A22, B-EV3)."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable
from statistics import median
from typing import Any

import pytest

from support.loop_models import RawModel, answer, asks, response, text
from support.loop_probe import Probe, Seed
from support.loop_tools import make_tool
from zett_agent.agent import Agent, AgentRunConfig
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.events import MessageAppendedEvent
from zett_agent.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from zett_agent.model import ModelEvent, ModelUsage

pytestmark = pytest.mark.no_cover  # measures time

S = AgentRunConfig(session_id="s")
MS = 1_000_000


def appended(probe: Probe, kind: type) -> list[MessageAppendedEvent]:
    return [
        event
        for event in probe.notifications
        if isinstance(event, MessageAppendedEvent) and isinstance(event.message, kind)
    ]


async def test_a21_usage_and_spans_of_a_step() -> None:
    usage = ModelUsage(10, 5, 4, 2)
    items = [0.03, ModelEvent.reasoning("a"), 0.02, ModelEvent.text("b"), 0.02, response("b", usage=usage)]
    agent = await Agent.create(RawModel(items), extensions=[probe := Probe()])
    await agent.run("go", config=S)
    (event,) = appended(probe, AssistantMessage)
    timing = event.timing
    assert event.usage == usage
    assert timing.duration_ns >= 70 * MS
    assert timing.reasoning_duration_ns >= 20 * MS
    assert timing.content_duration_ns >= 20 * MS
    assert timing.duration_ns < 2_000 * MS
    assert timing.started_at <= timing.reasoning_started_at <= timing.reasoning_completed_at
    assert timing.reasoning_completed_at <= timing.content_started_at <= timing.content_completed_at
    assert timing.content_completed_at <= timing.completed_at


async def test_a21_tools_and_input() -> None:
    async def handler(**_: Any) -> str:
        await asyncio.sleep(0.05)
        return "x"

    agent = await Agent.create(
        RawModel(asks(ToolCall("c", "t")), answer()),
        tools=[make_tool("t", handler)],
        extensions=[probe := Probe()],
    )
    await agent.run("go", config=S)
    (tool,) = appended(probe, ToolMessage)
    assert 50 * MS <= tool.timing.duration_ns < 2_000 * MS and tool.usage is None
    (user,) = appended(probe, UserMessage)
    assert user.timing.duration_ns == 0
    assert appended(probe, AssistantMessage)[0].timing.content_duration_ns is None


async def test_b_a20_time_of_the_consumer_is_not_the_models() -> None:
    pieces = [ModelEvent.reasoning("a"), *(ModelEvent.text(str(number)) for number in range(5))]
    agent = await Agent.create(RawModel([*pieces, response("x")]), extensions=[probe := Probe()])
    async for event in agent.stream("go", config=S):
        if event.type.endswith("_delta"):
            await asyncio.sleep(0.05)
    (event,) = appended(probe, AssistantMessage)
    assert event.timing.duration_ns < 100 * MS  # 300 ms were the consumer's
    assert event.timing.content_duration_ns < 80 * MS
    assert event.timing.reasoning_duration_ns < 40 * MS


async def test_b_a20_also_when_the_model_waits_between_deltas() -> None:
    pieces: list[Any] = []
    for number in range(5):
        pieces += [ModelEvent.text(str(number)), 0.01]
    agent = await Agent.create(RawModel([*pieces, response("x")]), extensions=[probe := Probe()])
    async for event in agent.stream("go", config=S):
        if event.type.endswith("_delta"):
            await asyncio.sleep(0.05)
    (event,) = appended(probe, AssistantMessage)
    assert event.timing.duration_ns < 200 * MS


async def test_b_a20_also_for_tools_that_emit() -> None:
    from zett_agent.events import AgentEvent, AgentEventType

    class Emits(AgentExtension):
        async def on_tool_call(self, context: Any, call: Any, call_next: Any) -> Any:
            for _ in range(3):
                await context.emit(AgentEvent(AgentEventType.CUSTOM, context.session_id, name="x"))
            return await call_next()

    agent = await Agent.create(
        RawModel(asks(ToolCall("c", "t")), answer()),
        tools=[make_tool("t")],
        extensions=[Emits(), probe := Probe()],
    )
    async for event in agent.stream("go", config=S):
        if event.type is AgentEventType.CUSTOM:
            await asyncio.sleep(0.05)
    (tool,) = appended(probe, ToolMessage)
    assert tool.timing.duration_ns < 75 * MS  # 150 ms were the consumer's


# Cost. CPU time, garbage collector off, medians of several runs, and margins well above the spread.


async def cpu(operation: Callable[[], Awaitable[Any]]) -> float:
    gc.collect()
    gc.disable()
    try:
        before = time.process_time()
        await operation()
        return time.process_time() - before
    finally:
        gc.enable()


class Noop(AgentExtension):
    """Overrides nothing."""

    def __init__(self, number: int = 0) -> None:
        self.name = f"noop{number}"


class StepModel(RawModel):
    """Asks for a tool `rounds` times, and keeps no requests."""

    def __init__(self, rounds: int) -> None:
        super().__init__()
        self.left = rounds

    async def stream(self, request: Any) -> Any:
        self.left -= 1
        if self.left >= 0:
            yield response(calls=[ToolCall("c", "t")])
        else:
            yield response("end")


async def cost_of_steps(restored: int, rounds: int = 30, extensions: int = 0) -> float:
    """CPU seconds of one step with one tool call, over a history of `restored` messages."""
    history = [UserMessage(content="q") for _ in range(restored)]
    agent = await Agent.create(
        StepModel(rounds),
        tools=[make_tool("t")],
        extensions=[Seed(*history), *(Noop(number) for number in range(extensions))],
    )
    whole = await cpu(lambda: agent.run("go", config=S))
    agent.model = StepModel(0)
    single = await cpu(lambda: agent.run("go", config=AgentRunConfig("other")))
    return (whole - single) / rounds


async def test_b_a13_cost_of_a_step_hardly_grows_with_the_history() -> None:
    differences = [await cost_of_steps(20_000) - await cost_of_steps(100) for _ in range(5)]
    assert median(differences) <= 0.001


async def test_b_a13_b_a22_nor_with_extensions_that_do_nothing() -> None:
    pairs = [(await cost_of_steps(2_000), await cost_of_steps(2_000, extensions=30)) for _ in range(7)]
    # The best of each, taken in turn: the machine may be busy.
    assert min(many for _, many in pairs) <= 1.5 * min(plain for plain, _ in pairs)


async def test_b_a22_hooks_that_neither_class_nor_instance_overrides_are_skipped() -> None:
    class Instance(AgentExtension):
        pass

    seen: list[str] = []
    extension = Instance()

    async def before_run(context: Any) -> None:
        seen.append("before_run")

    async def on_model_request(context: Any, request: Any, call_next: Any) -> Any:
        seen.append("in")
        async for event in call_next(request):
            yield event
        seen.append("out")

    extension.before_run = before_run  # type: ignore[method-assign]
    extension.on_model_request = on_model_request  # type: ignore[method-assign,assignment]
    agent = await Agent.create(RawModel(text()), extensions=[Noop(), extension])
    await agent.run("go", config=S)
    assert seen == ["before_run", "in", "out"]


DELTAS = [ModelEvent.text("x")] * 20_000


class DeltaModel(RawModel):
    async def stream(self, request: Any) -> Any:
        for event in DELTAS:
            yield event
        yield response("x")


async def cost_of_delta(*, extensions: int = 0, streamed: bool = True) -> float:
    agent = await Agent.create(DeltaModel(), extensions=[Noop(number) for number in range(extensions)])

    async def stream() -> None:
        async for _ in agent.stream("go", config=S):
            pass

    operation = stream if streamed else lambda: agent.run("go", config=S)
    return await cpu(operation) / len(DELTAS)


async def test_b_ev3_extensions_without_model_middleware_cost_nothing_per_delta() -> None:
    pairs = [(await cost_of_delta(), await cost_of_delta(extensions=40)) for _ in range(3)]
    # In the reference 40 of them add 14 microseconds to each delta.
    assert min(many - plain for plain, many in pairs) < 3e-6


async def test_b_ev3_run_does_not_pay_for_acknowledgement() -> None:
    streamed = min([await cost_of_delta() for _ in range(3)])
    driven = min([await cost_of_delta(streamed=False) for _ in range(3)])
    assert driven <= 1.1 * streamed


async def test_b_ev3_relaying_a_delta_costs_no_task_switch() -> None:
    """Two task switches for each delta would be some 40,000 turns of the loop."""
    loop = asyncio.get_running_loop()
    turns = 0
    counting = True

    def count() -> None:
        nonlocal turns
        turns += 1
        if counting:
            loop.call_soon(count)

    agent = await Agent.create(DeltaModel(), extensions=[])
    loop.call_soon(count)
    async for _ in agent.stream("go", config=S):
        pass
    counting = False
    assert turns < 2_000
