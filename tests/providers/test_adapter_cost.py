"""What a first answer and a streamed event cost, with a fake transport."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Any

import httpx

from support.http_service import OK_STREAM
from zett_agent.messages import UserMessage
from zett_agent.model import ModelRequest
from zett_agent.providers import OpenAICompatibleProvider

REQUEST = ModelRequest([UserMessage(content="hi")])
DELTA = b'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n'


def test_20_12_the_first_answer_loads_no_sdk() -> None:
    code = """
import asyncio, sys
import httpx                    # the test's own fake transport needs it
from support.http_service import OK_STREAM
from zett_agent.providers import OpenAICompatibleProvider
from zett_agent.model import ModelRequest
from zett_agent.messages import UserMessage
transport = httpx.MockTransport(
    lambda request: httpx.Response(200, headers={"content-type": "text/event-stream"}, content=OK_STREAM)
)
async def main():
    provider = OpenAICompatibleProvider(
        model="m", api_key="k", base_url="http://h.example", transport=transport
    )
    return [event async for event in provider.stream(ModelRequest([UserMessage(content="hi")]))]
assert asyncio.run(main())[-1].response.message.content == "x"
print({"openai", "anthropic", "google", "ollama", "pydantic"} & set(sys.modules))
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(["tests", "src"])}
    # How long it takes is a line of benchmarks/wire.py: a busy machine must not fail a test.
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.strip() == "set()"


async def test_20_33_cost_of_an_event() -> None:
    class Chunks(httpx.AsyncByteStream):
        async def __aiter__(self) -> Any:
            for _ in range(400):
                yield DELTA * 50
            yield OK_STREAM

    def handle(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=Chunks())

    provider = OpenAICompatibleProvider(
        model="m", api_key="k", base_url="http://h.example", transport=httpx.MockTransport(handle)
    )
    costs = []
    for _ in range(4):
        began = time.process_time()
        events = [event async for event in provider.stream(REQUEST)]
        costs.append((time.process_time() - began) / len(events))
    assert len(events) == 20_002
    assert min(costs) <= 40e-6
