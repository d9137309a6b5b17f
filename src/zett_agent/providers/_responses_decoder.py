"""Reading the answer of the Responses wire. Pure: JSON objects in, model events out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from .._text import encodable, encodable_json
from ..messages import AssistantMessage, ToolCall
from ..model import ModelEvent, ModelResponse, ModelUsage, ServerToolCall, ServerToolResult, ToolCallDelta
from ..stop import StopInfo, StopReason
from ._failures_in_stream import stream_failure
from ._names import UNNAMED_TOOL, unique_call_id
from ._responses_items import (
    arguments_text,
    clean_items,
    hosted_name,
    is_client_search,
    is_hosted,
    item_reasoning,
    item_refusal,
    item_text,
    replay_blocks,
    responses_stop,
    responses_usage,
)
from ._surrogates import SurrogateJoiner
from .base import (
    ProviderResponseError,
    mark_transient,
)
from .stop_reasons import refusal_from_response_error
from .tool_arguments import tool_call_from_arguments
from .wire import JsonObject, read_int, read_object, read_objects, read_str

__all__ = ["ResponsesDecoder", "ResponsesStreamInterrupted"]

_TEXT = "response.output_text.delta"
_REFUSAL = "response.refusal.delta"
_ARGUMENTS = "response.function_call_arguments.delta"
_REASONING = ("response.reasoning_text.delta", "response.reasoning_summary_text.delta")

_FAILED_STATES = frozenset({"failed", "incomplete"})


class ResponsesStreamInterrupted(RuntimeError):
    """The event stream ended before the response was complete; the cause of a `ProviderResponseError`."""


# Programs know it by the public module.
ResponsesStreamInterrupted.__module__ = "zett_agent.providers.responses"


@dataclass(slots=True)
class _OpenItem:
    """An output item that has begun and not ended."""

    call_id: str = ""
    name: str = ""
    hosted: bool = False
    client_call: bool = False
    arguments_shown: bool = False


class ResponsesDecoder:
    """Reads one answer.

    Args:
        provider_name: Stored on the message, and named in errors.
        model: Stored on the message.
        search_tool: Name of the tool that answers the model's tool search, if there is one.

    Attributes:
        finished: Whether the response has been returned; nothing after it is read.

    Example:
        >>> decoder = ResponsesDecoder(provider_name="acme", model="m", search_tool=None)
        >>> [event.delta for event in decoder.feed({"type": "response.output_text.delta", "delta": "Hi"})]
        ['Hi']
    """

    def __init__(self, *, provider_name: str, model: str, search_tool: str | None) -> None:
        self.finished = False
        self._provider_name = provider_name
        self._model = model
        self._search_tool = search_tool
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._refusal: list[str] = []
        # One for each kind of text, item and part in which a character beyond ASCII has come.
        self._joiners: dict[tuple[str, int, int], SurrogateJoiner] = {}
        self._open: dict[int, _OpenItem] = {}
        self._items: dict[int, JsonObject] = {}  # finished ones
        self._call_ids: set[str] = set()
        self._generated_ids: dict[int, str] = {}
        self._ended_hosted: set[str] = set()
        self._index_by_item: dict[str, int] = {}  # for services that do not number their events
        self._next_index = 0
        self._last_event = ""
        self._emitted = False

    def feed(self, data: Mapping[str, Any]) -> list[ModelEvent]:
        """Take one JSON object of the stream and return its events, the response as the last of all.

        Raises:
            ProviderError: The service reports a failure, and no event has been returned so far.
        """
        kind = data.get("type")
        if self.finished or not isinstance(kind, str):
            return []
        self._last_event = kind
        handler = _HANDLERS.get(kind)
        try:
            events = handler(self, data) if handler is not None else self._take_other(kind, data)
        except RecursionError as cause:
            message = f"{self._provider_name}: an event of the response stream is nested too deep to be read."
            raise ProviderResponseError(message) from cause
        if events:
            self._emitted = True
        return events

    def finish(self) -> list[ModelEvent]:
        """Return the last events when the body has ended; nothing when the response has been returned.

        Raises:
            ProviderResponseError: The stream ended too early.
        """
        if self.finished:
            return []
        if self._open or not (self._items or self._ended_hosted):
            self._raise_interrupted()
        return self._complete(self._finished_items(), "incomplete", {})

    def _raise_interrupted(self) -> NoReturn:
        last = f"after {encodable(self._last_event)[:100]!r}" if self._last_event else "before any event"
        open_items = f"{len(self._open)} output item{'' if len(self._open) == 1 else 's'} open"
        message = f"the response stream ended {last}, without a final event and with {open_items}"
        error = ProviderResponseError(f"{self._provider_name}: {message}.")
        raise mark_transient(error, transient=True) from ResponsesStreamInterrupted(message)

    # -- text and arguments ---------------------------------------------------------------------------------

    def _take_delta(self, data: Mapping[str, Any]) -> list[ModelEvent]:
        text = data.get("delta")
        if not isinstance(text, str) or not text:
            return []
        kind: str = data["type"]
        if self._joiners or not text.isascii():
            text = self._join(kind, data, text)
            if not text:
                return []
        index = self._index(data, self._next_index - 1) if kind == _ARGUMENTS else 0
        return [self._written(kind, index, text)]

    def _written(self, kind: str, index: int, text: str) -> ModelEvent:
        """Add text to what it belongs to and return its event."""
        if kind == _TEXT:
            self._text.append(text)
            return ModelEvent.text(text)
        if kind == _ARGUMENTS:
            item = self._open.get(index)
            if item is not None:
                item.arguments_shown = True
            return ModelEvent.tool_call(ToolCallDelta(max(index, 0), arguments_delta=text))
        if kind == _REFUSAL:
            self._refusal.append(text)
            self._text.append(text)
            return ModelEvent.text(text)
        self._reasoning.append(text)
        return ModelEvent.reasoning(text)

    def _join(self, kind: str, data: Mapping[str, Any], text: str) -> str:
        """Return what can be shown of a text whose characters may be cut in the middle."""
        part = read_int(data.get("content_index")) or read_int(data.get("summary_index"))
        key = (kind, self._index(data, self._next_index - 1), part)
        joiner = self._joiners.get(key)
        if joiner is None:
            joiner = self._joiners[key] = SurrogateJoiner()
        return joiner.feed(text)

    def _flush(self, index: int | None = None) -> list[ModelEvent]:
        """Return what was held back of one item, or of all of them."""
        events: list[ModelEvent] = []
        for key in [key for key in self._joiners if index is None or key[1] == index]:
            rest = self._joiners.pop(key).flush()
            if rest:
                events.append(self._written(key[0], key[1], rest))
        return events

    # -- output items ---------------------------------------------------------------------------------------

    def _index(self, data: Mapping[str, Any], otherwise: int) -> int:
        """Return the number of the item that an event is about."""
        index = data.get("output_index")
        if type(index) is int and index >= 0:
            return index
        item_id = read_str(data.get("item_id")) or read_str(read_object(data.get("item")).get("id"))
        return self._index_by_item.get(item_id, otherwise) if item_id else otherwise

    def _take_added(self, data: Mapping[str, Any]) -> list[ModelEvent]:
        item = read_object(data.get("item"))
        index = self._index(data, self._next_index)
        self._next_index = max(self._next_index, index + 1)
        if item_id := read_str(item.get("id")):
            self._index_by_item[item_id] = index
        if item.get("type") == "function_call":
            return self._open_call(index, item, read_str(item.get("name")))
        if self._is_search(item):
            return self._open_call(index, item, self._search_tool or "")
        if is_hosted(read_str(item.get("type"))):
            return self._open_hosted(index, item)
        self._open[index] = _OpenItem()
        return []

    def _open_call(self, index: int, item: JsonObject, name: str) -> list[ModelEvent]:
        call_id = encodable(_own_id(item, "call_id", "id"))
        if not call_id or call_id in self._call_ids:
            call_id = self._generated_ids[index] = unique_call_id()
        self._call_ids.add(call_id)
        # A search arrives whole, though maybe only at its end; the arguments of a function come in pieces.
        arguments = arguments_text(item) if self._is_search(item) and item.get("arguments") else ""
        self._open[index] = _OpenItem(call_id, name, client_call=True, arguments_shown=bool(arguments))
        return [ModelEvent.tool_call(ToolCallDelta(index, call_id, encodable(name), arguments))]

    def _open_hosted(self, index: int, item: JsonObject) -> list[ModelEvent]:
        call_id = encodable(_own_id(item, "id", "call_id")) or unique_call_id()
        name = hosted_name(item)
        self._open[index] = _OpenItem(call_id, name, hosted=True)
        action = read_object(item.get("action")) or read_object(item.get("input"))
        call = ServerToolCall(call_id, name, encodable_json(action) if action else None)
        return [ModelEvent.server_tool_started(call)]

    def _take_done(self, data: Mapping[str, Any]) -> list[ModelEvent]:
        item = read_object(data.get("item"))
        index = self._index(data, next(reversed(self._open), self._next_index))
        if index not in self._open:
            index = self._index_by_item.get(read_str(item.get("id")), index)
        self._next_index = max(self._next_index, index + 1)
        if item:
            self._items[index] = item
        events = self._flush(index)
        if is_hosted(read_str(item.get("type"))) and not self._is_search(item):
            return [*events, *self._close_hosted(index, item)]
        opened = self._open.pop(index, None)
        if opened is not None and opened.client_call and not opened.arguments_shown:
            arguments = arguments_text(item)
            if arguments:
                delta = ToolCallDelta(index, arguments_delta=arguments)
                events.append(ModelEvent.tool_call(delta))
        return events

    def _close_hosted(self, index: int, item: JsonObject) -> list[ModelEvent]:
        events: list[ModelEvent] = []
        opened = self._open.pop(index, None)
        if opened is None or not opened.hosted:
            if encodable(_own_id(item, "id", "call_id")) in self._ended_hosted:
                return []
            events = self._open_hosted(index, item)
            opened = self._open.pop(index)
        self._ended_hosted.add(opened.call_id)
        status = read_str(item.get("status"))
        output = clean_items([item])[0]
        if status not in _FAILED_STATES:
            result = ServerToolResult(opened.call_id, opened.name, output)
            return [*events, ModelEvent.server_tool_completed(result)]
        code = encodable(read_str(read_object(item.get("error")).get("code"))) or status
        result = ServerToolResult(opened.call_id, opened.name, output, code)
        return [*events, ModelEvent.server_tool_failed(result)]

    def _take_other(self, kind: str, data: Mapping[str, Any]) -> list[ModelEvent]:
        """Take `response.<item>.failed` and `.incomplete` of a hosted item; everything else says nothing."""
        start, _, rest = kind.partition(".")
        item_type, _, state = rest.partition(".")
        if start != "response" or state not in _FAILED_STATES or not is_hosted(item_type):
            return []
        index = self._index(data, self._next_index)
        opened = self._open.get(index)
        events: list[ModelEvent] = []
        if opened is not None and opened.hosted:
            del self._open[index]
            call_id = opened.call_id
        else:
            call_id = encodable(_own_id(data, "item_id")) or unique_call_id()
            if call_id in self._ended_hosted:
                return []
            events.append(ModelEvent.server_tool_started(ServerToolCall(call_id, item_type)))
        self._ended_hosted.add(call_id)
        result = ServerToolResult(call_id, item_type, {"status": "failed"}, "failed")
        return [*events, ModelEvent.server_tool_failed(result)]

    def _is_search(self, item: Mapping[str, Any]) -> bool:
        return self._search_tool is not None and is_client_search(item)

    def _finished_items(self) -> list[JsonObject]:
        return [self._items[index] for index in sorted(self._items)]

    # -- the end --------------------------------------------------------------------------------------------

    def _take_terminal(self, data: Mapping[str, Any]) -> list[ModelEvent]:
        response = read_object(data.get("response"))
        end = data["type"].removeprefix("response.")
        reason = end
        if end != "cancelled":
            details = read_object(response.get("incomplete_details"))
            reason = encodable(read_str(details.get("reason")) or read_str(response.get("status")) or end)
        # Some gateways leave the output of the final event empty.
        output = read_objects(response.get("output")) or self._finished_items()
        events = self._end_open_hosted(output)
        return [*events, *self._complete(output, reason, read_object(response.get("usage")))]

    def _end_open_hosted(self, output: Sequence[JsonObject]) -> list[ModelEvent]:
        """End hosted calls of which only the final event tells how they ended."""
        open_ids = {item.call_id: index for index, item in self._open.items() if item.hosted}
        events: list[ModelEvent] = []
        for item in output if open_ids else ():
            index = open_ids.get(encodable(_own_id(item, "id", "call_id")))
            if index is not None:
                events += self._close_hosted(index, item)
        return events

    def _complete(self, output: Sequence[JsonObject], reason: str, usage: JsonObject) -> list[ModelEvent]:
        events = self._flush()
        items = clean_items(output)
        calls = self._calls(items, reason)
        refusal = "".join(self._refusal) or item_refusal(items)
        stop = responses_stop(reason, has_tool_calls=bool(calls), refusal=refusal)
        message = AssistantMessage(
            content="".join(self._text) or item_text(items),
            reasoning="".join(self._reasoning) or item_reasoning(items) or None,
            tool_calls=calls,
            provider=self._provider_name,
            model=self._model,
            replay_blocks=replay_blocks(items, stop),
        )
        return self._end(events, ModelResponse(message, reason, responses_usage(usage), stop))

    def _end(self, events: list[ModelEvent], response: ModelResponse) -> list[ModelEvent]:
        self.finished = True
        return [*events, ModelEvent.completed(response)]

    def _calls(self, items: Sequence[JsonObject], reason: str) -> tuple[ToolCall, ...]:
        """Return the tool calls among the items, and give the items the ids under which results will come."""
        calls: list[ToolCall] = []
        used: set[str] = set()
        for index, item in enumerate(items):
            if item.get("type") == "function_call":
                name = read_str(item.get("name"))
                if not name.strip():
                    item["name"] = UNNAMED_TOOL
            elif self._is_search(item):
                name = self._search_tool or ""
            else:
                continue
            call_id = _own_id(item, "call_id", "id")
            if not call_id or call_id in used:
                call_id = self._generated_ids.get(index) or unique_call_id()
            used.add(call_id)
            item["call_id"] = call_id
            calls.append(
                tool_call_from_arguments(
                    call_id, name, arguments_text(item), index=index, finish_reason=reason
                )
            )
        return tuple(calls)

    # -- failures -------------------------------------------------------------------------------------------

    def _take_error(self, data: Mapping[str, Any]) -> list[ModelEvent]:
        error = data.get("error")
        if error is None:
            # The fields of the event itself, where `type` is that of the event.
            error = {name: value for name, value in data.items() if name != "type"}
        return self._fail(error, {})

    def _take_failed(self, data: Mapping[str, Any]) -> list[ModelEvent]:
        response = read_object(data.get("response"))
        return self._fail(response.get("error"), read_object(response.get("usage")))

    def _fail(self, error: object, usage: JsonObject) -> list[ModelEvent]:
        """Take a failure that the service reports: it is a refusal, an error, or the end of an answer."""
        said = {"message": error} if isinstance(error, str) else read_object(error)
        details: JsonObject = encodable_json(said)
        refusal = refusal_from_response_error(details)
        if refusal is None and not self._emitted:
            failure = stream_failure(self._provider_name, details)
            # The published library has the service's words there, and programs may look for them.
            raise failure from RuntimeError(str(failure))
        events = self._flush()
        calls: tuple[ToolCall, ...] = ()
        if refusal is None:
            calls = self._calls(clean_items(self._finished_items()), "incomplete")
        # No replay blocks: the text so far is sent back, which an item that is not whole may hold a part of.
        message = AssistantMessage(
            content="".join(self._text),
            reasoning="".join(self._reasoning) or None,
            tool_calls=calls,
            provider=self._provider_name,
            model=self._model,
        )
        known = responses_usage(usage) if usage else ModelUsage()
        finish_reason = refusal.raw if refusal is not None else None
        return self._end(
            events, ModelResponse(message, finish_reason, known, refusal or _interrupted(details))
        )


def _interrupted(error: JsonObject) -> StopInfo:
    fields = {name: error[name] for name in ("code", "message", "type") if error.get(name) is not None}
    message = read_str(error.get("message")) or None
    return StopInfo(StopReason.INTERRUPTED, "error", "error", message, detail={"error": fields})


def _own_id(item: Mapping[str, Any], *names: str) -> str:
    """Return the first id that is there and not blank."""
    return next((value for name in names if (value := read_str(item.get(name))).strip()), "")


_HANDLERS: dict[str, Callable[[ResponsesDecoder, Mapping[str, Any]], list[ModelEvent]]] = {
    **dict.fromkeys((_TEXT, _REFUSAL, _ARGUMENTS, *_REASONING), ResponsesDecoder._take_delta),
    "response.output_item.added": ResponsesDecoder._take_added,
    "response.output_item.done": ResponsesDecoder._take_done,
    "response.completed": ResponsesDecoder._take_terminal,
    "response.incomplete": ResponsesDecoder._take_terminal,
    "response.cancelled": ResponsesDecoder._take_terminal,
    "response.failed": ResponsesDecoder._take_failed,
    "error": ResponsesDecoder._take_error,
}
