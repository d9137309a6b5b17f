"""`DeepSeekProvider` on both wires."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from typing import Any

import pytest

import zett_agent
from support.wire_services import NO_RETRY, OK, Answer, RecordingTransport, chat, consume
from zett_agent.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from zett_agent.model import (
    DEFAULT_RETRY_OPTIONS,
    DEFAULT_TIMEOUT_OPTIONS,
    ModelRequest,
    ReasoningEffort,
    ToolDefinition,
)
from zett_agent.providers import DeepSeekProvider, OpenAICompatibleProvider, ProviderAuthError

REQUEST = ModelRequest([UserMessage(content="hi")], cache_key="k")
LOOK = ToolDefinition("look", "Look.", {"type": "object", "properties": {"n": {"type": "integer"}}})
KEY = "sk-0123456789abcdefghijklmnop"

WIRES = pytest.mark.parametrize("response", [False, True], ids=["chat", "responses"])


def build(transport: RecordingTransport, model: str = "deepseek-v4-pro", **options: Any) -> DeepSeekProvider:
    return DeepSeekProvider(model, KEY, transport, **{"retry": NO_RETRY, **options})


async def sent(request: ModelRequest, **options: Any) -> dict[str, Any]:
    transport = RecordingTransport()
    await consume(build(transport, **options), request)
    return transport.body


async def answer_of(provider: Any, request: ModelRequest) -> AssistantMessage:
    [response] = [event.response async for event in provider.stream(request) if event.response is not None]
    return response.message


# -- construction -----------------------------------------------------------------------------------------


def test_21_3_signature() -> None:
    parameters = inspect.signature(DeepSeekProvider).parameters
    empty, by_keyword = inspect.Parameter.empty, inspect.Parameter.KEYWORD_ONLY
    assert [name for name, one in parameters.items() if one.kind is not by_keyword] == [
        "model",
        "api_key",
        "transport",
    ]
    assert [(name, one.default) for name, one in parameters.items()] == [
        ("model", empty),
        ("api_key", empty),
        ("transport", None),
        ("base_url", None),
        ("temperature", None),
        ("response", False),
        ("retry", DEFAULT_RETRY_OPTIONS),
        ("send_prompt_cache_key", False),
        ("extra_headers", None),
        ("extra_query", None),
        ("extra_body", None),
        ("timeout", DEFAULT_TIMEOUT_OPTIONS),
    ]


def test_20_8_and_9_what_is_refused() -> None:
    with pytest.raises(ValueError, match="api_key"):
        DeepSeekProvider("deepseek-chat", "")
    with pytest.raises(ValueError, match="response must be a boolean"):
        DeepSeekProvider("deepseek-chat", KEY, response=1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="extra_body"):
        DeepSeekProvider("deepseek-chat", KEY, extra_body={"a": float("nan")})
    with pytest.raises(TypeError):
        DeepSeekProvider("deepseek-chat", KEY, site_url="x")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("options", "url"),
    [
        ({}, "https://api.deepseek.com/v1/chat/completions"),
        ({"base_url": ""}, "https://api.deepseek.com/v1/chat/completions"),
        ({"response": True}, "https://api.deepseek.com/responses"),
        ({"base_url": "https://gw.example/x/"}, "https://gw.example/x/chat/completions"),
        ({"base_url": "https://gw.example/x", "response": True}, "https://gw.example/x/responses"),
    ],
)
async def test_21_2_where_it_posts(options: dict[str, Any], url: str) -> None:
    transport = RecordingTransport()
    await consume(build(transport, **options), REQUEST)
    [request] = transport.requests
    assert str(request.url) == url
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert "x-api-key" not in request.headers


@WIRES
async def test_21_2_the_cache_key_is_off(response: bool) -> None:
    assert "prompt_cache_key" not in await sent(REQUEST, response=response)
    assert (await sent(REQUEST, response=response, send_prompt_cache_key=True))["prompt_cache_key"] == "k"


def test_20_b20_the_name_is_of_the_class() -> None:
    assert DeepSeekProvider.provider_name == "deepseek"
    assert "provider_name" not in vars(build(RecordingTransport()))


@WIRES
async def test_21_16_a_subclass_with_another_name(response: bool) -> None:
    class X(DeepSeekProvider):
        provider_name = "x"

    answer = RESPONSES_ANSWER if response else chat("a")
    provider = X("m", KEY, RecordingTransport(answer), response=response)
    assert (await answer_of(provider, REQUEST)).provider == "x"


# -- replay -----------------------------------------------------------------------------------------------

ITEMS: list[dict[str, Any]] = [
    {
        "type": "reasoning",
        "id": "rs",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "because"}],
    },
    {"type": "function_call", "id": "f0", "call_id": "a", "name": "look", "arguments": '{"n": 0}'},
    {"type": "function_call", "id": "f1", "call_id": "b", "name": "look", "arguments": '{"n":1}'},
]
RESPONSES_ANSWER = Answer(
    [
        b"data: " + json.dumps(event).encode() + b"\n\n"
        for event in (
            {"type": "response.reasoning_text.delta", "output_index": 0, "delta": "because"},
            {"type": "response.completed", "response": {"status": "completed", "output": ITEMS}},
        )
    ]
)
CHAT_ANSWER = chat(
    {"choices": [{"index": 0, "delta": {"reasoning_content": "because"}}]},
    [{"index": 0, "id": "a", "function": {"name": "look", "arguments": '{"n": 0}'}}],
    [{"index": 1, "id": "b", "function": {"name": "look", "arguments": '{"n":1}'}}],
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
)
RESULTS = [ToolMessage(tool_call_id=name, name="look", content=f"r{name}") for name in "ab"]


async def test_21_4_round_trip_on_chat() -> None:
    answer = await answer_of(build(RecordingTransport(CHAT_ANSWER)), REQUEST)
    assert answer.reasoning == "because"
    follow_up = ModelRequest([UserMessage(content="hi"), answer, *RESULTS], [LOOK])
    [_, replayed, first, second] = (await sent(follow_up))["messages"]
    assert replayed["reasoning_content"] == "because"
    assert [call["id"] for call in replayed["tool_calls"]] == ["a", "b"]
    assert [(turn["tool_call_id"], turn["content"]) for turn in (first, second)] == [("a", "ra"), ("b", "rb")]

    foreign = await sent_by_another(follow_up, response=False)
    assert "because" not in json.dumps(foreign)


async def test_21_4_round_trip_on_responses() -> None:
    answer = await answer_of(build(RecordingTransport(RESPONSES_ANSWER), response=True), REQUEST)
    assert (answer.reasoning, answer.replay_blocks) == ("because", tuple(ITEMS))
    follow_up = ModelRequest([UserMessage(content="hi"), answer, *RESULTS], [LOOK])
    outputs = [
        {"type": "function_call_output", "call_id": "a", "output": "ra"},
        {"type": "function_call_output", "call_id": "b", "output": "rb"},
    ]
    assert (await sent(follow_up, response=True))["input"][1:] == [*ITEMS, *outputs]

    rendered = [
        {"type": "function_call", "call_id": "a", "name": "look", "arguments": '{"n": 0}'},
        {"type": "function_call", "call_id": "b", "name": "look", "arguments": '{"n": 1}'},
    ]
    other_model = await sent(follow_up, model="deepseek-chat", response=True)
    assert other_model["input"][1:] == [*rendered, *outputs]
    assert (await sent_by_another(follow_up, response=True))["input"][1:] == [*rendered, *outputs]


async def sent_by_another(request: ModelRequest, *, response: bool) -> dict[str, Any]:
    transport = RecordingTransport()
    provider = OpenAICompatibleProvider(
        model="deepseek-v4-pro",
        api_key="k",
        base_url="http://o.example",
        transport=transport,
        response=response,
        retry=NO_RETRY,
    )
    await consume(provider, request)
    return transport.body


# -- chapter 80, B6: reasoning on every assistant turn while thinking is on ---------------------------------

FOREIGN_TURN = [
    UserMessage(content="go"),
    AssistantMessage(
        provider="x", model="o", tool_calls=(ToolCall("a", "look", {"n": 0}),), reasoning="secret"
    ),
    ToolMessage(tool_call_id="a", name="look", content="r0"),
    AssistantMessage(content="fine", provider="x", model="o"),
    UserMessage(content="and now"),
]


async def test_80_b6_turns_of_another_service() -> None:
    body = await sent(ModelRequest(FOREIGN_TURN))
    assert [turn.get("reasoning_content") for turn in body["messages"]] == [None, " ", None, " ", None]
    assert "secret" not in json.dumps(body)


@pytest.mark.parametrize(("reasoning", "replayed"), [("because", "because"), ("", " "), (None, " ")])
async def test_80_b6_own_turns(reasoning: str | None, replayed: str) -> None:
    own = AssistantMessage(content="a", provider="deepseek", model="deepseek-v4-pro", reasoning=reasoning)
    body = await sent(ModelRequest([UserMessage(content="go"), own, UserMessage(content="on")]))
    assert body["messages"][1]["reasoning_content"] == replayed


async def test_80_b6_nothing_is_added_with_thinking_off() -> None:
    own = AssistantMessage(content="a", provider="deepseek", reasoning="because")
    request = ModelRequest([*FOREIGN_TURN, own], reasoning_effort=ReasoningEffort.OFF)
    body = await sent(request)
    assert [turn["reasoning_content"] for turn in body["messages"] if "reasoning_content" in turn] == [
        "because"
    ]


async def test_80_b6_the_history_is_not_changed() -> None:
    await sent(ModelRequest(FOREIGN_TURN))
    assert [turn.reasoning for turn in FOREIGN_TURN if isinstance(turn, AssistantMessage)] == ["secret", None]


# -- cost and secrets -------------------------------------------------------------------------------------


@WIRES
def test_20_12_the_first_answer_loads_little(response: bool) -> None:
    code = f"""
import asyncio, sys
import httpx                    # the test's own fake transport needs it
BODY = {(b"".join(RESPONSES_ANSWER.body) if response else b"".join(CHAT_ANSWER.body))!r}
transport = httpx.MockTransport(
    lambda request: httpx.Response(200, headers={{"content-type": "text/event-stream"}}, content=BODY)
)
from zett_agent.providers import DeepSeekProvider
from zett_agent.messages import UserMessage
from zett_agent.model import ModelRequest
async def main():
    async with DeepSeekProvider("deepseek-v4-pro", "k", transport, response={response}) as provider:
        return [event async for event in provider.stream(ModelRequest([UserMessage(content="hi")]))]
assert asyncio.run(main())[-1].response.message.reasoning == "because"
sdks = {{"openai", "anthropic", "google", "ollama", "pydantic"}}
print(sdks & set(sys.modules))
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(["tests", "src"])}
    # How long it takes is a line of benchmarks/wire.py: a busy machine must not fail a test.
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.strip() == "set()"


@WIRES
@pytest.mark.parametrize("echo", [KEY, f"{KEY[:8]}****{KEY[-4:]}"], ids=["whole", "masked"])
@pytest.mark.parametrize("kind", ["json", "text", "html", "stream"])
async def test_20_30_the_key_is_never_shown(
    response: bool, echo: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    words = f"Incorrect API key provided: {echo}."
    answers = {
        "json": Answer.json(401, {"error": {"message": words, "code": "invalid_api_key"}}),
        "text": Answer([words.encode()], 401, "text/plain"),
        "html": Answer([f"<html><title>{words}</title><p>{words}".encode()], 401, "text/html"),
        "stream": chat({"type": "error", "error": {"message": words, "code": 401}}),
    }
    provider = build(RecordingTransport(answers[kind]), response=response)
    _, error = await consume(provider, REQUEST)
    assert isinstance(error, ProviderAuthError)
    shown = [repr(error), str(error), repr(vars(error)), caplog.text, repr(provider)]
    cause: BaseException | None = error
    while cause := cause.__cause__ or cause.__context__:
        shown += [repr(cause), str(cause), repr(getattr(cause, "__dict__", {}))]
    assert KEY[:8] not in " ".join(shown)


async def test_seed_the_example_of_the_brief() -> None:
    transport = RecordingTransport(OK)
    provider = zett_agent.DeepSeekProvider("deepseek-v4-flash", "key", transport)
    assert (await answer_of(provider, REQUEST)).model == "deepseek-v4-flash"
    assert transport.body["model"] == "deepseek-v4-flash"
