"""JSON values: their type, and the check that a mapping holds nothing else."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Union

if sys.version_info >= (3, 12):
    from typing import TypeAliasType
else:
    from typing_extensions import TypeAliasType

__all__ = ["JsonValue", "json_object"]

if TYPE_CHECKING:
    JsonValue = TypeAliasType(
        "JsonValue", "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
    )
else:
    # `|` cannot join types with the forward references that the recursion needs.
    JsonValue = TypeAliasType(
        "JsonValue",
        Union[bool, int, float, str, "list[JsonValue]", "dict[str, JsonValue]", None],
    )
"""A value that JSON can represent exactly, recursively."""

MAX_JSON_DEPTH = 500


def json_object(
    value: Mapping[str, JsonValue] | None, *, field_name: str, nonempty_keys: bool = False
) -> dict[str, JsonValue]:
    """Return a new dictionary with the entries of `value` after checking that all of it is JSON.

    Only the top level is copied; nested lists and dictionaries are shared with the input.

    Args:
        value: Any mapping, or `None` for an empty one. Nested containers must be `dict` and `list`.
        field_name: Named in error messages.
        nonempty_keys: Whether top-level keys that are empty or blank are refused.

    Raises:
        ValueError: A key is not a string (or blank, if refused), or a value is not JSON: tuples, sets,
            bytes, NaN, infinities, other objects, cycles, more than 500 levels. The path of the value
            is in the chained cause.

    Example:
        >>> json_object({"user": "u1"}, field_name="metadata")
        {'user': 'u1'}
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(f"{field_name} must be a mapping, not {type(value).__name__}")
    result: dict[str, JsonValue] = {}
    for key, item in value.items():
        if not isinstance(key, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"{field_name} keys must be strings, not {type(key).__name__}: {key!r}")
        if nonempty_keys and not key.strip():
            raise ValueError(f"{field_name} keys must be non-empty strings")
        result[key] = item
    try:
        _check_json(result, field_name)
    except ValueError as cause:
        raise ValueError(f"{field_name} must be JSON serializable: {cause}") from cause
    return result


def _check_json(root: dict[str, JsonValue], name: str) -> None:
    """Walk `root` without recursion, so that neither depth nor cycles can exhaust the stack."""
    # Each stack entry is a container on the path from the root: what it is called, what is left of it.
    stack: list[tuple[object, str, Iterator[tuple[object, Any]]]] = [(root, name, iter(root.items()))]
    open_ids = {id(root)}
    while stack:
        container, path, rest = stack[-1]
        step = next(rest, None)
        if step is None:
            stack.pop()
            open_ids.discard(id(container))
            continue
        key, item = step
        if item is None or isinstance(item, (str, int)):
            _check_key(container, key, path)
            continue
        _check_key(container, key, path)
        item_path = f"{path}[{key}]" if isinstance(container, list) else f"{path}.{key}"
        if isinstance(item, float):
            if not math.isfinite(item):
                raise ValueError(f"{item_path} is {item}, which JSON cannot represent")
        elif isinstance(item, (dict, list)):
            if id(item) in open_ids:  # pyright: ignore[reportUnknownArgumentType]
                raise ValueError(f"{item_path} is cyclic: it contains itself")
            if len(stack) >= MAX_JSON_DEPTH:
                raise ValueError(f"{path} is nested too deep: more than {MAX_JSON_DEPTH} levels")
            open_ids.add(id(item))  # pyright: ignore[reportUnknownArgumentType]
            stack.append((item, item_path, _entries(item)))  # pyright: ignore[reportUnknownArgumentType]
        else:
            raise ValueError(f"{item_path} is a {type(item).__name__}, which is not a JSON value")


def _entries(container: dict[Any, Any] | list[Any]) -> Iterator[tuple[object, Any]]:
    return iter(container.items()) if isinstance(container, dict) else iter(enumerate(container))


def _check_key(container: object, key: object, path: str) -> None:
    if isinstance(container, dict) and not isinstance(key, str):
        raise ValueError(f"{path} has a key of type {type(key).__name__}: {key!r}; keys must be strings")
