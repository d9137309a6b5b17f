"""Running one tool call: middleware around the handler, and what the model gets to read of the outcome.

What a loop needs for one call, in this order:

* `await invoke_tool(context, call, registered)` runs middleware and handler and returns the raw result. While
  it runs, `current_tool_call_id()` is the call's id and the handler can receive the context; before and after
  it, neither holds. Nothing is caught.
* `tool_result_content(tool, value)` turns a raw result into the content of a successful `ToolMessage`. What
  it raises makes the call a failed one, like an exception of the handler.
* `tool_error_text(error)` is the content of the failed `ToolMessage` for an exception.
* `internal_cancellation(call, error)` is the exception to report when a handler leaks a `CancelledError`
  although nobody cancelled the run; only the loop can know that.

Content and text are encodable: surrogate pairs are joined, lone halves replaced.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..extensions.base import AgentExtension, hook_type_error, overrides
from ._errors import tool_error_text
from ._registry import peek_tool
from ._running import invocation_scope
from ._serialize import tool_result_content
from .base import AgentTool, ToolResult

if TYPE_CHECKING:
    import asyncio

    from ..agent import AgentRunContext
    from ..messages import ToolCall

__all__ = [
    "internal_cancellation",
    "invocation_scope",
    "invoke_tool",
    "tool_error_text",
    "tool_result_content",
]

_HOOK = "on_tool_call"


async def invoke_tool(
    context: AgentRunContext,
    call: ToolCall,
    registered: AgentTool,
    *,
    refresh_registration: bool = True,
) -> ToolResult:
    """Run `on_tool_call` middleware around a tool's handler and return the raw result.

    The first extension of `context.extensions` is the outermost layer; those that do not override the hook
    are skipped. Each `call_next()` runs the inner layers again, with the arguments that `call` has then.
    Nothing is emitted, serialized or caught; cancellation reaches middleware and handler.

    Args:
        context: The running request.
        call: What the model asked for.
        registered: The tool that was found for it.
        refresh_registration: Whether the handler is looked up in `context.tools` when it runs, so that a
            hook may replace it; if the name is gone by then, `registered` runs.

    Raises:
        TypeError: An extension's `on_tool_call` is not an asynchronous function.
        BaseException: Whatever middleware or handler raise.

    Example:
        >>> await invoke_tool(context, ToolCall("c1", "add", {"a": 1, "b": 2}), add)  # doctest: +SKIP
        3
    """
    layers = _layers(context)
    invocation = _ToolInvocation(context, call, registered, layers, refresh_registration)
    with invocation_scope(context, call):
        return await invocation.run_from(0)


def _layers(context: AgentRunContext) -> Sequence[AgentExtension]:
    """Return the extensions that override the hook, in priority order."""
    table = getattr(context, "_hook_table", None)
    if table is not None:
        return table().of(_HOOK)  # a running request has worked it out already
    return [extension for extension in context.extensions if overrides(extension, _HOOK)]


def internal_cancellation(call: ToolCall, error: asyncio.CancelledError) -> RuntimeError:
    """Return the failure of a tool that awaited something cancelled elsewhere, with `error` as its cause."""
    failure = RuntimeError(
        f"Tool {call.name!r} was cancelled internally: something that it waited for was cancelled, but the "
        "run was not"
    )
    failure.__cause__ = error
    return failure


class _ToolInvocation:
    """One call with the layers around its handler."""

    __slots__ = ("_call", "_context", "_layers", "_refresh", "_registered")

    def __init__(
        self,
        context: AgentRunContext,
        call: ToolCall,
        registered: AgentTool,
        layers: Sequence[AgentExtension],
        refresh: bool,
    ) -> None:
        self._context = context
        self._call = call
        self._registered = registered
        self._layers = layers
        self._refresh = refresh

    async def run_from(self, layer: int) -> Any:
        """Run the layers from number `layer` on, the handler being the last."""
        if layer == len(self._layers):
            return await self._current_tool()(self._call.arguments)
        extension = self._layers[layer]

        async def call_next() -> Any:
            return await self.run_from(layer + 1)

        result: Any = extension.on_tool_call(self._context, self._call, call_next)
        if not hasattr(result, "__await__"):
            raise hook_type_error(extension, _HOOK, f"an async function, but it returned {result!r}")
        return await result

    def _current_tool(self) -> AgentTool:
        if not self._refresh:
            return self._registered
        found = peek_tool(self._context.tools, self._call.name)
        return self._registered if found is None else found
