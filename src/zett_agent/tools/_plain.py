"""Input schemas and checks for annotations that need no validation library.

Most tools take strings, numbers and lists of them. For those the schema is known at once, and arguments of
exactly the right types need no conversion, so the validation library, whose import costs more than
everything else here, is loaded only for other annotations and for arguments that do not fit as they are.
What this module produces equals what the library would.
"""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Union, cast

from ._signature import REQUIRED, ToolParameter

__all__ = ["PlainInput", "plain_input", "plain_schema"]

_MISMATCH: Any = object()


@dataclass(frozen=True, slots=True)
class _PlainType:
    """A type's JSON Schema, and a function that returns a value of it or `_MISMATCH`."""

    schema: dict[str, Any]
    accept: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class PlainInput:
    """The parameters of a tool whose annotations are all plain."""

    properties: dict[str, dict[str, Any]]
    _fields: tuple[tuple[str, Callable[[Any], Any], Any], ...]

    def accept(self, arguments: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the values for the handler, or `None` when the arguments do not fit as they are."""
        values: dict[str, Any] = {}
        given = 0
        for name, accept, default in self._fields:
            if name in arguments:
                value = accept(arguments[name])
                if value is _MISMATCH:
                    return None
                given += 1
            elif default is REQUIRED:
                return None
            else:
                value = default
            values[name] = value
        return values if given == len(arguments) else None


def plain_input(parameters: Sequence[ToolParameter]) -> PlainInput | None:
    """Return schema and checks for `parameters`, or `None` when one of them is not plain."""
    properties: dict[str, dict[str, Any]] = {}
    fields: list[tuple[str, Callable[[Any], Any], Any]] = []
    for parameter in parameters:
        plain = _plain_type(parameter.annotation)
        if plain is None or not _is_plain_default(parameter.default):
            return None
        schema = dict(plain.schema)
        if parameter.default is not REQUIRED:
            schema["default"] = parameter.default
        schema["title"] = parameter.name.title().replace("_", " ").strip()
        properties[parameter.name] = {key: schema[key] for key in sorted(schema)}
        fields.append((parameter.name, plain.accept, parameter.default))
    return PlainInput(properties, tuple(fields))


def plain_schema(annotation: Any) -> dict[str, Any] | None:
    """Return the JSON Schema of a plain annotation, or `None` when it is not plain."""
    plain = _plain_type(annotation)
    return None if plain is None else plain.schema


def _is_plain_default(value: Any) -> bool:
    # Other defaults are copied for each call or converted for the schema: not our business here.
    return value is REQUIRED or type(value) in _SCALARS or (type(value) is float and math.isfinite(value))


def _plain_type(annotation: Any) -> _PlainType | None:
    try:
        simple = _SIMPLE_TYPES.get(annotation)
    except TypeError:  # not hashable, hence nothing simple
        return None
    if simple is not None:
        return simple
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is list and len(arguments) == 1:
        return _list_type(arguments[0])
    if origin is dict and len(arguments) == 2 and arguments[0] is str:
        return _dict_type(arguments[1])
    if origin is Union or origin is types.UnionType:
        return _union_type(arguments)
    if origin is Literal:
        return _literal_type(arguments)
    return None


def _exactly(kind: type[Any]) -> Callable[[Any], Any]:
    def accept(value: Any) -> Any:
        return value if type(value) is kind else _MISMATCH

    return accept


def _accept_float(value: Any) -> Any:
    if type(value) is int:  # JSON writes 5.0 as 5
        try:
            return float(value)
        except OverflowError:
            return _MISMATCH
    return value if type(value) is float else _MISMATCH


def _accept_list(value: Any) -> Any:
    return list(cast("list[Any]", value)) if type(value) is list else _MISMATCH


def _accept_dict(value: Any) -> Any:
    return dict(cast("dict[Any, Any]", value)) if type(value) is dict else _MISMATCH


def _list_type(item: Any) -> _PlainType | None:
    plain = _plain_type(item)
    if plain is None:
        return None
    accept_item = plain.accept

    def accept(value: Any) -> Any:
        if type(value) is not list:
            return _MISMATCH
        items = [accept_item(item) for item in cast("list[Any]", value)]
        return _MISMATCH if any(item is _MISMATCH for item in items) else items

    return _PlainType({"items": plain.schema, "type": "array"}, accept)


def _dict_type(value_type: Any) -> _PlainType | None:
    plain = _plain_type(value_type)
    if plain is None:
        return None
    accept_value = plain.accept

    def accept(value: Any) -> Any:
        if type(value) is not dict:
            return _MISMATCH
        entries = {key: accept_value(item) for key, item in cast("dict[Any, Any]", value).items()}
        fits = all(type(key) is str and item is not _MISMATCH for key, item in entries.items())
        return entries if fits else _MISMATCH

    return _PlainType({"additionalProperties": plain.schema or True, "type": "object"}, accept)


def _union_type(members: Sequence[Any]) -> _PlainType | None:
    plain = {member: _plain_type(member) for member in members}
    types_ = [kind for kind in plain.values() if kind is not None and kind.schema]
    if len(types_) < len(members):
        return None  # not plain, or `Any`, which swallows the other members
    schemas = [kind.schema for kind in types_]
    containers = [schema["type"] for schema in schemas if schema.get("type") in ("array", "object")]
    if len(set(containers)) < len(containers) or any(schemas.count(schema) > 1 for schema in schemas):
        return None  # which of two lists a list fits better, and which of two equals stays, is not for us
    # An int is an int wherever one is allowed, so the member that would make it a float comes last.
    checks = [kind.accept for kind in sorted(types_, key=lambda kind: kind.accept is _accept_float)]

    def accept(value: Any) -> Any:
        for check in checks:
            accepted = check(value)
            if accepted is not _MISMATCH:
                return accepted
        return _MISMATCH

    # The library puts `null` last.
    return _PlainType({"anyOf": sorted(schemas, key=lambda schema: schema == _NULL)}, accept)


def _literal_type(values: Sequence[Any]) -> _PlainType | None:
    kinds: set[type[object]] = {type(value) for value in values}
    if not kinds <= _SCALARS or len(set(values)) < len(values):
        return None
    allowed: set[tuple[type[object], object]] = {(type(value), value) for value in values}
    schema: dict[str, Any] = {"const": values[0]} if len(values) == 1 else {"enum": list(values)}
    if len(kinds) == 1:
        schema["type"] = _JSON_NAMES[kinds.pop()]

    def accept(value: Any) -> Any:
        return value if type(value) in _SCALARS and (type(value), value) in allowed else _MISMATCH

    return _PlainType(schema, accept)


_JSON_NAMES: dict[type[Any], str] = {str: "string", int: "integer", bool: "boolean", type(None): "null"}
_SCALARS = frozenset(_JSON_NAMES)
_NULL = {"type": "null"}
_ANYTHING = _PlainType({}, lambda value: value)
_LIST = _PlainType({"items": {}, "type": "array"}, _accept_list)
_DICT = _PlainType({"additionalProperties": True, "type": "object"}, _accept_dict)
_SIMPLE_TYPES: dict[Any, _PlainType] = {
    **{kind: _PlainType({"type": name}, _exactly(kind)) for kind, name in _JSON_NAMES.items()},
    None: _PlainType(_NULL, _exactly(type(None))),
    float: _PlainType({"type": "number"}, _accept_float),
    Any: _ANYTHING,
    object: _ANYTHING,
    list: _LIST,
    list[Any]: _LIST,
    dict: _DICT,
    dict[str, Any]: _DICT,
}
