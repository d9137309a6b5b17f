"""Reading fields of decoded JSON that may be missing or of another type."""

from __future__ import annotations

from typing import Any, cast

__all__ = ["JsonObject", "read_int", "read_object", "read_objects", "read_str"]

JsonObject = dict[str, Any]


def read_str(value: object) -> str:
    """Return a string, or `""` for anything else."""
    return value if isinstance(value, str) else ""


def read_int(value: object) -> int:
    """Return an int, or 0 for anything else; a bool is not an int."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def read_object(value: object) -> JsonObject:
    """Return a JSON object, or an empty one for anything else."""
    return cast(JsonObject, value) if isinstance(value, dict) else {}


def read_objects(value: object) -> list[JsonObject]:
    """Return the JSON objects of a list, or nothing."""
    if not isinstance(value, list):
        return []
    return [cast(JsonObject, item) for item in cast("list[Any]", value) if isinstance(item, dict)]
