"""JSON text in which bytes survive, and in which no application value can be mistaken for them.

Bytes are written as `{"__kcs_bytes__": "<base64>"}`. An application's own dictionary with that one key, or
with the key `__kcs_literal__`, is written as `{"__kcs_literal__": <the dictionary>}`.
"""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, NoReturn, cast

from ._text import encodable

__all__ = ["MARKER_PREFIX", "dumps", "restore", "restore_bytes"]

# What all markers begin with: text without it needs no look for any of them.
MARKER_PREFIX = '"__kcs_'
_BYTES = "__kcs_bytes__"
_LITERAL = "__kcs_literal__"
_MARKERS = frozenset({_BYTES, _LITERAL})
# Less than the interpreter's own limit, so that what could be written can also be read on a fuller stack.
_MAX_DEPTH = 500
_SCALARS = (str, int, float, bytes, bytearray, type(None))


def dumps(tree: object, name: str) -> str:
    """Return `tree` as JSON text, clean of lone surrogates.

    Tuples become arrays; mappings and dataclasses become objects; enumerations become their values.

    Args:
        name: What error messages call `tree`; the path of the offending value begins with it.

    Raises:
        ValueError: A number is NaN, infinite or of more digits than Python writes; a value contains itself
            or is nested deeper than 500 levels.
        TypeError: A value is of a type that JSON lacks.
    """
    bytes_written = 0

    def convert(value: object) -> object:
        nonlocal bytes_written
        if isinstance(value, (bytes, bytearray)):
            bytes_written += 1
            return {_BYTES: base64.b64encode(value).decode("ascii")}
        return _as_json_type(value)

    def write(value: object) -> str:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, default=convert)

    try:
        text = write(tree)
        # More markers than bytes: the application has a dictionary, or only some text, that looks like one.
        if text.count(MARKER_PREFIX) > bytes_written:
            text = write(_escaped(tree))
    except (TypeError, ValueError, RecursionError) as error:
        _raise_with_path(tree, name, error)
    if text.count("[") + text.count("{") > _MAX_DEPTH and _too_deep(tree):
        _raise_with_path(tree, name, None)
    return encodable(text)


def _as_json_type(value: object) -> object:
    """Return a value that the JSON encoder does not know in terms of one that it knows."""
    if isinstance(value, Mapping):
        return dict(cast("Mapping[object, object]", value))
    if isinstance(value, Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def _escaped(tree: object) -> object:
    """Return a copy of `tree` in which dictionaries that look like markers are wrapped as literals."""
    root = [tree]
    # Places still to be visited, instead of recursion: depth must not exhaust the stack.
    places: list[tuple[Any, Any]] = [(root, 0)]
    while places:
        container, key = places.pop()
        value = container[key]
        if isinstance(value, dict):
            copied = container[key] = dict(cast("dict[Any, Any]", value))
            if _is_marker(copied):
                container[key] = {_LITERAL: copied}
            places.extend((copied, name) for name in copied)
        elif isinstance(value, (list, tuple)):
            items = container[key] = list(cast("Sequence[Any]", value))
            places.extend((items, index) for index in range(len(items)))
        elif not isinstance(value, _SCALARS):
            container[key] = _as_json_type(value)
            places.append((container, key))
    return root[0]


def _is_marker(value: dict[Any, Any]) -> bool:
    return len(value) == 1 and next(iter(value)) in _MARKERS


def _too_deep(tree: object) -> bool:
    level: list[Any] = [tree]
    for _ in range(_MAX_DEPTH):
        level = [
            child
            for container in level
            for child in (container.values() if isinstance(container, dict) else container)  # pyright: ignore[reportUnknownVariableType,reportUnknownMemberType]
            if isinstance(child, (dict, list, tuple))
        ]
        if not level:
            return False
    return True


def _raise_with_path(tree: object, name: str, error: Exception | None) -> NoReturn:
    """Find what cannot be written and raise an error that says where it is."""
    places: list[tuple[str, Any, int]] = [(name, tree, 1)]
    while places:
        path, value, depth = places.pop()
        if depth > _MAX_DEPTH:
            raise ValueError(
                f"{path[:100]}… contains itself or is nested deeper than {_MAX_DEPTH} levels"
            ) from error
        children: Iterable[tuple[str, Any]] = ()
        try:
            if not isinstance(value, (dict, list, tuple, *_SCALARS)):
                value = _as_json_type(value)
            if isinstance(value, dict):
                keys = cast("dict[Any, Any]", value)
                json.dumps(dict.fromkeys(keys), allow_nan=False)
                children = ((f"{path}.{key}", item) for key, item in keys.items())
            elif isinstance(value, (list, tuple)):
                items = cast("Sequence[Any]", value)
                children = ((f"{path}[{index}]", item) for index, item in enumerate(items))
            elif not isinstance(value, (bytes, bytearray)):
                json.dumps(value, allow_nan=False)
        except TypeError as cause:
            raise TypeError(f"{path} cannot be written as JSON: {cause}") from error
        except ValueError as cause:
            raise ValueError(f"{path} cannot be written as JSON: {cause}") from error
        places.extend((child_path, child, depth + 1) for child_path, child in children)
    raise ValueError(f"{name} cannot be written as JSON: {error}") from error


def restore(container: Any, key: Any, *, bytes_too: bool = True) -> None:
    """Undo the markers in the parsed object `container[key]`, in place.

    The object itself may be a literal, but not bytes: it has to stay an object. So does anything in it that
    only looks like a marker.
    """
    places: list[tuple[Any, Any]] = [(container, key)]
    while places:
        holder, name = places.pop()
        value = holder[name]
        if isinstance(value, dict):
            fields = cast("dict[str, Any]", value)
            literal = fields.get(_LITERAL) if len(fields) == 1 else None
            if isinstance(literal, dict) and _is_marker(cast("dict[Any, Any]", literal)):
                fields = holder[name] = cast("dict[str, Any]", literal)
            elif bytes_too and holder is not container and restore_bytes(holder, name):
                continue
            places.extend((fields, field) for field in fields)
        elif isinstance(value, list):
            items = cast("list[Any]", value)
            places.extend((items, index) for index in range(len(items)))


def restore_bytes(holder: Any, name: Any) -> bool:
    """Replace the marker at `holder[name]` by its bytes; return whether it was one."""
    marker = holder[name]
    if not isinstance(marker, dict) or len(cast("dict[str, Any]", marker)) != 1:
        return False
    text = cast("dict[str, Any]", marker).get(_BYTES)
    if not isinstance(text, str):
        return False
    try:
        holder[name] = base64.b64decode(text, validate=True)
    except ValueError:
        return False
    return True
