"""What a model adapter costs on top of HTTP, as ratios against the same work with bare httpx and json.

Run with `python benchmarks/wire.py`. Uses only a loopback server, in a process of its own. See
benchmarks/README.md for what is printed.
"""

from __future__ import annotations

import asyncio
import gc
import json
import socketserver
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from statistics import median
from typing import Any

import httpx

from zett_agent import Agent, AgentRunConfig, OpenAICompatibleProvider, tool
from zett_agent.messages import UserMessage
from zett_agent.model import ModelEventType, ModelRequest

REPETITIONS = 7
DELTAS = 20_000
ROUNDS = 50
WORD = "word "

# -- the service, in its own process ------------------------------------------------------------------------


def chat_chunk(delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
    """Return one event as the common services send them."""
    data = {
        "id": "chatcmpl-0123456789abcdef",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": "bench-1",
        "system_fingerprint": "fp_0123456789",
        "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}],
    }
    return b"data: " + json.dumps(data, separators=(",", ":")).encode() + b"\n\n"


def responses_event(kind: str, **fields: Any) -> bytes:
    data = json.dumps({"type": f"response.{kind}", **fields}, separators=(",", ":"))
    return f"event: response.{kind}\ndata: {data}\n\n".encode()


CHAT_DELTA = chat_chunk({"content": WORD})
CHAT_END = chat_chunk({}, "stop") + b"data: [DONE]\n\n"
RESPONSES_DELTA = responses_event(
    "output_text.delta", item_id="msg_1", output_index=0, content_index=0, delta=WORD, sequence_number=7
)
RESPONSES_END = responses_event("completed", response={"status": "completed", "output": []})


class Service(socketserver.StreamRequestHandler):
    """Answers by path; the part before the API's own path says how."""

    disable_nagle_algorithm = True

    def handle(self) -> None:
        while line := self.rfile.readline():
            length = 0
            while (header := self.rfile.readline()) not in (b"\r\n", b""):
                name, _, value = header.partition(b":")
                if name.lower() == b"content-length":
                    length = int(value)
            body = self.rfile.read(length)
            self.wfile.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
            )
            how, _, path = line.split()[1].strip(b"/").partition(b"/")
            delta, end = (
                (CHAT_DELTA, CHAT_END) if path == b"chat/completions" else (RESPONSES_DELTA, RESPONSES_END)
            )
            getattr(self, how.decode())(delta, end, body)
            self.chunk(b"")

    def chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def one(self, delta: bytes, end: bytes, body: bytes) -> None:
        """A short answer."""
        self.chunk(delta + end)

    def each(self, delta: bytes, end: bytes, body: bytes) -> None:
        """Each event in a write of its own, slowly enough for most to be read alone, as from a model."""
        for _ in range(DELTAS):
            self.chunk(delta)
            time.sleep(0.0001)
        self.chunk(end)

    def many(self, delta: bytes, end: bytes, body: bytes) -> None:
        """Many events in a write, as from a proxy that collects them."""
        for _ in range(DELTAS // 50):
            self.chunk(delta * 50)
        self.chunk(end)

    def tools(self, delta: bytes, end: bytes, body: bytes) -> None:
        """A tool call, until the request has enough results."""
        number = body.count(b'"role":"tool"') + body.count(b'"role": "tool"')
        if number >= ROUNDS:
            self.chunk(delta + end)
            return
        opening = {"index": 0, "id": f"call_{number}", "type": "function", "function": {"name": "add"}}
        arguments = [
            {"index": 0, "function": {"arguments": part}} for part in ('{"left": 2,', ' "right": 3}')
        ]
        for fragment in (opening, *arguments):
            self.chunk(chat_chunk({"tool_calls": [fragment]}))
        self.chunk(chat_chunk({}, "tool_calls") + b"data: [DONE]\n\n")


def serve() -> None:
    socketserver.ThreadingTCPServer.daemon_threads = True
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Service) as server:
        print(server.server_address[1], flush=True)
        server.serve_forever()


@contextmanager
def service() -> Generator[str, None, None]:
    with subprocess.Popen([sys.executable, __file__, "serve"], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.terminate()


# -- measuring ----------------------------------------------------------------------------------------------


async def compare(
    *works: Callable[[], Awaitable[object]], repetitions: int = REPETITIONS
) -> list[list[float]]:
    """Return the CPU seconds of several pieces of work, done by turns."""
    results = [await work() for work in works]  # warm up
    assert all(result == results[0] for result in results), "both do the same work"
    samples: list[list[float]] = [[] for _ in works]
    for _ in range(repetitions):
        for index, work in enumerate(works):
            gc.collect()
            began = time.process_time()
            await work()
            samples[index].append(time.process_time() - began)
    return samples


def report(label: str, mine: list[float], floor: list[float], unit: float, name: str, aim: str) -> None:
    ratios = [m / f for m, f in zip(mine, floor, strict=True)]
    print(
        f"{label}: {median(mine) * unit:.2f} {name} against {median(floor) * unit:.2f} {name}, "
        f"ratio {median(ratios):.2f} ({min(ratios):.2f}..{max(ratios):.2f}), {aim}",
        flush=True,
    )


# -- (a) text deltas ----------------------------------------------------------------------------------------

REQUEST = ModelRequest([UserMessage(content="go")])
BODY = {"model": "m", "messages": [{"role": "user", "content": "go"}], "stream": True}


async def text_deltas(base: str) -> None:
    for label, how, response in (
        ("one event a read", "each", False),
        ("many events a read", "many", False),
        ("many events a read, Responses", "many", True),
    ):
        url = f"{base}/{how}/{'responses' if response else 'chat/completions'}"
        async with (
            httpx.AsyncClient(timeout=60) as client,
            OpenAICompatibleProvider(
                model="m", api_key="k", base_url=f"{base}/{how}", response=response
            ) as provider,
        ):

            async def bare(client: httpx.AsyncClient = client, url: str = url) -> str:
                text = ""
                async with client.stream("POST", url, json=BODY) as answer:
                    async for line in answer.aiter_lines():
                        if line.startswith("data: ") and line != "data: [DONE]":
                            data = json.loads(line[6:])
                            if choices := data.get("choices"):
                                text += choices[0]["delta"].get("content") or ""
                            else:
                                text += data.get("delta") or ""
                return text

            async def ours(provider: OpenAICompatibleProvider = provider) -> str:
                text = ""
                async for event in provider.stream(REQUEST):
                    if event.type is ModelEventType.TEXT_DELTA:
                        text += event.delta
                return text

            # The first kind takes long, because its service does.
            floor, mine = await compare(bare, ours, repetitions=5 if how == "each" else REPETITIONS)
            report(f"(a) text delta, {label}", mine, floor, 1e6 / DELTAS, "us", "aim at most 1.6")


# -- (b) a fresh process ------------------------------------------------------------------------------------

BARE_START = """
import asyncio, json, time
import httpx
async def main():
    async with httpx.AsyncClient({options}) as client:
        body = {{"model": "m", "messages": [{{"role": "user", "content": "go"}}], "stream": True}}
        text = ""
        async with client.stream("POST", "{base}/one/chat/completions", json=body) as answer:
            async for line in answer.aiter_lines():
                if line.startswith("data: ") and line != "data: [DONE]":
                    text += json.loads(line[6:])["choices"][0]["delta"].get("content") or ""
        assert text == "word ", text
asyncio.run(main())
print(time.process_time())
"""

PROVIDER_START = """
import asyncio, time
from zett_agent.messages import UserMessage
from zett_agent.model import ModelRequest
from zett_agent.providers import OpenAICompatibleProvider
async def main():
    async with OpenAICompatibleProvider(model="m", api_key="k", base_url="{base}/one") as provider:
        text = ""
        async for event in provider.stream(ModelRequest([UserMessage(content="go")])):
            text += event.delta
        assert text == "word ", text
asyncio.run(main())
print(time.process_time())
"""

AGENT_START = """
import asyncio, time
from zett_agent import Agent, OpenAICompatibleProvider
async def main():
    async with OpenAICompatibleProvider(model="m", api_key="k", base_url="{base}/one") as provider:
        answer = await (await Agent.create(provider)).run("go")
        assert answer.content == "word ", answer
asyncio.run(main())
print(time.process_time())
"""


def fresh_process(code: str, base: str, **options: str) -> float:
    """Return the CPU seconds that a new process reports, its own start included."""
    script = code.format(base=base, **options)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return float(done.stdout)


def first_answers(base: str) -> None:
    works: list[tuple[str, dict[str, str]]] = [
        (BARE_START, {"options": ""}),
        (BARE_START, {"options": "verify=False"}),
        (PROVIDER_START, {}),
        (AGENT_START, {}),
    ]
    samples: list[list[float]] = [[] for _ in works]
    for repetition in range(REPETITIONS + 1):
        for index, (code, options) in enumerate(works):
            seconds = fresh_process(code, base, **options)
            if repetition:  # the first round compiles and fills the disk cache
                samples[index].append(seconds)
    floor, no_tls, provider, agent = samples
    report("(b) process start to first answer, adapter", provider, floor, 1e3, "ms", "aim at most 1.6")
    report("(b) process start to first answer, agent", agent, floor, 1e3, "ms", "aim at most 1.6")
    report("    the agent against httpx with verify=False", agent, no_tls, 1e3, "ms", "no aim")


# -- (c) tool rounds ----------------------------------------------------------------------------------------


def add(left: int, right: int) -> int:
    """Add two integers.

    Guidelines:
        - Use it for sums.
    """
    return left + right


async def tool_rounds(base: str) -> None:
    schema = {
        "type": "object",
        "properties": {"left": {"type": "integer"}, "right": {"type": "integer"}},
        "required": ["left", "right"],
    }
    function = {"name": "add", "description": "Add two integers.", "parameters": schema}
    async with (
        httpx.AsyncClient(timeout=60) as client,
        OpenAICompatibleProvider(model="m", api_key="k", base_url=f"{base}/tools") as provider,
    ):
        agent = await Agent.create(provider, tools=[tool(add)], max_iterations=ROUNDS + 1)

        async def ask(messages: list[dict[str, Any]]) -> dict[str, Any]:
            body = {**BODY, "messages": messages, "tools": [{"type": "function", "function": function}]}
            call: dict[str, Any] = {"type": "function", "function": {"name": "", "arguments": ""}}
            text = ""
            async with client.stream("POST", f"{base}/tools/chat/completions", json=body) as answer:
                async for line in answer.aiter_lines():
                    if line.startswith("data: ") and line != "data: [DONE]":
                        delta = json.loads(line[6:])["choices"][0]["delta"]
                        text += delta.get("content") or ""
                        for fragment in delta.get("tool_calls", ()):
                            call["id"] = fragment.get("id") or call["id"]
                            for key, value in fragment["function"].items():
                                call["function"][key] += value
            calls = {"tool_calls": [call]} if "id" in call else {}
            return {"role": "assistant", "content": text or None, **calls}

        async def bare() -> str:
            messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
            while True:
                answer = await ask(messages)
                messages.append(answer)
                if "tool_calls" not in answer:
                    return answer["content"]
                for call in answer["tool_calls"]:
                    result = str(add(**json.loads(call["function"]["arguments"])))
                    messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})

        async def ours() -> str:
            return (await agent.run("go", config=AgentRunConfig())).content

        floor, mine = await compare(bare, ours)
        report(f"(c) run with {ROUNDS} tool rounds", mine, floor, 1e3, "ms", "informative, no aim")


async def main() -> None:
    with service() as base:
        await text_deltas(base)
        first_answers(base)
        await tool_rounds(base)


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["serve"] else asyncio.run(main())
