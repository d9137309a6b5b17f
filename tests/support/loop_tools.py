"""Hand-built tools for the tests of the loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from zett_agent.tools.base import AgentTool, ToolExecutionMode

__all__ = ["make_tool", "serial_tool"]


def make_tool(
    name: str,
    handler: Callable[..., Any] | None = None,
    *,
    mode: ToolExecutionMode = ToolExecutionMode.PARALLEL,
) -> AgentTool:
    """Build a tool that takes any arguments and, by default, answers `<name> done`."""

    async def default(**_: Any) -> str:
        return f"{name} done"

    return AgentTool(
        name=name,
        description=f"Do {name}.",
        parameters={"type": "object", "properties": {}},
        handler=handler or default,
        guidelines=(),
        execution_mode=mode,
    )


def serial_tool(name: str, handler: Callable[..., Any] | None = None) -> AgentTool:
    return make_tool(name, handler, mode=ToolExecutionMode.SERIAL)
