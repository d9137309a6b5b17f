"""21 §19.16: a subclass of `OpenAICompatibleProvider` that overrides everything it may override."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from support.wire_services import NO_RETRY, Answer, RecordingTransport, chat, consume
from zett_agent.messages import AgentMessage, AssistantMessage, ImageUrlSource, UserMessage
from zett_agent.model import (
    ModelRequest,
    ModelUsage,
    ReasoningEffort,
    ServerToolDefinition,
    ToolDefinition,
)
from zett_agent.providers import (
    OpenAICompatibleProvider,
    ProviderError,
    ProviderHTTPError,
    ProviderRefusalError,
)
from zett_agent.providers.openai_compatible import (
    ChatDelta,
    chat_image,
    chat_message,
    chat_server_tools,
    chat_tools,
    chunk_data,
    default_chat_stop,
    low_medium_high,
    tool_call_deltas,
)
from zett_agent.stop import StopInfo, StopReason

REQUEST = ModelRequest([UserMessage(content="hi")], cache_key="k")


class Hooked(OpenAICompatibleProvider):
    """Overrides every hook, notes how each is called, and changes what comes of it."""

    provider_name = "hooked"
    default_base_url = "https://hooked.example/v1"

    def __init__(self, transport: RecordingTransport, **options: Any) -> None:
        self.calls: list[tuple[Any, ...]] = []
        super().__init__(model="m", api_key="k", transport=transport, retry=NO_RETRY, **options)

    def vendor_headers(self) -> dict[str, str]:
        self.calls.append(("vendor_headers",))
        return {"x-vendor": "v", "x-both": "vendor"}

    def request_fields(self, request: ModelRequest) -> dict[str, Any]:
        self.calls.append(("request_fields", request))
        return {"temperature": 0.1, "vendor_field": True, "overridden": 1}

    def responses_fields(self, request: ModelRequest) -> dict[str, Any]:
        self.calls.append(("responses_fields", request))
        return {"store": True, "overridden": 1}

    def replay_reasoning(self, message: AssistantMessage, payload: dict[str, Any]) -> None:
        self.calls.append(("replay_reasoning", message, dict(payload)))
        payload["thoughts"] = message.reasoning

    def read_delta(self, delta: dict[str, Any]) -> ChatDelta:
        self.calls.append(("read_delta", dict(delta)))
        return ChatDelta(text=delta.get("words", ""), replay=tuple(delta.get("blocks", ())))

    def merge_replay(self, blocks: list[Any], fragment: dict[str, Any]) -> None:
        self.calls.append(("merge_replay", list(blocks), fragment))
        blocks.append({**fragment, "merged": True})

    def read_usage(self, usage: dict[str, Any]) -> ModelUsage:
        self.calls.append(("read_usage", dict(usage)))
        return ModelUsage(input_tokens=usage["in"], output_tokens=2)

    def chat_stop(self, finish_reason: str | None, **facts: Any) -> StopInfo:
        self.calls.append(("chat_stop", finish_reason, facts))
        return StopInfo(StopReason.PAUSED, finish_reason)

    def status_error(self, error: Any) -> ProviderError:
        self.calls.append(("status_error", error.status_code, error.body, error.message))
        assert error.response.status_code == error.status_code
        assert error.response.headers["content-type"] == "application/json"
        assert json.loads(error.response.text)["error"] == error.body
        assert str(error.response.request.url) == "https://hooked.example/v1/chat/completions"
        if error.status_code == 451:
            return ProviderRefusalError(StopInfo(StopReason.REFUSAL, "451", "legal", "not here"))
        return ProviderHTTPError("of the hook", status_code=error.status_code)

    def named(self, name: str) -> list[tuple[Any, ...]]:
        return [call[1:] for call in self.calls if call[0] == name]


def delta(fields: dict[str, Any] | None, **choice: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, **choice}]}


async def test_21_16_hooks_of_a_request() -> None:
    transport = RecordingTransport()
    provider = Hooked(
        transport, temperature=0.9, extra_body={"overridden": 2}, extra_headers={"X-Both": "caller"}
    )
    assert provider.calls == [("vendor_headers",)]
    own = AssistantMessage(content="a", reasoning="r", provider="hooked")
    foreign = AssistantMessage(content="b", reasoning="s", provider="other")
    request = ModelRequest([own, UserMessage(content="hi"), foreign])
    await consume(provider, request)

    assert provider.named("request_fields") == [(request,)]
    assert provider.named("replay_reasoning") == [
        (own, {"role": "assistant", "content": "a"}),
        (foreign, {"role": "assistant", "content": "b"}),
    ]
    assert len(provider.named("vendor_headers")) == 1
    headers = transport.requests[0].headers
    assert (headers["x-vendor"], headers.get_list("x-both")) == ("v", ["caller"])
    body = transport.body
    assert body["messages"][0] == {"role": "assistant", "content": "a", "thoughts": "r"}
    assert (body["temperature"], body["vendor_field"], body["overridden"]) == (0.1, True, 2)
    assert "reasoning_effort" not in body


async def test_21_16_hooks_of_an_answer() -> None:
    chunks = [
        delta({"words": "a"}),
        delta({"blocks": [{"n": 1}, {"n": 2}]}),
        delta({"content": "not read"}),
        delta(None, finish_reason="done", native_finish_reason="native"),
        {"choices": [], "usage": {"in": 7}},
    ]
    provider = Hooked(RecordingTransport(chat(*chunks)))
    events, error = await consume(provider, REQUEST)
    assert error is None
    response = events[-1]["response"]
    assert provider.named("read_delta")[:3] == [
        ({"words": "a"},),
        ({"blocks": [{"n": 1}, {"n": 2}]},),
        ({"content": "not read"},),
    ]
    assert provider.named("merge_replay") == [
        ([], {"n": 1}),
        ([{"n": 1, "merged": True}], {"n": 2}),
    ]
    assert provider.named("read_usage") == [({"in": 7},)]
    assert provider.named("chat_stop") == [
        (
            "done",
            {
                "has_tool_calls": False,
                "refusal_text": "",
                "stream_error": None,
                "native_finish_reason": "native",
            },
        )
    ]
    assert response["content"] == "a"
    assert response["replay_blocks"] == [{"n": 1, "merged": True}, {"n": 2, "merged": True}]
    assert response["usage"]["input_tokens"] == 7
    assert response["stop"] == {"reason": "paused", "raw": "done"}
    assert (response["provider"], response["model"]) == ("hooked", "m")


async def test_21_16_hook_for_a_failure() -> None:
    failure = {"message": "no", "code": "teapot"}
    provider = Hooked(RecordingTransport(Answer.json(418, {"error": failure})))
    _, error = await consume(provider, REQUEST)
    assert isinstance(error, ProviderHTTPError)
    assert str(error) == "of the hook"
    [(status, body, message)] = provider.named("status_error")
    assert (status, body) == (418, failure)
    assert "no" in message


async def test_21_16_a_hook_may_call_a_failure_a_refusal() -> None:
    provider = Hooked(RecordingTransport(Answer.json(451, {"error": {"message": "law"}})))
    events, error = await consume(provider, REQUEST)
    assert error is None
    [event] = events
    assert event["response"]["stop"] == {
        "reason": "refusal",
        "raw": "451",
        "category": "legal",
        "message": "not here",
    }
    assert event["response"]["provider"] == "hooked"


async def test_21_16_hook_of_the_responses_wire() -> None:
    transport = RecordingTransport()
    provider = Hooked(transport, response=True, extra_body={"overridden": 2})
    await consume(provider, REQUEST)
    assert provider.named("responses_fields") == [(REQUEST,)]
    assert provider.named("request_fields") == []
    assert transport.body["store"] is True
    assert transport.body["overridden"] == 2


async def test_20_15_1_a_failing_usage_hook_costs_no_answer(caplog: pytest.LogCaptureFixture) -> None:
    class Odd(OpenAICompatibleProvider):
        def read_usage(self, usage: dict[str, Any]) -> ModelUsage:
            return ModelUsage(output_tokens=1, reasoning_tokens=usage["completion_tokens"])

    transport = RecordingTransport(
        chat("x", delta({}, finish_reason="stop"), {"choices": [], "usage": {"completion_tokens": 9}})
    )
    provider = Odd(model="m", api_key="k", base_url="http://h.example", transport=transport)
    events, error = await consume(provider, REQUEST)
    assert error is None
    assert events[-1]["response"]["content"] == "x"
    assert events[-1]["response"]["usage"]["output_tokens"] == 0
    assert "usage" in caplog.text


async def test_21_16_a_subclass_of_a_few_lines() -> None:
    class X(OpenAICompatibleProvider):
        provider_name = "x"
        default_base_url = "https://x.example/v1"
        sends_prompt_cache_key = False
        sends_stream_options = False
        requires_terminator = False
        reasoning_keys = ("thoughts",)

    transport = RecordingTransport(chat(delta({"thoughts": "t"}), "cut", done=False))
    events, _ = await consume(X(model="m", api_key="k", transport=transport), REQUEST)
    response = events[-1]["response"]
    assert (response["provider"], response["reasoning"], response["content"]) == ("x", "t", "cut")
    assert response["stop"] == {"reason": "end_turn"}
    assert str(transport.requests[0].url) == "https://x.example/v1/chat/completions"
    assert not {"prompt_cache_key", "stream_options"} & transport.body.keys()


# -- helpers for subclasses -------------------------------------------------------------------------------


def test_20_9_low_medium_high() -> None:
    assert {effort.value: low_medium_high(effort) for effort in ReasoningEffort} == {
        "off": "low",
        "minimal": "low",
        "low": "low",
        "medium": "medium",
        "high": "high",
        "xhigh": "high",
        "max": "high",
        "ultra": "high",
    }


def test_20_15_1_helpers() -> None:
    assert ChatDelta() == ChatDelta(text="", reasoning="", refusal="", tool_calls=(), replay=())
    with pytest.raises(FrozenInstanceError):
        ChatDelta().text = "x"  # type: ignore[misc]
    assert tool_call_deltas([{"index": 0}, None, "x"]) == ({"index": 0},)
    assert tool_call_deltas(None) == ()
    assert chat_message(AgentMessage(content="run")) == {"role": "user", "content": "run"}
    image = chat_image(ImageUrlSource("https://e.example/a.png"))
    assert image == {"type": "image_url", "image_url": {"url": "https://e.example/a.png", "detail": "auto"}}
    assert chat_server_tools([ServerToolDefinition("web", {"max": 1})]) == [{"type": "web", "max": 1}]
    declared = chat_tools([ToolDefinition("f", "F.", {"type": "object"})])
    assert declared == [
        {"type": "function", "function": {"name": "f", "description": "F.", "parameters": {"type": "object"}}}
    ]
    assert chunk_data({"choices": []}) == {"choices": []}


@pytest.mark.parametrize(
    ("facts", "stop"),
    [
        ({}, StopInfo(StopReason.END_TURN, "stop")),
        ({"has_tool_calls": True}, StopInfo(StopReason.TOOL_USE, "stop")),
        ({"refusal_text": "no"}, StopInfo(StopReason.REFUSAL, "stop", "refusal", "no")),
        (
            {"native_finish_reason": "STOP"},
            StopInfo(StopReason.END_TURN, "stop", detail={"native_finish_reason": "STOP"}),
        ),
        ({"native_finish_reason": "stop"}, StopInfo(StopReason.END_TURN, "stop")),
        (
            {"finish_reason": None, "stream_error": {"code": 502, "message": "down", "more": 1}},
            StopInfo(
                StopReason.INTERRUPTED,
                "error",
                "error",
                "down",
                detail={"error": {"code": 502, "message": "down"}},
            ),
        ),
    ],
    ids=repr,
)
def test_20_15_1_default_stop(facts: dict[str, Any], stop: StopInfo) -> None:
    defaults: dict[str, Any] = {
        "finish_reason": "stop",
        "has_tool_calls": False,
        "refusal_text": "",
        "stream_error": None,
        "native_finish_reason": None,
    }
    given = {**defaults, **facts}
    assert default_chat_stop(given.pop("finish_reason"), **given) == stop
