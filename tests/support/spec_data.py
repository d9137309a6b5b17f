"""The recorded facts of the specification: where they are, and how to read and compare them.

`wire/index.json` there describes the encodings. The data is taken from the directory that the environment
variable `ZETT_AGENT_SPEC_DATA` names, else from the specification beside this repository, else from the copy
in `tests/data`, which holds the families that the tests use.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from jsonpatch import JsonPatch

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
    ModelRequest,
    ModelResponse,
    ModelUsage,
    ReasoningEffort,
    ServerToolDefinition,
    ToolDefinition,
)
from zett_agent.stop import StopInfo

__all__ = [
    "COPY",
    "Comparison",
    "event_data",
    "expected_answer",
    "expected_request",
    "load",
    "pieces",
    "recordings",
    "request_from",
    "shared_data",
]

_REPOSITORY = Path(__file__).parents[2]
COPY = _REPOSITORY / "tests" / "data"

Recording = dict[str, Any]


# -- finding ----------------------------------------------------------------------------------------------


def shared_data() -> Path | None:
    """Return the specification's data directory, if there is one beside the repository."""
    given = os.environ.get("ZETT_AGENT_SPEC_DATA")
    path = Path(given) if given else _REPOSITORY.parent / "shared" / "spec" / "data"
    return path if path.is_dir() else None


_WIRE = (shared_data() or COPY) / "wire"


def load(name: str) -> Recording:
    """Return one file of the wire data; `name` has no suffix."""
    return json.loads((_WIRE / f"{name}.json").read_text("utf-8"))


def recordings(*patterns: str) -> list[Any]:
    """Return a test parameter for every file that matches one of the patterns; its id is the file's name."""
    names = sorted({path.stem for pattern in patterns for path in _WIRE.glob(f"{pattern}.json")})
    assert names, f"no recordings {patterns} in {_WIRE}"
    return [pytest.param(load(name), id=name) for name in names]


# -- reading ----------------------------------------------------------------------------------------------

_MESSAGES = {
    "system": SystemMessage,
    "user": UserMessage,
    "assistant": AssistantMessage,
    "tool": ToolMessage,
    "agent": AgentMessage,
}


def request_from(data: Mapping[str, Any]) -> ModelRequest:
    """Read a neutral request; a field that is left out has its default."""
    given = dict(data)
    given["messages"] = tuple(_message(message) for message in given["messages"])
    given["tools"] = tuple(ToolDefinition(**tool) for tool in given.get("tools", ()))
    given["server_tools"] = tuple(ServerToolDefinition(**tool) for tool in given.get("server_tools", ()))
    if "reasoning_effort" in given:
        given["reasoning_effort"] = ReasoningEffort(given["reasoning_effort"])
    return ModelRequest(**given)


def _message(data: Mapping[str, Any]) -> Any:
    given = _decode_bytes(dict(data))
    kind = _MESSAGES[given.pop("role")]
    if isinstance(given.get("content"), list):
        given["content"] = [_part(part) for part in given["content"]]
    if "tool_calls" in given:
        given["tool_calls"] = tuple(ToolCall(**call) for call in given["tool_calls"])
    if "replay_blocks" in given:
        given["replay_blocks"] = tuple(given["replay_blocks"])
    return kind(**given)


def _part(data: Mapping[str, Any]) -> TextContent | ImageContent:
    if "text" in data:
        return TextContent(data["text"])
    source: ImageUrlSource | ImageBytesSource
    if "image_url" in data:
        source = ImageUrlSource(data["image_url"])
    else:
        source = ImageBytesSource(base64.b64decode(data["image_base64"]), data["media_type"])
    return ImageContent(source, ImageDetail(data.get("detail", "auto")), data.get("alt_text"))


def _decode_bytes(value: Any) -> Any:
    if isinstance(value, list):
        return [_decode_bytes(item) for item in value]
    if isinstance(value, dict):
        if set(value) == {"__bytes_base64__"}:
            return base64.b64decode(value["__bytes_base64__"])
        return {name: _decode_bytes(item) for name, item in value.items()}
    return value


def pieces(http: Mapping[str, Any]) -> list[bytes | float | str]:
    """Return the network reads of an answer: bytes, seconds to wait, or the name of a failure to raise."""
    found: list[bytes | float | str] = []
    for chunk in http["chunks"]:
        match chunk:
            case str():
                found.append(chunk.encode())
            case {"base64": data}:
                found.append(base64.b64decode(data))
            case {"sleep": seconds}:
                found.append(float(seconds))
            case {"raise": name}:
                found.append(name)
            case _:
                raise ValueError(f"unknown chunk {chunk!r}")
    return found


# -- what is expected -------------------------------------------------------------------------------------


def expected_request(recording: Recording) -> Recording:
    """Return the HTTP request that must be sent, with our own changes."""
    return JsonPatch(recording.get("ours", [])).apply(recording["sent"])


def expected_answer(recording: Recording) -> Recording:
    """Return the events and the error that must come of an answer."""
    return recording["reference"] if recording["ours"] == "same" else recording["ours"]


# -- writing ----------------------------------------------------------------------------------------------


def event_data(event: ModelEvent) -> Recording:
    """Write an event as the recordings have it."""
    data: Recording = {"type": str(event.type)}
    if event.delta:
        data["delta"] = event.delta
    if event.tool_call_delta is not None:
        delta = event.tool_call_delta
        texts = {name: getattr(delta, name) for name in ("id_delta", "name_delta", "arguments_delta")}
        data["tool_call_delta"] = {
            "index": delta.index,
            **{name: text for name, text in texts.items() if text},
        }
    for name in ("server_tool_call", "server_tool_input_delta", "server_tool_result"):
        if (value := getattr(event, name)) is not None:
            data[name] = _plain(value)
    if event.response is not None:
        data["response"] = _response_data(event.response)
    return data


def _response_data(response: ModelResponse) -> Recording:
    message = response.message
    return {
        "content": message.content,
        "reasoning": message.reasoning,
        "tool_calls": [_call_data(call) for call in message.tool_calls],
        "provider": message.provider,
        "model": message.model,
        "replay_blocks": list(message.replay_blocks),
        "finish_reason": response.finish_reason,
        "usage": {field.name: getattr(response.usage, field.name) for field in fields(ModelUsage)},
        "stop": _stop_data(response.stop),
    }


def _call_data(call: ToolCall) -> Recording:
    data = _plain(call)
    if call.error is None:
        del data["error"]
    return data


def _stop_data(stop: StopInfo | None) -> Recording:
    assert stop is not None
    data = {name: value for name, value in _plain(stop).items() if value not in (None, "", {})}
    data["reason"] = str(stop.reason)
    if stop.category == "truncated":
        assert data.pop("message"), "a truncated stop says what happened"
    return data


def _plain(value: Any) -> Recording:
    return {field.name: getattr(value, field.name) for field in fields(value)}


# -- comparing --------------------------------------------------------------------------------------------

# Words of which a call's error text holds at least one, by the cause that it explains.
_CAUSES = {
    "output_limit": ("output limit", "smaller"),
    "incomplete_stream": ("ended before", "stream ended", "ended early"),
    "invalid": ("valid JSON",),
    "no_name": ("no tool name", "name of a tool"),
}


class Comparison:
    """Compares values with recorded ones; one object serves one recording, so that ids can be told apart."""

    def __init__(self) -> None:
        self._generated: dict[str, str] = {}

    def check(self, actual: Any, expected: Any, where: str = "$") -> None:
        """Raise AssertionError that names the first place where the values differ."""
        match expected:
            case {"set": True, "must_mention": mentioned, "cause": cause}:
                assert isinstance(actual, str) and actual.strip(), f"{where}: no error text"
                for word in mentioned:
                    assert word in actual, f"{where}: {actual!r} does not mention {word!r}"
                assert any(word in actual for word in _CAUSES[cause]), f"{where}: {actual!r} is no {cause}"
            case dict():
                assert isinstance(actual, dict), f"{where}: {actual!r} is not an object"
                assert actual.keys() == expected.keys(), f"{where}: fields {[*actual]}, not {[*expected]}"
                for name, value in expected.items():
                    self.check(actual[name], value, f"{where}.{name}")
            case list():
                assert isinstance(actual, list | tuple), f"{where}: {actual!r} is not a list"
                for index, (left, right) in enumerate(zip(actual, expected, strict=False)):
                    self.check(left, right, f"{where}[{index}]")
                assert len(actual) == len(expected), f"{where}: {len(actual)} items, not {len(expected)}"
            case str() if expected.startswith("{{"):
                self._check_placeholder(actual, expected.removeprefix("{{").removesuffix("}}"), where)
            case _:
                assert actual == expected, f"{where}: {actual!r}, not {expected!r}"
                # True == 1, but not on the wire.
                assert isinstance(actual, bool) == isinstance(expected, bool), f"{where}: {actual!r}"

    def _check_placeholder(self, actual: Any, placeholder: str, where: str) -> None:
        assert isinstance(actual, str) and actual.strip(), f"{where}: {actual!r} for {placeholder}"
        kind, colon, meaning = placeholder.partition(":")
        if not colon:
            assert self._generated.setdefault(kind, actual) == actual, f"{where}: not the id of before"
        elif kind == "label":
            for word in meaning.split()[-2:]:  # tool and call id
                assert word in actual, f"{where}: {actual!r} does not name {word!r}"
