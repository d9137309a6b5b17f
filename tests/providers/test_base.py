"""Errors, options and helpers for subclasses."""

from __future__ import annotations

import asyncio
import copy
import pickle
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from zett_agent.exceptions import AgentError
from zett_agent.messages import UserMessage
from zett_agent.model import (
    ModelUsage,
    ReasoningEffort,
    RetryOptions,
    TimeoutOptions,
    ToolCallDelta,
    ToolDefinition,
)
from zett_agent.providers import base
from zett_agent.providers._status import StatusFailure
from zett_agent.stop import StopInfo, StopReason

# -- errors -----------------------------------------------------------------------------------------------

ERRORS = [
    base.ProviderError("closed"),
    base.ProviderAuthError("rejected", status_code=401),
    base.ProviderTimeoutError("slow", phase="idle", seconds=2.5),
    base.ProviderResponseError("odd"),
    base.ProviderHTTPError("busy", status_code=503, reason="r", preview="p", is_html=True),
    base.ProviderConnectionError("cut"),
    base.ProviderRefusalError(StopInfo(StopReason.REFUSAL, category="policy")),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_survive_pickling_and_copying(error: base.ProviderError) -> None:
    error.retry_after = 3.0
    base.mark_transient(error, transient=True)
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(twin) is type(error)
        assert (str(twin), vars(twin)) == (str(error), vars(error))


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_every_error_has_the_same_public_home_and_the_common_fields(error: base.ProviderError) -> None:
    assert isinstance(error, AgentError)
    assert type(error).__module__ == "zett_agent.providers.base"
    fresh = type(error).__new__(type(error))
    assert (fresh.retry_after, fresh.request_id, fresh.error_code, fresh.rate_limit) == (
        None,
        None,
        None,
        None,
    )


def test_the_tree() -> None:
    for kind in (base.ProviderHTTPError, base.ProviderConnectionError, base.ProviderRefusalError):
        assert issubclass(kind, base.ProviderResponseError)
    for kind in (base.ProviderAuthError, base.ProviderTimeoutError, base.ProviderResponseError):
        assert kind.__base__ is base.ProviderError
    refusal = ERRORS[-1]
    assert isinstance(refusal, base.ProviderRefusalError)
    assert refusal.stop.category == "policy"


@pytest.mark.parametrize(
    ("phase", "words"), [("connect", "connected"), ("first_byte", "respond"), ("idle", "stopped")]
)
def test_timeout_error(phase: str, words: str) -> None:
    error = base.timeout_error(phase, 2.5)
    assert words in str(error)
    assert "2.5 seconds" in str(error)
    assert (error.phase, error.seconds) == (phase, 2.5)


# -- options ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("check", "value"),
    [
        (base.validate_extra_headers, [("a", "b")]),
        (base.validate_extra_headers, {" ": "b"}),
        (base.validate_extra_headers, {"a": 1}),
        (base.validate_extra_headers, {1: "a"}),
        (base.validate_extra_headers, {"a": "b\r\nx: y"}),
        (base.validate_extra_headers, {"a": "b\0"}),
        (base.validate_extra_headers, {"a b": "c"}),
        (base.validate_extra_headers, {"a": "\u20ac"}),
        (base.validate_extra_query, "a=b"),
        (base.validate_extra_query, {"": "b"}),
        (base.validate_extra_query, {"a": 1}),
        (base.validate_extra_body, [1]),
        (base.validate_extra_body, {"a": {1}}),
        (base.validate_extra_body, {"a": float("nan")}),
        (base.validate_extra_body, {"a": [{"b": float("inf")}]}),
        (base.validate_extra_body, {"": 1}),
        (base.validate_extra_body, {1: 1}),
        (base.require_api_key, ""),
        (base.require_api_key, None),
        (base.require_api_key, " secret-key"),
        (base.require_api_key, "secret-key\n"),
        (base.require_api_key, "secret\x00key"),
        (base.require_api_key, "secret-\u20ac-key"),
        (base.require_api_key, 5),
    ],
)
def test_20_9_what_a_constructor_refuses(check: Any, value: Any) -> None:
    with pytest.raises(ValueError) as caught:
        check(value)
    assert "secret" not in str(caught.value)


def test_20_9_retry_and_timeout() -> None:
    with pytest.raises(ValueError, match="retry must be a RetryOptions instance"):
        base.RetryingProvider(retry={})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="timeout must be a TimeoutOptions instance"):
        base.RetryingProvider(timeout=5)  # type: ignore[arg-type]


def test_20_10_mappings_are_copied() -> None:
    body: dict[str, Any] = {"a": 1}
    copied = base.validate_extra_body(body)
    body["a"] = 2
    assert copied == {"a": 1}
    assert (
        base.validate_extra_body(None)
        == base.validate_extra_headers(None)
        == base.validate_extra_query(None)
        == {}
    )
    assert base.validate_extra_headers({"x-a": "\u00fc"}) == {"x-a": "\u00fc"}


def test_base_url() -> None:
    assert base.require_base_url(None, "d") == base.require_base_url("", "d") == "d"
    assert base.require_base_url("u", "d") == "u"
    with pytest.raises(ValueError, match="base_url is required"):
        base.require_base_url(None, None)


# -- helpers ----------------------------------------------------------------------------------------------


def test_reasoning_budgets() -> None:
    assert [base.reasoning_effort_to_budget(effort) for effort in ReasoningEffort] == [
        0, 2048, 4096, 8192, 16384, 32768, 32768, 32768
    ]  # fmt: skip


def test_local_tool_search_is_refused() -> None:
    plain = ToolDefinition("t", "d", {})
    base.reject_local_tool_search("chat", [plain])
    with pytest.raises(ValueError, match="Responses API"):
        base.reject_local_tool_search("chat", [plain, ToolDefinition("s", "d", {}, local_tool_search=True)])


@pytest.mark.parametrize(
    ("payload", "usage"),
    [
        ({"prompt_tokens": 5, "completion_tokens": 2}, ModelUsage(5, 2, cache_reported=False)),
        ({"input_tokens": 5, "output_tokens": 2}, ModelUsage(5, 2, cache_reported=False)),
        ({"prompt_tokens": "5", "completion_tokens": 2.0}, ModelUsage(5, 2, cache_reported=False)),
        ({"prompt_tokens": True, "completion_tokens": None}, ModelUsage(cache_reported=False)),
        ({"prompt_tokens": -1, "completion_tokens": 2}, ModelUsage(0, 2, cache_reported=False)),
        ({"prompt_tokens": float("inf")}, ModelUsage(cache_reported=False)),
        ({"prompt_tokens": 9, "cached_tokens": 4}, ModelUsage(9, 0, 4)),
        ({"prompt_tokens": 9, "prompt_cache_hit_tokens": 3, "cached_tokens": 4}, ModelUsage(9, 0, 4)),
        (
            {"prompt_tokens": 9, "cached_tokens": 1, "prompt_tokens_details": {"cached_tokens": 4}},
            ModelUsage(9, 0, 4),
        ),
        ({"prompt_tokens": 9, "cache_creation_input_tokens": 4}, ModelUsage(9, 0, 0, 4)),
        ({"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 9}}, ModelUsage(5, 0, 5)),
        (
            {"completion_tokens": 5, "completion_tokens_details": {"reasoning_tokens": 3}},
            ModelUsage(0, 5, 0, 0, False, 3),
        ),
        # reasoning counted beside the output
        (
            {"completion_tokens": 2, "completion_tokens_details": {"reasoning_tokens": 7}},
            ModelUsage(0, 9, 0, 0, False, 7),
        ),
        (
            {
                "prompt_tokens": 279,
                "completion_tokens": 89,
                "total_tokens": 374,
                "completion_tokens_details": {"reasoning_tokens": 6},
            },
            ModelUsage(279, 95, 0, 0, False, 6),
        ),
        ({"prompt_tokens_details": None, "completion_tokens_details": []}, ModelUsage(cache_reported=False)),
    ],
)
def test_usage_from_mapping(payload: dict[str, Any], usage: ModelUsage) -> None:
    assert base.usage_from_mapping(payload) == usage


def test_tool_call_accumulator() -> None:
    call = base.ToolCallAccumulator(1, argument_buffer='{"a"')
    for delta in (ToolCallDelta(1, "c"), ToolCallDelta(1, "1", "lo"), ToolCallDelta(1, "", "ok", ": 1}")):
        call.append(delta)
    assert (call.call_id, call.name, call.argument_buffer) == ("c1", "look", '{"a": 1}')


def test_httpx_timeout() -> None:
    limits = base.httpx_timeout(TimeoutOptions(connect=1, first_byte=2, idle=3))
    assert limits.as_dict() == {"connect": 1, "read": None, "write": 2, "pool": 1}


async def test_guard_idle() -> None:
    async def items(*pauses: float) -> AsyncIterator[int]:
        for number, pause in enumerate(pauses):
            await asyncio.sleep(pause)
            yield number

    limits = TimeoutOptions(idle=0.1)
    assert [n async for n in base.guard_idle(items(0, 0.01, 0), limits)] == [0, 1, 2]
    with pytest.raises(base.ProviderTimeoutError) as caught:
        _ = [n async for n in base.guard_idle(items(0, 5), limits)]
    assert (caught.value.phase, caught.value.seconds) == ("idle", 0.1)
    with pytest.raises(base.ProviderTimeoutError) as caught:
        _ = [n async for n in base.guard_idle(items(5), limits, first=0.05)]
    assert (caught.value.phase, caught.value.seconds) == ("first_byte", 0.05)


class FakeStream:
    def __init__(self, response: httpx.Response) -> None:
        self.response = response


async def test_checks_of_an_sdk_stream() -> None:
    events: Any = FakeStream(httpx.Response(200, headers={"content-type": "text/event-stream"}, content=b""))
    await base.require_event_stream(events, "acme")
    assert "empty" in base.empty_stream_message("acme", events)
    assert "text/event-stream" in base.empty_stream_message("acme", events)
    page: Any = FakeStream(httpx.Response(200, html="<title>Login</title>"))
    with pytest.raises(base.ProviderHTTPError, match="Login"):
        await base.require_event_stream(page, "acme")


def test_describing_a_failure_of_an_sdk() -> None:
    class SDKError(Exception):
        status_code = 400
        body = {"message": "bad"}  # noqa: RUF012
        response = httpx.Response(400, json={"error": {"message": "bad"}})

    status, failure, message = base.describe_status_error("acme", SDKError())
    assert (status, failure.reason, message) == (400, "bad", "acme: HTTP 400: bad")


def test_details_never_override_a_hook() -> None:
    failure = StatusFailure(
        429,
        headers={"retry-after": "7", "x-request-id": "r"},
        text='{"error": {"code": "slow"}}',
        url="http://h",
    )
    error = base.ProviderHTTPError("mine", status_code=429)
    error.retry_after, error.error_code = 1.0, "mine"
    base.with_status_details(error, failure)
    assert (error.retry_after, error.error_code, error.request_id) == (1.0, "mine", "r")


# -- imports ----------------------------------------------------------------------------------------------


def run_python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_20_12_importing_the_package_loads_no_client() -> None:
    heavy = {"httpx", "openai", "anthropic", "google", "ollama", "pydantic", "asyncio", "truststore"}
    code = f"import sys, zett_agent.providers as p; dir(p); print({heavy!r} & set(sys.modules))"
    assert run_python(code).strip() == "set()"


def test_20_12_errors_can_be_caught_without_loading_a_client() -> None:
    code = "import sys\nfrom zett_agent.providers import ProviderError\nprint('httpx' in sys.modules)"
    assert run_python(code).strip() == "False"


def test_all_names_are_listed() -> None:
    import zett_agent.providers as providers

    assert set(providers.__all__) <= set(dir(providers))
    assert providers.ProviderConnectionError is base.ProviderConnectionError
    with pytest.raises(AttributeError, match="NoSuchProvider"):
        _ = providers.NoSuchProvider


def test_a_provider_without_a_connection() -> None:
    provider = base.RetryingProvider(retry=RetryOptions())
    assert repr(provider) == "RetryingProvider(model='')"
    asyncio.run(provider.aclose())
    assert UserMessage(content="x").text == "x"
