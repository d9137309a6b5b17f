"""Notifications as values."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
import time
from datetime import datetime, timedelta, timezone

import pytest
from pydantic import BaseModel, TypeAdapter

from zett_agent.events import AgentPhase
from zett_agent.extensions.events import (
    CompactionEvent,
    ContentCompletedEvent,
    ContentStartedEvent,
    ExtensionEvent,
    InternalMessageEvent,
    MessageAppendedEvent,
    MessageTiming,
    ModelOutputLifecycleEvent,
    PhaseTransitionEvent,
    ReasoningCompletedEvent,
    ReasoningStartedEvent,
    RunCancelledEvent,
    SteeringMessageEvent,
)
from zett_agent.messages import AgentMessage, AssistantMessage, UserMessage
from zett_agent.model import ModelUsage

T = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=timezone.utc)
LATER = T + timedelta(seconds=1)

ONE_OF_EACH = [
    ExtensionEvent(),
    PhaseTransitionEvent(AgentPhase.READY, AgentPhase.GENERATING, T, 5),
    RunCancelledEvent(AgentPhase.READY, T, 5),
    MessageAppendedEvent(AssistantMessage(content="x"), MessageTiming(T, LATER, 9), ModelUsage(1, 1)),
    InternalMessageEvent(AgentMessage(content="go")),
    SteeringMessageEvent(UserMessage(content="stop")),
    ModelOutputLifecycleEvent(T, 5),
    ReasoningStartedEvent(T, 5),
    ReasoningCompletedEvent(T, 5),
    ContentStartedEvent(T, 5),
    ContentCompletedEvent(T, 5),
    CompactionEvent(1, 4, 5, 8, "summary", ModelUsage(10, 2)),
]


@pytest.mark.parametrize("event", ONE_OF_EACH, ids=lambda event: type(event).__name__)
def test_notifications_are_frozen_values(event):
    assert isinstance(event, ExtensionEvent)
    for other in (pickle.loads(pickle.dumps(event)), copy.deepcopy(event)):
        assert type(other) is type(event)
        assert other == event
    for field in dataclasses.fields(event):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(event, field.name, None)


def test_applications_derive_their_own():
    @dataclasses.dataclass(frozen=True)
    class CacheWarmed(ExtensionEvent):
        entries: int

    assert CacheWarmed(3) == CacheWarmed(entries=3)
    assert isinstance(CacheWarmed(3), ExtensionEvent)


def test_ev11_negative_durations():
    with pytest.raises(ValueError, match="duration_ns"):
        MessageTiming(T, T, -1)
    with pytest.raises(ValueError, match="reasoning"):
        MessageTiming(T, T, 0, T, T, -1)
    with pytest.raises(ValueError, match="content"):
        MessageTiming(T, T, 0, content_started_at=T, content_completed_at=T, content_duration_ns=-1)


@pytest.mark.parametrize("name", ["reasoning", "content"])
@pytest.mark.parametrize("missing", ["started_at", "completed_at", "duration_ns"])
@pytest.mark.parametrize("keep_two", [True, False])
def test_ev11_partial_spans(name, missing, keep_two):
    span = {"started_at": T, "completed_at": T, "duration_ns": 0}
    if keep_two:
        del span[missing]
    else:
        span = {missing: span[missing]}
    with pytest.raises(ValueError, match=f"{name}.*together"):
        MessageTiming(T, T, 0, **{f"{name}_{part}": value for part, value in span.items()})


def test_ev11_whole_spans():
    timing = MessageTiming(T, LATER, 9, T, T, 0, T, LATER, 5)
    assert (timing.reasoning_duration_ns, timing.content_duration_ns) == (0, 5)
    assert MessageTiming(T, T, 0).content_started_at is None


def test_instant_timing():
    before = datetime.now(timezone.utc)
    timing = MessageTiming.instant()
    assert before <= timing.started_at == timing.completed_at <= datetime.now(timezone.utc)
    assert timing.duration_ns == 0
    assert timing.started_at.utcoffset() == timedelta(0)


def test_ev11_usage_belongs_to_assistant_messages():
    timing = MessageTiming.instant()
    with pytest.raises(ValueError, match="usage"):
        MessageAppendedEvent(UserMessage(content="a"), timing, ModelUsage())
    assert MessageAppendedEvent(AssistantMessage(), timing, ModelUsage(1)).usage == ModelUsage(1)
    assert MessageAppendedEvent(UserMessage(content="a"), timing).usage is None


@pytest.mark.parametrize("message", [UserMessage(content="a"), "a", None])
def test_internal_messages_are_agent_messages(message):
    with pytest.raises(TypeError, match="AgentMessage"):
        InternalMessageEvent(message)


@pytest.mark.parametrize("message", [AgentMessage(content="a"), "a", None])
def test_steering_messages_are_user_messages(message):
    with pytest.raises(TypeError, match="UserMessage"):
        SteeringMessageEvent(message)


@pytest.mark.parametrize(
    "event_type",
    [ReasoningStartedEvent, ReasoningCompletedEvent, ContentStartedEvent, ContentCompletedEvent],
)
def test_boundaries_know_the_time(event_type):
    before = time.monotonic_ns()
    event = event_type.now()
    assert type(event) is event_type
    assert isinstance(event, ModelOutputLifecycleEvent)
    assert before <= event.monotonic_ns <= time.monotonic_ns()
    assert event.occurred_at.utcoffset() == timedelta(0)


def test_the_usage_of_a_compaction_is_not_compared():
    with_usage = CompactionEvent(1, 4, 5, 8, "s", ModelUsage(1))
    assert with_usage == CompactionEvent(
        compressed_from=1, compressed_to=4, kept_from=5, kept_to=8, summary="s"
    )
    assert CompactionEvent(1, 4, 5, 8, "s").usage is None
    assert hash(with_usage) == hash(CompactionEvent(1, 4, 5, 8, "s"))


def test_keyword_patterns_match():
    match ONE_OF_EACH[3]:
        case MessageAppendedEvent(message=AssistantMessage(content=text), timing=timing, usage=usage):
            assert (text, timing.duration_ns, usage) == ("x", 9, ModelUsage(1, 1))
        case _:
            pytest.fail("no match")


def test_message_timing_is_a_pydantic_field_type():
    class Row(BaseModel):
        timing: MessageTiming

    row = Row(timing=MessageTiming(T, LATER, 9, T, T, 0))
    again = Row.model_validate(json.loads(row.model_dump_json()))
    assert again == row
    assert again.timing.reasoning_started_at == T
    with pytest.raises(ValueError, match="together"):
        Row.model_validate(
            {"timing": {"started_at": T, "completed_at": T, "duration_ns": 0, "content_started_at": T}}
        )


def test_other_notifications_validate_with_pydantic():
    event = ONE_OF_EACH[-1]
    adapter = TypeAdapter(CompactionEvent)
    assert adapter.validate_json(adapter.dump_json(event)) == event


@pytest.mark.parametrize("event_type", [ReasoningStartedEvent, ContentCompletedEvent])
def test_output_boundaries_validate_with_pydantic(event_type):
    adapter = TypeAdapter(event_type)
    event = event_type.now()
    assert adapter.validate_json(adapter.dump_json(event)) == event
