"""Turning a tool's result into JSON text, and into the content of its message.

Plain JSON values take a short way; the validation library is imported only for anything else. The text is
the same on both ways: default separators, non-ASCII kept, `NaN` and infinities as `null`.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, cast

from .._text import encodable
from ..messages import (
    ImageBytesSource,
    ImageContent,
    ImageUrlSource,
    TextContent,
    UserContent,
    UserContentPart,
)

if TYPE_CHECKING:
    from .base import AgentTool

__all__ = ["result_text", "tool_result_content"]

_PARTS = (TextContent, ImageContent)
"""What a tool may return to be sent as it is, not as JSON."""


def tool_result_content(tool: AgentTool, value: Any) -> UserContent:
    """Return the content of the successful tool message for the raw result `value`.

    Text is taken as it is. A content part, and a list or tuple made only of parts, becomes a list of parts;
    if at least one is an image, strings among them become text parts. Anything else becomes the JSON text
    of `tool.serialize_result`. All text is made encodable.

    Raises:
        Exception: The value cannot be serialized; the call then counts as failed.
    """
    if type(value) is str:
        return encodable(value)
    parts = _content_parts(value)
    return encodable(tool.serialize_result(value)) if parts is None else parts


def _content_parts(value: Any) -> list[UserContentPart] | None:
    if isinstance(value, _PARTS):
        return [_encodable_part(value)]
    if not isinstance(value, (list, tuple)) or not value:
        return None
    items = cast(Sequence[Any], value)
    if all(isinstance(item, _PARTS) for item in items):
        parts = [_encodable_part(item) for item in items]
        unchanged = isinstance(value, list) and all(map(_identical, parts, items))
        return cast("list[UserContentPart]", value) if unchanged else parts
    if all(isinstance(item, (str, *_PARTS)) for item in items) and any(
        isinstance(item, ImageContent) for item in items
    ):
        return [_encodable_part(TextContent(item) if isinstance(item, str) else item) for item in items]
    return None


def _identical(left: object, right: object) -> bool:
    return left is right


def _encodable_part(part: UserContentPart) -> UserContentPart:
    match part:
        case TextContent(text):
            clean = encodable(text)
            return part if clean is text else TextContent(clean)
        case ImageContent(source, _, alt_text):
            clean_alt = None if alt_text is None else encodable(alt_text)
            clean_source = _encodable_source(source)
            if clean_alt is alt_text and clean_source is source:
                return part
            return dataclasses.replace(part, source=clean_source, alt_text=clean_alt)


def _encodable_source(source: ImageUrlSource | ImageBytesSource) -> ImageUrlSource | ImageBytesSource:
    if isinstance(source, ImageBytesSource):
        return source
    clean = encodable(source.url)
    return source if clean is source.url else ImageUrlSource(clean)


def result_text(value: Any) -> str:
    """Return a string unchanged, and anything else as JSON text.

    Raises:
        ValueError: The value contains itself or is nested too deeply.
        pydantic_core.PydanticSerializationError: A value is of a type that JSON cannot express.
    """
    if isinstance(value, str):
        # The text of a string enumeration is its value, whatever its `str()` is.
        return str(value.value) if isinstance(value, Enum) else value
    text = _plain_text(value)
    return _encode(_library_json(value)) if text is None else text


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
_ATOMS = frozenset({str, int, float, bool, type(None)})
_TEXT_ONLY = frozenset({str})


def _encode(value: Any) -> str:
    try:
        return _ENCODER.encode(value)
    except ValueError:  # a number that is not finite; otherwise it is raised again
        return _ENCODER.encode(_finite(value))


def _finite(value: Any) -> Any:
    """Return a copy in which `None` stands for numbers that are not finite."""
    if type(value) is float:
        return value if math.isfinite(value) else None
    if type(value) is dict:
        return {key: _finite(item) for key, item in cast("dict[Any, Any]", value).items()}
    if type(value) is list or type(value) is tuple:
        return [_finite(item) for item in cast("Sequence[Any]", value)]
    return value


def _plain_text(value: Any) -> str | None:
    """Return the text of a value made of exactly the types that JSON has, or `None` for any other."""
    try:
        text = _encode(value)
    except (TypeError, ValueError, RecursionError):
        return None
    return text if _is_plain(value) else None


def _is_plain(value: Any) -> bool:
    # The encoder also takes subclasses and other keys, which the library may write differently. It has
    # been through the value before, so there is no cycle.
    open_values = [value]
    for item in open_values:
        kind = type(item)  # pyright: ignore[reportUnknownVariableType]
        if kind in _ATOMS:
            continue
        if kind is dict:
            if not _TEXT_ONLY.issuperset(map(type, item)):
                return False
            open_values.extend(item.values())
        elif kind is list or kind is tuple:
            open_values.extend(item)
        else:
            return False
    return True


def _library_json(value: Any) -> Any:
    from pydantic_core import to_jsonable_python

    try:
        prepared = _prepared(value)
    except RecursionError:
        raise ValueError("The result refers to itself, or is nested too deeply, for JSON") from None
    return to_jsonable_python(prepared, by_alias=True, inf_nan_mode="null")


def _prepared(value: Any) -> Any:
    """Give sets an order, bytes and text a form that always encodes, and leave the rest to the library."""
    match value:
        case Enum():
            return _prepared(value.value)
        case str():
            return encodable(value)
        case bytes() | bytearray():
            return _bytes_text(bytes(value))
        case dict():
            return {_prepared_key(key): _prepared(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
        case list() | tuple() | deque():
            return [_prepared(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
        case set() | frozenset():
            return [_prepared(item) for item in _ordered(value)]  # pyright: ignore[reportUnknownArgumentType]
        case Iterator():
            return [_prepared(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
        case _ if isinstance(value, type):
            return value
        case _ if hasattr(value, "__pydantic_serializer__"):
            return _model_json(value)
        case _ if dataclasses.is_dataclass(value):
            return {
                field.name: _prepared(getattr(value, field.name))
                for field in dataclasses.fields(value)
                if hasattr(value, field.name)
            }
        case _:
            return value


def _prepared_key(key: Any) -> Any:
    match key:
        case str():
            return encodable(key)
        case bytes():
            return _bytes_text(key)
        case _:
            return key


def _bytes_text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return base64.b64encode(data).decode("ascii")


def _ordered(items: set[Any] | frozenset[Any]) -> list[Any]:
    """Sort a set, so that equal results read the same; items that cannot be compared stay as they come."""
    try:
        return sorted(items)
    except Exception:
        return list(items)


def _model_json(model: Any) -> Any:
    """Let a model serialize itself, with its sets in order."""
    from pydantic_core import to_jsonable_python

    try:
        dumped = to_jsonable_python(model, by_alias=True, inf_nan_mode="null")
    except UnicodeError:
        # Bytes or text that do not encode: take the model apart and treat its values like any others.
        return _prepared(model.__pydantic_serializer__.to_python(model, by_alias=True))
    return _with_ordered_sets(model, dumped)


def _with_ordered_sets(original: Any, dumped: Any) -> Any:
    """Follow `original` through what its model's serializer made of it, and sort what came from sets."""
    if isinstance(dumped, list):
        return _list_with_ordered_sets(original, cast("list[Any]", dumped))
    if isinstance(dumped, dict):
        return _dict_with_ordered_sets(original, cast("dict[str, Any]", dumped))
    return dumped


def _list_with_ordered_sets(original: Any, dumped: list[Any]) -> list[Any]:
    if isinstance(original, (set, frozenset)):
        items = cast("set[Any]", original)
        # A serializer of the author's own may have chosen an order: that one stays.
        return _library_json(_ordered(items)) if dumped == _library_json(list(items)) else dumped
    if isinstance(original, (list, tuple)):
        values = cast("Sequence[Any]", original)
        if len(values) == len(dumped):
            return [_with_ordered_sets(*pair) for pair in zip(values, dumped, strict=True)]
    return dumped


def _dict_with_ordered_sets(original: Any, dumped: dict[str, Any]) -> dict[str, Any]:
    fields: Mapping[str, Any] | None = getattr(cast(object, original), "__pydantic_fields__", None)
    if fields is not None:
        for name, info in fields.items():
            key = next((key for key in (info.serialization_alias, name) if key in dumped), None)
            if key is not None:
                dumped[key] = _with_ordered_sets(getattr(original, name), dumped[key])
    elif isinstance(original, dict):
        values = list(cast("dict[Any, Any]", original).values())
        if len(values) == len(dumped):
            pairs = zip(values, dumped.items(), strict=True)
            return {key: _with_ordered_sets(value, item) for value, (key, item) in pairs}
    return dumped
