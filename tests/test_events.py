"""Events as values, the boundaries in a model's output, and events as JSON. Their order is in tests/loop."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
from datetime import datetime, timedelta, timezone

import pytest

from zett_agent.agent import Agent, AgentRunConfig, AgentRunContext, AgentState
from zett_agent.events import (
    AgentEvent,
    AgentEventType,
    AgentPhase,
    AgentPhaseTransitionMixin,
    ModelOutputTracker,
    event_to_dict,
)
from zett_agent.exceptions import AgentProtocolError
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.events import (
    CompactionEvent,
    ContentCompletedEvent,
    ContentStartedEvent,
    ExtensionEvent,
    PhaseTransitionEvent,
    ReasoningCompletedEvent,
    ReasoningStartedEvent,
)
from zett_agent.messages import (
    AgentMessage,
    AssistantMessage,
    ImageBytesSource,
    ImageContent,
    TextContent,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from zett_agent.model import (
    ModelEvent,
    ModelEventType,
    ModelResponse,
    ModelUsage,
    ServerToolCall,
    ServerToolInputDelta,
    ServerToolResult,
    ToolCallDelta,
)
from zett_agent.stop import StopInfo, StopReason

T = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)


# Enumerations.


def test_ev1_event_types():
    assert [event_type.value for event_type in AgentEventType] == [
        "compaction_started",
        "compaction_text_delta",
        "compaction_reasoning_delta",
        "compaction_completed",
        "model_started",
        "content_started",
        "content_completed",
        "reasoning_started",
        "reasoning_completed",
        "text_delta",
        "reasoning_delta",
        "tool_call_delta",
        "server_tool_started",
        "server_tool_input_delta",
        "server_tool_completed",
        "server_tool_failed",
        "model_completed",
        "model_stopped",
        "tool_started",
        "tool_completed",
        "tool_failed",
        "tool_skipped",
        "steering_started",
        "steering_completed",
        "steering_interrupted",
        "internal_message_started",
        "internal_message_completed",
        "internal_message_interrupted",
        "run_completed",
        "custom",
    ]
    assert all(event_type.name == event_type.value.upper() for event_type in AgentEventType)


def test_ev1_phases():
    assert [phase.value for phase in AgentPhase] == [
        "created",
        "loading_context",
        "ready",
        "compacting",
        "generating",
        "running_tool",
        "completed",
        "failed",
        "cancelled",
    ]
    idle = {phase for phase in AgentPhase if phase.accepts_new_request}
    assert idle == {"created", "completed", "failed", "cancelled"}


def test_the_agent_derives_from_the_mixin():
    assert issubclass(Agent, AgentPhaseTransitionMixin)
    assert not [name for name in vars(AgentPhaseTransitionMixin) if not name.startswith("_")]


# The event.

DEFAULTS = {
    "phase": None,
    "delta": "",
    "tool_call_delta": None,
    "tool_calls": [],
    "server_tool_call": None,
    "server_tool_input_delta": None,
    "server_tool_result": None,
    "response": None,
    "stop": None,
    "message": None,
    "internal_message": None,
    "steering_message": None,
    "error": None,
    "compaction": None,
    "applied": None,
    "name": None,
    "payload": None,
}


def test_event_fields_in_order_with_their_defaults():
    assert [field.name for field in dataclasses.fields(AgentEvent)] == ["type", "session_id", *DEFAULTS]
    event = AgentEvent(AgentEventType.MODEL_STARTED, "s1")
    assert {name: getattr(event, name) for name in DEFAULTS} == DEFAULTS
    assert event.tool_calls is not AgentEvent(AgentEventType.MODEL_STARTED, "s1").tool_calls
    positional = AgentEvent(AgentEventType.TEXT_DELTA, "s1", AgentPhase.GENERATING, "a")
    assert positional == AgentEvent(
        type=AgentEventType.TEXT_DELTA, session_id="s1", phase=AgentPhase.GENERATING, delta="a"
    )


def test_events_are_mutable_values_with_slots():
    event = AgentEvent(AgentEventType.TEXT_DELTA, "s1", delta="a")
    event.phase = AgentPhase.GENERATING
    assert event != AgentEvent(AgentEventType.TEXT_DELTA, "s1", delta="a")
    with pytest.raises(AttributeError):
        event.other = 1
    with pytest.raises(TypeError):
        hash(event)
    for other in (pickle.loads(pickle.dumps(event)), copy.deepcopy(event), dataclasses.replace(event)):
        assert other == event
        assert other is not event


@pytest.mark.parametrize("event_type", [AgentEventType.CUSTOM, "custom"])
@pytest.mark.parametrize("name", [None, "", " ", "\n", 5])
def test_custom_events_need_a_name(event_type, name):
    with pytest.raises(ValueError, match="non-empty name"):
        AgentEvent(event_type, "s1", name=name)


def test_only_custom_events_need_one_and_types_are_not_checked():
    assert AgentEvent("custom", "s1", name="progress").name == "progress"
    assert AgentEvent("nope", "s1").type == "nope"


def test_extensions_derive_their_own_events():
    @dataclasses.dataclass(slots=True)
    class Asked(AgentEvent):
        question: str = ""

    event = Asked(AgentEventType.CUSTOM, "s1", name="ask", question="why?")
    assert isinstance(event, AgentEvent)
    assert event != AgentEvent(AgentEventType.CUSTOM, "s1", name="ask")
    assert event_to_dict(event)["name"] == "ask"


# Publishing outside of a run.


class Listener(AgentExtension):
    def __init__(self, name, log):
        self.name = name
        self.log = log

    async def on_event(self, context, event):
        self.log.append((self.name, event))


async def test_ev10_publishing_to_everybody_or_to_one():
    log = []
    extensions = (Listener("a", log), Listener("b", log), AgentExtension())
    context = AgentRunContext(AgentRunConfig("s1"), AgentState(), {}, extensions)
    event = ExtensionEvent()
    await context.publish(event)
    assert log == [("a", event), ("b", event)]
    log.clear()
    await context.publish(event, target="b")
    assert log == [("b", event)]
    log.clear()
    for target in ("", " ", 5):
        with pytest.raises(ValueError, match="non-empty string"):
            await context.publish(event, target=target)
    with pytest.raises(ValueError, match=r"Unknown.*nope"):
        await context.publish(event, target="nope")
    extensions[1].name = "a"
    with pytest.raises(ValueError, match="ambiguous"):
        await context.publish(event, target="a")
    assert log == []


# The boundaries of a step.


class Step:
    """A request in the middle of generating."""

    def __init__(self, phase=AgentPhase.GENERATING):
        self.state = AgentState(phase)
        self.published = []
        self.tracker = ModelOutputTracker()

    async def publish(self, event):
        self.published.append(type(event))

    async def observe(self, *events):
        """Return the boundaries due before each event."""
        return [list(await self.tracker.observe(self, event)) for event in events]


def response():
    return ModelEvent.completed(ModelResponse(AssistantMessage()))


def started(call_id="i", name="n"):
    return ModelEvent.server_tool_started(ServerToolCall(call_id, name))


def completed(call_id="i", name="n"):
    return ModelEvent.server_tool_completed(ServerToolResult(call_id, name))


def typed(call_id="i"):
    return ModelEvent.server_tool_input(ServerToolInputDelta(call_id, "x"))


async def test_ev3_reasoning_and_text_in_turns():
    step = Step()
    assert await step.observe(
        ModelEvent.reasoning("a"),
        ModelEvent.text("b"),
        ModelEvent.reasoning("c"),
        ModelEvent.text("d"),
        response(),
    ) == [
        ["reasoning_started"],
        ["reasoning_completed", "content_started"],
        ["reasoning_started"],
        ["reasoning_completed"],
        ["content_completed"],
    ]
    assert step.published == [
        ReasoningStartedEvent,
        ReasoningCompletedEvent,
        ContentStartedEvent,
        ReasoningStartedEvent,
        ReasoningCompletedEvent,
        ContentCompletedEvent,
    ]


async def test_ev4_empty_deltas_open_and_close_nothing():
    step = Step()
    deltas = [ModelEvent.text(""), ModelEvent.reasoning("")]
    assert await step.observe(*deltas) == [[], []]
    assert await step.observe(ModelEvent.reasoning("a"), *deltas) == [["reasoning_started"], [], []]
    assert await step.observe(response()) == [["reasoning_completed"]]
    assert step.tracker.content_started is None


async def test_tool_call_deltas_close_reasoning_and_server_tools_do_not():
    step = Step()
    delta = ModelEvent.tool_call(ToolCallDelta(0, "i"))
    failed = ModelEvent.server_tool_failed(ServerToolResult("i", "n", error_code="e"))
    assert await step.observe(
        ModelEvent.reasoning("a"),
        started(),
        typed(),
        completed(),
        started(),
        failed,
        delta,
        delta,
        response(),
    ) == [["reasoning_started"], [], [], [], [], [], ["reasoning_completed"], [], []]


async def test_the_tracker_keeps_the_first_start_and_the_last_end():
    step = Step()
    tracker = step.tracker
    assert (tracker.reasoning_started, tracker.reasoning_completed) == (None, None)
    await step.observe(ModelEvent.reasoning("a"), ModelEvent.text("b"))
    first = tracker.reasoning_started
    end = tracker.reasoning_completed
    await step.observe(ModelEvent.reasoning("c"), response())
    assert tracker.reasoning_started is first
    assert tracker.reasoning_completed is not end
    assert tracker.content_started.monotonic_ns <= tracker.content_completed.monotonic_ns


@pytest.mark.parametrize("phase", [phase for phase in AgentPhase if phase != "generating"])
async def test_output_outside_of_generating(phase):
    with pytest.raises(AgentProtocolError, match=f"(?s)generating.*{phase.value}"):
        await Step(phase).observe(ModelEvent.text("a"))


@pytest.mark.parametrize("late", [ModelEvent.text("a"), ModelEvent.text(""), response(), started()])
async def test_ev5_anything_after_the_response(late):
    step = Step()
    await step.observe(response())
    with pytest.raises(AgentProtocolError, match=f"{late.type}.*after its response"):
        await step.observe(late)


@pytest.mark.parametrize(
    "event_type",
    [
        "tool_call_delta",
        "server_tool_started",
        "server_tool_input_delta",
        "server_tool_completed",
        "server_tool_failed",
        "response",
    ],
)
async def test_ev5_bmd5_missing_payloads(event_type):
    step = Step()
    with pytest.raises(AgentProtocolError, match=event_type):
        await step.observe(ModelEvent(ModelEventType(event_type)))
    assert step.published == []


@pytest.mark.parametrize(
    "events",
    [
        [started(), started()],
        [started("i", "n"), started("i", "m")],
        [typed()],
        [started(), completed(), typed()],
        [completed()],
        [started("i", "n"), completed("i", "m")],
        [started("i"), completed("j")],
        [started(), completed(), completed()],
        [started(), response()],
        [started(), ModelEvent.server_tool_failed(ServerToolResult("j", "n"))],
    ],
)
async def test_ev5_unmatched_server_tools(events):
    step = Step()
    *fine, wrong = events
    await step.observe(*fine)
    with pytest.raises(AgentProtocolError):
        await step.observe(wrong)


async def test_a_server_tool_id_may_come_again_once_it_has_ended():
    assert (
        await Step().observe(started(), completed(), started(), typed(), completed(), response()) == [[]] * 6
    )


async def test_timing_of_a_step():
    def transition(seconds):
        return PhaseTransitionEvent(
            AgentPhase.READY, AgentPhase.GENERATING, T + timedelta(seconds=seconds), seconds * 10**9
        )

    bare = ModelOutputTracker().message_timing(transition(1), transition(4))
    assert (bare.started_at, bare.completed_at, bare.duration_ns) == (
        T + timedelta(seconds=1),
        T + timedelta(seconds=4),
        3 * 10**9,
    )
    assert bare.reasoning_started_at is bare.content_duration_ns is None

    tracker = ModelOutputTracker(
        reasoning_started=ReasoningStartedEvent(T, 5),
        reasoning_completed=ReasoningCompletedEvent(T + timedelta(seconds=1), 25),
        content_started=ContentStartedEvent(T, 7),
    )
    timing = tracker.message_timing(transition(1), transition(4))
    assert (timing.reasoning_started_at, timing.reasoning_completed_at) == (T, T + timedelta(seconds=1))
    assert timing.reasoning_duration_ns == 20
    assert timing.content_started_at is None  # a span without both ends


# Events as JSON.

ENVELOPE = {"attributes": {}, "persist": True, "include_in_messages": True}
ANSWER = AssistantMessage(content="a", tool_calls=(ToolCall("c", "n", {"x": 1}),))
ANSWER_JSON = {
    "kind": 3,
    "data": {
        **ENVELOPE,
        "content": "a",
        "reasoning": None,
        "tool_calls": [{"id": "c", "name": "n", "arguments": {"x": 1}, "error": None}],
        "provider": None,
        "model": None,
        "replay_blocks": [],
        "stop": None,
    },
}
STOP = StopInfo(StopReason.REFUSAL, "safety", "c", "m", "other", {"d": 1})
STOP_JSON = {
    "reason": "refusal",
    "raw": "safety",
    "category": "c",
    "message": "m",
    "recommended_model": "other",
    "detail": {"d": 1},
}
PICTURE = ImageContent(ImageBytesSource(b"\x00\xff", "image/png"))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {}),
        ({"delta": "é\n"}, {"delta": "é\n"}),
        ({"delta": "x \ud83d"}, {"delta": "x \ufffd"}),
        (
            {"tool_call_delta": ToolCallDelta(1, "i", "", "{")},
            {"tool_call_delta": {"index": 1, "id_delta": "i", "name_delta": "", "arguments_delta": "{"}},
        ),
        (
            {"tool_calls": [ToolCall("c", "n", {"x": (1, 2)}, "bad")]},
            {"tool_calls": [{"id": "c", "name": "n", "arguments": {"x": [1, 2]}, "error": "bad"}]},
        ),
        (
            {"server_tool_call": ServerToolCall("i", "n", {"q": 1})},
            {"server_tool_call": {"id": "i", "name": "n", "input": {"q": 1}}},
        ),
        (
            {"server_tool_input_delta": ServerToolInputDelta("i", "x")},
            {"server_tool_input_delta": {"call_id": "i", "delta": "x"}},
        ),
        (
            {"server_tool_result": ServerToolResult("i", "n", [1], "err")},
            {"server_tool_result": {"call_id": "i", "name": "n", "output": [1], "error_code": "err"}},
        ),
        (
            {"response": ModelResponse(ANSWER, "length", ModelUsage(10, 5, 4, 2, True, 1), STOP)},
            {
                "response": {
                    "message": ANSWER_JSON,
                    "finish_reason": "length",
                    "usage": {
                        "input_tokens": 10,
                        "output_tokens": 5,
                        "cache_read_tokens": 4,
                        "cache_write_tokens": 2,
                        "cache_reported": True,
                        "reasoning_tokens": 1,
                    },
                    "stop": STOP_JSON,
                }
            },
        ),
        ({"stop": STOP}, {"stop": STOP_JSON}),
        ({"message": ANSWER}, {"message": ANSWER_JSON}),
        (
            {"message": ToolMessage(tool_call_id="c", name="n", content=[TextContent("t"), PICTURE])},
            {
                "message": {
                    "kind": 4,
                    "data": {
                        **ENVELOPE,
                        "tool_call_id": "c",
                        "name": "n",
                        "content": [
                            {"text": "t"},
                            {
                                "source": {"data": {"__kcs_bytes__": "AP8="}, "media_type": "image/png"},
                                "detail": "auto",
                                "alt_text": None,
                            },
                        ],
                        "success": True,
                    },
                }
            },
        ),
        (
            {"internal_message": AgentMessage(content="go")},
            {"internal_message": {"kind": 6, "data": {**ENVELOPE, "content": "go"}}},
        ),
        (
            {"steering_message": UserMessage(content="stop")},
            {"steering_message": {"kind": 2, "data": {**ENVELOPE, "content": "stop"}}},
        ),
        ({"error": ValueError("no\ud83d")}, {"error": {"type": "ValueError", "message": "no\ufffd"}}),
        (
            {"compaction": CompactionEvent(1, 4, 5, 8, "sum"), "applied": True},
            {
                "compaction": {
                    "compressed_from": 1,
                    "compressed_to": 4,
                    "kept_from": 5,
                    "kept_to": 8,
                    "summary": "sum",
                    "usage": None,
                },
                "applied": True,
            },
        ),
        ({"applied": False}, {"applied": False}),
        ({"name": "n", "payload": {}}, {"name": "n", "payload": {}}),
        ({"name": "n", "payload": {"a": [1, None, "x"]}}, {"name": "n", "payload": {"a": [1, None, "x"]}}),
    ],
)
def test_bev6_events_as_json(fields, expected):
    event = AgentEvent(AgentEventType.CUSTOM, "s1", AgentPhase.READY, **{"name": "n", **fields})
    record = event_to_dict(event)
    assert record == {"type": "custom", "session_id": "s1", "phase": "ready", "name": "n", **expected}
    assert json.loads(json.dumps(record)) == record
    json.dumps(record, ensure_ascii=False, allow_nan=False).encode("utf-8")


def test_bev6_nothing_is_shared_and_plain_types_are_used():
    payload = {"a": [1]}
    record = event_to_dict(AgentEvent("custom", "s1", name="n", payload=payload))
    record["payload"]["a"].append(2)
    assert payload == {"a": [1]}
    assert record["phase"] is None
    for event_type in (AgentEventType.MODEL_STARTED, "model_started"):
        record = event_to_dict(AgentEvent(event_type, "s1", AgentPhase.GENERATING))
        assert type(record["type"]) is type(record["phase"]) is str
        assert record == {"type": "model_started", "session_id": "s1", "phase": "generating"}


def test_bev6_what_json_lacks_is_named_with_its_place():
    with pytest.raises(TypeError, match=r"payload\.a\[0\].*object"):
        event_to_dict(AgentEvent("custom", "s1", name="n", payload={"a": [object()]}))
    with pytest.raises(ValueError, match=r"payload\.a"):
        event_to_dict(AgentEvent("custom", "s1", name="n", payload={"a": float("nan")}))
