"""The Responses wire: writing its requests and reading its answers, without any HTTP.

The adapters that speak it (`response=True`) send what `responses_request` returns, and read what comes back
with the decoder behind `stream_responses`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from ..messages import (
    AgentMessage,
    AnyMessage,
    AssistantMessage,
    ImageContent,
    SystemMessage,
    ToolMessage,
    UserContent,
    UserContentPart,
    UserMessage,
)
from ..model import ModelEvent, ModelRequest, ReasoningEffort, ServerToolDefinition, ToolDefinition
from ._arguments_text import encode_arguments
from ._images import image_url
from ._names import wire_name
from ._responses_decoder import ResponsesDecoder, ResponsesStreamInterrupted
from ._responses_items import CLIENT_CALLS, is_client_search
from .tool_images import expand_tool_images
from .wire import JsonObject, read_str

__all__ = [
    "ResponsesStreamInterrupted",
    "local_tool_search_name",
    "responses_input",
    "responses_reasoning",
    "responses_request",
    "responses_tools",
    "stream_responses",
]

_TOOL_SEARCH = "tool_search"

_EFFORTS = {
    ReasoningEffort.MINIMAL: "minimal",
    ReasoningEffort.LOW: "low",
    ReasoningEffort.MEDIUM: "medium",
    ReasoningEffort.HIGH: "high",
    ReasoningEffort.XHIGH: "high",
    ReasoningEffort.MAX: "high",
    ReasoningEffort.ULTRA: "high",
}


def responses_request(
    request: ModelRequest,
    *,
    model: str,
    provider_name: str,
    temperature: float | None = None,
    send_prompt_cache_key: bool = False,
    fields: Mapping[str, Any] | None = None,
    wire_id: Callable[[str], str] | None = None,
) -> JsonObject:
    """Return the body of a request, before the caller's own fields (`extra_body`).

    Args:
        request: What to ask.
        model: The service's name of the model.
        provider_name: Name of the adapter; its own earlier turns of the same model are replayed unchanged.
        temperature: Sent when it is not `None`.
        send_prompt_cache_key: Whether the request's `cache_key` is sent.
        fields: What the adapter adds. It replaces a standard field of the same name, and with `None` leaves
            that field out.
        wire_id: Turns the id of a call into one that the service accepts, for calls and their results alike.

    Raises:
        ValueError: Two tools answer tool search, one does so beside a hosted search, or a search result is
            not a list of function definitions.

    Example:
        >>> request = ModelRequest([UserMessage(content="hi")])
        >>> body = responses_request(request, model="m", provider_name="acme")
        >>> body["input"], body["store"]
        ([{'role': 'user', 'content': 'hi'}], False)
    """
    tools = responses_tools(request.tools, request.server_tools)
    body: JsonObject = {
        "model": model,
        "input": responses_input(
            request.messages, provider=provider_name, model=model, tools=request.tools, wire_id=wire_id
        ),
        "stream": True,
        # Nothing is kept at the service, so every request brings the whole conversation.
        "store": False,
        "parallel_tool_calls": request.parallel_tool_call,
    }
    if tools:
        body["tools"] = tools
    if temperature is not None:
        body["temperature"] = temperature
    if request.tool_choice is not None:
        body["tool_choice"] = _tool_choice(request.tool_choice, request.server_tools)
    reasoning = responses_reasoning(request.reasoning_effort)
    if reasoning is not None:
        body["reasoning"] = reasoning
        body["include"] = ["reasoning.encrypted_content"]
    if send_prompt_cache_key and request.cache_key is not None:
        body["prompt_cache_key"] = request.cache_key
    for name, value in (fields or {}).items():
        if value is None:
            body.pop(name, None)
        else:
            body[name] = value
    return body


def _tool_choice(name: str, server_tools: Iterable[ServerToolDefinition]) -> JsonObject:
    if any(tool.type == name for tool in server_tools):
        return {"type": name}
    return {"type": "function", "name": name}


def responses_reasoning(effort: ReasoningEffort) -> JsonObject | None:
    """Return the standard reasoning object, or `None` when the model should not be asked to think.

    Example:
        >>> responses_reasoning(ReasoningEffort.MAX)
        {'effort': 'high', 'summary': 'auto'}
    """
    name = _EFFORTS.get(effort)
    return None if name is None else {"effort": name, "summary": "auto"}


# -- tools ----------------------------------------------------------------------------------------------


def local_tool_search_name(tools: Iterable[ToolDefinition]) -> str | None:
    """Return the name of the tool that answers the model's tool search, if there is one.

    Raises:
        ValueError: There are several.
    """
    names = [tool.name for tool in tools if tool.local_tool_search]
    if len(names) > 1:
        raise ValueError(f"Only one tool can answer tool search, not {len(names)}: {', '.join(names)}.")
    return names[0] if names else None


def responses_tools(
    tools: Sequence[ToolDefinition], server_tools: Sequence[ServerToolDefinition] = ()
) -> list[JsonObject]:
    """Return the declarations of function tools, hosted tools and tool search, in this order.

    Deferred functions are found by the local search tool, by a hosted search among `server_tools`, or, when
    there is neither, by a hosted search that is added for them.

    Raises:
        ValueError: Two tools answer tool search, or one does so beside a hosted search.
    """
    local = local_tool_search_name(tools)
    hosted = any(tool.type == _TOOL_SEARCH for tool in server_tools)
    if local is not None and hosted:
        raise ValueError(f"The tool {local!r} and a hosted {_TOOL_SEARCH!r} cannot both answer tool search.")
    entries = [_function(tool) for tool in tools if not tool.local_tool_search]
    entries += [{"type": tool.type, **tool.configuration} for tool in server_tools]
    entries += [_client_search(tool) for tool in tools if tool.local_tool_search]
    if local is None and not hosted and any(tool.deferred for tool in tools):
        entries.append({"type": _TOOL_SEARCH})
    return entries


def _function(tool: ToolDefinition) -> JsonObject:
    entry: JsonObject = {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": None,
    }
    if tool.deferred:
        entry["defer_loading"] = True
    return entry


def _client_search(tool: ToolDefinition) -> JsonObject:
    return {
        "type": _TOOL_SEARCH,
        "execution": "client",
        "description": tool.description,
        "parameters": tool.parameters,
    }


# -- messages -------------------------------------------------------------------------------------------


def responses_input(
    messages: Sequence[AnyMessage],
    *,
    provider: str,
    model: str,
    tools: Sequence[ToolDefinition] = (),
    wire_id: Callable[[str], str] | None = None,
) -> list[JsonObject]:
    """Return the conversation as input items.

    Args:
        messages: The conversation.
        provider: Name of the adapter that asks.
        model: Its model. Turns of both are replayed from their `replay_blocks`; all others are written anew
            from their text and calls.
        tools: Tools of the request; their names are sent as they are.
        wire_id: See `responses_request`.

    Raises:
        ValueError: Two tools answer tool search, or a search result is not a list of function definitions.
    """
    writer = _InputWriter(provider, model, tools, wire_id)
    items: list[JsonObject] = []
    for message in expand_tool_images(messages):
        items += writer.items(message)
    return items


class _InputWriter:
    """Writes the items of one request."""

    def __init__(
        self, provider: str, model: str, tools: Sequence[ToolDefinition], wire_id: Callable[[str], str] | None
    ) -> None:
        self._provider = provider
        self._model = model
        self._names = {tool.name for tool in tools}
        self._search_tool = local_tool_search_name(tools)
        self._wire_id = wire_id
        # Calls that the service itself knows as a search, and answers of which it therefore wants as such.
        self._searches: set[str] = set()

    def items(self, message: AnyMessage) -> list[JsonObject]:
        match message:
            case SystemMessage():
                return [{"role": "system", "content": message.content}]
            case UserMessage():
                return [{"role": "user", "content": _content(message.content)}]
            case AgentMessage():
                return [{"role": "user", "content": message.content}]
            case AssistantMessage():
                return self._replayed(message) or self._written(message)
            case ToolMessage():
                return [self._result(message)]

    def _written(self, message: AssistantMessage) -> list[JsonObject]:
        items: list[JsonObject] = []
        if message.content:
            items.append({"role": "assistant", "content": message.content})
        for call in message.tool_calls:
            items.append(
                {
                    "type": "function_call",
                    "call_id": self._id(call.id),
                    "name": wire_name(call.name, self._names),
                    "arguments": encode_arguments(call),
                }
            )
        return items

    def _replayed(self, message: AssistantMessage) -> list[JsonObject]:
        if message.provider != self._provider or message.model != self._model:
            return []
        blocks = list(message.replay_blocks)
        # The service refuses reasoning that leads to nothing.
        while blocks and blocks[-1].get("type") == "reasoning":
            blocks.pop()
        return [self._replayed_item(block) for block in blocks]

    def _replayed_item(self, block: Mapping[str, Any]) -> JsonObject:
        """Return a stored item, changed only where the service would refuse it."""
        item = cast(JsonObject, block)
        kind = read_str(block.get("type"))
        if kind == "reasoning" and not isinstance(block.get("summary"), list):
            item = {**item, "summary": list[Any]()}
        call_id = read_str(block.get("call_id"))
        if is_client_search(block):
            self._searches.add(call_id)
        if call_id and (sent := self._id(call_id)) != call_id:
            item = {**item, "call_id": sent}
        if kind in CLIENT_CALLS:
            name = read_str(block.get("name"))
            if (sent := wire_name(name, self._names)) != name:
                item = {**item, "name": sent}
        return item

    def _result(self, message: ToolMessage) -> JsonObject:
        call_id = self._id(message.tool_call_id)
        if message.name == self._search_tool or message.tool_call_id in self._searches:
            return {
                "type": "tool_search_output",
                "call_id": call_id,
                "execution": "client",
                "status": "completed",
                # A search that failed has found nothing, and the model goes on without.
                "tools": _found_tools(message) if message.success else [],
            }
        return {"type": "function_call_output", "call_id": call_id, "output": message.text}

    def _id(self, call_id: str) -> str:
        return call_id if self._wire_id is None else self._wire_id(call_id)


def _content(content: UserContent) -> str | list[JsonObject]:
    return content if isinstance(content, str) else [_part(part) for part in content]


def _part(part: UserContentPart) -> JsonObject:
    if isinstance(part, ImageContent):
        return {"type": "input_image", "image_url": image_url(part.source), "detail": part.detail.value}
    return {"type": "input_text", "text": part.text}


def _found_tools(message: ToolMessage) -> list[JsonObject]:
    """Return the function definitions that a search tool found, as it wrote them."""
    try:
        found: Any = json.loads(message.text)
    except (ValueError, RecursionError) as cause:
        raise _bad_search_result(message.name, "it is not valid JSON") from cause
    if not isinstance(found, list):
        raise _bad_search_result(message.name, "it is not a list")
    definitions: list[JsonObject] = []
    for entry in cast("list[Any]", found):
        definition = cast(JsonObject, entry) if isinstance(entry, dict) else {}
        if not read_str(definition.get("name")) or not isinstance(definition.get("parameters"), dict):
            raise _bad_search_result(message.name, "an entry lacks its name or its parameters")
        if definition.get("type", "function") != "function":
            raise _bad_search_result(message.name, f"it has an entry of type {definition['type']!r}")
        definitions.append({"type": "function", **definition})
    return definitions


def _bad_search_result(tool: str, reason: str) -> ValueError:
    return ValueError(f"The result of {tool!r} must be a JSON list of function definitions, but {reason}.")


# -- answers --------------------------------------------------------------------------------------------


async def stream_responses(
    batches: AsyncIterator[Sequence[Mapping[str, Any]]],
    *,
    provider_name: str,
    model: str,
    search_tool: str | None = None,
) -> AsyncIterator[ModelEvent]:
    """Turn the JSON objects of an event stream into model events, up to the response.

    Args:
        batches: The objects, as many at a time as have come; closed at the end, if it is a generator.
        provider_name: Stored on the message.
        model: The same.
        search_tool: Name of the tool that answers tool search; see `local_tool_search_name`.

    Raises:
        ProviderError: The service reported a failure before it said anything, or the stream ended too early.
    """
    decoder = ResponsesDecoder(provider_name=provider_name, model=model, search_tool=search_tool)
    try:
        async for batch in batches:
            for data in batch:
                for event in decoder.feed(data):
                    yield event
                if decoder.finished:
                    return
        for event in decoder.finish():
            yield event
    finally:
        close = getattr(batches, "aclose", None)
        if close is not None:
            await close()
