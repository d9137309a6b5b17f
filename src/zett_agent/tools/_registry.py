"""The tools of one request: a view of the agent's tools that copies a tool only when it is taken out.

A request must not be able to change the agent's tools, but copying two hundred schemas for each request
costs more than the rest of it. So the dictionary is copied, and a tool when somebody gets hold of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from .base import AgentTool, copy_for_request

if TYPE_CHECKING:
    from collections.abc import ItemsView, ValuesView

    from ..model import ToolDefinition

__all__ = ["AgentTools", "RequestTools", "peek_tool", "peek_tools"]

_MISSING: Any = object()


class AgentTools:
    """The agent's tools as they were when a request started, with their definitions made once."""

    __slots__ = ("_fingerprint", "definitions", "tools")

    def __init__(self, tools: Mapping[str, AgentTool]) -> None:
        self.tools = dict(tools)
        self.definitions: dict[str, ToolDefinition] = {
            name: tool.definition for name, tool in self.tools.items()
        }
        self._fingerprint = _fingerprint(self.tools)

    def matches(self, tools: Mapping[str, AgentTool]) -> bool:
        """Return whether `tools` would give the same definitions, so that this object can be shared."""
        return self.tools.keys() == tools.keys() and self._fingerprint == _fingerprint(tools)


def _fingerprint(tools: Mapping[str, AgentTool]) -> list[tuple[Any, ...]]:
    return [
        (id(tool), tool.name, tool.description, id(tool.parameters), tool.deferred, tool.local_tool_search)
        for tool in tools.values()
    ]


class RequestTools(dict[str, AgentTool]):
    """Tool registry of one request. Reading an entry gives a copy that belongs to the request."""

    def __init__(self, shared: AgentTools) -> None:
        super().__init__(shared.tools)
        self._shared = shared
        self._own: set[str] = set()

    def peek(self, name: str) -> AgentTool | None:
        """Return a tool for reading only, without copying it."""
        return super().get(name)

    def peek_all(self) -> Iterable[AgentTool]:
        """Return all tools for reading only, without copying them."""
        return super().values()

    def definitions(self) -> tuple[ToolDefinition, ...]:
        """Return the definitions of all tools, made afresh only for those the request owns."""
        own, shared = self._own, self._shared.definitions
        if not own:
            return tuple(shared[name] for name in super().__iter__())
        return tuple(tool.definition if name in own else shared[name] for name, tool in super().items())

    def _take(self, name: str) -> AgentTool:
        tool = super().__getitem__(name)
        if name not in self._own:
            tool = copy_for_request(tool)
            self[name] = tool
        return tool

    def _take_all(self) -> None:
        if len(self._own) < len(self):
            for name in list(super().keys()):
                self._take(name)

    def __getitem__(self, name: str) -> AgentTool:
        return self._take(name)

    def __setitem__(self, name: str, tool: AgentTool) -> None:
        self._own.add(name)
        super().__setitem__(name, tool)

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        self._own.discard(name)

    def __iter__(self) -> Iterator[str]:
        # Overridden so that `dict(tools)` and `{**tools}` go through `__getitem__` too.
        return super().__iter__()

    def get(self, name: str, default: Any = None) -> Any:
        """Return the tool of that name, or `default`."""
        return self._take(name) if name in self else default

    def values(self) -> ValuesView[AgentTool]:  # type: ignore[override]
        """Return all tools, each belonging to the request."""
        self._take_all()
        return super().values()  # pyright: ignore[reportReturnType]

    def items(self) -> ItemsView[str, AgentTool]:  # type: ignore[override]
        """Return names and tools, each tool belonging to the request."""
        self._take_all()
        return super().items()  # pyright: ignore[reportReturnType]

    def pop(self, name: str, default: Any = _MISSING) -> Any:
        """Remove a tool from this request and return it, or `default`."""
        if name not in self:
            if default is _MISSING:
                raise KeyError(name)
            return default
        tool = self._take(name)
        del self[name]
        return tool

    def popitem(self) -> tuple[str, AgentTool]:
        """Remove and return the tool registered last."""
        if not self:
            raise KeyError("no tool is registered")
        name = next(reversed(self))
        return name, self.pop(name)

    def clear(self) -> None:
        """Remove all tools from this request."""
        super().clear()
        self._own.clear()

    def setdefault(self, name: str, default: Any = None) -> Any:
        """Return the tool of that name after registering `default` if there is none."""
        if name not in self:
            self[name] = default
        return self[name]

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Register several tools, replacing those of the same name."""
        for name, tool in dict(*args, **kwargs).items():
            self[name] = tool

    def __ior__(self, other: Any) -> RequestTools:  # type: ignore[override]
        self.update(other)
        return self

    def copy(self) -> dict[str, AgentTool]:
        """Return a plain dictionary with the request's tools."""
        return dict(self)


def peek_tool(tools: Mapping[str, AgentTool], name: str) -> AgentTool | None:
    """Return a tool of a registry for reading only, without making a request copy it."""
    return tools.peek(name) if isinstance(tools, RequestTools) else tools.get(name)


def peek_tools(tools: Mapping[str, AgentTool]) -> Iterable[AgentTool]:
    """Return the tools of a registry for reading only, without making a request copy each of them."""
    return tools.peek_all() if isinstance(tools, RequestTools) else tools.values()
