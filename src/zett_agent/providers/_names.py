"""Names and ids as services accept them in a history."""

from __future__ import annotations

import re
from collections.abc import Collection

from ..ids import new_uuid7

__all__ = ["UNNAMED_TOOL", "unique_call_id", "wire_name"]

UNNAMED_TOOL = "unnamed_tool"

_MAX_NAME = 64
_FOREIGN = re.compile(r"[^A-Za-z0-9_-]")


def wire_name(name: str, known: Collection[str]) -> str:
    """Return a tool name that every service accepts; models invent others, and a history repeats them.

    Names of the request's own tools are sent as they are.

    Example:
        >>> wire_name("functions.read file<|x|>", {"read"})
        'functions_read_file__x__'
    """
    if name in known:
        return name
    return _FOREIGN.sub("_", name)[:_MAX_NAME] if name.strip() else UNNAMED_TOOL


def unique_call_id() -> str:
    """Return an id for a tool call of a service that gave none, different from every other one."""
    return f"call_{new_uuid7()}"
