"""Rendering what tools say about their use: snippets, guidelines and return schemas."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from .base import AgentTool

__all__ = ["render_tool_description", "render_tool_guidance", "render_tool_search_text"]


def render_tool_guidance(
    tools: Sequence[AgentTool], *, snippets: bool = True, guidelines: bool = True, returns: bool = False
) -> str:
    """Return the guidance of several tools as text for a system message; empty when there is none.

    Args:
        tools: In the order in which they are to appear. Deferred tools are not skipped here.
        snippets: Whether to list call examples.
        guidelines: Whether to list usage rules.
        returns: Whether to list return schemas, beside the examples.

    Example:
        >>> print(render_tool_guidance([add]))  # doctest: +SKIP
        # Tool snippets
        - add: add(a=1, b=2)
        <BLANKLINE>
        # Tool guidelines
        ## add
        - Use it for sums.
    """
    blocks: list[str] = []
    bullets = [_snippet_bullet(tool, snippets=snippets, returns=returns) for tool in tools]
    if any(bullets):
        blocks.append("\n".join(["# Tool snippets", *filter(None, bullets)]))
    if guidelines:
        groups = [
            "\n".join([f"## {tool.name}", *_bullets(tool.guidelines)]) for tool in tools if tool.guidelines
        ]
        if groups:
            blocks.append("# Tool guidelines\n" + "\n\n".join(groups))
    return "\n\n".join(blocks)


def render_tool_description(
    tool: AgentTool,
    *,
    snippet: bool = True,
    guidelines: bool = True,
    returns: bool = False,
    base: str | None = None,
) -> str:
    """Return a tool description extended by the tool's guidance.

    Args:
        tool: Whose guidance to add.
        snippet: Whether to add the call examples.
        guidelines: Whether to add the usage rules.
        returns: Whether to add the return schema.
        base: The text to extend; the tool's description by default.
    """
    examples = list(_bullets(_lines(tool.snippet))) if snippet else []
    if returns and tool.return_schema is not None:
        examples.append(f"- returns {_schema_text(tool.return_schema)}")
    rules = list(_bullets(tool.guidelines)) if guidelines else []
    blocks = [tool.description if base is None else base]
    blocks += [
        "\n".join([heading, *lines])
        for heading, lines in (("Snippet:", examples), ("Guidelines:", rules))
        if lines
    ]
    return "\n\n".join(blocks)


def render_tool_search_text(tool: AgentTool) -> str:
    """Return the words by which a search index should find the tool.

    They are its name, its description, those of its parameters, its snippet and its guidelines.
    """
    properties = cast("Mapping[str, Any]", tool.parameters.get("properties", {}))
    described = (
        cast("Mapping[str, Any]", schema).get("description")
        for schema in properties.values()
        if isinstance(schema, Mapping)
    )
    texts = (tool.name.replace("_", " "), tool.description, *described, tool.snippet, *tool.guidelines)
    return " ".join(text for text in texts if isinstance(text, str) and text)


def _snippet_bullet(tool: AgentTool, *, snippets: bool, returns: bool) -> str:
    lines = _lines(tool.snippet) if snippets else []
    schema = tool.return_schema if returns else None
    if not lines and schema is None:
        return ""
    bullet = [f"- {tool.name}: {lines[0].strip()}"] if len(lines) == 1 else [f"- {tool.name}:"]
    if len(lines) > 1:
        bullet += [f"  {line}" for line in lines]
    if schema is not None:
        bullet.append(f"  returns {_schema_text(schema)}")
    return "\n".join(bullet)


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def _bullets(texts: Iterable[str]) -> Iterable[str]:
    return (f"- {text}" for text in texts)


def _schema_text(schema: Mapping[str, Any]) -> str:
    return json.dumps(schema, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
