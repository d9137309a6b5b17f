"""Stream events, notifications, publishing and emission (12 §1 to §7)."""

from __future__ import annotations

import asyncio
import copy
import pickle
from dataclasses import FrozenInstanceError, dataclass
from datetime import datetime, timezone
from typing import Any

import pytest

from support.loop_models import RawModel, answer, asks, response, text
from support.loop_probe import Probe
from support.loop_tools import make_tool
from zett_agent.agent import Agent, AgentRunConfig, AgentRunContext, AgentState
from zett_agent.events import (
    AgentEvent,
    AgentEventType,
    AgentPhase,
    AgentPhaseTransitionMixin,
    ModelOutputTracker,
    PhaseContext,
    PhaseState,
    event_to_dict,
)
from zett_agent.exceptions import AgentProtocolError
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.events import (
    CompactionEvent,
    ExtensionEvent,
    InternalMessageEvent,
    MessageAppendedEvent,
    MessageTiming,
    PhaseTransitionEvent,
    ReasoningStartedEvent,
    RunCancelledEvent,
    SteeringMessageEvent,
)
from zett_agent.extensions.memory import InMemoryMessageAccumulator
from zett_agent.messages import AgentMessage, AssistantMessage, ToolCall, ToolMessage, UserMessage
from zett_agent.model import (
    ModelEvent,
    ModelEventType,
    ModelUsage,
    ServerToolCall,
    ServerToolInputDelta,
    ServerToolResult,
    ToolCallDelta,
)

S = AgentRunConfig(session_id="s")
NOW = datetime(2026, 1, 2, tzinfo=timezone.utc)


async def events_of(*items: Any, **options: Any) -> list[AgentEvent]:
    agent = await Agent.create(RawModel(list(items)), **options)
    return [event async for event in agent.stream("go", config=S)]


def types(events: list[AgentEvent]) -> list[str]:
    return [event.type.value for event in events]


# EV-1


def test_ev1_event_types() -> None:
    assert [member.value for member in AgentEventType] == [
        "compaction_started", "compaction_text_delta", "compaction_reasoning_delta", "compaction_completed",
        "model_started", "content_started", "content_completed", "reasoning_started", "reasoning_completed",
        "text_delta", "reasoning_delta", "tool_call_delta", "server_tool_started", "server_tool_input_delta",
        "server_tool_completed", "server_tool_failed", "model_completed", "model_stopped", "tool_started",
        "tool_completed", "tool_failed", "tool_skipped", "steering_started", "steering_completed",
        "steering_interrupted", "internal_message_started", "internal_message_completed",
        "internal_message_interrupted", "run_completed", "custom",
    ]  # fmt: skip
    assert all(member.name == member.value.upper() == str(member).upper() for member in AgentEventType)
    assert len(AgentEventType) == 30


def test_ev1_phases() -> None:
    assert [phase.value for phase in AgentPhase] == [
        "created", "loading_context", "ready", "compacting", "generating", "running_tool", "completed",
        "failed", "cancelled",
    ]  # fmt: skip
    assert [phase.value for phase in AgentPhase if phase.accepts_new_request] == [
        "created",
        "completed",
        "failed",
        "cancelled",
    ]


def test_event_is_a_mutable_value() -> None:
    event = AgentEvent(AgentEventType.TEXT_DELTA, "s", AgentPhase.GENERATING, "x")
    assert event == AgentEvent(AgentEventType.TEXT_DELTA, "s", phase=AgentPhase.GENERATING, delta="x")
    assert (
        event.tool_calls == []
        and event.tool_calls is not AgentEvent(AgentEventType.TEXT_DELTA, "s").tool_calls
    )
    event.delta = "y"
    with pytest.raises(AttributeError):
        event.nonsense = 1  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        hash(event)
    assert pickle.loads(pickle.dumps(event)) == event == copy.deepcopy(event)


@pytest.mark.parametrize("event_type", [AgentEventType.CUSTOM, "custom"])
@pytest.mark.parametrize("name", [None, "", " "])
def test_custom_event_needs_a_name(event_type: Any, name: Any) -> None:
    with pytest.raises(ValueError, match="non-empty name"):
        AgentEvent(event_type, "s", name=name)
    assert AgentEvent("nope", "s").type == "nope"  # type: ignore[arg-type]


def test_import_names_and_bases() -> None:
    assert issubclass(Agent, AgentPhaseTransitionMixin)
    assert PhaseState is not None and PhaseContext is not None


# EV-3, EV-4


async def test_ev3_reasoning_may_open_again_and_content_only_once() -> None:
    events = await events_of(
        ModelEvent.reasoning("a"),
        ModelEvent.text("b"),
        ModelEvent.reasoning("c"),
        ModelEvent.text("d"),
        response("bd"),
    )
    assert types(events) == [
        "model_started", "reasoning_started", "reasoning_delta", "reasoning_completed", "content_started",
        "text_delta", "reasoning_started", "reasoning_delta", "reasoning_completed", "text_delta",
        "content_completed", "model_completed", "run_completed",
    ]  # fmt: skip
    assert [event.delta for event in events if event.type.endswith("_delta")] == ["a", "b", "c", "d"]
    assert {event.phase for event in events[:-2]} == {AgentPhase.GENERATING}


async def test_ev4_empty_deltas_open_nothing() -> None:
    events = await events_of(ModelEvent.text(""), ModelEvent.reasoning(""), response("x"))
    assert types(events) == [
        "model_started",
        "text_delta",
        "reasoning_delta",
        "model_completed",
        "run_completed",
    ]


async def test_ev4_reasoning_alone_closes_before_the_model_does() -> None:
    assert types(await events_of(ModelEvent.reasoning("a"), response("x"))) == [
        "model_started",
        "reasoning_started",
        "reasoning_delta",
        "reasoning_completed",
        "model_completed",
        "run_completed",
    ]


async def test_empty_text_does_not_close_reasoning_and_a_tool_call_delta_does() -> None:
    items = [
        ModelEvent.reasoning("a"),
        ModelEvent.text(""),
        ModelEvent.reasoning("b"),
        ModelEvent.tool_call(ToolCallDelta(0, "c", "t")),
        response("x"),
    ]
    assert types(await events_of(*items)) == [
        "model_started", "reasoning_started", "reasoning_delta", "text_delta", "reasoning_delta",
        "reasoning_completed", "tool_call_delta", "model_completed", "run_completed",
    ]  # fmt: skip


async def test_server_tool_events_are_relayed_with_their_payload_and_open_nothing() -> None:
    call, delta = ServerToolCall("w", "web_search"), ServerToolInputDelta("w", "{")
    result = ServerToolResult("w", "web_search", [1])
    failed = ServerToolResult("v", "web_search", None, "timeout")
    events = await events_of(
        ModelEvent.reasoning("a"),
        ModelEvent.server_tool_started(call),
        ModelEvent.server_tool_input(delta),
        ModelEvent.server_tool_completed(result),
        ModelEvent.server_tool_started(ServerToolCall("v", "web_search")),
        ModelEvent.server_tool_failed(failed),
        ModelEvent.reasoning("b"),
        response("x"),
    )
    assert types(events)[1:-3] == [
        "reasoning_started", "reasoning_delta", "server_tool_started", "server_tool_input_delta",
        "server_tool_completed", "server_tool_started", "server_tool_failed", "reasoning_delta",
    ]  # fmt: skip
    assert events[3].server_tool_call is call
    assert events[4].server_tool_input_delta is delta
    assert events[5].server_tool_result is result and events[7].server_tool_result is failed
    started = [e for e in events if e.type is AgentEventType.SERVER_TOOL_STARTED]
    assert all(e.server_tool_result is None and e.delta == "" for e in started)


async def test_the_same_server_tool_id_may_start_again_after_it_ended() -> None:
    call, result = ServerToolCall("w", "f"), ServerToolResult("w", "f")
    pair = [ModelEvent.server_tool_started(call), ModelEvent.server_tool_completed(result)]
    assert types(await events_of(*pair, *pair, response("x")))[-1] == "run_completed"


# EV-5


def event(event_type: ModelEventType) -> ModelEvent:
    return ModelEvent(event_type)


START = ModelEvent.server_tool_started(ServerToolCall("w", "f"))
VIOLATIONS: dict[str, tuple[list[Any], list[str]]] = {
    "event after the response": ([response("x"), ModelEvent.text("y")], ["text_delta"]),
    "empty event after the response": ([response("x"), ModelEvent.text("")], []),
    "second response": ([response("x"), response("y")], []),
    "no response": ([ModelEvent.text("x")], []),
    "nothing at all": ([], []),
    "response event without response": ([event(ModelEventType.RESPONSE)], ["response"]),
    "tool call delta without payload": ([event(ModelEventType.TOOL_CALL_DELTA)], ["tool_call_delta"]),
    "start without payload": ([event(ModelEventType.SERVER_TOOL_STARTED)], ["server_tool_started"]),
    "input without payload": ([event(ModelEventType.SERVER_TOOL_INPUT_DELTA)], ["server_tool_input_delta"]),
    "end without payload": ([event(ModelEventType.SERVER_TOOL_COMPLETED)], ["server_tool_completed"]),
    "failure without payload": ([event(ModelEventType.SERVER_TOOL_FAILED)], ["server_tool_failed"]),
    "started twice": ([START, START, response("x")], ["w"]),
    "input never started": (
        [ModelEvent.server_tool_input(ServerToolInputDelta("v", "{")), response("x")],
        ["v"],
    ),
    "end never started": (
        [ModelEvent.server_tool_completed(ServerToolResult("v", "f")), response("x")],
        ["v"],
    ),
    "end under another name": ([START, ModelEvent.server_tool_failed(ServerToolResult("w", "g"))], ["w"]),
    "response while open": (
        [START, ModelEvent.server_tool_started(ServerToolCall("v", "f")), response("x")],
        ["w", "v"],
    ),
}


@pytest.mark.parametrize("name", VIOLATIONS)
async def test_ev5_violations_fail_the_request(name: str) -> None:
    items, words = VIOLATIONS[name]
    agent = await Agent.create(RawModel(items))
    with pytest.raises(AgentProtocolError) as caught:
        await agent.run("go", config=S)
    assert all(word in str(caught.value) for word in words)
    assert agent.state.phase is AgentPhase.FAILED and not agent.is_conflict("s")
    assert [m.role for m in agent.state.messages] == ["system", "user"]
    assert "RawModel" in str(caught.value)  # 10 B-MD5


async def test_ev5_violation_of_a_middleware() -> None:
    class Doubles(AgentExtension):
        async def on_model_request(self, context: Any, request: Any, call_next: Any) -> Any:
            async for item in call_next(request):
                yield item
            yield response("again")

    agent = await Agent.create(RawModel(answer()), extensions=[Doubles()])
    with pytest.raises(AgentProtocolError):
        await agent.run("go", config=S)
    assert agent.state.phase is AgentPhase.FAILED


# The tracker by hand


class FakeContext:
    def __init__(self, phase: AgentPhase = AgentPhase.GENERATING) -> None:
        self.state = AgentState(phase=phase)
        self.published: list[Any] = []

    async def publish(self, event: ExtensionEvent) -> None:
        self.published.append(event)


async def test_tracker_publishes_before_it_returns_the_types() -> None:
    context, tracker = FakeContext(), ModelOutputTracker()
    assert await tracker.observe(context, ModelEvent.reasoning("a")) == (AgentEventType.REASONING_STARTED,)
    assert await tracker.observe(context, ModelEvent.reasoning("b")) == ()
    first = tracker.reasoning_started
    assert await tracker.observe(context, ModelEvent.text("c")) == (
        AgentEventType.REASONING_COMPLETED,
        AgentEventType.CONTENT_STARTED,
    )
    assert await tracker.observe(context, ModelEvent.reasoning("d")) == (AgentEventType.REASONING_STARTED,)
    assert tracker.reasoning_started is first and isinstance(first, ReasoningStartedEvent)
    assert await tracker.observe(context, response("x")) == (
        AgentEventType.REASONING_COMPLETED,
        AgentEventType.CONTENT_COMPLETED,
    )
    assert [type(item).__name__ for item in context.published] == [
        "ReasoningStartedEvent",
        "ReasoningCompletedEvent",
        "ContentStartedEvent",
        "ReasoningStartedEvent",
        "ReasoningCompletedEvent",
        "ContentCompletedEvent",
    ]
    assert tracker.reasoning_completed is context.published[4]
    with pytest.raises(AgentProtocolError):
        await tracker.observe(context, ModelEvent.text("late"))


async def test_tracker_wants_the_generating_phase_and_names_both() -> None:
    with pytest.raises(AgentProtocolError, match=r"(?s)generating.*ready|ready.*generating"):
        await ModelOutputTracker().observe(FakeContext(AgentPhase.READY), ModelEvent.text("x"))


async def test_tracker_timing_has_only_whole_spans() -> None:
    context, tracker = FakeContext(), ModelOutputTracker()
    await tracker.observe(context, ModelEvent.reasoning("a"))
    started = PhaseTransitionEvent(AgentPhase.READY, AgentPhase.GENERATING, NOW, 100)
    ended = PhaseTransitionEvent(AgentPhase.GENERATING, AgentPhase.READY, NOW, 400)
    timing = tracker.message_timing(started, ended)
    assert timing.duration_ns == 300 and timing.reasoning_duration_ns is None
    assert timing.content_started_at is None


# EV-6


async def test_ev6_nothing_runs_while_the_consumer_handles_an_event() -> None:
    flag: list[bool] = []

    async def handler(**_: Any) -> str:
        flag.append(True)
        return "x"

    agent = await Agent.create(
        RawModel(asks(ToolCall("c", "t")), answer()),
        tools=[make_tool("t", handler)],
        extensions=[probe := Probe()],
    )
    async for event in agent.stream("go", config=S):
        seen = len(probe.trace)
        if event.type in (AgentEventType.MODEL_COMPLETED, AgentEventType.TOOL_STARTED):
            await asyncio.sleep(0.05)
        else:
            await asyncio.sleep(0.002)
        if not event.type.endswith("_delta"):
            assert len(probe.trace) == seen
        if event.type in (AgentEventType.MODEL_COMPLETED, AgentEventType.TOOL_STARTED) and len(flag) < 1:
            assert flag == []
        if event.type is AgentEventType.TOOL_COMPLETED:
            assert flag == [True]


async def test_run_does_not_wait_for_anybody() -> None:
    agent = await Agent.create(RawModel([ModelEvent.text("x") for _ in range(500)] + [response("x")]))
    assert (await asyncio.wait_for(agent.run("go", config=S), 5)).content == "x"


# EV-8, EV-12, emit


async def emits(hook: str, *events: AgentEvent) -> tuple[list[str], list[BaseException]]:
    errors: list[BaseException] = []

    async def emit(context: Any, *_: Any) -> None:
        for item in events:
            try:
                await context.emit(item)
            except AgentProtocolError as error:
                errors.append(error)

    agent = await Agent.create(RawModel(answer()), extensions=[Probe(**{hook: emit})])
    seen = [f"{item.type}@{item.phase}" async for item in agent.stream("go", config=S)]
    return seen, errors


@pytest.mark.parametrize(
    "event_type",
    [
        item
        for item in AgentEventType
        if item is not AgentEventType.CUSTOM and not item.startswith("compaction")
    ],
)
async def test_ev8_only_five_types_may_be_emitted(event_type: AgentEventType) -> None:
    _, errors = await emits("before_run", AgentEvent(event_type, "s"))
    assert len(errors) == 1 and event_type.value in str(errors[0])


async def test_ev8_foreign_session_wrong_phase_and_after_the_run() -> None:
    _, errors = await emits("before_run", AgentEvent(AgentEventType.CUSTOM, "other", name="x"))
    assert "another session" in str(errors[0])
    for event_type in ("completed", "text_delta", "reasoning_delta"):
        _, errors = await emits("before_run", AgentEvent(AgentEventType(f"compaction_{event_type}"), "s"))
        assert "ready" in str(errors[0])

    agent = await Agent.create(RawModel(answer()), extensions=[probe := Probe()])
    async for _ in agent.stream("go", config=S):
        pass
    late = AgentEvent(AgentEventType.CUSTOM, "s", name="late")
    with pytest.raises(AgentProtocolError) as caught:
        await probe.contexts[0].emit(late)
    assert "custom" in str(caught.value) and "s" in str(caught.value)  # B-EV4
    steering = SteeringMessageEvent(UserMessage(content="late"))
    with pytest.raises(AgentProtocolError, match=r"(?i)steering.*session s"):
        await probe.contexts[0].publish(steering)
    await agent.run("go", config=AgentRunConfig("t"), model=RawModel(answer()))
    with pytest.raises(AgentProtocolError):
        await probe.contexts[1].emit(AgentEvent(AgentEventType.CUSTOM, "t", name="late"))


async def test_ev12_custom_event_from_on_state_is_the_first_one() -> None:
    seen, errors = await emits("on_state", AgentEvent(AgentEventType.CUSTOM, "s", name="x"))
    assert seen[0] == "custom@loading_context" and not errors


@pytest.mark.parametrize(
    "hook",
    [
        "on_tool",
        "on_message",
        "before_run",
        "before_turn",
        "before_model",
        "after_model",
        "after_turn",
        "after_run",
        "on_success",
    ],
)
async def test_custom_events_from_every_hook(hook: str) -> None:
    seen, errors = await emits(hook, AgentEvent(AgentEventType.CUSTOM, "s", name="x"))
    assert not errors and len([item for item in seen if item.startswith("custom")]) == 1


async def test_compaction_events_move_the_phase() -> None:
    started, text_delta, completed = (
        AgentEvent(AgentEventType(f"compaction_{name}"), "s")
        for name in ("started", "text_delta", "completed")
    )
    seen, errors = await emits("before_model", started, text_delta, completed)
    assert seen[:3] == [
        "compaction_started@compacting",
        "compaction_text_delta@compacting",
        "compaction_completed@ready",
    ]
    assert not errors and seen[-1] == "run_completed@completed"


async def test_phase_given_by_the_creator_is_overwritten_and_subclasses_arrive_as_they_are() -> None:
    @dataclass(slots=True)
    class Mine(AgentEvent):
        extra: int = 0

    mine = Mine(AgentEventType.CUSTOM, "s", AgentPhase.FAILED, name="x", extra=5)
    received: list[AgentEvent] = []
    agent = await Agent.create(
        RawModel(answer()), extensions=[Probe(before_run=lambda context: context.emit(mine))]
    )
    async for item in agent.stream("go", config=S):
        received.append(item)
    assert received[0] is mine and mine.phase is AgentPhase.READY


async def test_emission_returns_only_when_the_consumer_asks_for_the_next_event() -> None:
    returned: list[bool] = []

    async def emit(context: Any) -> None:
        await context.emit(AgentEvent(AgentEventType.CUSTOM, "s", name="x"))
        returned.append(True)

    agent = await Agent.create(RawModel(answer()), extensions=[Probe(before_run=emit)])
    stream = agent.stream("go", config=S)
    await stream.__anext__()
    await asyncio.sleep(0.01)
    assert returned == []
    await stream.__anext__()
    assert returned == [True]
    await stream.aclose()


# EV-10, publish


async def test_ev10_publish_with_targets() -> None:
    first, second = Probe(), Probe()
    first.name, second.name = "first", "second"
    context = AgentRunContext(S, AgentState(), {}, (first, second))
    for target in ("nope", "", " ", 5):
        with pytest.raises(ValueError) as caught:
            await context.publish(ExtensionEvent(), target=target)  # type: ignore[arg-type]
        if target == "nope":
            assert "Unknown" in str(caught.value) and "nope" in str(caught.value)
        else:
            assert "non-empty string" in str(caught.value)
    assert first.trace == second.trace == []
    await context.publish(ExtensionEvent(), target="second")
    assert (len(first.trace), len(second.trace)) == (0, 1)
    await context.publish(ExtensionEvent())
    assert (len(first.trace), len(second.trace)) == (1, 2)
    second.name = "first"
    with pytest.raises(ValueError):
        await context.publish(ExtensionEvent(), target="first")


async def test_first_failing_subscriber_stops_delivery_to_the_publisher() -> None:
    def fail(*_: Any) -> None:
        raise KeyError("subscriber")

    first, second = Probe(on_event=fail), Probe()
    context = AgentRunContext(S, AgentState(), {}, (first, second))
    with pytest.raises(KeyError):
        await context.publish(ExtensionEvent())
    assert second.trace == []


async def test_application_events_reach_every_extension_in_a_run() -> None:
    @dataclass(frozen=True)
    class CacheWarmed(ExtensionEvent):
        entries: int

    probes = [Probe(before_run=lambda context: context.publish(CacheWarmed(3))), Probe()]
    probes[1].name = "other"
    agent = await Agent.create(RawModel(answer()), extensions=probes)
    await agent.run("go", config=S)
    assert all(CacheWarmed(3) in probe.notifications for probe in probes)


# EV-11


def test_ev11_timing_and_usage_are_checked() -> None:
    with pytest.raises(ValueError):
        MessageTiming(NOW, NOW, -1)
    for name in ("reasoning", "content"):
        for part in (
            {f"{name}_started_at": NOW},
            {f"{name}_duration_ns": 1},
            {f"{name}_started_at": NOW, f"{name}_completed_at": NOW},
        ):
            with pytest.raises(ValueError, match=f"(?s){name}.*together"):
                MessageTiming(NOW, NOW, 1, **part)
        whole = {f"{name}_started_at": NOW, f"{name}_completed_at": NOW, f"{name}_duration_ns": -1}
        with pytest.raises(ValueError):
            MessageTiming(NOW, NOW, 1, **whole)
    with pytest.raises(ValueError):
        MessageAppendedEvent(UserMessage(content="x"), MessageTiming(NOW, NOW, 0), ModelUsage())
    assert (
        MessageAppendedEvent(AssistantMessage(), MessageTiming(NOW, NOW, 0), ModelUsage()).usage
        == ModelUsage()
    )
    instant = MessageTiming.instant()
    assert instant.started_at == instant.completed_at and instant.duration_ns == 0
    assert instant.started_at.tzinfo is timezone.utc
    with pytest.raises(FrozenInstanceError):
        instant.duration_ns = 1  # type: ignore[misc]


def test_compaction_usage_is_last_and_not_compared() -> None:
    assert CompactionEvent(1, 2, 3, 4, "x") == CompactionEvent(1, 2, 3, 4, "x", ModelUsage(5))


async def test_transition_is_published_after_the_phase_changed_and_cancel_has_its_values() -> None:
    seen: list[tuple[str, str]] = []

    def on_event(context: Any, event: Any) -> None:
        if isinstance(event, PhaseTransitionEvent):
            seen.append((context.state.phase.value, event.current_phase.value))

    agent = await Agent.create(RawModel(text()), extensions=[probe := Probe(on_event=on_event)])
    stream = agent.stream("go", config=S)
    await stream.__anext__()
    await stream.aclose()
    assert all(now == event for now, event in seen) and seen[-1][0] == "cancelled"
    transition, cancelled = probe.notifications[-2:]
    assert isinstance(transition, PhaseTransitionEvent) and isinstance(cancelled, RunCancelledEvent)
    assert (cancelled.previous_phase, cancelled.occurred_at, cancelled.monotonic_ns) == (
        transition.previous_phase,
        transition.occurred_at,
        transition.monotonic_ns,
    )
    assert transition.occurred_at.tzinfo is timezone.utc


# B-EV5


class PublishesInState(AgentExtension):
    async def on_state(self, context: Any) -> None:
        await context.publish(SteeringMessageEvent(UserMessage(content="S")))
        await context.publish(InternalMessageEvent(AgentMessage(content="I")))


async def test_b_ev5_input_published_in_passes_is_ignored() -> None:
    agent = await Agent.create(
        RawModel(answer("1"), answer("2"), answer("3")),
        extensions=[PublishesInState(), InMemoryMessageAccumulator()],
    )
    assert await agent.resume_point(config=S) is None
    async for _ in agent.compact(config=S):
        pass
    assert agent.state.phase is AgentPhase.COMPLETED
    await agent.run("go", config=S)
    assert [m.content for m in agent.state.messages][1:] == ["go", "1", "S", "2", "I", "3"]


# B-EV6


def test_b_ev6_events_as_json() -> None:
    import json

    call = ToolCall("c", "t", {"a": 1})
    event = AgentEvent(
        AgentEventType.TOOL_FAILED,
        "s",
        AgentPhase.READY,
        tool_calls=[call],
        message=ToolMessage(tool_call_id="c", name="t", content="no", success=False),
        error=ValueError("no"),
    )
    value = event_to_dict(event)
    json.dumps(value)
    assert value["type"] == "tool_failed" and value["session_id"] == "s" and value["phase"] == "ready"
    assert value["error"] == {"type": "ValueError", "message": "no"}
    assert value["tool_calls"] == [{"id": "c", "name": "t", "arguments": {"a": 1}, "error": None}]
    assert value["message"]["kind"] == 4
    assert value["message"]["data"]["tool_call_id"] == "c" and value["message"]["data"]["success"] is False
    assert set(value) == {"type", "session_id", "phase", "tool_calls", "message", "error"}

    delta = event_to_dict(AgentEvent(AgentEventType.TEXT_DELTA, "s", AgentPhase.GENERATING, "x"))
    assert delta == {"type": "text_delta", "session_id": "s", "phase": "generating", "delta": "x"}
    custom = AgentEvent(AgentEventType.CUSTOM, "s", name="n", payload={"k": [1]})
    assert event_to_dict(custom)["payload"] == {"k": [1]}


async def test_b_ev6_every_event_of_a_run_can_be_sent_as_json() -> None:
    import json

    agent = await Agent.create(
        RawModel(asks(ToolCall("c", "t")), text()), tools=[make_tool("t")], extensions=[]
    )
    async for event in agent.stream("go", config=S):
        value = json.loads(json.dumps(event_to_dict(event)))
        assert value["type"] == event.type.value
        if event.response is not None:
            assert value["response"]["message"]["kind"] == 3
