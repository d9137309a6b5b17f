"""Reading a tool's description, argument texts, snippet and guidelines from a docstring."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

__all__ = [
    "ToolDocumentation",
    "get_tool_guidelines",
    "get_tool_snippet",
    "parse_docstring",
    "read_docstring",
]

_SECTIONS = {
    "args:": "arguments",
    "arguments:": "arguments",
    "parameters:": "arguments",
    "snippet:": "snippet",
    "guidelines:": "guidelines",
}
# Headings of other docstring sections. Inside a section any lone word or two with a colon ends it; among
# arguments, where `path:` is an entry, only these and capitalised ones do.
_OTHER_HEADINGS = frozenset(
    f"{heading}:"
    for heading in (
        "attributes",
        "example",
        "examples",
        "note",
        "notes",
        "raises",
        "references",
        "return",
        "returns",
        "see also",
        "todo",
        "warning",
        "warnings",
        "warns",
        "yield",
        "yields",
    )
)
_HEADING = re.compile(r"[^\W\d_]+(?: [^\W\d_]+)?:")


@dataclass(slots=True)
class ToolDocumentation:
    """What a docstring says about a tool."""

    description: str
    arguments: dict[str, str] = field(default_factory=dict[str, str])
    snippet: str = ""
    guidelines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Line:
    indent: int
    text: str


def parse_docstring(docstring: str) -> ToolDocumentation:
    """Parse a docstring without its indentation.

    A first paragraph and `Args:`, `Snippet:` and `Guidelines:` sections are read; everything else, such as
    further paragraphs and a `Returns:` section, is left out.

    Raises:
        ValueError: There is no first paragraph.
    """
    lines = [_Line(len(line) - len(line.lstrip()), line.strip()) for line in docstring.splitlines()]
    description: list[str] = []
    for line in lines:
        if not line.text or line.text.lower() in _SECTIONS:
            break
        description.append(line.text)
    if not description:
        raise ValueError("a tool needs a docstring description: say in the first paragraph what it does")
    sections = _split_sections(lines[len(description) :])
    return ToolDocumentation(
        description=" ".join(description),
        arguments=_arguments(sections["arguments"]),
        snippet=_snippet(sections["snippet"]),
        guidelines=tuple(_guidelines(sections["guidelines"])),
    )


def read_docstring(function: Callable[..., Any]) -> ToolDocumentation:
    """Parse the docstring of `function`, which a method may inherit.

    Raises:
        ValueError: It has no description.
    """
    return parse_docstring(inspect.getdoc(function) or "")


def get_tool_snippet(function: Callable[..., Any]) -> str:
    """Return the `Snippet:` section of an undecorated function, or an empty string.

    Raises:
        ValueError: The docstring has no description.

    Example:
        >>> def add(a: int, b: int) -> int:
        ...     '''Add two numbers.
        ...
        ...     Snippet:
        ...         add(a=1, b=2)
        ...     '''
        >>> get_tool_snippet(add)
        'add(a=1, b=2)'
    """
    return read_docstring(function).snippet


def get_tool_guidelines(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the rules of the `Guidelines:` section of an undecorated function.

    Raises:
        ValueError: The docstring has no description.

    Example:
        >>> def add(a: int, b: int) -> int:
        ...     '''Add two numbers.
        ...
        ...     Guidelines:
        ...         - Use it for sums.
        ...     '''
        >>> get_tool_guidelines(add)
        ('Use it for sums.',)
    """
    return read_docstring(function).guidelines


def _split_sections(lines: Iterable[_Line]) -> dict[str, list[_Line]]:
    sections: dict[str, list[_Line]] = {"arguments": [], "snippet": [], "guidelines": []}
    current: str | None = None
    heading_indent = 0
    for line in lines:
        if not line.text:
            continue
        section = _SECTIONS.get(line.text.lower())
        if section is not None:
            current, heading_indent = section, line.indent
        elif current is not None:
            if line.indent <= heading_indent and _is_heading(line.text, current):
                current = None
            else:
                sections[current].append(line)
    return sections


def _is_heading(text: str, section: str) -> bool:
    if text.lower() in _OTHER_HEADINGS:
        return True
    return _HEADING.fullmatch(text) is not None and (section != "arguments" or text[0].isupper())


def _arguments(lines: Iterable[_Line]) -> dict[str, str]:
    texts: dict[str, str] = {}
    name, entry_indent = "", 0
    for line in lines:
        entry = None if name and line.indent > entry_indent else _argument_entry(line.text)
        if entry is not None:
            name, texts[entry[0]] = entry
            entry_indent = line.indent
        elif name:
            texts[name] = f"{texts[name]} {line.text}".strip()
    return texts


def _argument_entry(text: str) -> tuple[str, str] | None:
    """Split `name: text` or `name (type): text`; a colon inside the parentheses belongs to the type."""
    head, colon, rest = text.partition(":")
    if not colon:
        return None
    if "(" in head and ")" not in head and "):" in rest:
        rest = rest.partition("):")[2]
    return head.partition("(")[0].strip(), rest.strip()


def _snippet(lines: list[_Line]) -> str:
    # Code keeps its shape: only the indentation that all lines share goes.
    shared = min((line.indent for line in lines), default=0)
    return "\n".join(" " * (line.indent - shared) + line.text for line in lines)


def _guidelines(lines: Iterable[_Line]) -> list[str]:
    rules: list[str] = []
    entry_indent = 0
    for line in lines:
        if rules and line.indent > entry_indent:
            rules[-1] = f"{rules[-1]} {line.text}".strip()
            continue
        entry_indent = line.indent
        rules.append(line.text.removeprefix("-").strip())
    return [rule for rule in rules if rule]
