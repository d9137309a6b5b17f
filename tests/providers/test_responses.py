"""The Responses wire without HTTP: requests as they are built, answers as they are decoded."""

from __future__ import annotations

import base64
import copy
import json
import random
import time
from pathlib import Path
from typing import Any

import pytest

from zett_agent.messages import (
    AgentMessage,
    AssistantMessage,
    ImageBytesSource,
    ImageContent,
    ImageDetail,
    ImageUrlSource,
    SystemMessage,
    TextContent,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from zett_agent.model import (
    ModelEvent,
    ModelEventType,
    ModelRequest,
    ModelResponse,
    ModelUsage,
    ReasoningEffort,
    ServerToolDefinition,
    ToolDefinition,
)
from zett_agent.providers._event_stream import EventStreamDecoder
from zett_agent.providers._responses_decoder import ResponsesDecoder
from zett_agent.providers._retry import is_transient
from zett_agent.providers.base import (
    ProviderAuthError,
    ProviderError,
    ProviderHTTPError,
    ProviderResponseError,
)
from zett_agent.providers.responses import (
    ResponsesStreamInterrupted,
    local_tool_search_name,
    responses_input,
    responses_reasoning,
    responses_request,
    responses_tools,
    stream_responses,
)
from zett_agent.stop import StopReason

WIRE = Path(__file__).parents[1] / "data" / "wire"
if not WIRE.exists():
    WIRE = Path(__file__).parents[3] / "shared" / "spec" / "data" / "wire"


def recorded(pattern: str) -> list[Any]:
    paths = sorted(WIRE.glob(pattern))
    assert paths, f"no recordings {pattern} in {WIRE}"
    return [pytest.param(json.loads(path.read_text("utf-8")), id=path.stem) for path in paths]


# -- neutral values from the recordings -------------------------------------------------------------------


def part_from(data: dict[str, Any]) -> TextContent | ImageContent:
    if "text" in data:
        return TextContent(data["text"])
    source: ImageUrlSource | ImageBytesSource
    if "image_url" in data:
        source = ImageUrlSource(data["image_url"])
    else:
        source = ImageBytesSource(base64.b64decode(data["image_base64"]), data["media_type"])
    return ImageContent(source, ImageDetail(data.get("detail", "auto")), data.get("alt_text"))


MESSAGES = {
    "system": SystemMessage,
    "user": UserMessage,
    "assistant": AssistantMessage,
    "tool": ToolMessage,
    "agent": AgentMessage,
}


def message_from(data: dict[str, Any]) -> Any:
    fields = dict(data)
    kind = MESSAGES[fields.pop("role")]
    if isinstance(fields["content"], list):
        fields["content"] = [part_from(part) for part in fields["content"]]
    if "tool_calls" in fields:
        fields["tool_calls"] = tuple(ToolCall(**call) for call in fields["tool_calls"])
    if "replay_blocks" in fields:
        fields["replay_blocks"] = tuple(fields["replay_blocks"])
    return kind(**fields)


def request_from(data: dict[str, Any]) -> ModelRequest:
    fields = dict(data)
    fields["messages"] = [message_from(message) for message in fields["messages"]]
    fields["tools"] = tuple(ToolDefinition(**tool) for tool in fields.get("tools", ()))
    fields["server_tools"] = tuple(ServerToolDefinition(**tool) for tool in fields.get("server_tools", ()))
    fields["reasoning_effort"] = ReasoningEffort(fields.get("reasoning_effort", "medium"))
    return ModelRequest(**fields)


def recorded_objects(recording: dict[str, Any]) -> list[dict[str, Any]]:
    stream = EventStreamDecoder()
    objects: list[dict[str, Any]] = []
    for chunk in recording["http"]["chunks"]:
        objects += stream.feed(chunk.encode("utf-8"))
    return [*objects, *stream.finish()]


def event_data(event: ModelEvent) -> dict[str, Any]:
    """Return an event as the recordings have it."""
    data: dict[str, Any] = {"type": event.type.value}
    if event.delta:
        data["delta"] = event.delta
    if (delta := event.tool_call_delta) is not None:
        fields = {"id_delta": delta.id_delta, "name_delta": delta.name_delta}
        fields["arguments_delta"] = delta.arguments_delta
        shown = {name: text for name, text in fields.items() if text}
        data["tool_call_delta"] = {"index": delta.index, **shown}
    if (call := event.server_tool_call) is not None:
        data["server_tool_call"] = {"id": call.id, "name": call.name, "input": call.input}
    if (result := event.server_tool_result) is not None:
        data["server_tool_result"] = {
            "call_id": result.call_id,
            "name": result.name,
            "output": result.output,
            "error_code": result.error_code,
        }
    if event.response is not None:
        data["response"] = response_data(event.response)
    return data


def response_data(response: ModelResponse) -> dict[str, Any]:
    message, stop, usage = response.message, response.stop, response.usage
    assert stop is not None
    calls: list[dict[str, Any]] = []
    for call in message.tool_calls:
        calls.append({"id": call.id, "name": call.name, "arguments": call.arguments})
        if call.error is not None:
            calls[-1]["error"] = call.error
    stop_fields = {
        name: getattr(stop, name) for name in ("raw", "category", "message", "recommended_model", "detail")
    }
    return {
        "content": message.content,
        "reasoning": message.reasoning,
        "tool_calls": calls,
        "provider": message.provider,
        "model": message.model,
        "replay_blocks": list(message.replay_blocks),
        "finish_reason": response.finish_reason,
        "usage": {name: getattr(usage, name) for name in ModelUsage.__dataclass_fields__},
        "stop": {
            "reason": stop.reason.value,
            **{name: value for name, value in stop_fields.items() if value},
        },
    }


def assert_same(actual: Any, expected: Any, unique: dict[str, str]) -> None:
    """Compare with the placeholders of the recordings."""
    if isinstance(expected, str) and expected.startswith("{{unique"):
        assert actual and actual == unique.setdefault(expected, actual)
    elif isinstance(expected, str) and expected.startswith("{{"):
        assert isinstance(actual, str) and actual
        if expected.startswith("{{label: image of "):
            tool, call_id = expected.removesuffix("}}").split()[-2:]
            assert tool in actual and call_id in actual
    elif isinstance(expected, dict) and set(expected) == {"set", "must_mention", "cause"}:
        assert isinstance(actual, str)
        assert all(word in actual for word in expected["must_mention"])
        assert {"output_limit": "smaller"}[expected["cause"]] in actual
    elif isinstance(expected, dict):
        assert isinstance(actual, dict) and set(actual) == set(expected)
        for name, value in expected.items():
            assert_same(actual[name], value, unique)
    elif isinstance(expected, list):
        assert isinstance(actual, list) and len(actual) == len(expected)
        for left, right in zip(actual, expected, strict=True):
            assert_same(left, right, unique)
    else:
        assert actual == expected and type(actual) is type(expected)


# -- answers ----------------------------------------------------------------------------------------------


def decoder(search_tool: str | None = None) -> ResponsesDecoder:
    return ResponsesDecoder(provider_name="openai", model="gpt-x", search_tool=search_tool)


def decode(
    objects: list[dict[str, Any]], search_tool: str | None = None
) -> tuple[list[ModelEvent], ProviderError | None]:
    """Return all events of an answer, and the error that it ended with."""
    reader = decoder(search_tool)
    events: list[ModelEvent] = []
    try:
        for data in objects:
            events += reader.feed(data)
        events += reader.finish()
    except ProviderError as error:
        return events, error
    return events, None


def last_response(objects: list[dict[str, Any]], search_tool: str | None = None) -> ModelResponse:
    events, error = decode(objects, search_tool)
    assert error is None
    assert [event.type for event in events].count(ModelEventType.RESPONSE) == 1
    assert events[-1].response is not None
    return events[-1].response


# The others need a connection that breaks, or bytes that are no JSON.
NOT_HERE = {"stream.responses.connection-dropped-after-text", "stream.responses.malformed-json"}


@pytest.mark.parametrize(
    "recording", [case for case in recorded("stream.responses.*.json") if case.id not in NOT_HERE]
)
def test_20_3_recorded_answers(recording: dict[str, Any]) -> None:
    expected = recording["reference"] if recording["ours"] == "same" else recording["ours"]
    tools = [ToolDefinition(**tool) for tool in recording.get("request", {}).get("tools", ())]
    events, error = decode(recorded_objects(recording), local_tool_search_name(tools))
    assert_same([event_data(event) for event in events], expected["events"], {})
    if expected["error"] is None:
        assert error is None
        return
    assert type(error).__name__ == expected["error"]["class"]
    cause = expected["error"].get("cause_class")
    if cause is not None:
        assert f"{type(error.__cause__).__module__}.{type(error.__cause__).__qualname__}" == cause


# -- requests ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "recording",
    recorded("request.openai-responses.*.json") + recorded("request.deepseek-responses.*.json"),
)
def test_20_1_recorded_requests(recording: dict[str, Any]) -> None:
    options = recording["constructor"]
    deepseek = recording["class"] == "DeepSeekProvider"
    body = responses_request(
        request_from(recording["request"]),
        model=options["model"],
        provider_name="deepseek" if deepseek else "openai",
        temperature=options.get("temperature"),
        send_prompt_cache_key=not deepseek,
        fields={"reasoning": {"effort": "high"}} if deepseek else {},
    )
    body |= options.get("extra_body", {})
    assert "ours" not in recording
    assert_same(json.loads(json.dumps(body)), recording["sent"]["body"], {})


@pytest.mark.parametrize("effort", list(ReasoningEffort))
def test_20_2_recorded_efforts(effort: ReasoningEffort) -> None:
    recording = json.loads((WIRE / "effort.openai-responses.json").read_text("utf-8"))
    request = ModelRequest([UserMessage(content="hi")], reasoning_effort=effort)
    body = responses_request(request, model="gpt-x", provider_name="openai")
    fields = {name: body[name] for name in ("reasoning", "include") if name in body}
    assert fields == recording["fields"]["gpt-x"][effort.value]
    assert responses_reasoning(effort) == fields.get("reasoning")


def build(*messages: Any, **options: Any) -> list[dict[str, Any]]:
    return responses_input(messages, provider="openai", model="gpt-x", **options)


def own(*blocks: dict[str, Any], **fields: Any) -> AssistantMessage:
    return AssistantMessage(provider="openai", model="gpt-x", replay_blocks=blocks, **fields)


def foreign(*ids: str, name: str = "look") -> list[Any]:
    """Return the turn `T(ids)` of chapter 80."""
    calls = tuple(ToolCall(call_id, name, {"n": n}) for n, call_id in enumerate(ids))
    results = [ToolMessage(tool_call_id=call_id, name=name, content=f"r{n}") for n, call_id in enumerate(ids)]
    return [
        UserMessage(content="go"),
        AssistantMessage(provider="x", model="o", tool_calls=calls),
        *results,
    ]


LOOK = ToolDefinition("look", "Look.", {"type": "object", "properties": {}})
SEARCH = ToolDefinition("search_tools", "Find tools.", {"type": "object"}, local_tool_search=True)
DEFERRED = ToolDefinition("git_log", "History.", {"type": "object"}, deferred=True)
INVENTED = "functions.read file<|x|>"


def test_fields_of_an_adapter_replace_standard_ones_and_none_leaves_them_out() -> None:
    request = ModelRequest([UserMessage(content="hi")])
    body = responses_request(
        request, model="m", provider_name="p", fields={"reasoning": None, "store": True, "seed": 1}
    )
    assert "reasoning" not in body
    assert (body["store"], body["seed"], body["include"]) == (True, 1, ["reasoning.encrypted_content"])


def test_an_empty_list_of_parts_stays_one() -> None:
    assert build(UserMessage(content=[])) == [{"role": "user", "content": []}]


def test_building_a_request_changes_no_message_and_gives_the_same_bytes_again() -> None:
    messages = [
        *foreign("a", name=INVENTED),
        own({"type": "function_call", "call_id": "b" * 90, "name": INVENTED, "arguments": "{}"}),
        ToolMessage(tool_call_id="b" * 90, name=INVENTED, content="r"),
        own({"type": "reasoning", "id": "rs_1"}, content="hi"),
    ]
    before = repr(messages)
    first, second = (json.dumps(build(*messages, wire_id=lambda name: name[:64])) for _ in range(2))
    assert first == second
    assert repr(messages) == before


def test_80_b1_an_invented_tool_name_is_made_acceptable() -> None:
    call, result = build(*foreign("a", name=INVENTED), tools=[LOOK])[1:]
    assert call["name"] == "functions_read_file__x__"
    assert result == {"type": "function_call_output", "call_id": "a", "output": "r0"}


def test_80_b1_also_in_a_replayed_item() -> None:
    block = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": INVENTED, "arguments": "{}"}
    assert build(own(block)) == [{**block, "name": "functions_read_file__x__"}]
    assert block["name"] == INVENTED


def test_80_b1_the_name_of_a_tool_of_the_request_is_sent_as_it_is() -> None:
    tool = ToolDefinition(INVENTED, "Read.", {})
    block = {"type": "function_call", "call_id": "c1", "name": INVENTED, "arguments": "{}"}
    assert build(*foreign("a", name=INVENTED), tools=[tool])[1]["name"] == INVENTED
    assert build(own(block), tools=[tool]) == [block]


@pytest.mark.parametrize("name", ["", " \n"])
def test_80_b1_a_blank_name(name: str) -> None:
    block = {"type": "function_call", "call_id": "c1", "name": name, "arguments": "{}"}
    assert build(*foreign("a", name=name))[1]["name"] == "unnamed_tool"
    assert build(own(block))[0]["name"] == "unnamed_tool"


def test_80_b1_names_of_hosted_items_are_the_services_own() -> None:
    block = {"type": "mcp_call", "id": "mcp_1", "name": "files.read", "arguments": "{}"}
    assert build(own(block)) == [block]


def test_80_b3_ids_are_changed_for_calls_and_results_alike() -> None:
    def short(call_id: str) -> str:
        return call_id if len(call_id) <= 64 else f"s{len(call_id)}"

    block = {"type": "function_call", "id": "fc_1", "call_id": "c" * 90, "name": "look", "arguments": "{}"}
    items = build(
        own(block), ToolMessage(tool_call_id="c" * 90, name="look", content="r"), tools=[LOOK], wire_id=short
    )
    assert items == [
        {**block, "call_id": "s90"},
        {"type": "function_call_output", "call_id": "s90", "output": "r"},
    ]
    assert [item.get("call_id") for item in build(*foreign("d" * 65, "e"), wire_id=short)] == [
        None,
        "s65",
        "e",
        "s65",
        "e",
    ]


REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "E"}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "look", "arguments": "{}"}
TEXT = {
    "type": "message",
    "id": "m_1",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "a"}],
}


def test_80_b7_an_empty_summary_is_sent_back() -> None:
    output = [{**REASONING, "content": None, "status": None}, CALL]
    response = last_response([{"type": "response.completed", "response": {"output": output}}])
    items = build(response.message, ToolMessage(tool_call_id="c1", name="look", content="r"), tools=[LOOK])
    assert items[:2] == [REASONING, CALL]


def test_80_b7_stored_reasoning_that_leads_to_nothing_is_left_out() -> None:
    assert build(own(TEXT, REASONING)) == [TEXT]
    assert build(own(REASONING, content="")) == []
    assert build(own(REASONING, content="hi")) == [{"role": "assistant", "content": "hi"}]


@pytest.mark.parametrize("summary", [{}, {"summary": None}])
def test_80_b7_stored_reasoning_without_a_summary_gets_an_empty_one(summary: dict[str, Any]) -> None:
    block = {"type": "reasoning", "id": "rs_1", "encrypted_content": "E", **summary}
    assert build(own(block, CALL))[0] == REASONING


def test_80_b9_image_types() -> None:
    images = [
        ImageBytesSource(b"\xff\xd8\xff\xe0", " IMAGE/JPG"),
        ImageUrlSource("data:image/jpg;base64,/9j/eA=="),
        ImageBytesSource(b"\x89PNG\r\n\x1a\n", "image/webp"),
    ]
    parts = build(UserMessage(content=[ImageContent(image) for image in images]))[0]["content"]
    assert [part["image_url"].partition(",")[0] for part in parts] == [
        "data:image/jpeg;base64",
        "data:image/jpeg;base64",
        "data:image/png;base64",
    ]
    assert images[0].media_type == " IMAGE/JPG"


def test_own_turns_are_replayed_and_others_written_anew() -> None:
    message = own(REASONING, CALL, reasoning="think", tool_calls=(ToolCall("c1", "look", {"n": 1}),))
    written = [{"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"n": 1}'}]
    assert build(message) == [REASONING, CALL]
    assert responses_input([message], provider="xai", model="gpt-x") == written
    assert responses_input([message], provider="openai", model="gpt-y") == written


# -- tool search ------------------------------------------------------------------------------------------


def test_two_tools_cannot_answer_tool_search() -> None:
    other = ToolDefinition("find", "Find.", {}, local_tool_search=True)
    for build_it in (responses_tools, local_tool_search_name):
        with pytest.raises(ValueError, match="search_tools, find"):
            build_it([SEARCH, other])


def test_a_local_and_a_hosted_search_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="search_tools"):
        responses_tools([SEARCH], [ServerToolDefinition("tool_search")])


def test_tool_search_comes_last() -> None:
    entries = responses_tools([SEARCH, LOOK, DEFERRED], [ServerToolDefinition("web_search")])
    assert [entry["type"] for entry in entries] == ["function", "function", "web_search", "tool_search"]
    entries = responses_tools([DEFERRED], [ServerToolDefinition("web_search")])
    assert [entry["type"] for entry in entries] == ["function", "web_search", "tool_search"]


def search_result(text: str, *, success: bool = True) -> ToolMessage:
    return ToolMessage(tool_call_id="s1", name="search_tools", content=text, success=success)


def test_a_failed_search_has_found_nothing() -> None:
    (item,) = build(search_result("no such index", success=False), tools=[SEARCH])
    assert item == {
        "type": "tool_search_output",
        "call_id": "s1",
        "execution": "client",
        "status": "completed",
        "tools": [],
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("nothing", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("{}", "not a list"),
        ('["git_log"]', "name or its parameters"),
        ('[{"name": "git_log"}]', "name or its parameters"),
        ('[{"parameters": {}}]', "name or its parameters"),
        ('[{"type": "web_search", "name": "a", "parameters": {}}]', "web_search"),
    ],
)
def test_a_search_result_that_is_no_list_of_functions_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=rf"search_tools.*{reason}"):
        build(search_result(text), tools=[SEARCH])


def test_a_replayed_search_is_answered_as_one_even_without_the_tool() -> None:
    block = {"type": "tool_search_call", "id": "ts1", "call_id": "s1", "execution": "client"}
    items = build(own(block), search_result("[]"))
    assert [item["type"] for item in items] == ["tool_search_call", "tool_search_output"]


def test_21_18_client_tool_search_end_to_end() -> None:
    tools = [SEARCH, DEFERRED]
    call = {"type": "tool_search_call", "id": "ts1", "call_id": "s1", "execution": "client"}
    call["arguments"] = {"query": "git"}
    answer = last_response(
        [{"type": "response.completed", "response": {"output": [call]}}], local_tool_search_name(tools)
    ).message
    assert answer.tool_calls == (ToolCall("s1", "search_tools", {"query": "git"}),)
    found = [{"type": "function", "name": "git_log", "description": "History.", "parameters": {"a": [1]}}]
    items = build(answer, search_result(json.dumps(found)), tools=tools)
    assert items[0] == call
    assert json.dumps(items[1]["tools"]) == json.dumps(found)


# -- answers, in detail -----------------------------------------------------------------------------------


def delta(text: Any, kind: str = "output_text", **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}.delta", "output_index": 0, "content_index": 0, "delta": text, **fields}


def added(index: Any, **item: Any) -> dict[str, Any]:
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def done(index: Any, **item: Any) -> dict[str, Any]:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def completed(*output: dict[str, Any], **fields: Any) -> dict[str, Any]:
    response = {"status": "completed", "output": list(output), **fields}
    return {"type": "response.completed", "response": response}


def texts(events: list[ModelEvent], kind: ModelEventType) -> list[str]:
    return [event.delta for event in events if event.type is kind]


def arguments_of(events: list[ModelEvent]) -> str:
    return "".join(event.tool_call_delta.arguments_delta for event in events if event.tool_call_delta)


@pytest.mark.parametrize("fields", [{"arguments": ""}, {"arguments": None}, {}])
def test_80_a3_tools_without_arguments(fields: dict[str, Any]) -> None:
    (call,) = last_response(
        [completed({"type": "function_call", "call_id": "c1", "name": "look", **fields})]
    ).message.tool_calls
    assert call == ToolCall("c1", "look", {}, None)


def test_80_a3_the_text_null_stays_an_error() -> None:
    (call,) = last_response([completed({**CALL, "arguments": "null"})]).message.tool_calls
    assert call.error is not None


def refused(*output: dict[str, Any]) -> dict[str, Any]:
    response = {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}
    return {"type": "response.incomplete", "response": {**response, "output": list(output)}}


def test_80_b7_reasoning_is_withheld_with_its_call() -> None:
    response = last_response([refused(REASONING, CALL)])
    assert response.stop is not None and response.stop.reason is StopReason.REFUSAL
    assert response.message.replay_blocks == ()
    assert [call.id for call in response.message.tool_calls] == ["c1"]


def test_80_b7_reasoning_that_led_to_text_is_kept() -> None:
    second = {**REASONING, "id": "rs_2"}
    blocks = last_response([refused(REASONING, TEXT, second, CALL)]).message.replay_blocks
    assert [block["id"] for block in blocks] == ["rs_1", "m_1"]
    blocks = last_response([refused(REASONING, CALL, TEXT)]).message.replay_blocks
    assert [block["id"] for block in blocks] == ["m_1"]


def test_80_b10_ids_may_come_again_in_another_answer() -> None:
    answers = [last_response([completed({**CALL, "call_id": "look:0"})]) for _ in range(2)]
    assert [answer.message.tool_calls[0].id for answer in answers] == ["look:0", "look:0"]


def test_two_calls_of_one_answer_never_share_an_id() -> None:
    objects = [
        added(0, type="function_call", call_id="c", name="look"),
        added(1, type="function_call", call_id="c", name="look"),
        completed({**CALL, "call_id": "c"}, {**CALL, "call_id": "c"}),
    ]
    events, _ = decode(objects)
    shown = [event.tool_call_delta.id_delta for event in events if event.tool_call_delta]
    message = events[-1].response.message
    assert [call.id for call in message.tool_calls] == shown == [b["call_id"] for b in message.replay_blocks]
    assert shown[0] == "c" != shown[1]


def test_a_call_with_only_an_item_id_is_stored_so_that_its_result_matches() -> None:
    message = last_response([completed({k: v for k, v in CALL.items() if k != "call_id"})]).message
    assert message.tool_calls[0].id == message.replay_blocks[0]["call_id"] == "fc_1"


@pytest.mark.parametrize("name", [None, "", " "])
def test_a_call_without_a_name(name: str | None) -> None:
    message = last_response([completed({**CALL, "name": name})]).message
    assert message.tool_calls[0].name == message.replay_blocks[0]["name"] == "unnamed_tool"
    assert message.tool_calls[0].error is not None


def test_a_custom_tool_call_is_kept_and_gives_no_call() -> None:
    item = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c1", "name": "grep", "input": "x"}
    events, _ = decode([added(0, **item), done(0, **item), completed(item)])
    assert [event.type for event in events] == [ModelEventType.RESPONSE]
    response = events[0].response
    assert response is not None and response.message.tool_calls == ()
    assert response.message.replay_blocks == (item,)


def test_arguments_that_came_in_no_pieces_are_shown_at_the_end_of_their_item() -> None:
    events, _ = decode([added(0, **{**CALL, "arguments": ""}), done(0, **CALL), completed(CALL)])
    assert arguments_of(events) == "{}"


def test_nulls_are_removed_from_items_but_not_from_what_the_model_wrote() -> None:
    item = {**CALL, "status": None, "arguments": {"x": None}}
    part = {"type": "output_text", "text": "a", "logprobs": None}
    message = last_response([completed({**TEXT, "content": [part], "phase": None}, item)]).message
    assert message.replay_blocks == (TEXT, {**CALL, "arguments": {"x": None}})
    assert message.tool_calls[0].arguments == {"x": None}


def test_refusal_parts_that_were_not_streamed() -> None:
    part = {"type": "refusal", "refusal": "No."}
    response = last_response([completed({**TEXT, "content": [part]})])
    assert response.message.content == "No."
    assert response.stop is not None
    assert (response.stop.reason, response.stop.message) == (StopReason.REFUSAL, "No.")


def test_readable_reasoning_is_preferred_to_its_summary() -> None:
    item = {
        "type": "reasoning",
        "content": [{"type": "reasoning_text", "text": "all"}],
        "summary": [{"type": "summary_text", "text": "short"}],
    }
    assert last_response([completed(item)]).message.reasoning == "all"


@pytest.mark.parametrize(
    ("end", "fields", "reason", "stop"),
    [
        ("completed", {}, "completed", StopReason.END_TURN),
        ("incomplete", {}, "incomplete", StopReason.OTHER),
        ("cancelled", {"status": "in_progress"}, "cancelled", StopReason.INTERRUPTED),
        ("completed", {"status": "cancelled"}, "cancelled", StopReason.INTERRUPTED),
    ],
)
def test_how_the_final_event_says_it_ended(
    end: str, fields: dict[str, Any], reason: str, stop: StopReason
) -> None:
    response = last_response([{"type": f"response.{end}", "response": fields}])
    assert response.stop is not None
    assert (response.finish_reason, response.stop.reason) == (reason, stop)


def test_nothing_follows_the_response() -> None:
    reader = decoder()
    assert [event.type for event in reader.feed(completed())] == [ModelEventType.RESPONSE]
    assert reader.finished
    assert reader.feed(delta("late")) == reader.feed(completed()) == reader.finish() == []


@pytest.mark.parametrize("data", [{}, {"type": None}, {"type": ["x"]}, {"type": "response.in_progress"}])
def test_other_objects_say_nothing(data: dict[str, Any]) -> None:
    assert decoder().feed(data) == []


@pytest.mark.parametrize("text", ["", None, 5, ["x"]])
def test_10_5_no_event_is_empty(text: Any) -> None:
    reader = decoder()
    for kind in ("output_text", "refusal", "reasoning_text", "function_call_arguments"):
        assert reader.feed(delta(text, kind)) == []


def test_an_event_nested_too_deep_is_an_error_of_ours() -> None:
    arguments: Any = {}
    for _ in range(100_000):
        arguments = {"a": arguments}
    with pytest.raises(ProviderResponseError, match="nested too deep"):
        decoder().feed(completed({**CALL, "arguments": arguments}))


# -- text hygiene (20 §10 point 6) ------------------------------------------------------------------------

CAT = ("a\ud83d", "\udc08b")


@pytest.mark.parametrize(
    ("kind", "event"),
    [
        ("output_text", ModelEventType.TEXT_DELTA),
        ("refusal", ModelEventType.TEXT_DELTA),
        ("reasoning_text", ModelEventType.REASONING_DELTA),
        ("reasoning_summary_text", ModelEventType.REASONING_DELTA),
    ],
)
def test_halves_of_a_character_are_joined(kind: str, event: ModelEventType) -> None:
    events, _ = decode([*(delta(text, kind) for text in CAT), delta("\ud83d", kind), completed()])
    assert texts(events, event) == ["a", "🐈b", "\ufffd"]
    message = events[-1].response.message
    assert (message.reasoning or message.content) == "a🐈b\ufffd"


def test_halves_of_different_parts_are_not_joined() -> None:
    events, _ = decode(
        [
            delta("\ud83d"),
            delta("\udc08", content_index=1),
            delta("\udc08", "reasoning_text"),
            delta("\udc08"),
            completed(),
        ]
    )
    assert texts(events, ModelEventType.TEXT_DELTA) == ["\ufffd", "🐈"]
    assert texts(events, ModelEventType.REASONING_DELTA) == ["\ufffd"]


def test_halves_in_arguments() -> None:
    kind = "function_call_arguments"
    whole = json.dumps({"x": "a🐈b"}, ensure_ascii=False)
    call = {**CALL, "arguments": whole}
    events, _ = decode(
        [
            added(0, **{**CALL, "arguments": ""}),
            delta('{"x": "' + CAT[0], kind),
            delta(CAT[1] + '"}', kind),
            done(0, **call),
            completed(call),
        ]
    )
    assert arguments_of(events) == whole
    assert events[-1].response.message.tool_calls[0].arguments == {"x": "a🐈b"}


def test_80_c1_nothing_with_a_lone_half_leaves_the_decoder() -> None:
    bad = "x\ud83d"
    objects = [
        added(0, type="web_search_call", id=bad, action={"query": bad}),
        done(0, type="web_search_call", id=bad, status="failed", error={"code": bad}),
        added(1, type="function_call", call_id=bad, name=bad),
        done(1, type="function_call", call_id=bad, name=bad, arguments='{"a": "\ud83d"}'),
        {
            "type": "response.completed",
            "response": {"status": bad, "output": [{"type": "message", bad: bad}]},
        },
    ]
    events, error = decode(objects)
    assert error is None and len(events) == 5
    json.dumps([event_data(event) for event in events], ensure_ascii=False).encode("utf-8")


# -- hosted tools -----------------------------------------------------------------------------------------


def hosted(events: list[ModelEvent]) -> list[tuple[str, str]]:
    """Return type and call id of the events of hosted tools."""
    rows: list[tuple[str, str]] = []
    for event in events:
        if event.server_tool_call is not None:
            rows.append(("started", event.server_tool_call.id))
        elif event.server_tool_result is not None:
            rows.append((event.type.value.removeprefix("server_tool_"), event.server_tool_result.call_id))
    return rows


MCP = {"type": "mcp_call", "id": "mcp1", "name": "read", "server_label": "s"}


def test_a_hosted_call_fails_once() -> None:
    failed = {"type": "response.mcp_call.failed", "output_index": 0, "item_id": "mcp1"}
    item = {**MCP, "status": "failed", "error": "gone"}
    events, _ = decode([added(0, **MCP), failed, done(0, **item), failed, completed(item)])
    assert hosted(events) == [("started", "mcp1"), ("failed", "mcp1")]


def test_a_hosted_failure_of_an_unknown_item_is_started_first() -> None:
    events, error = decode([{"type": "response.mcp_call.incomplete", "item_id": "mcp9"}])
    assert error is None
    assert hosted(events) == [("started", "mcp9"), ("failed", "mcp9")]
    assert events[1].server_tool_result is not None
    assert (events[1].server_tool_result.name, events[1].server_tool_result.error_code) == (
        "mcp_call",
        "failed",
    )


@pytest.mark.parametrize(
    "kind",
    ["response.function_call.failed", "response.message.failed", "response.a.b.failed", "x.mcp_call.failed"],
)
def test_only_hosted_items_fail_alone(kind: str) -> None:
    assert decoder().feed({"type": kind, "item_id": "i", "output_index": 0}) == []


@pytest.mark.parametrize(
    ("item", "code"),
    [
        ({"status": "incomplete"}, "incomplete"),
        ({"status": "failed", "error": "gone"}, "failed"),
        ({"status": "failed", "error": {"code": "timeout"}}, "timeout"),
    ],
)
def test_hosted_failure_codes(item: dict[str, Any], code: str) -> None:
    events, _ = decode([done(0, **MCP, **item), completed()])
    assert hosted(events) == [("started", "mcp1"), ("failed", "mcp1")]
    assert events[1].server_tool_result is not None
    assert events[1].server_tool_result.error_code == code


def test_a_hosted_call_that_only_the_final_event_ends() -> None:
    item = {**MCP, "status": "completed", "output": None}
    events, _ = decode([added(0, **MCP), completed(item)])
    assert hosted(events) == [("started", "mcp1"), ("completed", "mcp1")]


def test_hosted_items_without_ids_get_one() -> None:
    item = {"type": "web_search_call", "status": "completed"}
    events, _ = decode([added(0, **item), done(0, **item), done(1, **item), completed()])
    rows = hosted(events)
    assert [kind for kind, _ in rows] == ["started", "completed"] * 2
    assert rows[0][1] == rows[1][1] != rows[2][1] == rows[3][1]


@pytest.mark.parametrize("kind", ["mcp_list_tools", "mcp_approval_request", "code_interpreter_call"])
def test_hosted_types(kind: str) -> None:
    events, _ = decode([done(0, type=kind, id="i", status="completed"), completed()])
    assert events[0].server_tool_call is not None
    assert events[0].server_tool_call.name == kind.removesuffix("_call")


def test_a_client_search_without_a_search_tool_counts_as_hosted() -> None:
    item = {"type": "tool_search_call", "id": "ts1", "execution": "client", "arguments": {}}
    events, _ = decode([added(0, **item), done(0, **item), completed(item)])
    assert hosted(events) == [("started", "ts1"), ("completed", "ts1")]
    assert events[-1].response.message.tool_calls == ()


# -- services that number their events badly --------------------------------------------------------------


@pytest.mark.parametrize("index", [None, -1, True, "0"])
def test_items_without_a_valid_number_are_told_apart_by_their_ids(index: Any) -> None:
    first, second = {**CALL, "id": "i1", "call_id": "c1"}, {**CALL, "id": "i2", "call_id": "c2"}
    pieces = [
        delta(text, "function_call_arguments", output_index=index, item_id=item_id)
        for text, item_id in (("{", "i1"), ("{", "i2"), ("}", "i1"), ("}", "i2"))
    ]
    events, error = decode(
        [added(index, **first), added(index, **second), *pieces, done(index, **first), done(index, **second)]
    )
    assert error is None
    by_index: dict[int, str] = {}
    for event in events[:-1]:
        assert event.tool_call_delta is not None
        shown = by_index.get(event.tool_call_delta.index, "")
        by_index[event.tool_call_delta.index] = shown + event.tool_call_delta.arguments_delta
    assert by_index == {0: "{}", 1: "{}"}
    assert [call.id for call in events[-1].response.message.tool_calls] == ["c1", "c2"]


# -- failures ---------------------------------------------------------------------------------------------


def failed(error: Any, **response: Any) -> dict[str, Any]:
    return {"type": "response.failed", "response": {"status": "failed", "error": error, **response}}


@pytest.mark.parametrize(
    ("error", "kind", "transient"),
    [
        ({"code": "server_error", "message": "boom"}, ProviderResponseError, True),
        ({"code": "rate_limit_exceeded", "message": "boom"}, ProviderResponseError, True),
        ({"type": "overloaded_error", "code": None, "message": "boom"}, ProviderResponseError, True),
        ({"code": "invalid_prompt", "message": "boom"}, ProviderResponseError, False),
        ({"code": 503, "message": "boom"}, ProviderHTTPError, True),
        ({"code": 429, "message": "boom"}, ProviderHTTPError, True),
        ({"code": 429, "type": "insufficient_quota", "message": "boom"}, ProviderHTTPError, False),
        ({"code": 400, "message": "boom"}, ProviderHTTPError, False),
        ({"code": 401, "message": "boom"}, ProviderAuthError, False),
        ({"code": 200, "message": "boom"}, ProviderResponseError, False),
        ({"code": True, "message": "boom"}, ProviderResponseError, False),
        ("boom", ProviderResponseError, False),
    ],
)
def test_10_6_failures_before_anything_was_said(error: Any, kind: type[Exception], transient: bool) -> None:
    forms = [failed(error), {"type": "error", "error": error}]
    if isinstance(error, dict) and "type" not in error:
        forms.append({"type": "error", **error})
    for data in forms:
        with pytest.raises((ProviderResponseError, ProviderAuthError)) as raised:
            decoder().feed(data)
        assert type(raised.value) is kind
        assert "boom" in str(raised.value) and "openai" in str(raised.value)
        assert is_transient(raised.value) is transient
        code = error.get("code") if isinstance(error, dict) else None
        if isinstance(code, str):
            assert code in str(raised.value) and raised.value.error_code == code
        if kind is ProviderHTTPError:
            assert raised.value.status_code == code


@pytest.mark.parametrize("data", [{"type": "error"}, failed(None), failed([]), {"type": "response.failed"}])
def test_a_failure_without_words(data: dict[str, Any]) -> None:
    with pytest.raises(ProviderResponseError, match="failure"):
        decoder().feed(data)
    reader = decoder()
    reader.feed(delta("half"))
    (event,) = reader.feed(data)
    assert event.response is not None and event.response.stop is not None
    assert event.response.stop.reason is StopReason.INTERRUPTED


def test_the_words_of_a_failure_are_bounded_and_printable() -> None:
    with pytest.raises(ProviderResponseError) as raised:
        decoder().feed(failed({"message": "a\x1b[31m\n" + "b" * 5_000}))
    assert "\x1b" not in str(raised.value) and len(str(raised.value)) < 400


def test_a_failure_after_output_keeps_what_is_known() -> None:
    usage = {"input_tokens": 10, "output_tokens": 3, "input_tokens_details": {"cached_tokens": 4}}
    response = last_response(
        [delta("half"), delta("hm", "reasoning_text"), done(1, **CALL), failed({"message": "x"}, usage=usage)]
    )
    assert (response.message.content, response.message.reasoning) == ("half", "hm")
    assert [call.id for call in response.message.tool_calls] == ["c1"]
    assert response.message.replay_blocks == ()
    assert response.usage == ModelUsage(10, 3, 4)
    assert response.finish_reason is None


@pytest.mark.parametrize("code", ["bio_policy", "image_content_policy_violation"])
def test_policy_codes_are_refusals_also_before_anything_was_said(code: str) -> None:
    error = {"code": code, "message": "declined"}
    for data in (failed(error), {"type": "error", "error": error}, {"type": "error", **error}):
        response = last_response([data])
        assert response.finish_reason == code and response.stop is not None
        assert (response.stop.reason, response.stop.category) == (StopReason.REFUSAL, code)
        assert response.stop.message == "declined"


def test_10_5_a_stream_that_ends_too_early_names_its_last_event() -> None:
    _, error = decode([added(0, type="message"), added(1, **CALL), delta("x", output_index=0)])
    assert error is not None and is_transient(error)
    assert "response.output_text.delta" in str(error) and "2 output items" in str(error)
    assert isinstance(error.__cause__, ResponsesStreamInterrupted)


ODD_VALUES = (None, True, -1, 1.5, "", " ", "x", "\ud83d", [], [None], {}, {"type": "function_call"}, 10**30)


def disturbed(value: Any, chance: random.Random) -> Any:
    """Return a copy in which about one field in thirty holds something else."""
    if chance.random() < 1 / 30:
        return copy.deepcopy(chance.choice(ODD_VALUES))
    if isinstance(value, dict):
        return {name: disturbed(item, chance) for name, item in value.items()}
    if isinstance(value, list):
        return [disturbed(item, chance) for item in value]
    return value


@pytest.mark.parametrize(
    "recording", [case for case in recorded("stream.responses.*.json") if case.id not in NOT_HERE]
)
def test_disturbed_answers_give_a_response_or_an_error_of_ours(recording: dict[str, Any]) -> None:
    chance = random.Random(20)
    for _ in range(40):
        objects = [disturbed(item, chance) for item in recorded_objects(recording)]
        events, error = decode(
            [data for data in objects if isinstance(data, dict)], chance.choice((None, "search_tools"))
        )
        if error is None:
            assert [event.type for event in events].count(ModelEventType.RESPONSE) == 1
        json.dumps([event_data(event) for event in events], ensure_ascii=False).encode("utf-8")
        started = {event.server_tool_call.id for event in events if event.server_tool_call}
        assert {event.server_tool_result.call_id for event in events if event.server_tool_result} <= started


# -- reading from a stream --------------------------------------------------------------------------------


class Batches:
    """A stream of batches that knows whether it was closed and how far it was read."""

    def __init__(self, *batches: list[dict[str, Any]]) -> None:
        self.left = list(batches)
        self.closed = False

    def __aiter__(self) -> Batches:
        return self

    async def __anext__(self) -> list[dict[str, Any]]:
        if not self.left:
            raise StopAsyncIteration
        return self.left.pop(0)

    async def aclose(self) -> None:
        self.closed = True


async def read(batches: Batches) -> list[ModelEvent]:
    return [event async for event in stream_responses(batches, provider_name="openai", model="gpt-x")]


async def test_a_stream_is_read_up_to_the_final_event_and_closed() -> None:
    batches = Batches([delta("a"), delta("b")], [completed(), delta("late")], [delta("later")])
    events = await read(batches)
    assert texts(events, ModelEventType.TEXT_DELTA) == ["a", "b"]
    assert events[-1].type is ModelEventType.RESPONSE
    assert batches.closed and len(batches.left) == 1


async def test_a_stream_may_end_without_a_final_event() -> None:
    events = await read(Batches([added(0, **TEXT)], [done(0, **TEXT)]))
    assert events[-1].response is not None and events[-1].response.finish_reason == "incomplete"


async def test_a_stream_is_closed_when_it_fails_or_is_left() -> None:
    batches = Batches([])
    with pytest.raises(ProviderResponseError, match="before any event"):
        await read(batches)
    assert batches.closed
    batches = Batches([delta("a"), delta("b")])
    stream = stream_responses(batches, provider_name="openai", model="gpt-x")
    assert (await anext(stream)).delta == "a"
    await stream.aclose()
    assert batches.closed


# -- cost -------------------------------------------------------------------------------------------------


def cost_per_event(count: int, kind: str, text: str) -> float:
    reader = decoder()
    reader.feed(added(0, **{**CALL, "arguments": ""}))
    objects = [delta(text, kind) for _ in range(count)]
    whole = {**CALL, "arguments": json.dumps({"x": text * count})}
    start = time.process_time()
    for data in objects:
        reader.feed(data)
    reader.feed(done(0, **whole))
    reader.feed(completed(whole))
    return (time.process_time() - start) / count


@pytest.mark.parametrize(
    ("kind", "text"),
    [("output_text", "word "), ("output_text", "wörd"), ("function_call_arguments", "x" * 20)],
)
def test_10_8_the_cost_of_an_event_does_not_grow(kind: str, text: str) -> None:
    small = min(cost_per_event(2_000, kind, text) for _ in range(5))
    large = min(cost_per_event(20_000, kind, text) for _ in range(3))
    assert large < 2 * small
    assert large < 40e-6
