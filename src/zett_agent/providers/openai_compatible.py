"""The Chat Completions and Responses wires, and the base of every adapter that speaks them."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Collection, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from .._text import encodable
from ..json_types import JsonValue
from ..messages import AssistantMessage
from ..model import (
    DEFAULT_RETRY_OPTIONS,
    DEFAULT_TIMEOUT_OPTIONS,
    ModelEvent,
    ModelRequest,
    ModelResponse,
    ModelUsage,
    ReasoningEffort,
    RetryOptions,
    TimeoutOptions,
    validate_response,
)
from ..stop import StopInfo
from ._chat_decoder import ChatDecoder, ChatDelta, content_parts, default_chat_stop, tool_call_deltas
from ._chat_payload import (
    ChatMessagePayload,
    chat_image,
    chat_message,
    chat_messages,
    chat_server_tools,
    chat_tool_choice,
    chat_tools,
)
from ._client import ProviderClient, StatusFailure, StreamResponse
from ._option_fallback import MAX_FALLBACKS, OptionMemory
from ._service_text import service_json
from .base import (
    ProviderError,
    ProviderRefusalError,
    ProviderResponseError,
    RetryingProvider,
    reject_local_tool_search,
    require_api_key,
    require_base_url,
    retry_model_stream,
    status_error,
    usage_from_mapping,
    validate_extra_body,
    validate_extra_headers,
    validate_extra_query,
    with_status_details,
)
from .stop_reasons import refusal_from_status_error
from .wire import JsonObject, read_object, read_str

if TYPE_CHECKING:
    import httpx

__all__ = [
    "ChatDelta",
    "ChatMessagePayload",
    "OpenAICompatibleProvider",
    "chat_image",
    "chat_message",
    "chat_server_tools",
    "chat_tools",
    "chunk_data",
    "default_chat_stop",
    "low_medium_high",
    "tool_call_deltas",
]

_CHAT_PATH = "/chat/completions"
_RESPONSES_PATH = "/responses"


class _Decoder(Protocol):
    finished: bool

    def feed(self, data: JsonObject, /) -> list[ModelEvent]: ...

    def end(self, response: StreamResponse, /) -> list[ModelEvent]: ...


class OpenAICompatibleProvider(RetryingProvider):
    """Adapter for any service with OpenAI's Chat Completions or Responses API.

    A subclass for a vendor sets the class attributes and overrides hooks; it states only how the vendor
    differs.

    Args:
        model: Sent as it is.
        api_key: Sent as bearer token, to the host of `base_url` only.
        base_url: Root of the API, with or without a trailing slash.
        transport: Replaces the network; `aclose` closes it.
        temperature: Sent when it is not `None`.
        response: Use the Responses API instead of Chat Completions.
        retry: How failed requests are repeated.
        send_prompt_cache_key: Whether the session is named to the service's prompt cache.
        extra_headers: Sent over the adapter's own headers.
        extra_query: Added to every address.
        extra_body: Merged last into every body, replacing fields of the same name.
        timeout: Time limits.

    Attributes:
        reasoning_keys: Fields of a delta that may hold reasoning; the first with text wins.
        default_base_url: API root when none is given.
        sends_prompt_cache_key: Default of `send_prompt_cache_key`.
        sends_stream_options: Whether usage is asked for in the stream.
        requires_terminator: Whether an answer without finish reason and end mark counts as cut off.
        option_fallback: Whether optional fields that a model refuses are left out of later requests.
        blank_reasoning: Whether assistant messages without reasoning get a blank one while the model thinks.

    Raises:
        ValueError: An argument is missing or malformed.

    Example:
        >>> model = OpenAICompatibleProvider(model="m", api_key="k", base_url="http://localhost:8000/v1")
        >>> model
        OpenAICompatibleProvider(model='m', host='localhost')
    """

    provider_name: ClassVar[str] = "openai"
    reasoning_keys: ClassVar[tuple[str, ...]] = ("reasoning_content", "reasoning")
    default_base_url: ClassVar[str | None] = None
    sends_prompt_cache_key: ClassVar[bool] = True
    sends_stream_options: ClassVar[bool] = True
    requires_terminator: ClassVar[bool] = True
    option_fallback: ClassVar[bool] = True
    blank_reasoning: ClassVar[bool] = False

    def __init__(
        self,
        *,
        model: str,
        api_key: str,
        base_url: str | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        temperature: float | None = None,
        response: bool = False,
        retry: RetryOptions = DEFAULT_RETRY_OPTIONS,
        send_prompt_cache_key: bool | None = None,
        extra_headers: Mapping[str, str] | None = None,
        extra_query: Mapping[str, str] | None = None,
        extra_body: Mapping[str, JsonValue] | None = None,
        timeout: TimeoutOptions = DEFAULT_TIMEOUT_OPTIONS,
    ) -> None:
        super().__init__(retry=retry, timeout=timeout)
        key = require_api_key(api_key)
        self.model = model
        self.response = validate_response(response)
        self.temperature = temperature
        self.send_prompt_cache_key = (
            self.sends_prompt_cache_key if send_prompt_cache_key is None else send_prompt_cache_key
        )
        self.extra_headers = validate_extra_headers(extra_headers)
        self.extra_query = validate_extra_query(extra_query)
        self.extra_body = validate_extra_body(extra_body)
        self._options = OptionMemory()
        self._client = self._http = ProviderClient(
            provider=self.provider_name,
            base_url=require_base_url(base_url, self.default_base_url),
            headers={"Authorization": f"Bearer {key}", **self.vendor_headers(), **self.extra_headers},
            query=self.extra_query,
            transport=transport,
            secrets=[key],
        )

    # The hooks of subclasses.

    def vendor_headers(self) -> dict[str, str]:
        """Return further headers; called once, during construction."""
        return {}

    def request_fields(self, request: ModelRequest) -> dict[str, Any]:
        """Return the vendor's fields of a chat request, over the standard ones and under `extra_body`."""
        if request.reasoning_effort is ReasoningEffort.OFF:
            return {}
        return {"reasoning_effort": request.reasoning_effort.value}

    def responses_fields(self, request: ModelRequest) -> dict[str, Any]:
        """Return the vendor's fields of a Responses request; they go where `request_fields` go in a chat."""
        return {}

    def replay_reasoning(self, message: AssistantMessage, payload: ChatMessagePayload) -> None:
        """Add to `payload` what the service wants back of its own earlier answer."""
        if message.reasoning is not None and message.provider in (self.provider_name, None):
            payload["reasoning_content"] = message.reasoning

    def read_delta(self, delta: JsonObject) -> ChatDelta:
        """Return what the `delta` of a chunk adds to the answer."""
        text, reasoning = content_parts(delta.get("content"))
        if not reasoning:
            reasoning = next(
                (found for key in self.reasoning_keys if (found := read_str(delta.get(key)))), ""
            )
        calls = tool_call_deltas(delta.get("tool_calls"))
        legacy = read_object(delta.get("function_call"))
        if legacy:
            calls = (*calls, {"index": 0, "function": legacy})
        return ChatDelta(text, reasoning, read_str(delta.get("refusal")), calls)

    def merge_replay(self, blocks: list[JsonObject], fragment: JsonObject) -> None:
        """Add a fragment of `ChatDelta.replay` to the blocks of the answer."""
        blocks.append(fragment)

    def read_usage(self, usage: JsonObject) -> ModelUsage:
        """Return the token counts in a usage object."""
        return usage_from_mapping(usage)

    def chat_stop(
        self,
        finish_reason: str | None,
        *,
        has_tool_calls: bool,
        refusal_text: str,
        stream_error: JsonObject | None,
        native_finish_reason: str | None,
    ) -> StopInfo:
        """Return how the answer ended; called once, at its end."""
        return default_chat_stop(
            finish_reason,
            has_tool_calls=has_tool_calls,
            refusal_text=refusal_text,
            stream_error=stream_error,
            native_finish_reason=native_finish_reason,
        )

    def status_error(self, error: Any) -> ProviderError:
        """Return the error for an HTTP failure; a `ProviderRefusalError` becomes a normal answer.

        `error` has `status_code`, `body` (the parsed `error` object, else the parsed body, else text or
        `None`), `message` and `response`.
        """
        refusal = refusal_from_status_error(error.status_code, error.body)
        return (
            ProviderRefusalError(refusal) if refusal is not None else status_error(self.provider_name, error)
        )

    # The stream.

    @retry_model_stream
    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Answer one request.

        Deltas come as the service sends them, then the response. Closing or cancelling the iterator closes
        the connection.

        Raises:
            ValueError: The request asks for something this wire does not have.
            ProviderError: The service, or the way to it, failed.
        """
        for attempt in range(MAX_FALLBACKS + 1):
            body = self._body(request)
            try:
                async with self._http.post(self._path, self._encode(body), timeout=self.timeout) as response:
                    decoder = self._decoder(request)
                    async for batch in response.batches():
                        for data in batch:
                            for event in decoder.feed(data):
                                yield event
                        if decoder.finished:
                            break
                    last = decoder.end(response)
                for event in last:
                    yield event
                return
            except StatusFailure as failure:
                if attempt < MAX_FALLBACKS and self._learn(failure, body):
                    continue
                error = with_status_details(self.status_error(failure), failure)
                if not isinstance(error, ProviderRefusalError):
                    raise error from failure
                refusal = error.stop
            yield self._refusal(refusal)
            return

    @property
    def _path(self) -> str:
        return _RESPONSES_PATH if self.response else _CHAT_PATH

    def _decoder(self, request: ModelRequest) -> _Decoder:
        if not self.response:
            return _ChatStream(self)
        from ._responses_stream import ResponsesStream

        return ResponsesStream(self, request)

    # The body.

    def _body(self, request: ModelRequest) -> JsonObject:
        body = self._responses_body(request) if self.response else self._chat_body(request)
        if self.option_fallback:
            self._options.apply(self.model, body)
        body.update(self.extra_body)
        return body

    def _chat_body(self, request: ModelRequest) -> JsonObject:
        reject_local_tool_search("Chat Completions", request.tools)
        thinking = request.reasoning_effort is not ReasoningEffort.OFF

        def finish_assistant(message: AssistantMessage, payload: ChatMessagePayload) -> None:
            self.replay_reasoning(message, payload)
            if self.blank_reasoning and thinking and not payload.get("reasoning_content"):
                payload["reasoning_content"] = " "

        tool_names: Collection[str] = {tool.name for tool in request.tools}
        body: JsonObject = {
            "model": self.model,
            "messages": chat_messages(request.messages, tool_names, finish_assistant),
            "stream": True,
        }
        if self.sends_stream_options:
            body["stream_options"] = {"include_usage": True}
        tools = [*chat_tools(request.tools), *chat_server_tools(request.server_tools)]
        if tools:
            body["tools"] = tools
        if self.temperature is not None:
            body["temperature"] = self.temperature
        if request.tool_choice is not None:
            body["tool_choice"] = chat_tool_choice(request.tool_choice)
        if self.send_prompt_cache_key and request.cache_key:
            body["prompt_cache_key"] = request.cache_key
        body.update(self.request_fields(request))
        return body

    def _responses_body(self, request: ModelRequest) -> JsonObject:
        from .responses import responses_request

        return responses_request(
            request,
            model=self.model,
            provider_name=self.provider_name,
            temperature=self.temperature,
            send_prompt_cache_key=self.send_prompt_cache_key,
            fields=self.responses_fields(request),
        )

    def _encode(self, body: JsonObject) -> bytes:
        try:
            text = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        except (TypeError, ValueError, RecursionError) as cause:
            raise ProviderResponseError(
                f"{self.provider_name}: the request cannot be written as JSON: {cause}; look for it in tool "
                "schemas, tool arguments and extra_body"
            ) from cause
        try:
            return text.encode()
        except UnicodeEncodeError:
            return encodable(text).encode()

    def _learn(self, failure: StatusFailure, body: JsonObject) -> bool:
        return self.option_fallback and self._options.learn(
            self.model,
            failure.status_code,
            failure.body,
            body=body,
            caller_fields=self.extra_body,
        )

    def _redacted(self, error: JsonObject) -> JsonObject:
        """Return an error that a service reported inside its answer, without credentials it may echo."""
        redact = self._http.redact
        clean: JsonObject = service_json(error)
        return {name: redact(value) if isinstance(value, str) else value for name, value in clean.items()}

    def _refusal(self, stop: StopInfo) -> ModelEvent:
        message = AssistantMessage(provider=self.provider_name, model=self.model)
        return ModelEvent.completed(ModelResponse(message, stop.raw, ModelUsage(), stop))


class _ChatStream(ChatDecoder):
    """The chat decoder at the end of a real answer."""

    def end(self, response: StreamResponse) -> list[ModelEvent]:
        if response.empty:
            raise response.empty_error()
        return self.finish(done=response.done)


def low_medium_high(effort: ReasoningEffort) -> str:
    """Return the effort for services that know only these three.

    Example:
        >>> low_medium_high(ReasoningEffort.MAX)
        'high'
    """
    return _LOW_MEDIUM_HIGH.get(effort, "high")


_LOW_MEDIUM_HIGH = {
    ReasoningEffort.OFF: "low",
    ReasoningEffort.MINIMAL: "low",
    ReasoningEffort.LOW: "low",
    ReasoningEffort.MEDIUM: "medium",
}


def chunk_data(chunk: Any) -> JsonObject:
    """Return a chunk as a plain object, whether it is one already or an object of a vendor's SDK."""
    if isinstance(chunk, Mapping):
        return dict(chunk)  # pyright: ignore[reportUnknownArgumentType,reportUnknownVariableType]
    return chunk.model_dump(exclude_unset=True)
