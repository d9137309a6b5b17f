"""How a failed tool call reads for the model."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from .._text import encodable

if TYPE_CHECKING:
    from pydantic_core import InitErrorDetails, ValidationError

__all__ = ["compact_validation_error", "tool_error_text"]

MAX_VALIDATION_BYTES = 2_000
"""Longest text of a validation error."""

MAX_GROUP_LINES = 20
"""How many errors of an exception group are listed."""

_MAX_FIELDS = 16
_MAX_LOCATION_PARTS = 8
_MAX_PART_BYTES = 80
_MAX_MESSAGE_BYTES = 700
_DOCUMENTATION_LINE = re.compile(r"\n[ \t]*For further information visit https://errors\.pydantic\.dev/\S*")


def tool_error_text(error: BaseException) -> str:
    """Return the content of the failed tool message for `error`.

    It is `str(error)`, except that a blank text gives way to the class name, an exception group to the
    errors in it, links to a validation library's documentation are left out, and surrogates are cleaned.

    Example:
        >>> tool_error_text(RuntimeError())
        'RuntimeError'
    """
    leaves = list(_leaves(error))
    if len(leaves) == 1:
        return _one_text(leaves[0])
    lines = [f"- {type(leaf).__name__}: {_one_text(leaf)}" for leaf in leaves[:MAX_GROUP_LINES]]
    if len(leaves) > MAX_GROUP_LINES:
        lines.append(f"- and {len(leaves) - MAX_GROUP_LINES} more errors")
    return f"{len(leaves)} errors:\n" + "\n".join(lines)


def compact_validation_error(error: ValidationError) -> ValidationError:
    """Return `error` as one whose text has no documentation links and a bounded length.

    Types, locations, messages, inputs and contexts are those of the original, as far as they are short.
    """
    from pydantic_core import ValidationError

    details = error.errors(include_url=False)
    lines = [_line(cast(Mapping[str, Any], item)) for item in details[:_MAX_FIELDS]]
    while True:
        hidden = len(details) - len(lines)
        shown = [*lines, _summary(hidden)] if hidden else lines
        compact = ValidationError.from_exception_data(error.title, shown)
        if len(lines) <= 1 or len(str(compact).encode(errors="replace")) <= MAX_VALIDATION_BYTES:
            return compact
        lines.pop()


def _line(item: Mapping[str, Any]) -> InitErrorDetails:
    from pydantic_core import PydanticCustomError

    # Errors of a type of our own carry no link, and their text is taken as it is.
    message = _shorten(str(item["msg"]), _MAX_MESSAGE_BYTES)
    context = item.get("ctx")
    placeholders = context is not None and any(f"{{{key}}}" in message for key in context)
    kind: Any = item["type"]
    custom = PydanticCustomError(kind, cast(Any, message), None if placeholders else context)
    location: list[int | str] = [
        _shorten(part, _MAX_PART_BYTES) if isinstance(part, str) else part for part in item["loc"]
    ]
    if len(location) > _MAX_LOCATION_PARTS:
        location[_MAX_LOCATION_PARTS:] = ["…"]
    return {"type": custom, "loc": tuple(location), "input": item["input"]}


def _summary(hidden: int) -> InitErrorDetails:
    from pydantic_core import PydanticCustomError

    plural = "s" if hidden > 1 else ""
    message: Any = f"{hidden} more error{plural}"
    return {"type": PydanticCustomError("more_errors", message), "loc": ("…",), "input": None}


def _shorten(text: str, limit: int) -> str:
    data = text.encode(errors="replace")
    if len(data) <= limit:
        return text
    half = limit // 2 - 2
    return f"{data[:half].decode(errors='ignore')}…{data[-half:].decode(errors='ignore')}"


def _leaves(error: BaseException) -> Iterator[BaseException]:
    group_class = _exception_group_class()
    stack = [error]
    while stack:
        current = stack.pop()
        if group_class is not None and isinstance(current, group_class):
            stack.extend(reversed(cast("Any", current).exceptions))
        else:
            yield current


def _exception_group_class() -> Any:
    # Before Python 3.11 groups come from a backport; while that is not loaded, nobody can have raised one.
    home = sys.modules.get("builtins" if sys.version_info >= (3, 11) else "exceptiongroup")
    return getattr(home, "BaseExceptionGroup", None)


def _one_text(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:
        text = ""  # an exception that cannot describe itself still has a class
    if "errors.pydantic.dev" in text:
        text = _DOCUMENTATION_LINE.sub("", text)
    return encodable(text) if text.strip() else type(error).__name__
