"""The contract between loop and adapters: every constructor's checks, and what is derived."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import pickle

import pytest
from pydantic import BaseModel

from zett_agent.messages import AssistantMessage, ToolCall, UserMessage
from zett_agent.model import (
    DEFAULT_RETRY_OPTIONS,
    DEFAULT_TIMEOUT_OPTIONS,
    AgentModel,
    ModelEvent,
    ModelEventType,
    ModelRequest,
    ModelResponse,
    ModelUsage,
    NativeDeferredToolsModel,
    ReasoningEffort,
    RetryOptions,
    ServerToolCall,
    ServerToolDefinition,
    ServerToolInputDelta,
    ServerToolResult,
    TimeoutOptions,
    ToolCallDelta,
    ToolDefinition,
    validate_response,
    validate_retry,
    validate_timeout,
)
from zett_agent.stop import StopInfo, StopReason

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: ServerToolDefinition(" "), "type"),
        (lambda: ServerToolDefinition("web_search", {"type": "x"}), "type"),
        (lambda: ServerToolCall(" ", "n"), "id"),
        (lambda: ServerToolCall("i", ""), "name"),
        (lambda: ServerToolInputDelta(" ", "x"), "call_id"),
        (lambda: ServerToolInputDelta("i", ""), "delta"),
        (lambda: ServerToolResult("", "n"), "call_id"),
        (lambda: ServerToolResult("i", " "), "name"),
        (lambda: ModelRequest((), parallel_tool_call=1), "parallel_tool_call"),
        (lambda: ModelRequest((), cache_key=" "), "cache_key"),
        (lambda: ToolCallDelta(-1, "i"), "index"),
        (lambda: ToolCallDelta(0), "id_delta.*name_delta.*arguments_delta"),
    ],
)
def test_md1_tools_requests_and_deltas(make, named):
    with pytest.raises(ValueError, match=named):
        make()


@pytest.mark.parametrize("field", ["base_delay", "max_delay", "max_retry_after", "jitter"])
@pytest.mark.parametrize("value", [True, "1", None, NAN, INF, -INF, -1, -0.1])
def test_md1_retry_delays(field, value):
    with pytest.raises(ValueError, match=field):
        RetryOptions(**{field: value})


@pytest.mark.parametrize("value", [True, "1", None, NAN, 1.0, -1])
def test_md1_retry_count(value):
    with pytest.raises(ValueError, match="max_retries"):
        RetryOptions(max_retries=value)


@pytest.mark.parametrize("field", ["connect", "first_byte", "idle"])
@pytest.mark.parametrize("value", [True, "1", NAN, INF, 0, 0.0, -1])
def test_md1_timeouts(field, value):
    with pytest.raises(ValueError, match=field):
        TimeoutOptions(**{field: value})


COUNTERS = ["input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens"]


@pytest.mark.parametrize("field", COUNTERS)
@pytest.mark.parametrize("value", [True, 1.0, NAN, "1", None])
def test_md1_bmd4_counters_that_are_no_integers(field, value):
    with pytest.raises(ValueError, match=field):
        ModelUsage(**{"input_tokens": 9, "output_tokens": 9, field: value})


@pytest.mark.parametrize("field", COUNTERS)
def test_md1_negative_counters(field):
    with pytest.raises(ValueError, match=f"{field}.*negative"):
        ModelUsage(**{field: -1})


@pytest.mark.parametrize(
    ("part", "whole"),
    [
        ("cache_read_tokens", "input_tokens"),
        ("cache_write_tokens", "input_tokens"),
        ("reasoning_tokens", "output_tokens"),
    ],
)
def test_md1_a_part_larger_than_its_whole(part, whole):
    with pytest.raises(ValueError, match=f"{part}.*{whole}"):
        ModelUsage(**{whole: 1, part: 2})
    assert getattr(ModelUsage(**{whole: 2, part: 2}), part) == 2


def test_md1_defaults():
    assert ToolDefinition("n", "d", {}) == ToolDefinition("n", "d", {}, False, False)
    assert ServerToolDefinition("web_search").configuration == {}
    assert ServerToolCall("i", "n").input is None
    assert ServerToolResult("i", "n") == ServerToolResult("i", "n", None, None)
    assert ServerToolInputDelta("i", " ").delta == " "
    request = ModelRequest([UserMessage(content="a")])
    assert (request.tools, request.server_tools, request.reasoning_effort) == ((), (), ReasoningEffort.MEDIUM)
    assert (request.tool_choice, request.parallel_tool_call, request.cache_key) == (None, True, None)
    assert RetryOptions() == DEFAULT_RETRY_OPTIONS == RetryOptions(0.25, 8.0, 3, 60.0, 0.0)
    assert TimeoutOptions() == DEFAULT_TIMEOUT_OPTIONS == TimeoutOptions(5.0, 60.0, 600.0)
    assert TimeoutOptions(None, None, None).idle is None
    assert ModelUsage() == ModelUsage(0, 0, 0, 0, True, 0)
    assert ToolCallDelta(0, arguments_delta=" ") == ToolCallDelta(0, "", "", " ")


def test_defaults_are_not_shared():
    assert ServerToolDefinition("a").configuration is not ServerToolDefinition("a").configuration


def test_retry_delays_double_up_to_the_longest():
    assert [RetryOptions(1, 5, 4).delay(n) for n in (1, 2, 3, 4)] == [1, 2, 4, 5]
    assert RetryOptions(0, 0, 0).delay(1) == 0
    assert RetryOptions(1, 8, 10**6).delay(10**6) == 8


def test_validators():
    assert validate_retry(DEFAULT_RETRY_OPTIONS) in (None, DEFAULT_RETRY_OPTIONS)
    assert validate_timeout(DEFAULT_TIMEOUT_OPTIONS) in (None, DEFAULT_TIMEOUT_OPTIONS)
    assert validate_response(True) in (None, True)
    for value in (None, 3, {}):
        with pytest.raises(ValueError, match="RetryOptions"):
            validate_retry(value)
        with pytest.raises(ValueError, match="TimeoutOptions"):
            validate_timeout(value)
        with pytest.raises(ValueError, match="boolean"):
            validate_response(value)


def test_md2_usage():
    assert ModelUsage(10, 5, 4, 2, reasoning_tokens=1).total_tokens == 15
    assert ModelUsage(10, 5, 4).cache_hit_rate == 0.4
    assert ModelUsage(10).cache_hit_rate == 0.0
    assert ModelUsage(0).cache_hit_rate is None
    assert ModelUsage(10, cache_reported=False).cache_hit_rate is None
    assert ModelUsage(1, 2, 0, 0, False, 1).reasoning_tokens == 1


def test_md3_the_stop_is_derived_unless_given():
    answer = AssistantMessage(content="x")
    calling = AssistantMessage(tool_calls=(ToolCall("c", "n"),))
    assert ModelResponse(answer, "length").stop.reason is StopReason.MAX_OUTPUT
    assert ModelResponse(calling, "stop").stop.reason is StopReason.TOOL_USE
    assert ModelResponse(answer).stop == StopInfo(StopReason.END_TURN)
    assert ModelResponse(answer).usage == ModelUsage()
    stop = StopInfo(StopReason.PAUSED)
    assert ModelResponse(answer, "length", stop=stop).stop is stop


class BareModel:
    def __init__(self):
        self.retry = RetryOptions()

    async def stream(self, request):
        yield ModelEvent.completed(ModelResponse(AssistantMessage()))


class DeferringModel(BareModel):
    native_deferred_tools = True


def test_md4_the_protocols_need_exactly_their_members():
    assert isinstance(BareModel(), AgentModel)
    assert not isinstance(BareModel(), NativeDeferredToolsModel)
    assert isinstance(DeferringModel(), NativeDeferredToolsModel)
    assert not isinstance(object(), AgentModel)
    assert not isinstance(object(), NativeDeferredToolsModel)


def test_md4_a_model_class_may_inherit_the_default_retry_options():
    class Inheriting(AgentModel):
        async def stream(self, request):
            yield ModelEvent.text("a")

    assert Inheriting().retry == RetryOptions()


def test_md5_efforts_ascend():
    values = ["off", "minimal", "low", "medium", "high", "xhigh", "max", "ultra"]
    assert [effort.value for effort in ReasoningEffort] == values


def test_event_types():
    assert [kind.value for kind in ModelEventType] == [
        "text_delta",
        "reasoning_delta",
        "tool_call_delta",
        "server_tool_started",
        "server_tool_input_delta",
        "server_tool_completed",
        "server_tool_failed",
        "response",
    ]


def test_event_constructors():
    delta, call = ToolCallDelta(0, "i"), ServerToolCall("i", "n")
    typed, result = ServerToolInputDelta("i", "x"), ServerToolResult("i", "n")
    response = ModelResponse(AssistantMessage())
    kinds = ModelEventType
    assert ModelEvent.text("a") == ModelEvent(kinds.TEXT_DELTA, delta="a")
    assert ModelEvent.reasoning("a") == ModelEvent(kinds.REASONING_DELTA, delta="a")
    assert ModelEvent.tool_call(delta) == ModelEvent(kinds.TOOL_CALL_DELTA, tool_call_delta=delta)
    assert ModelEvent.server_tool_started(call) == ModelEvent(
        kinds.SERVER_TOOL_STARTED, server_tool_call=call
    )
    assert ModelEvent.server_tool_input(typed) == ModelEvent(
        kinds.SERVER_TOOL_INPUT_DELTA, server_tool_input_delta=typed
    )
    assert ModelEvent.server_tool_completed(result) == ModelEvent(
        kinds.SERVER_TOOL_COMPLETED, server_tool_result=result
    )
    assert ModelEvent.server_tool_failed(result) == ModelEvent(
        kinds.SERVER_TOOL_FAILED, server_tool_result=result
    )
    assert ModelEvent.completed(response) == ModelEvent(kinds.RESPONSE, response=response)
    ModelEvent(kinds.RESPONSE)  # a missing payload is the loop's to find


FROZEN = [
    ToolDefinition("n", "d", {"type": "object"}),
    ServerToolDefinition("web_search", {"max_uses": 1}),
    ServerToolCall("i", "n", {"q": 1}),
    ServerToolInputDelta("i", "x"),
    ServerToolResult("i", "n", [1], "err"),
    ModelRequest((UserMessage(content="a"),)),
    RetryOptions(),
    TimeoutOptions(),
    ModelUsage(1, 1),
    ModelResponse(AssistantMessage(content="x")),
    ToolCallDelta(0, "i"),
    ModelEvent.text("a"),
]


@pytest.mark.parametrize("value", FROZEN, ids=lambda value: type(value).__name__)
def test_md6_frozen_types(value):
    field = dataclasses.fields(value)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(value, field, getattr(value, field))
    for other in (pickle.loads(pickle.dumps(value)), copy.deepcopy(value), dataclasses.replace(value)):
        assert other == value
        assert type(other) is type(value)


def test_md6_hashable_values():
    for value in (
        ModelUsage(1),
        ModelEvent.text("a"),
        RetryOptions(),
        TimeoutOptions(),
        ToolCallDelta(0, "i"),
    ):
        assert hash(value) == hash(copy.copy(value))


def test_bmd3_contradictory_counters_are_clamped():
    usage = ModelUsage.from_counts(
        input_tokens=5, output_tokens=3, cache_read_tokens=9, cache_write_tokens=7, reasoning_tokens=4
    )
    assert usage == ModelUsage(5, 3, 5, 5, True, 3)
    assert ModelUsage.from_counts(-1, -2, -3, -4, False, -5) == ModelUsage(0, 0, 0, 0, False, 0)
    assert ModelUsage.from_counts(10, 5, 4, 2, reasoning_tokens=1) == ModelUsage(10, 5, 4, 2, True, 1)
    assert ModelUsage.from_counts() == ModelUsage()


def test_usage_is_a_pydantic_field_type():
    class Row(BaseModel):
        usage: ModelUsage

    row = Row(usage=ModelUsage(10, 5, 4, 2, True, 1))
    assert Row.model_validate(json.loads(row.model_dump_json())) == row
    with pytest.raises(ValueError, match="cannot exceed"):
        Row.model_validate({"usage": {"input_tokens": 1, "cache_read_tokens": 2}})
