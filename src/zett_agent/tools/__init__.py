"""Tools: what a model can call, how they are declared, and how a call is run.

Importing the package loads nothing; each name is imported from its module on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazy_exports

if TYPE_CHECKING:
    from .base import AgentTool as AgentTool
    from .base import ToolExecutionMode as ToolExecutionMode
    from .base import ToolResult as ToolResult
    from .base import current_tool_call_id as current_tool_call_id
    from .base import get_tool_guidelines as get_tool_guidelines
    from .base import get_tool_snippet as get_tool_snippet
    from .base import render_tool_description as render_tool_description
    from .base import render_tool_guidance as render_tool_guidance
    from .base import render_tool_search_text as render_tool_search_text
    from .base import tool as tool

_MODULES = {
    "AgentTool": ".base",
    "ToolExecutionMode": ".base",
    "ToolResult": ".base",
    "current_tool_call_id": ".base",
    "get_tool_guidelines": ".base",
    "get_tool_snippet": ".base",
    "render_tool_description": ".base",
    "render_tool_guidance": ".base",
    "render_tool_search_text": ".base",
    "tool": ".base",
}

__getattr__, __dir__, __all__ = lazy_exports(__name__, _MODULES)  # pyright: ignore[reportUnsupportedDunderAll]
