"""Chapter 80 on the chat and Responses wires: what breaks such adapters in the field."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from support.wire_services import NO_RETRY, Answer, RecordingTransport, chat, consume
from zett_agent.agent import Agent, AgentRunConfig
from zett_agent.extensions.memory import InMemoryMessageAccumulator
from zett_agent.messages import (
    AssistantMessage,
    ImageBytesSource,
    ImageContent,
    ImageUrlSource,
    SystemMessage,
    TextContent,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from zett_agent.model import ModelRequest, ToolDefinition
from zett_agent.providers import DeepSeekProvider, OpenAICompatibleProvider
from zett_agent.resume import ResumeKind, classify_resume
from zett_agent.tools import tool

REQUEST = ModelRequest([UserMessage(content="hi")])
LOOK = ToolDefinition("look", "Look.", {"type": "object", "properties": {"n": {"type": "integer"}}})
TOOL_CALLS = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
STOP = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}

WIRES = pytest.mark.parametrize("response", [False, True], ids=["chat", "responses"])
ADAPTERS = pytest.mark.parametrize("adapter", [OpenAICompatibleProvider, DeepSeekProvider])


def build(adapter: Any, transport: RecordingTransport, **options: Any) -> Any:
    fields = {"model": "m", "api_key": "k", "base_url": "http://h.example", "retry": NO_RETRY, **options}
    return adapter(transport=transport, **fields)


async def answer(adapter: Any, *chunks: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the events of a chat stream, and its response."""
    events, error = await consume(build(adapter, RecordingTransport(chat(*chunks))), REQUEST)
    assert error is None
    return events, events[-1]["response"]


async def sent(
    request: ModelRequest, adapter: Any = OpenAICompatibleProvider, **options: Any
) -> dict[str, Any]:
    transport = RecordingTransport()
    await consume(build(adapter, transport, **options), request)
    return transport.body


def turn(*ids: str, name: str = "look") -> list[Any]:
    """Return the turn `T(ids)` of the chapter."""
    calls = tuple(ToolCall(call_id, name, {"n": n}) for n, call_id in enumerate(ids))
    results = [ToolMessage(tool_call_id=call_id, name=name, content=f"r{n}") for n, call_id in enumerate(ids)]
    return [UserMessage(content="go"), AssistantMessage(provider="x", model="o", tool_calls=calls), *results]


# -- A1 ---------------------------------------------------------------------------------------------------

FILTERED: list[Any] = [
    {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "a"}}]},
    {"choices": [{"index": 0, "delta": None, "finish_reason": None, "content_filter_results": {}}]},
    {"choices": [{"index": 0, "finish_reason": None, "content_filter_offsets": {}}]},
    {"choices": [{"index": 0, "delta": {"content": "b"}}]},
    {"choices": [{"index": 0, "delta": None, "finish_reason": "stop"}]},
]


@ADAPTERS
@pytest.mark.parametrize("between", [[], [{"choices": [None]}], [{"choices": ["text"]}]], ids=repr)
async def test_80_a1_chunks_without_a_delta(adapter: Any, between: list[Any]) -> None:
    chunks = [chunk for filtered in FILTERED for chunk in (*between, filtered)]
    events, response = await answer(adapter, *chunks)
    assert [event["delta"] for event in events[:-1]] == ["a", "b"]
    assert response["content"] == "ab"
    assert response["stop"] == {"reason": "end_turn", "raw": "stop"}


# -- A2 ---------------------------------------------------------------------------------------------------


@ADAPTERS
@pytest.mark.parametrize(
    ("fragments", "call"),
    [
        (
            [
                {"index": 0, "function": {"name": "look"}},
                {"index": 0, "id": "c9", "function": {"arguments": "{}"}},
            ],
            {"id": "c9", "name": "look", "arguments": {}},
        ),
        (
            [
                {"index": 1, "id": "c1", "type": "function", "function": {"name": "look", "arguments": ""}},
                {"index": 1, "id": None, "function": {"name": None, "arguments": "{}"}},
            ],
            {"id": "c1", "name": "look", "arguments": {}},
        ),
        (
            [
                {"index": 0, "id": "c1", "function": {"name": "", "arguments": ""}},
                {"index": 0, "id": "c1", "function": {"name": "look", "arguments": "{}"}},
            ],
            {"id": "c1", "name": "look", "arguments": {}},
        ),
        (
            [
                {"index": 0, "id": "", "function": {"name": "look", "arguments": '{"n"'}},
                {"index": 0, "id": "c1", "function": {"arguments": ": 1}"}},
            ],
            {"id": "c1", "name": "look", "arguments": {"n": 1}},
        ),
    ],
    ids=["id later", "from index 1", "empty name first", "empty id first"],
)
@pytest.mark.parametrize("together", [False, True], ids=["chunk by chunk", "one chunk"])
async def test_80_a2_an_identity_in_pieces(
    adapter: Any, fragments: list[Any], call: dict[str, Any], together: bool
) -> None:
    pieces = [fragments] if together else [[fragment] for fragment in fragments]
    events, response = await answer(adapter, *pieces, TOOL_CALLS)
    assert response["tool_calls"] == [call]
    deltas = [event["tool_call_delta"] for event in events[:-1]]
    assert len({delta["index"] for delta in deltas}) == 1
    whole = {
        name: "".join(delta.get(name, "") for delta in deltas)
        for name in ("id_delta", "name_delta", "arguments_delta")
    }
    assert (whole["id_delta"], whole["name_delta"]) == (call["id"], call["name"])
    assert json.loads(whole["arguments_delta"]) == call["arguments"]


async def test_80_a2_an_id_against_a_call_that_has_one_starts_another() -> None:
    _, response = await answer(
        OpenAICompatibleProvider,
        [{"index": 0, "id": "a", "function": {"name": "look", "arguments": "{}"}}],
        [{"index": 0, "id": "b", "function": {"name": "look", "arguments": "{}"}}],
        TOOL_CALLS,
    )
    assert [call["id"] for call in response["tool_calls"]] == ["a", "b"]


# -- A3 ---------------------------------------------------------------------------------------------------


@ADAPTERS
@pytest.mark.parametrize("form", [{"arguments": None}, {}, {"arguments": ""}, {"arguments": " \n"}], ids=repr)
async def test_80_a3_no_arguments_on_chat(adapter: Any, form: dict[str, Any]) -> None:
    fragment = {"index": 0, "id": "c", "function": {"name": "look", **form}}
    _, response = await answer(adapter, [fragment], TOOL_CALLS)
    assert response["tool_calls"] == [{"id": "c", "name": "look", "arguments": {}}]


@ADAPTERS
@pytest.mark.parametrize("form", [{"arguments": ""}, {"arguments": None}, {}], ids=repr)
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "at the end"])
async def test_80_a3_no_arguments_on_responses(adapter: Any, form: dict[str, Any], streamed: bool) -> None:
    item = {"type": "function_call", "id": "f", "call_id": "c", "name": "look", **form}
    events = [
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {"status": "completed", "output": [item]}},
    ]
    shown, error = await consume(
        build(adapter, RecordingTransport(events_stream(events if streamed else events[2:])), response=True),
        REQUEST,
    )
    assert error is None
    assert shown[-1]["response"]["tool_calls"] == [{"id": "c", "name": "look", "arguments": {}}]


async def test_80_a3_the_text_null_stays_an_error() -> None:
    fragment = {"index": 0, "id": "c", "function": {"name": "look", "arguments": "null"}}
    _, response = await answer(OpenAICompatibleProvider, [fragment], TOOL_CALLS)
    assert response["tool_calls"][0]["error"]


def events_stream(events: list[dict[str, Any]]) -> Answer:
    return Answer([b"data: " + json.dumps(event).encode() + b"\n\n" for event in events])


# -- B1 ---------------------------------------------------------------------------------------------------


def names_sent(body: dict[str, Any]) -> list[str]:
    if "input" in body:
        return [item["name"] for item in body["input"] if item.get("type") == "function_call"]
    return [call["function"]["name"] for turn in body["messages"] for call in turn.get("tool_calls", ())]


@WIRES
@ADAPTERS
@pytest.mark.parametrize(
    ("name", "on_the_wire"),
    [
        ("functions.read file<|x|>", "functions_read_file__x__"),
        ("näme", "n_me"),
        ("x" * 70, "x" * 64),
        ("", "unnamed_tool"),
        (" \n", "unnamed_tool"),
        ("look-2_B", "look-2_B"),
    ],
)
async def test_80_b1_invented_names(adapter: Any, response: bool, name: str, on_the_wire: str) -> None:
    history = turn("a", name=name)
    body = await sent(ModelRequest(history, [LOOK]), adapter, response=response)
    assert names_sent(body) == [on_the_wire]
    assert not name.strip() or name == on_the_wire or name not in json.dumps(body, ensure_ascii=False)
    assert history[1].tool_calls[0].name == name


@WIRES
async def test_80_b1_a_tool_of_the_request_keeps_its_name(response: bool) -> None:
    odd = ToolDefinition("odd.näme", "Odd.", {"type": "object"})
    body = await sent(ModelRequest(turn("a", name="odd.näme"), [odd]), response=response)
    assert names_sent(body) == ["odd.näme"]


async def test_80_b1_a_replayed_item_is_cleaned_too() -> None:
    item = {"type": "function_call", "id": "f", "call_id": "a", "name": "functions.look", "arguments": "{}"}
    own = AssistantMessage(
        provider="deepseek",
        model="m",
        tool_calls=(ToolCall("a", "functions.look", {}),),
        replay_blocks=(item,),
    )
    body = await sent(ModelRequest([UserMessage(content="go"), own]), DeepSeekProvider, response=True)
    assert body["input"][1] == {**item, "name": "functions_look"}
    assert item["name"] == "functions.look"


# -- B9 ---------------------------------------------------------------------------------------------------

JPEG = b"\xff\xd8\xff\xe0" + b"x" * 20
PNG = b"\x89PNG\r\n\x1a\n" + b"x" * 20
GIF = b"GIF89a" + b"x" * 20
WEBP = b"RIFF\x00\x00\x00\x00WEBP" + b"x" * 20


@WIRES
@pytest.mark.parametrize(
    ("data", "declared", "on_the_wire"),
    [
        (JPEG, " IMAGE/JPG", "image/jpeg"),
        (JPEG, "image/pjpeg", "image/jpeg"),
        (JPEG, "image/jfif", "image/jpeg"),
        (PNG, "image/jpeg", "image/png"),
        (JPEG, "image/png", "image/jpeg"),
        (GIF, "image/webp", "image/gif"),
        (WEBP, "image/png", "image/webp"),
        (PNG, "image/jpg", "image/png"),
        (b"unknown", "image/png", "image/png"),
        (PNG, "image/heic", "image/heic"),
    ],
)
async def test_80_b9_image_bytes(response: bool, data: bytes, declared: str, on_the_wire: str) -> None:
    source = ImageBytesSource(data, declared)
    request = ModelRequest([UserMessage(content=[ImageContent(source)])])
    encoded = base64.b64encode(data).decode()
    assert image_url(await sent(request, response=response)) == f"data:{on_the_wire};base64,{encoded}"
    assert source.media_type == declared


@WIRES
@pytest.mark.parametrize(
    ("url", "on_the_wire"),
    [
        ("data:image/jpg;base64,/9j/eA==", "data:image/jpeg;base64,/9j/eA=="),
        ("data:image/pjpeg;base64,/9j/eA==", "data:image/jpeg;base64,/9j/eA=="),
        ("data:image/jfif;base64,/9j/eA==", "data:image/jpeg;base64,/9j/eA=="),
        ("https://e.example/a.jpg?x=image/jpg", "https://e.example/a.jpg?x=image/jpg"),
    ],
)
async def test_80_b9_image_urls(response: bool, url: str, on_the_wire: str) -> None:
    request = ModelRequest([UserMessage(content=[ImageContent(ImageUrlSource(url))])])
    assert image_url(await sent(request, response=response)) == on_the_wire


@WIRES
async def test_80_b9_images_of_tool_results(response: bool) -> None:
    image = ImageContent(ImageBytesSource(PNG, "image/jpg"))
    messages = turn("a")
    messages[2] = ToolMessage(tool_call_id="a", name="look", content=[image, TextContent("seen")])
    body = await sent(ModelRequest(messages), response=response)
    text = json.dumps(body)
    assert "data:image/png;base64," in text
    assert "image/jpg" not in text


def image_url(body: dict[str, Any]) -> str:
    if "input" in body:
        return body["input"][0]["content"][0]["image_url"]
    return body["messages"][0]["content"][0]["image_url"]["url"]


# -- B10 --------------------------------------------------------------------------------------------------


@ADAPTERS
async def test_80_b10_ids_that_come_again_every_turn(adapter: Any) -> None:
    async def look(n: int) -> str:
        """Look."""
        return f"r{n}"

    def asks(n: int) -> Answer:
        function = {"name": "look", "arguments": json.dumps({"n": n})}
        return chat([{"index": 0, "id": "look:0", "function": function}], TOOL_CALLS)

    transport = RecordingTransport(asks(0), asks(1), asks(2), chat("done", STOP))
    memory = InMemoryMessageAccumulator()
    agent = await Agent.create(
        build(adapter, transport), tools=[tool(look, guidelines=["Use it."])], extensions=[memory]
    )
    await agent.run("go", config=AgentRunConfig("s"))
    await agent.run("again", config=AgentRunConfig("s"))

    for body in transport.bodies[3:]:
        assert conversation(body)[2:8] == [
            ("call", "look:0", '{"n": 0}'),
            ("result", "look:0", "r0"),
            ("call", "look:0", '{"n": 1}'),
            ("result", "look:0", "r1"),
            ("call", "look:0", '{"n": 2}'),
            ("result", "look:0", "r2"),
        ]


def conversation(body: dict[str, Any]) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for message in body["messages"]:
        if message["role"] == "tool":
            found.append(("result", message["tool_call_id"], message["content"]))
        elif "tool_calls" in message:
            [call] = message["tool_calls"]
            found.append(("call", call["id"], call["function"]["arguments"]))
        else:
            found.append((message["role"],))
    return found


@WIRES
async def test_80_b10_a_history_with_repeated_ids_is_sent_whole(response: bool) -> None:
    messages = [message for n in range(3) for message in turn("look:0")]
    body = await sent(ModelRequest(messages), response=response)
    items = body.get("input") or body["messages"]
    assert len(items) == 9
    ids = [item.get("call_id") or item.get("tool_call_id") for item in items]
    assert [name for name in ids if name] == ["look:0"] * (6 if response else 3)


def test_80_b10_the_second_call_is_unanswered() -> None:
    call = ToolCall("look:0", "look", {})
    messages = [
        UserMessage(content="go"),
        AssistantMessage(tool_calls=(call,)),
        ToolMessage(tool_call_id="look:0", name="look", content="r0"),
        AssistantMessage(tool_calls=(call,)),
    ]
    point = classify_resume(messages)
    assert (point.kind, point.unanswered_tool_calls) == (ResumeKind.RECOVER_TOOLS, (call,))


# -- C1 ---------------------------------------------------------------------------------------------------

CAT = "cat \ud83d\udc08 x \ud83d"
CLEAN = "cat 🐈 x \ufffd"


@WIRES
@ADAPTERS
async def test_80_c1_surrogates_in_a_run(adapter: Any, response: bool) -> None:
    finished = {"type": "response.completed", "response": {"status": "completed", "output": []}}
    transport = RecordingTransport(events_stream([finished]) if response else chat(STOP))
    agent = await Agent.create(build(adapter, transport, response=response), system_prompt=CAT)
    await agent.run(CAT)
    body = json.loads(transport.requests[0].content.decode())
    texts = [item["content"] for item in body.get("input") or body["messages"]]
    assert CLEAN in texts
    assert all(CLEAN in text for text in texts)


@WIRES
@ADAPTERS
async def test_80_c1_surrogates_in_a_request(adapter: Any, response: bool) -> None:
    call = ToolCall("a", "look", {CAT: CAT, "deep": [{"x": CAT}]})
    messages = [
        SystemMessage(content=CAT),
        UserMessage(content=[TextContent(CAT)]),
        AssistantMessage(content=CAT, tool_calls=(call,)),
        ToolMessage(tool_call_id="a", name="look", content=CAT),
        UserMessage(content=CAT),
    ]
    described = ToolDefinition("look", CAT, {"type": "object", "description": CAT})
    body = await sent(
        ModelRequest(messages, [described]), adapter, response=response, extra_body={"note": CAT}
    )
    shown = json.dumps(body, ensure_ascii=False)
    shown.encode()  # there is no surrogate left
    assert shown.count(CLEAN) >= 9
    assert shown.count("cat ") == shown.count(CLEAN)
    arguments = (
        next(item["arguments"] for item in body["input"] if "arguments" in item)
        if response
        else body["messages"][2]["tool_calls"][0]["function"]["arguments"]
    )
    assert json.loads(arguments) == {CLEAN: CLEAN, "deep": [{"x": CLEAN}]}


@ADAPTERS
async def test_80_c1_surrogates_in_an_answer(adapter: Any) -> None:
    def named(fields: dict[str, Any]) -> dict[str, Any]:
        return {"choices": [{"index": 0, "delta": fields}]}

    arguments = json.dumps({"x": CAT})
    cut_at = arguments.index("\\udc08")
    events, response = await answer(
        adapter,
        named({"reasoning_content": CAT[:5]}),
        named({"reasoning_content": CAT[5:]}),
        CAT[:5],
        CAT[5:],
        [{"index": 0, "id": "a", "function": {"name": "look", "arguments": arguments[:cut_at]}}],
        [{"index": 0, "function": {"arguments": arguments[cut_at:]}}],
        TOOL_CALLS,
    )
    assert response["content"] == CLEAN
    assert response["reasoning"] == CLEAN
    assert response["tool_calls"][0]["arguments"] == {"x": CLEAN}
    for kind, whole in (("text_delta", CLEAN), ("reasoning_delta", CLEAN)):
        deltas = [event["delta"] for event in events if event["type"] == kind]
        assert "".join(deltas) == whole
        assert all(delta.encode() for delta in deltas)
