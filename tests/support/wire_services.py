"""What the wire tests put at both ends of an adapter: its class, and services that answer from records."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

import zett_agent.providers
from support.http_service import OK_STREAM, Exchange, Script
from support.spec_data import event_data, pieces
from zett_agent.model import ModelRequest, RetryOptions
from zett_agent.providers import OpenAICompatibleProvider
from zett_agent.providers.base import ProviderError

__all__ = [
    "NO_RETRY",
    "OK",
    "STAND_INS",
    "Answer",
    "RecordingTransport",
    "adapter",
    "chat",
    "consume",
    "cut",
    "serve",
]

Piece = bytes | float | str
"""Bytes of one network read, seconds to wait, or the name of an httpx failure."""


# -- adapters ---------------------------------------------------------------------------------------------

# For recordings of adapters that do not exist yet, where the behaviour is that of the common base. A row goes
# when its class comes: a test of test_streams.py says so.
STAND_INS: dict[str, dict[str, Any]] = {
    "OpenAIProvider": {"provider_name": "openai", "default_base_url": "https://api.openai.com/v1"},
    "GroqProvider": {"provider_name": "groq", "default_base_url": "https://api.groq.com/openai/v1"},
    "KimiProvider": {"provider_name": "kimi", "default_base_url": "https://api.moonshot.ai/v1"},
    "MiniMaxProvider": {"provider_name": "minimax", "default_base_url": "https://api.minimax.io/v1"},
    "MistralProvider": {"provider_name": "mistral", "default_base_url": "https://api.mistral.ai/v1"},
    "OpenRouterProvider": {
        "provider_name": "openrouter",
        "default_base_url": "https://openrouter.ai/api/v1",
        "reasoning_keys": ("reasoning", "reasoning_content"),
    },
    "XAIProvider": {"provider_name": "xai", "default_base_url": "https://api.x.ai/v1"},
}


def adapter(name: str) -> Any:
    """Return the adapter class of that name, or its stand-in."""
    if name in zett_agent.providers.__all__:
        return getattr(zett_agent.providers, name)
    return type(name, (OpenAICompatibleProvider,), STAND_INS[name])


async def consume(provider: Any, request: ModelRequest) -> tuple[list[dict[str, Any]], ProviderError | None]:
    """Return the events of one answer, as the recordings write them, and the error that ended it."""
    events: list[dict[str, Any]] = []
    try:
        async for event in provider.stream(request):
            events.append(event_data(event))
    except ProviderError as error:
        return events, error
    return events, None


# -- answers ----------------------------------------------------------------------------------------------


@dataclass
class Answer:
    """What a service answers: a status, a content type and the pieces of the body."""

    body: Sequence[Piece] = ()
    status: int = 200
    content_type: str | None = "text/event-stream"
    headers: dict[str, str] = field(default_factory=dict)

    @classmethod
    def recorded(cls, http: dict[str, Any]) -> Answer:
        return cls(pieces(http), http["status"], http["content_type"])

    @classmethod
    def json(cls, status: int, body: Any) -> Answer:
        return cls([json.dumps(body).encode()], status, "application/json")


OK = Answer([OK_STREAM])
NO_RETRY = RetryOptions(0, 0, 0)


def chat(*chunks: Any, done: bool = True) -> Answer:
    """Return a chat stream: a string is text, a list fragments of `tool_calls`, a dictionary a chunk."""
    body = [b"data: " + json.dumps(_chunk(chunk)).encode() + b"\n\n" for chunk in chunks]
    return Answer([*body, b"data: [DONE]\n\n"] if done else body)


def _chunk(chunk: Any) -> dict[str, Any]:
    match chunk:
        case str():
            delta: dict[str, Any] = {"content": chunk}
        case list():
            delta = {"tool_calls": chunk}
        case _:
            return chunk
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


def cut(body: Sequence[Piece], how: str) -> list[Piece]:
    """Cut a body into other reads: `as recorded`, `line by line`, `single bytes`; failures stay in place."""
    if how == "as recorded":
        return list(body)
    found: list[Piece] = []
    whole = b""
    for piece in [*body, b""]:
        if isinstance(piece, bytes) and piece:
            whole += piece
            continue
        found += (
            whole.splitlines(keepends=True) if how == "line by line" else [bytes([byte]) for byte in whole]
        )
        whole = b""
        if not isinstance(piece, bytes):
            found.append(piece)
    return found


class RecordingTransport(httpx.AsyncBaseTransport):
    """Answers its n-th request with its n-th answer, further ones with the last, and keeps the requests."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = answers or (OK,)
        self.requests: list[httpx.Request] = []
        self.closed = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        answer = self._answers[min(len(self.requests), len(self._answers) - 1)]
        await request.aread()
        self.requests.append(request)
        headers = dict(answer.headers)
        if answer.content_type is not None:
            headers["content-type"] = answer.content_type
        return httpx.Response(answer.status, headers=headers, stream=_Body(answer.body))

    async def aclose(self) -> None:
        self.closed = True

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(request.content) for request in self.requests]

    @property
    def body(self) -> dict[str, Any]:
        return self.bodies[-1]


class _Body(httpx.AsyncByteStream):
    def __init__(self, body: Sequence[Piece]) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._body:
            match piece:
                case bytes():
                    yield piece
                case str():
                    raise getattr(httpx, piece.removeprefix("httpx."))("the connection broke")
                case _:
                    await asyncio.sleep(piece)


def serve(answer: Answer) -> Script:
    """Return the script that gives this answer over a real connection; a failure becomes a reset."""

    async def script(exchange: Exchange) -> None:
        await exchange.start(answer.status, answer.content_type, **answer.headers)
        for piece in answer.body:
            match piece:
                case bytes():
                    await exchange.chunk(piece)
                case str():
                    await asyncio.sleep(0.05)  # else the reset overtakes what was sent
                    exchange.reset()
                    return
                case _:
                    await asyncio.sleep(piece)
        await exchange.end()

    return script
