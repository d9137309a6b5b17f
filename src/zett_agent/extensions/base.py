"""The extension contract: every hook the loop offers, as methods that do nothing by default.

An extension derives from `AgentExtension` and overrides what it needs. Hooks of one kind run one after
the other, lowest `priority` first; the first exception stops them. Middleware nests: the first extension
is the outermost layer. One instance may serve many sessions at once, so data of a request belongs on the
context or in a dictionary keyed by it. Subclasses need not call `super().__init__()`.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

from ..messages import AssistantMessage, ToolCall, ToolMessage
from ..model import ModelEvent, ModelRequest, ModelResponse

if TYPE_CHECKING:
    from ..agent import AgentRunConfig, AgentRunContext
    from ..events import AgentEvent
    from .events import ExtensionEvent
    from .external import ExternalEvent

if sys.version_info >= (3, 12):
    from typing import TypeAliasType
else:
    from typing_extensions import TypeAliasType

__all__ = [
    "AgentEventHooksMixin",
    "AgentExtension",
    "AgentMaintenanceHooksMixin",
    "AgentModelHooksMixin",
    "AgentRunHooksMixin",
    "AgentSetupHooksMixin",
    "AgentToolHooksMixin",
    "AgentTurnHooksMixin",
    "MiddlewareHook",
    "ModelRequestNext",
    "ToolCallNext",
]

ModelRequestNext = TypeAliasType("ModelRequestNext", Callable[[ModelRequest], AsyncIterator[ModelEvent]])
"""Continues with the next layer: returns the stream for a request. May be left uncalled."""

ToolCallNext = TypeAliasType("ToolCallNext", Callable[[], Awaitable[Any]])
"""Runs the next layer and returns its raw result. May be awaited zero, one or many times."""


class MiddlewareHook:
    """Hooks that wrap a model call or a tool call."""

    async def on_model_request(
        self, context: AgentRunContext, request: ModelRequest, call_next: ModelRequestNext
    ) -> AsyncIterator[ModelEvent]:
        """Wrap the provider's stream. Must be an async generator.

        Replace the request, filter or add events, or answer without calling `call_next`.

        Example:
            >>> class Shorten(AgentExtension):
            ...     async def on_model_request(self, context, request, call_next):
            ...         async for event in call_next(replace(request, messages=request.messages[-20:])):
            ...             yield event
        """
        stream = call_next(request)
        try:
            async for event in stream:
                yield event
        finally:
            aclose = getattr(stream, "aclose", None)
            if aclose is not None:
                await aclose()

    async def on_tool_call(self, context: AgentRunContext, call: ToolCall, call_next: ToolCallNext) -> Any:
        """Wrap a tool's handler and return its raw result.

        Change `call.arguments`, skip the handler, run it again, transform the result, or raise to turn
        the call into a failed result.
        """
        return await call_next()


class AgentSetupHooksMixin:
    """Hooks of loading, before anything is sent to a model."""

    async def on_tool(self, context: AgentRunContext) -> None:
        """Register tools for this request. Runs for all extensions before any `on_state`."""

    async def on_state(self, context: AgentRunContext) -> None:
        """Restore history or add instructions."""

    async def on_message(self, context: AgentRunContext) -> None:
        """See or replace `context.input_message` before it is appended. Not called on resume."""


class AgentRunHooksMixin:
    """Hooks around a whole request."""

    async def before_run(self, context: AgentRunContext) -> None:
        """The input is in history; the first turn is about to begin."""

    async def after_run(self, context: AgentRunContext, result: AssistantMessage) -> None:
        """The final answer is there and no further input waits."""

    async def on_success(self, context: AgentRunContext, result: AssistantMessage) -> None:
        """All `after_run` hooks are done."""

    async def on_error(self, context: AgentRunContext, error: Exception) -> None:
        """The request or pass failed. Not called for cancellation."""


class AgentTurnHooksMixin:
    """Hooks around a turn: one model step and all tools it asked for."""

    async def before_turn(self, context: AgentRunContext) -> None:
        """A turn begins."""

    async def after_turn(self, context: AgentRunContext, result: AssistantMessage) -> None:
        """A turn is settled; `result` is the assistant message of its last step."""


class AgentModelHooksMixin:
    """Hooks around a model step."""

    async def before_model(self, context: AgentRunContext, request: ModelRequest) -> None:
        """See what would be sent now; change messages or tools through the context."""

    async def after_model(self, context: AgentRunContext, response: ModelResponse) -> None:
        """The assistant message is in history."""


class AgentToolHooksMixin:
    """Hooks around a tool call."""

    async def before_tool(self, context: AgentRunContext, call: ToolCall) -> None:
        """Before a batch starts; change `call.arguments` or wait for a person."""

    async def after_tool(
        self, context: AgentRunContext, call: ToolCall, result: ToolMessage, error: Exception | None
    ) -> None:
        """After a call, before its result is appended; change `result`."""


class AgentEventHooksMixin:
    """Hooks for notifications and for events from outside."""

    async def on_event(self, context: AgentRunContext, event: ExtensionEvent) -> None:
        """Receive every published notification."""

    def accept(self, config: AgentRunConfig | None, event: ExternalEvent) -> bool:
        """Say whether this extension takes an external event. Synchronous; may run in any thread."""
        return False


class AgentMaintenanceHooksMixin:
    """Hooks of the compaction pass."""

    async def on_compact(self, context: AgentRunContext) -> None:
        """Shorten the context on request."""


class AgentExtension(
    MiddlewareHook,
    AgentSetupHooksMixin,
    AgentRunHooksMixin,
    AgentTurnHooksMixin,
    AgentModelHooksMixin,
    AgentToolHooksMixin,
    AgentEventHooksMixin,
    AgentMaintenanceHooksMixin,
):
    """Base class of extensions.

    Attributes:
        priority: Order among the extensions of an agent, lower first; read once when the agent is built.

    Example:
        >>> class Log(AgentExtension):
        ...     async def before_tool(self, context, call):
        ...         print(call.name, call.arguments)
    """

    priority: int = 100

    @property
    def name(self) -> str:
        """The name other extensions address this one by; the class name unless assigned."""
        return self.__dict__.get(_NAME, type(self).__name__)

    @name.setter
    def name(self, value: str) -> None:
        self.__dict__[_NAME] = value

    @property
    def pending(self) -> bool:
        """Whether a request or pass of any agent with this instance is unfinished. Thread-safe."""
        return self.__dict__.get(_ACTIVE, 0) > 0


# Kept in the instance dictionary under names of our own, because subclasses skip `__init__` and may be
# unhashable, frozen, or define `pending` themselves.
_NAME = "_zett_agent_name"
_ACTIVE = "_zett_agent_active_requests"
_active_lock = threading.Lock()

HOOK_NAMES = frozenset(
    name
    for mixin in AgentExtension.__mro__[1:-1]
    for name, value in vars(mixin).items()
    if callable(value) and not name.startswith("_")
)
"""Every hook an extension can override."""


def overrides(extension: object, hook: str) -> bool:
    """Return whether the class of `extension`, or the instance itself, replaces the default of `hook`."""
    if hook in getattr(extension, "__dict__", ()):
        return True
    own = getattr(type(extension), hook, None)
    return own is not None and own is not getattr(AgentExtension, hook)


_EventHook = TypeVar("_EventHook", bound=Callable[..., Any])


def receives(*event_types: type[ExtensionEvent]) -> Callable[[_EventHook], _EventHook]:
    """Decorate an `on_event` that ignores every other notification, so that it need not be called for them.

    The mark is on the function: a subclass that overrides `on_event` receives everything again.
    """

    def mark(hook: _EventHook) -> _EventHook:
        hook._zett_agent_event_types = event_types  # pyright: ignore[reportFunctionMemberAccess]
        return hook

    return mark


def received_events(extension: AgentExtension) -> tuple[type[ExtensionEvent], ...] | None:
    """Return the notifications that `on_event` of an extension is limited to, or `None` for all."""
    return getattr(extension.on_event, "_zett_agent_event_types", None)


_EmissionWatcher = Callable[["AgentRunContext", "AgentEvent"], None]
_emission_watcher: ContextVar[_EmissionWatcher | None] = ContextVar(
    "zett_agent_emission_watcher", default=None
)


@contextmanager
def watch_emissions(watcher: _EmissionWatcher) -> Generator[None, None, None]:
    """Have `watcher` called with each event that code inside the block emits through a context."""
    token = _emission_watcher.set(watcher)
    try:
        yield
    finally:
        # An abandoned block may be collected in another context, which has its own value.
        with suppress(ValueError):
            _emission_watcher.reset(token)


def note_emission(context: AgentRunContext, event: AgentEvent) -> None:
    """Tell whoever watches the running code that it emits `event`, before the consumer sees it."""
    watcher = _emission_watcher.get()
    if watcher is not None:
        watcher(context, event)


def mark_active(extensions: Iterable[AgentExtension], change: int) -> None:
    """Count a request in (+1) or out (-1) of what `AgentExtension.pending` of each of them reports."""
    with _active_lock:
        for extension in extensions:
            values = extension.__dict__
            values[_ACTIVE] = values.get(_ACTIVE, 0) + change


def hook_type_error(extension: object, hook: str, expected: str) -> TypeError:
    """Return the error for a hook that was written as the wrong kind of function."""
    name = getattr(extension, "name", type(extension).__name__)
    return TypeError(f"{hook} of extension {name} must be {expected}")
