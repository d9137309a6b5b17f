"""The smallest provider over the shared transport: each event of the stream is `{"text": ...}`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from zett_agent.messages import AssistantMessage, UserMessage
from zett_agent.model import (
    DEFAULT_RETRY_OPTIONS,
    DEFAULT_TIMEOUT_OPTIONS,
    ModelEvent,
    ModelRequest,
    ModelResponse,
    RetryOptions,
    TimeoutOptions,
)
from zett_agent.providers._client import ProviderClient, StatusFailure
from zett_agent.providers.base import (
    RetryingProvider,
    require_api_key,
    retry_model_stream,
    status_error,
    with_status_details,
)

OK = b'data: {"text": "x"}\n\ndata: [DONE]\n\n'
REQUEST = ModelRequest(messages=[UserMessage(content="hi")])


class TinyProvider(RetryingProvider):
    provider_name = "tiny"

    def __init__(
        self,
        base_url: str = "http://tiny.example/v1",
        *,
        api_key: str = "test-key",
        transport: Any = None,
        headers: dict[str, str] | None = None,
        query: dict[str, str] | None = None,
        retry: RetryOptions = DEFAULT_RETRY_OPTIONS,
        timeout: TimeoutOptions = DEFAULT_TIMEOUT_OPTIONS,
        lines: bool = False,
        first_chunk: bool = False,
    ) -> None:
        super().__init__(retry=retry, timeout=timeout)
        self.model = "tiny-1"
        self._lines = lines
        self._first_chunk = first_chunk
        self._client = ProviderClient(
            provider="tiny",
            base_url=base_url,
            headers={"authorization": f"Bearer {require_api_key(api_key)}", **(headers or {})},
            query=query,
            transport=transport,
            secrets=[api_key],
        )

    @retry_model_stream
    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        assert self._client is not None
        text = ""
        try:
            async with self._client.post(
                "/chat", b'{"stream": true}', timeout=self.timeout, first_chunk=self._first_chunk
            ) as response:
                async for batch in response.json_lines() if self._lines else response.batches():
                    for event in batch:
                        text += event["text"]
                        yield ModelEvent.text(event["text"])
                if response.empty:
                    raise response.empty_error()
        except StatusFailure as failure:
            raise with_status_details(status_error("tiny", failure), failure) from failure
        yield ModelEvent.completed(ModelResponse(AssistantMessage(content=text)))


async def collect(provider: Any, request: ModelRequest = REQUEST) -> str:
    """Return the text of one answer."""
    text = ""
    async for event in provider.stream(request):
        text += event.delta
    return text
