"""`OpenAICompatibleProvider`: its constructor, what it sends, how it falls back, and its hooks."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from support.wire_services import NO_RETRY, OK, Answer, RecordingTransport, chat, consume
from zett_agent.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from zett_agent.model import (
    DEFAULT_RETRY_OPTIONS,
    DEFAULT_TIMEOUT_OPTIONS,
    ModelRequest,
    ReasoningEffort,
    RetryOptions,
    ServerToolDefinition,
    ToolDefinition,
)
from zett_agent.providers import (
    OpenAICompatibleProvider,
    ProviderError,
    ProviderHTTPError,
)

REQUEST = ModelRequest([UserMessage(content="hi")], cache_key="k")
LOOK = ToolDefinition("look", "Look.", {"type": "object", "properties": {"n": {"type": "integer"}}})
STOP = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


def build(transport: httpx.AsyncBaseTransport | None = None, **options: Any) -> OpenAICompatibleProvider:
    defaults: dict[str, Any] = {
        "model": "m",
        "api_key": "test-key",
        "base_url": "https://llm.example/v1",
        "retry": NO_RETRY,
    }
    return OpenAICompatibleProvider(**{**defaults, **options}, transport=transport or RecordingTransport())


async def sent(request: ModelRequest = REQUEST, **options: Any) -> dict[str, Any]:
    """Return the body of the request that comes of it."""
    transport = RecordingTransport()
    await consume(build(transport, **options), request)
    return transport.body


# -- construction -----------------------------------------------------------------------------------------


def test_21_3_signature() -> None:
    parameters = inspect.signature(OpenAICompatibleProvider).parameters
    assert {parameter.kind for parameter in parameters.values()} == {inspect.Parameter.KEYWORD_ONLY}
    empty = inspect.Parameter.empty
    assert {name: parameter.default for name, parameter in parameters.items()} == {
        "model": empty,
        "api_key": empty,
        "base_url": None,
        "transport": None,
        "temperature": None,
        "response": False,
        "retry": DEFAULT_RETRY_OPTIONS,
        "send_prompt_cache_key": None,
        "extra_headers": None,
        "extra_query": None,
        "extra_body": None,
        "timeout": DEFAULT_TIMEOUT_OPTIONS,
    }


def test_20_8_what_is_required() -> None:
    with pytest.raises(ValueError, match="base_url"):
        OpenAICompatibleProvider(model="m", api_key="k")
    with pytest.raises(ValueError, match="base_url"):
        OpenAICompatibleProvider(model="m", api_key="k", base_url="")
    with pytest.raises(ValueError, match="api_key"):
        OpenAICompatibleProvider(model="m", api_key="", base_url="https://llm.example")
    with pytest.raises(TypeError):
        OpenAICompatibleProvider("m", "k")  # type: ignore[misc]
    with pytest.raises(TypeError):
        build(top_p=1)


@pytest.mark.parametrize(
    "options",
    [
        {"retry": {}},
        {"timeout": 5},
        {"response": 1},
        {"extra_headers": [("a", "b")]},
        {"extra_headers": {" ": "b"}},
        {"extra_headers": {"a": 1}},
        {"extra_headers": {"a": "b\r\nx: y"}},
        {"extra_headers": {"a": "\0"}},
        {"extra_headers": {"a": "€"}},
        {"extra_query": [("a", "b")]},
        {"extra_query": {"": "b"}},
        {"extra_query": {"a": 1}},
        {"extra_body": [("a", 1)]},
        {"extra_body": {"a": {1}}},
        {"extra_body": {"a": float("nan")}},
        {"extra_body": {"a": [float("inf")]}},
        {"extra_body": {"": 1}},
        {"extra_body": {1: 1}},
        {"api_key": " k"},
        {"api_key": "k\n"},
    ],
    ids=repr,
)
def test_20_9_what_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        build(**options)


async def test_20_10_mappings_are_copied() -> None:
    headers, query, body = {"x-a": "1"}, {"q": "1"}, {"field": 1}
    transport = RecordingTransport()
    provider = build(transport, extra_headers=headers, extra_query=query, extra_body=body)
    headers["x-a"] = query["q"] = "2"
    body["field"] = 2
    await consume(provider, REQUEST)
    assert transport.requests[0].headers["x-a"] == "1"
    assert transport.requests[0].url.params["q"] == "1"
    assert transport.body["field"] == 1
    assert (provider.extra_headers, provider.extra_query, provider.extra_body) == (
        {"x-a": "1"},
        {"q": "1"},
        {"field": 1},
    )


@pytest.mark.parametrize(
    ("base_url", "url"),
    [
        ("https://gw.example", "https://gw.example/chat/completions"),
        ("https://gw.example/", "https://gw.example/chat/completions"),
        ("https://gw.example/a/v1/", "https://gw.example/a/v1/chat/completions"),
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1/chat/completions"),
        ("https://gw.example/v1?tenant=t", "https://gw.example/v1/chat/completions?tenant=t"),
    ],
)
async def test_20_3_base_url(base_url: str, url: str) -> None:
    transport = RecordingTransport()
    await consume(build(transport, base_url=base_url), REQUEST)
    assert str(transport.requests[0].url) == url


async def test_21_2_facts_of_the_class() -> None:
    assert OpenAICompatibleProvider.provider_name == "openai"
    assert OpenAICompatibleProvider.default_base_url is None
    assert OpenAICompatibleProvider.reasoning_keys == ("reasoning_content", "reasoning")
    transport = RecordingTransport()
    provider = build(transport, response=True)
    await consume(provider, REQUEST)
    assert str(transport.requests[0].url) == "https://llm.example/v1/responses"
    assert transport.requests[0].headers["authorization"] == "Bearer test-key"
    assert (provider.model, provider.response, provider.temperature) == ("m", True, None)
    assert "test-key" not in repr(provider)


async def test_20_5_lifecycle() -> None:
    transport = RecordingTransport()
    async with build(transport) as provider:
        await consume(provider, REQUEST)
    assert transport.closed
    await provider.aclose()
    _, error = await consume(provider, REQUEST)
    assert type(error) is ProviderError
    assert "closed" in str(error)
    assert len(transport.requests) == 1


async def test_20_5_streams_at_once_do_not_mix() -> None:
    def echo(request: httpx.Request) -> httpx.Response:
        [message] = json.loads(request.content)["messages"]
        body = [piece for letter in message["content"] for piece in chat(letter, done=False).body]
        end = chat(STOP).body
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=Slow([*body, *end]))

    class Slow(httpx.AsyncByteStream):
        def __init__(self, body: Any) -> None:
            self.body = body

        async def __aiter__(self) -> AsyncIterator[bytes]:
            for piece in self.body:
                await asyncio.sleep(0)
                yield piece

    async with build(httpx.MockTransport(echo)) as provider:
        questions = [f"question {number}" for number in range(100)]
        answers = await asyncio.gather(
            *(answer_of(provider, ModelRequest([UserMessage(content=text)])) for text in questions)
        )
    assert [answer.content for answer in answers] == questions


async def test_20_3_retry_is_read_afresh() -> None:
    transport = RecordingTransport(Answer.json(500, {}))
    provider = build(transport)
    await consume(provider, REQUEST)
    provider.retry = RetryOptions(0, 0, 2)
    await consume(provider, REQUEST)
    assert len(transport.requests) == 1 + 3
    provider.retry = {}  # type: ignore[assignment]
    with pytest.raises(ValueError, match="retry must be a RetryOptions"):
        await consume(provider, REQUEST)


# -- requests ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("response", [False, True], ids=["chat", "responses"])
async def test_20_8_prompt_cache_key(response: bool) -> None:
    assert (await sent(response=response))["prompt_cache_key"] == "k"
    assert "prompt_cache_key" not in await sent(response=response, send_prompt_cache_key=False)
    assert "prompt_cache_key" not in await sent(ModelRequest([]), response=response)


@pytest.mark.parametrize("response", [False, True], ids=["chat", "responses"])
async def test_20_3_temperature(response: bool) -> None:
    assert (await sent(response=response, temperature=0.0))["temperature"] == 0.0
    assert "temperature" not in await sent(response=response)


async def test_20_3_extras_have_the_last_word() -> None:
    transport = RecordingTransport()
    provider = build(
        transport,
        extra_headers={"Authorization": "Basic xyz", "User-Agent": "mine/1"},
        extra_body={"model": "other", "messages": [], "reasoning_effort": None},
    )
    await consume(provider, REQUEST)
    headers = transport.requests[0].headers
    assert headers.get_list("authorization") == ["Basic xyz"]
    assert headers.get_list("user-agent") == ["mine/1"]
    assert transport.body["model"] == "other"
    assert transport.body["messages"] == []
    assert transport.body["reasoning_effort"] is None


@pytest.mark.parametrize("tools", [(), (LOOK,)], ids=["without tools", "with a tool"])
@pytest.mark.parametrize("parallel", [True, False])
async def test_21_6_parallel_tool_calls(tools: tuple[ToolDefinition, ...], parallel: bool) -> None:
    request = ModelRequest([UserMessage(content="hi")], tools, parallel_tool_call=parallel)
    assert "parallel_tool_calls" not in await sent(request)
    assert (await sent(request, response=True))["parallel_tool_calls"] is parallel


async def test_20_7_tools() -> None:
    hosted = ServerToolDefinition("web", {"max": 3})
    deferred = ToolDefinition("later", "Later.", {"type": "object"}, deferred=True)
    body = await sent(ModelRequest([], [LOOK, deferred], [hosted], tool_choice="look"))
    functions = [
        {"name": "look", "description": "Look.", "parameters": LOOK.parameters},
        {"name": "later", "description": "Later.", "parameters": {"type": "object"}},
    ]
    assert body["tools"] == [
        *({"type": "function", "function": function} for function in functions),
        {"type": "web", "max": 3},
    ]
    assert body["tool_choice"] == {"type": "function", "function": {"name": "look"}}
    assert "tools" not in await sent()


async def test_20_7_local_tool_search_is_not_for_chat() -> None:
    transport = RecordingTransport()
    search = ToolDefinition("find", "Find tools.", {"type": "object"}, local_tool_search=True)
    with pytest.raises(ValueError, match="Responses"):
        await consume(build(transport), ModelRequest([], [search]))
    assert transport.requests == []


async def test_20_6_messages_are_sent_as_they_are() -> None:
    call = ToolCall("c", "look", {}, error="was cut")
    messages = [
        ToolMessage(tool_call_id="orphan", name="look", content=[]),
        AssistantMessage(tool_calls=(call,), attributes={"app": 1}),
        AssistantMessage(),
        UserMessage(content=[]),
        UserMessage(content=""),
    ]
    body = await sent(ModelRequest(messages))
    called = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    assert body["messages"] == [
        {"role": "tool", "tool_call_id": "orphan", "content": ""},
        {"role": "assistant", "content": None, "tool_calls": [called]},
        {"role": "assistant", "content": ""},
        {"role": "user", "content": ""},
        {"role": "user", "content": ""},
    ]


async def test_the_same_request_is_the_same_bytes() -> None:
    transport = RecordingTransport()
    provider = build(transport)
    history = [
        UserMessage(content="é"),
        AssistantMessage(tool_calls=(ToolCall("c", "look", {"b": 1, "a": 2}),)),
    ]
    for _ in range(2):
        await consume(provider, ModelRequest(history, [LOOK]))
    first, second = transport.requests
    assert first.content == second.content
    assert "é" in first.content.decode()


# -- replay -----------------------------------------------------------------------------------------------


async def test_21_4_round_trip() -> None:
    """An answer with reasoning and two calls is replayed to its own service, and bare to another one."""
    calls = [
        {"index": 0, "id": "a", "function": {"name": "look", "arguments": '{"n": 0}'}},
        {"index": 1, "id": "b", "function": {"name": "look", "arguments": '{"n":1}'}},
    ]
    thinking = {"choices": [{"index": 0, "delta": {"reasoning_content": "because"}}]}
    transport = RecordingTransport(chat(thinking, "Let me see.", calls, STOP))
    answer = await answer_of(build(transport))
    assert (answer.provider, answer.model, answer.reasoning) == ("openai", "m", "because")

    results = [ToolMessage(tool_call_id=name, name="look", content=f"r{name}") for name in "ab"]
    follow_up = ModelRequest([UserMessage(content="hi"), answer, *results], [LOOK])
    replayed = {
        "role": "assistant",
        "content": "Let me see.",
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "look", "arguments": '{"n": 0}'}},
            {"id": "b", "type": "function", "function": {"name": "look", "arguments": '{"n": 1}'}},
        ],
        "reasoning_content": "because",
    }
    assert (await sent(follow_up))["messages"][1] == replayed

    class Other(OpenAICompatibleProvider):
        provider_name = "other"

    elsewhere = RecordingTransport()
    await consume(Other(model="m", api_key="k", base_url="http://o.example", transport=elsewhere), follow_up)
    del replayed["reasoning_content"]
    assert elsewhere.body["messages"][1] == replayed


async def answer_of(provider: OpenAICompatibleProvider, request: ModelRequest = REQUEST) -> AssistantMessage:
    [response] = [event.response async for event in provider.stream(request) if event.response is not None]
    return response.message


# -- option fallback --------------------------------------------------------------------------------------

REFUSED_EFFORT = Answer.json(
    400,
    {
        "error": {
            "message": "Unsupported parameter: 'reasoning_effort' is not supported with this model.",
            "param": "reasoning_effort",
        }
    },
)


async def test_21_7_an_option_that_the_model_refuses(caplog: pytest.LogCaptureFixture) -> None:
    transport = RecordingTransport(REFUSED_EFFORT, OK)
    provider = build(transport)  # no retry is needed for it
    _, error = await consume(provider, REQUEST)
    assert error is None
    assert ["reasoning_effort" in body for body in transport.bodies] == [True, False]
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "reasoning_effort" in caplog.text

    await consume(provider, REQUEST)
    assert len(transport.requests) == 3
    assert "reasoning_effort" not in transport.body

    provider.model = "another"
    await consume(provider, REQUEST)
    assert "reasoning_effort" in transport.body


async def test_21_7_an_option_of_the_caller_stays() -> None:
    transport = RecordingTransport(REFUSED_EFFORT, OK)
    _, error = await consume(build(transport, extra_body={"reasoning_effort": "low"}), REQUEST)
    assert isinstance(error, ProviderHTTPError)
    assert error.status_code == 400
    assert len(transport.requests) == 1


@pytest.mark.parametrize(
    "error",
    [
        {"message": "Invalid value for 'messages'", "param": "messages"},
        {"message": "messages[0].content is too long"},
        {"message": "The model does not exist", "param": None, "code": "model_not_found"},
    ],
)
async def test_21_7_another_complaint_is_an_error(error: dict[str, Any]) -> None:
    transport = RecordingTransport(Answer.json(400, {"error": error}), OK)
    _, raised = await consume(build(transport), REQUEST)
    assert isinstance(raised, ProviderHTTPError)
    assert len(transport.requests) == 1


async def test_20_b9_the_nearest_lower_effort_first() -> None:
    message = "Unsupported value: 'ultra'. Supported values are: 'low', 'medium', and 'high'."
    refused = Answer.json(400, {"error": {"message": message, "param": "reasoning_effort"}})
    transport = RecordingTransport(refused, refused, OK)
    request = ModelRequest([UserMessage(content="hi")], reasoning_effort=ReasoningEffort.ULTRA)
    _, error = await consume(build(transport), request)
    assert error is None
    assert [body.get("reasoning_effort") for body in transport.bodies] == ["ultra", "high", None]


async def test_20_b9_at_most_twice_in_a_call_and_only_before_output() -> None:
    def refused(name: str, status: int = 400) -> Answer:
        return Answer.json(status, {"error": {"message": f"unknown field `{name}`", "param": name}})

    names = ["reasoning_effort", "stream_options", "prompt_cache_key"]
    transport = RecordingTransport(*(refused(name, 422) for name in names), OK)
    _, error = await consume(build(transport), REQUEST)
    assert isinstance(error, ProviderHTTPError)
    assert len(transport.requests) == 3

    transport = RecordingTransport(refused("reasoning_effort", 403), OK)
    _, error = await consume(build(transport), REQUEST)
    assert isinstance(error, ProviderHTTPError)
    assert len(transport.requests) == 1


async def test_20_b9_can_be_switched_off() -> None:
    class Plain(OpenAICompatibleProvider):
        option_fallback = False

    transport = RecordingTransport(REFUSED_EFFORT, OK)
    provider = Plain(model="m", api_key="k", base_url="http://h.example", transport=transport)
    _, error = await consume(provider, REQUEST)
    assert isinstance(error, ProviderHTTPError)
    assert len(transport.requests) == 1


async def test_20_b9_on_the_responses_wire() -> None:
    complaint = {
        "error": {"message": "Unsupported parameter: 'reasoning.effort'", "param": "reasoning.effort"}
    }
    transport = RecordingTransport(Answer.json(400, complaint), OK)
    await consume(build(transport, response=True), REQUEST)
    assert ["reasoning" in body for body in transport.bodies] == [True, False]


# -- failures ---------------------------------------------------------------------------------------------


async def test_20_11_no_httpx_class_leaves() -> None:
    for name in ("ReadError", "RemoteProtocolError", "ConnectError", "DecodingError", "ReadTimeout"):
        transport = RecordingTransport(Answer([b"", f"httpx.{name}"]))
        _, error = await consume(build(transport), REQUEST)
        assert isinstance(error, ProviderError), name
        assert isinstance(error.__cause__, httpx.HTTPError), name
