"""Messages as JSON text and back: the format of stored history, of JSONL files and of events as JSON.

One message is an envelope `{"kind": <int>, "data": {<every field by name>}}`; `_marked_json` says how bytes
are written.

Encoding needs the standard library only. So does decoding of well-formed data: pydantic is imported at the
first field that is missing or of another type, to convert it or to say exactly what is wrong.
"""

from __future__ import annotations

import functools
import importlib
import json
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, cast

from ._marked_json import MARKER_PREFIX, dumps, restore, restore_bytes
from ._text import encodable
from .messages import (
    AgentMessage,
    AnyMessage,
    AssistantMessage,
    ImageBytesSource,
    ImageContent,
    ImageDetail,
    ImageSource,
    ImageUrlSource,
    Message,
    SystemMessage,
    TextContent,
    ToolCall,
    ToolMessage,
    UserContent,
    UserContentPart,
    UserMessage,
)
from .stop import StopInfo, StopReason

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    from .events import AgentEvent
    from .json_types import JsonValue
    from .model import ModelResponse

__all__ = ["MESSAGE_TYPES", "MessageKind", "decode_messages", "encode_messages", "event_record"]

_COMPACTION = "zett_agent.extensions.compaction"


class MessageKind(IntEnum):
    """The number of a message class in an envelope."""

    SYSTEM = 1
    USER = 2
    ASSISTANT = 3
    TOOL = 4
    CHECKPOINT = 5
    AGENT = 6


def encode_messages(messages: Sequence[AnyMessage]) -> str:
    """Return messages as JSON text, an array of envelopes.

    An instance of a subclass is stored as its nearest class of this library. Lone surrogates become U+FFFD.

    Raises:
        ValueError: A number is NaN, infinite or of more digits than Python writes; a value contains itself
            or is nested deeper than 500 levels. The text names the path of the value.
        TypeError: A value is of a type that JSON lacks, such as a `datetime` in `attributes`, or is no
            message.

    Example:
        >>> encode_messages([AgentMessage(content="go")])[:22]
        '[{"kind": 6, "data": {'
    """
    return dumps([_envelope(message) for message in messages], "messages")


def decode_messages(payload: str) -> list[AnyMessage]:
    """Return the messages of a JSON text written by `encode_messages` or by an older version.

    Unknown fields are ignored and missing ones get their defaults.

    Raises:
        ValueError: The text is no array of envelopes, or a kind is unknown.
        pydantic.ValidationError: A `ValueError` too: a required field is missing, or a field is of another
            type. Both say the index and kind of the envelope, and no content.

    Example:
        >>> decode_messages(encode_messages([AgentMessage(content="go")]))[0].content
        'go'
    """
    try:
        envelopes = json.loads(payload)
    except RecursionError:
        raise ValueError("The messages are nested too deep to be read") from None
    if not isinstance(envelopes, list):
        raise ValueError(f"Encoded messages must be a JSON array, not {type(envelopes).__name__}")
    marked = MARKER_PREFIX in payload
    return [
        _decoded(index, envelope, marked) for index, envelope in enumerate(cast("list[object]", envelopes))
    ]


def event_record(event: AgentEvent) -> dict[str, JsonValue]:
    """Return an event as new JSON values: type, session, phase, and the fields that are set.

    Raises:
        TypeError: A payload holds an object that JSON cannot represent.
        ValueError: See `encode_messages`.
    """
    record: dict[str, JsonValue] = {
        "type": str(event.type),
        "session_id": event.session_id,
        "phase": None if event.phase is None else str(event.phase),
    }
    for name, tree in _EVENT_FIELDS.items():
        value = getattr(event, name)
        if value is None or value == "" or value == []:
            continue
        if isinstance(value, str):
            record[name] = encodable(value)
        else:
            record[name] = json.loads(dumps(tree(value), name))
    return record


def __getattr__(name: str) -> Any:
    if name == "MESSAGE_TYPES":
        # Completed on first use, because the class of checkpoints belongs to a layer above this one.
        types = {kind: _message_type(kind) for kind in MessageKind}
        return globals().setdefault(name, types)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if TYPE_CHECKING:
    MESSAGE_TYPES: dict[MessageKind, type[Message]]


# Encoding. Each class has a function that builds the tree for the JSON encoder; what applications put into
# messages becomes part of it as it is, without a copy.


def _envelope(message: Message) -> dict[str, Any]:
    kind, own_fields = _ENCODERS.get(type(message)) or _nearest_encoder(message)
    return {
        "kind": kind,
        "data": {
            "attributes": message.attributes,
            "persist": message.persist,
            "include_in_messages": message.include_in_messages,
            **own_fields(message),
        },
    }


def _nearest_encoder(message: object) -> _Encoder:
    for base in type(message).__mro__:
        if base in _ENCODERS:
            return _ENCODERS[base]
        # By name: importing its module here would be of no use, for whoever has a checkpoint did that.
        if base.__name__ == "CompactedMessage" and base.__module__ == _COMPACTION:
            return _CHECKPOINT_ENCODER
    raise TypeError(f"Only messages can be encoded, not {type(message).__name__}")


def _text_fields(message: SystemMessage | AgentMessage) -> dict[str, Any]:
    return {"content": message.content}


def _user_fields(message: UserMessage) -> dict[str, Any]:
    return {"content": _content_tree(message.content)}


def _assistant_fields(message: AssistantMessage) -> dict[str, Any]:
    return {
        "content": message.content,
        "reasoning": message.reasoning,
        "tool_calls": [_call_tree(call) for call in message.tool_calls],
        "provider": message.provider,
        "model": message.model,
        "replay_blocks": message.replay_blocks,
        "stop": None if message.stop is None else _stop_tree(message.stop),
    }


def _tool_fields(message: ToolMessage) -> dict[str, Any]:
    return {
        "tool_call_id": message.tool_call_id,
        "name": message.name,
        "content": _content_tree(message.content),
        "success": message.success,
    }


def _content_tree(content: UserContent) -> Any:
    return content if isinstance(content, str) else [_part_tree(part) for part in content]


def _part_tree(part: UserContentPart) -> dict[str, Any]:
    if isinstance(part, TextContent):
        return {"text": part.text}
    return {"source": _source_tree(part.source), "detail": part.detail, "alt_text": part.alt_text}


def _source_tree(source: ImageSource) -> dict[str, Any]:
    if isinstance(source, ImageUrlSource):
        return {"url": source.url}
    return {"data": source.data, "media_type": source.media_type}


def _call_tree(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "name": call.name, "arguments": call.arguments, "error": call.error}


def _stop_tree(stop: StopInfo) -> dict[str, Any]:
    return {
        "reason": stop.reason,
        "raw": stop.raw,
        "category": stop.category,
        "message": stop.message,
        "recommended_model": stop.recommended_model,
        "detail": stop.detail,
    }


_Encoder = tuple[MessageKind, Callable[[Any], dict[str, Any]]]

_ENCODERS: dict[type, _Encoder] = {
    SystemMessage: (MessageKind.SYSTEM, _text_fields),
    UserMessage: (MessageKind.USER, _user_fields),
    AssistantMessage: (MessageKind.ASSISTANT, _assistant_fields),
    ToolMessage: (MessageKind.TOOL, _tool_fields),
    AgentMessage: (MessageKind.AGENT, _text_fields),
}
_CHECKPOINT_ENCODER: _Encoder = (MessageKind.CHECKPOINT, _user_fields)


# Decoding. Data of exactly the shape that is written above is taken over as it is; all other data goes
# through pydantic, which converts what can be converted and explains what cannot.


def _decoded(index: int, envelope: object, marked: bool) -> Any:
    if not isinstance(envelope, dict):
        raise ValueError(f"Message {index} is not an envelope but a value of type {type(envelope).__name__}")
    kind, data = cast("dict[str, Any]", envelope).get("kind"), cast("dict[str, Any]", envelope).get("data")
    if not isinstance(kind, int) or kind not in _FIELD_TYPES:
        raise ValueError(f"Message {index} has the unknown kind {kind!r}")
    if not isinstance(data, dict):
        raise ValueError(f"Message {index} of kind {kind} has no data object")
    data = cast("dict[str, Any]", data)
    if marked:
        _restore_message(data)
    message_type = _message_type(kind)
    try:
        return message_type(**_own_shape(kind, data))
    except (KeyError, TypeError, ValueError):
        pass
    return _validated(index, kind, message_type, data)


def _message_type(kind: int) -> Any:
    if kind != MessageKind.CHECKPOINT:
        return _TYPES[kind]
    try:
        return importlib.import_module(_COMPACTION).CompactedMessage
    except ModuleNotFoundError as error:
        if error.name != _COMPACTION:
            raise
        # A build without that extension must still show the history: the summary stays, as user input.
        return UserMessage


_TYPES: dict[int, type[Message]] = {kind: message_type for message_type, (kind, _) in _ENCODERS.items()}

_TEXT = frozenset({str})
_OPTIONAL_TEXT = frozenset({str, type(None)})
_BASE_TYPES = {
    "attributes": frozenset({dict}),
    "persist": frozenset({bool}),
    "include_in_messages": frozenset({bool}),
}
_CONTENT_TYPES = _BASE_TYPES | {"content": frozenset({str, list})}

_FIELD_TYPES: dict[int, dict[str, frozenset[type]]] = {
    MessageKind.SYSTEM: _BASE_TYPES | {"content": _TEXT},
    MessageKind.USER: _CONTENT_TYPES,
    MessageKind.ASSISTANT: _BASE_TYPES
    | {
        "content": _TEXT,
        "reasoning": _OPTIONAL_TEXT,
        "tool_calls": frozenset({list}),
        "provider": _OPTIONAL_TEXT,
        "model": _OPTIONAL_TEXT,
        "replay_blocks": frozenset({list}),
        "stop": frozenset({dict, type(None)}),
    },
    MessageKind.TOOL: _CONTENT_TYPES | {"tool_call_id": _TEXT, "name": _TEXT, "success": frozenset({bool})},
    MessageKind.CHECKPOINT: _CONTENT_TYPES,
    MessageKind.AGENT: _BASE_TYPES | {"content": _TEXT},
}
_CALL_TYPES = {"id": _TEXT, "name": _TEXT, "arguments": frozenset({dict}), "error": _OPTIONAL_TEXT}
_STOP_TYPES = {
    "reason": _TEXT,
    "raw": _OPTIONAL_TEXT,
    "category": _OPTIONAL_TEXT,
    "message": _OPTIONAL_TEXT,
    "recommended_model": _OPTIONAL_TEXT,
    "detail": frozenset({dict}),
}


def _own_shape(kind: int, data: dict[str, Any]) -> dict[str, Any]:
    """Return the constructor's arguments from data of exactly the shape that this module writes.

    Raises:
        KeyError, TypeError, ValueError: It is of another shape.
    """
    fields = _typed(data, _FIELD_TYPES[kind])
    if isinstance(fields["content"], list):
        fields["content"] = [_part(part) for part in cast("list[Any]", fields["content"])]
    if kind == MessageKind.ASSISTANT:
        fields["tool_calls"] = tuple([ToolCall(**_typed(call, _CALL_TYPES)) for call in fields["tool_calls"]])
        blocks = fields["replay_blocks"] = tuple(fields["replay_blocks"])
        if not all(type(block) is dict for block in blocks):
            raise TypeError
        if fields["stop"] is not None:
            stop = _typed(fields["stop"], _STOP_TYPES)
            stop["reason"] = StopReason(stop["reason"])
            fields["stop"] = StopInfo(**stop)
    return fields


def _typed(data: dict[str, Any], types: dict[str, frozenset[type]]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, allowed in types.items():
        value = fields[name] = data[name]
        if type(value) not in allowed:
            raise TypeError
    return fields


def _part(data: dict[str, Any]) -> UserContentPart:
    if "text" in data:
        return TextContent(**_typed(data, {"text": _TEXT}))
    source, alt_text = data["source"], data["alt_text"]
    if type(alt_text) not in _OPTIONAL_TEXT:
        raise TypeError
    if "url" in source:
        image = ImageUrlSource(**_typed(source, {"url": _TEXT}))
    else:
        image = ImageBytesSource(**_typed(source, {"data": frozenset({bytes}), "media_type": _TEXT}))
    return ImageContent(image, ImageDetail(data["detail"]), alt_text)


def _validated(index: int, kind: int, message_type: type, data: dict[str, Any]) -> Any:
    from pydantic import ValidationError

    try:
        return _adapter(message_type).validate_python(data)
    except ValidationError as error:
        # The same exception, placed in the history and without the values, which are private.
        located = ValidationError.from_exception_data(
            f"message {index} (kind {int(kind)}, {message_type.__name__})",
            [
                {
                    "type": line["type"],
                    "loc": (index, *line["loc"]),
                    "input": line["input"],
                    "ctx": line.get("ctx", {}),
                }
                for line in error.errors(include_url=False)
            ],
            hide_input=True,
        )
    raise located


@functools.cache
def _adapter(message_type: type) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(message_type)


def _restore_message(data: dict[str, Any]) -> None:
    """Undo the markers in parsed data, in place."""
    _restore_field(data, "attributes")
    _restore_field(data.get("stop"), "detail")
    for call in _objects(data.get("tool_calls")):
        # A model has no bytes to pass: what looks like them in its arguments is what it wrote.
        _restore_field(call, "arguments", bytes_too=False)
    blocks = data.get("replay_blocks")
    if isinstance(blocks, list):
        for index in range(len(cast("list[Any]", blocks))):
            restore(blocks, index)
    for part in _objects(data.get("content")):
        source = part.get("source")
        if isinstance(source, dict) and "data" in source:
            restore_bytes(cast("dict[str, Any]", source), "data")


def _restore_field(value: object, name: str, *, bytes_too: bool = True) -> None:
    if isinstance(value, dict) and name in value:
        restore(cast("dict[str, Any]", value), name, bytes_too=bytes_too)


def _objects(value: object) -> list[dict[str, Any]]:
    items = cast("list[Any]", value) if isinstance(value, list) else []
    return [item for item in items if isinstance(item, dict)]


# Events.


def _response_tree(response: ModelResponse) -> dict[str, Any]:
    return {
        "message": _envelope(response.message),
        "finish_reason": response.finish_reason,
        "usage": response.usage,
        "stop": response.stop and _stop_tree(response.stop),
    }


def _error_tree(error: Exception) -> dict[str, Any]:
    return {"type": type(error).__name__, "message": str(error)}


def _unchanged(value: object) -> object:
    return value


# The fields of an event after its type, session and phase. Dataclasses without a function of their own
# become objects with their field names.
_EVENT_FIELDS: dict[str, Callable[[Any], object]] = {
    "delta": _unchanged,
    "tool_call_delta": _unchanged,
    "tool_calls": lambda calls: [_call_tree(call) for call in calls],
    "server_tool_call": _unchanged,
    "server_tool_input_delta": _unchanged,
    "server_tool_result": _unchanged,
    "response": _response_tree,
    "stop": _stop_tree,
    "message": _envelope,
    "internal_message": _envelope,
    "steering_message": _envelope,
    "error": _error_tree,
    "compaction": _unchanged,
    "applied": _unchanged,
    "name": _unchanged,
    "payload": _unchanged,
}
