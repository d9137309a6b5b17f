"""What the output items of the Responses wire mean: hosted calls, client calls, texts, what is replayed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from .._text import encodable, encodable_json
from ..model import ModelUsage
from ..stop import StopInfo, StopReason, classify_stop
from ._usage import consistent_usage, count
from .stop_reasons import withhold_replay_blocks
from .wire import JsonObject, read_object, read_objects, read_str

__all__ = [
    "CLIENT_CALLS",
    "arguments_text",
    "clean_items",
    "hosted_name",
    "is_client_search",
    "is_hosted",
    "item_reasoning",
    "item_refusal",
    "item_text",
    "replay_blocks",
    "responses_stop",
    "responses_usage",
]

CLIENT_CALLS = frozenset({"function_call", "custom_tool_call"})
"""Types of items that call a tool of the client by its name."""

_HOSTED_WITHOUT_SUFFIX = frozenset({"mcp_list_tools", "mcp_approval_request"})
_WITHHELD = frozenset({StopReason.REFUSAL, StopReason.INTERRUPTED})


def is_hosted(kind: str) -> bool:
    """Return whether items of this type stand for a tool that the service runs."""
    return (kind.endswith("_call") and kind not in CLIENT_CALLS) or kind in _HOSTED_WITHOUT_SUFFIX


def is_client_search(item: Mapping[str, Any]) -> bool:
    """Return whether the item is a tool search that the client is to answer."""
    return item.get("type") == "tool_search_call" and item.get("execution") == "client"


def hosted_name(item: Mapping[str, Any]) -> str:
    """Return the name of a hosted tool: that of the item, else its type without `_call`."""
    kind = read_str(item.get("type"))
    return encodable(read_str(item.get("name")).strip() or kind.removesuffix("_call").strip() or kind)


def arguments_text(item: Mapping[str, Any]) -> str:
    """Return the arguments of a call as JSON text; `""` when it has none."""
    arguments = item.get("arguments")
    if arguments is None:
        return ""
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return encodable(arguments)


def clean_items(items: Iterable[JsonObject]) -> list[JsonObject]:
    """Return copies that can be stored and sent back: valid Unicode, no null fields.

    Nulls that a model or a tool wrote, inside arguments or results, stay.
    """
    return [_clean_item(cast(JsonObject, encodable_json(item))) for item in items]


def _clean_item(item: JsonObject) -> JsonObject:
    cleaned = _without_nulls(item)
    for name in ("content", "summary"):
        parts = cleaned.get(name)
        if isinstance(parts, list):
            entries = cast("list[Any]", parts)
            cleaned[name] = [
                _without_nulls(cast(JsonObject, part)) if isinstance(part, dict) else part for part in entries
            ]
    return cleaned


def _without_nulls(fields: JsonObject) -> JsonObject:
    return {name: value for name, value in fields.items() if value is not None}


# -- texts ----------------------------------------------------------------------------------------------


def item_text(items: Iterable[JsonObject]) -> str:
    """Return the visible text of finished items, refusals included."""
    return "".join(
        read_str(part.get("text")) or read_str(part.get("refusal")) for part in _message_parts(items)
    )


def item_refusal(items: Iterable[JsonObject]) -> str:
    """Return what the model said in declining."""
    return "".join(read_str(part.get("refusal")) for part in _message_parts(items))


def item_reasoning(items: Iterable[JsonObject]) -> str:
    """Return the readable reasoning of finished items, which is their content, else their summary."""
    return "".join(
        _joined_text(item.get("content")) or _joined_text(item.get("summary"))
        for item in items
        if item.get("type") == "reasoning"
    )


def _message_parts(items: Iterable[JsonObject]) -> Iterator[JsonObject]:
    for item in items:
        if item.get("type") == "message":
            yield from read_objects(item.get("content"))


def _joined_text(parts: object) -> str:
    return "".join(read_str(part.get("text")) for part in read_objects(parts))


# -- the end --------------------------------------------------------------------------------------------


def replay_blocks(items: Sequence[JsonObject], stop: StopInfo) -> tuple[Mapping[str, Any], ...]:
    """Return what is stored of the items.

    After a refusal or an interruption the client's calls are left out, because nothing will answer them, and
    with each call the reasoning that led to it: the service refuses one without the other.
    """
    if stop.reason not in _WITHHELD:
        return tuple(items)
    withheld: set[int] = set()
    reasoning: list[int] = []
    for item in items:
        if item.get("type") == "reasoning":
            reasoning.append(id(item))
            continue
        if read_str(item.get("type")) in CLIENT_CALLS or is_client_search(item):
            withheld.update(reasoning, [id(item)])
        reasoning.clear()
    withheld.update(reasoning)
    return withhold_replay_blocks(items, lambda item: id(item) in withheld)


def responses_stop(reason: str, *, has_tool_calls: bool, refusal: str) -> StopInfo:
    """Return the stop of a complete answer.

    Args:
        reason: The service's reason or status.
        has_tool_calls: Whether the answer asks for tools.
        refusal: What the model said in declining; makes a normal end a refusal.
    """
    if reason == "cancelled":
        return StopInfo(StopReason.INTERRUPTED, reason, reason)
    stop = classify_stop(reason, has_tool_calls=has_tool_calls)
    return StopInfo(StopReason.REFUSAL, reason, "refusal", refusal) if refusal and stop.ok else stop


def responses_usage(usage: Mapping[str, Any]) -> ModelUsage:
    """Return the token counts of an answer."""
    inputs = read_object(usage.get("input_tokens_details"))
    outputs = read_object(usage.get("output_tokens_details"))
    cache = (inputs.get("cached_tokens"), inputs.get("cache_write_tokens"))
    return consistent_usage(
        input_tokens=count(usage.get("input_tokens")),
        output_tokens=count(usage.get("output_tokens")),
        cache_read_tokens=count(cache[0]),
        cache_write_tokens=count(cache[1]),
        cache_reported=cache != (None, None),
        reasoning_tokens=count(outputs.get("reasoning_tokens")),
        total_tokens=count(usage.get("total_tokens")),
    )
