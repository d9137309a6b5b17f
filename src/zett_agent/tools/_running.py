"""What code inside a tool can ask about the call it belongs to.

The values travel in context variables, so they reach the handler, tool middleware, tasks that these start,
and the worker thread of a synchronous tool.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..agent import AgentRunContext
    from ..messages import ToolCall

__all__ = [
    "ThreadCall",
    "current_tool_call_id",
    "invocation_scope",
    "running_context",
    "thread_call",
    "tool_cancelled",
]


@dataclass(frozen=True, slots=True)
class _Invocation:
    call_id: str
    context: AgentRunContext


@dataclass(slots=True, eq=False)
class ThreadCall:
    """One synchronous handler in its worker thread.

    Attributes:
        cancelled: Set when nobody waits for its result any more.
        parent: The synchronous handler that, through whatever code, started this one.
    """

    parent: ThreadCall | None
    cancelled: bool = False


_invocation: ContextVar[_Invocation | None] = ContextVar("zett_agent_tool_invocation", default=None)
thread_call: ContextVar[ThreadCall | None] = ContextVar("zett_agent_tool_thread_call", default=None)


def current_tool_call_id() -> str | None:
    """Return the id of the tool call that is being executed, or `None` outside of one.

    It is set for tool middleware, for the handler (also in the worker thread of a synchronous one), and in
    tasks that these start.

    Example:
        >>> current_tool_call_id() is None
        True
    """
    invocation = _invocation.get()
    return None if invocation is None else invocation.call_id


def running_context() -> AgentRunContext | None:
    """Return the context of the request whose tool call is being executed, or `None`."""
    invocation = _invocation.get()
    return None if invocation is None else invocation.context


@contextmanager
def invocation_scope(context: AgentRunContext, call: ToolCall) -> Generator[None]:
    """Make `call` the one that code started inside the block belongs to."""
    token = _invocation.set(_Invocation(call.id, context))
    try:
        yield
    finally:
        # An abandoned block may be collected in another context, which has its own value.
        with suppress(ValueError):
            _invocation.reset(token)


def tool_cancelled() -> bool:
    """Return whether the result of this synchronous tool is no longer wanted.

    A thread cannot be stopped from outside, so a long loop in a synchronous tool should ask now and then,
    clean up and return. It turns true when the run or the call is cancelled, times out or is aborted, and
    when the interpreter exits. Asynchronous tools are cancelled in the usual way and need not ask.

    Example:
        >>> @tool  # doctest: +SKIP
        ... def count_lines(paths: list[str]) -> int:
        ...     '''Count lines. ...'''
        ...     total = 0
        ...     for path in paths:
        ...         if tool_cancelled():
        ...             break
        ...         total += Path(path).read_text().count("\\n")
        ...     return total
    """
    call = thread_call.get()
    while call is not None:
        if call.cancelled:
            return True
        call = call.parent
    return False
