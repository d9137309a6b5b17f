"""Stop reasons, in one vocabulary for all providers."""

from __future__ import annotations

import copy
import json
import pickle

import pytest

from zett_agent.stop import StopInfo, StopReason, classify_stop

RAW_VALUES = {
    StopReason.END_TURN: "stop end_turn stop_sequence completed",
    StopReason.TOOL_USE: "tool_calls tool_use function_call",
    StopReason.MAX_OUTPUT: "length max_tokens max_output_tokens",
    StopReason.CONTEXT_FULL: "model_context_window_exceeded model_length context_length_exceeded",
    StopReason.REFUSAL: (
        "refusal content_filter sensitive safety recitation blocklist prohibited_content spii image_safety "
        "image_prohibited_content image_recitation jailbreak model_armor"
    ),
    StopReason.PAUSED: "pause_turn",
    StopReason.INTERRUPTED: "error network_error insufficient_system_resource aborted",
}
PAIRS = [(reason, raw) for reason, values in RAW_VALUES.items() for raw in values.split()]


def test_the_eight_reasons():
    assert [reason.value for reason in StopReason] == [
        "end_turn",
        "tool_use",
        "max_output",
        "context_full",
        "refusal",
        "paused",
        "interrupted",
        "other",
    ]


@pytest.mark.parametrize(("reason", "raw"), PAIRS)
def test_s1_every_raw_value_in_any_case_and_padding(reason, raw):
    for text in (raw, raw.upper(), raw.title(), f"  {raw}\n"):
        stop = classify_stop(text)
        assert stop.reason is reason
        assert stop.raw == text
        expected = text if reason in (StopReason.REFUSAL, StopReason.INTERRUPTED) else None
        assert stop.category == expected


def test_s2_tool_calls_and_unknown_values():
    assert classify_stop("stop", has_tool_calls=True).reason is StopReason.TOOL_USE
    assert classify_stop("completed", has_tool_calls=True).reason is StopReason.TOOL_USE
    assert classify_stop("tool_use").reason is StopReason.TOOL_USE
    assert classify_stop("length", has_tool_calls=True).reason is StopReason.MAX_OUTPUT
    assert classify_stop("weird").reason is StopReason.OTHER
    assert classify_stop("weird").category is None
    assert classify_stop("Safety").category == "Safety"
    assert classify_stop("safety", category="violence").category == "violence"


def test_no_raw_value_is_a_normal_end():
    assert classify_stop(None) == StopInfo(StopReason.END_TURN)
    assert classify_stop(None, has_tool_calls=True) == StopInfo(StopReason.TOOL_USE)


def test_further_facts_are_taken_over_and_detail_is_copied():
    detail = {"index": 1}
    stop = classify_stop("refusal", message="no", recommended_model="other", detail=detail)
    assert stop == StopInfo(StopReason.REFUSAL, "refusal", "refusal", "no", "other", {"index": 1})
    detail["index"] = 2
    assert stop.detail == {"index": 1}


@pytest.mark.parametrize("reason", StopReason)
def test_s3_properties_and_descriptions(reason):
    stop = StopInfo(reason, raw="x", category="c", message="m")
    assert stop.ok is (reason in {"end_turn", "tool_use"})
    assert stop.refused is (reason == "refusal")
    assert stop.truncated is (reason in {"max_output", "context_full"})
    assert stop.describe() == f"{reason} (c): m"
    assert StopInfo(reason, raw="x").describe() == f"{reason} (x)"
    assert StopInfo(reason, raw=reason.value).describe() == f"{reason}"
    assert StopInfo(reason).describe() == f"{reason}"


def test_s3_examples_of_the_description():
    assert StopInfo(StopReason.REFUSAL, category="cyber").describe() == "refusal (cyber)"
    assert classify_stop("length").describe() == "max_output (length)"
    assert (
        classify_stop("error", message="upstream reset").describe() == "interrupted (error): upstream reset"
    )


@pytest.mark.parametrize("blank", ["", " ", "\n"])
def test_bs1_a_blank_raw_value_is_no_value(blank):
    assert classify_stop(blank) == StopInfo(StopReason.END_TURN)
    assert classify_stop(blank, has_tool_calls=True) == StopInfo(StopReason.TOOL_USE)


def test_bs2_stop_info_is_hashable_and_owns_its_detail():
    detail = {"withheld_tool_calls": ["run_shell"]}
    stop = StopInfo(StopReason.REFUSAL, detail=detail)
    detail["more"] = 1
    assert stop.detail == {"withheld_tool_calls": ["run_shell"]}
    assert hash(stop) == hash(StopInfo(StopReason.REFUSAL))
    assert {stop: "kept"}[
        StopInfo(StopReason.REFUSAL, detail={"withheld_tool_calls": ["run_shell"]})
    ] == "kept"


def test_stop_info_survives_pickle_and_copies():
    stop = StopInfo(StopReason.OTHER, "x", "c", "m", "r", {"a": [1]})
    assert pickle.loads(pickle.dumps(stop)) == stop
    assert copy.deepcopy(stop) == stop
    assert copy.copy(stop) == stop


def test_string_enums_are_strings():
    assert StopReason.REFUSAL == "refusal"
    assert f"{StopReason.REFUSAL}" == str(StopReason.REFUSAL) == "refusal"
    assert f"{StopReason.REFUSAL:>8}" == " refusal"
    assert "%s" % StopReason.REFUSAL == "refusal"  # noqa: UP031
    assert hash(StopReason.REFUSAL) == hash("refusal")
    assert {"refusal": 1}[StopReason.REFUSAL] == 1
    assert {StopReason.REFUSAL: 1}["refusal"] == 1
    assert json.dumps({StopReason.REFUSAL: StopReason.REFUSAL}) == '{"refusal": "refusal"}'
    assert StopReason("refusal") is StopReason.REFUSAL
    assert pickle.loads(pickle.dumps(StopReason.REFUSAL)) is StopReason.REFUSAL
    assert "".join(["a", StopReason.REFUSAL]) == "arefusal"
