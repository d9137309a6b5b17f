"""20 §20.1: every recorded request of the adapters that exist, as it leaves through `stream`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonpatch import JsonPatch

from support.spec_data import Comparison, expected_request, recordings, request_from
from support.wire_services import NO_RETRY, RecordingTransport, adapter, consume
from zett_agent import __version__

FAMILIES = [
    "request.openaicompatible.*",
    "request.deepseek.*",
    "request.deepseek-responses.*",
    "request.openai-responses.*",
]

# Besides the listed headers there may be these, and no other one.
TRANSPORT_HEADERS = {"host", "content-length", "accept-encoding", "connection", "user-agent"}

# Chapter 80, B6: while it thinks, DeepSeek wants reasoning on every assistant turn.
CHAPTER_80 = {
    "request.deepseek.replay-foreign": [
        {"op": "add", "path": "/body/messages/2/reasoning_content", "value": " "}
    ],
}


@pytest.mark.parametrize("recording", recordings(*FAMILIES))
async def test_20_1_recorded_requests(recording: dict[str, Any], request: pytest.FixtureRequest) -> None:
    transport = RecordingTransport()
    provider = adapter(recording["class"])(**recording["constructor"], transport=transport, retry=NO_RETRY)
    await consume(provider, request_from(recording["request"]))

    changes = CHAPTER_80.get(request.node.callspec.id, [])
    expected = JsonPatch(changes).apply(expected_request(recording))
    [sent] = transport.requests
    assert sent.method == expected["method"]
    assert str(sent.url) == expected["url"]
    _check_headers(dict(sent.headers), expected["headers"])
    Comparison().check(json.loads(sent.content), expected["body"], "body")


def _check_headers(sent: dict[str, str], expected: dict[str, str]) -> None:
    assert sent["user-agent"] == f"zett-agent/{__version__}"
    assert sent.keys() - TRANSPORT_HEADERS == expected.keys()
    for name, value in expected.items():
        assert sent[name] == value or (name == "accept" and sent[name] == "*/*")
