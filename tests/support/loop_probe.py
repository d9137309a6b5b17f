"""An extension that writes down what it sees, in the notation of the recorded traces.

`E:` is a notification, `H:` a hook, `M:` model middleware, `T:` tool middleware, `S:` an event that reached
the consumer, `X:` an act of the test.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from typing import Any

from zett_agent.agent import AgentRunConfig, AgentRunContext
from zett_agent.events import AgentEvent
from zett_agent.extensions.base import AgentExtension, ModelRequestNext, ToolCallNext
from zett_agent.extensions.events import (
    CompactionEvent,
    ContentCompletedEvent,
    ContentStartedEvent,
    ExtensionEvent,
    MessageAppendedEvent,
    PhaseTransitionEvent,
    ReasoningCompletedEvent,
    ReasoningStartedEvent,
    RunCancelledEvent,
)
from zett_agent.messages import AnyMessage, AssistantMessage, ToolCall, ToolMessage
from zett_agent.model import ModelEvent, ModelRequest, ModelResponse

__all__ = ["Probe", "Seed", "describe_event", "describe_notification", "steer", "tell"]

_BOUNDARIES: dict[type[ExtensionEvent], str] = {
    ReasoningStartedEvent: "reasoning_started",
    ReasoningCompletedEvent: "reasoning_completed",
    ContentStartedEvent: "content_started",
    ContentCompletedEvent: "content_completed",
    CompactionEvent: "compaction",
}


def describe_notification(event: ExtensionEvent) -> str:
    match event:
        case PhaseTransitionEvent():
            return f"E:{event.previous_phase}>{event.current_phase}"
        case RunCancelledEvent():
            return f"E:run_cancelled prev={event.previous_phase}"
        case MessageAppendedEvent(message=ToolMessage() as message):
            return f"E:+tool {message.tool_call_id} {'ok' if message.success else 'fail'}"
        case MessageAppendedEvent(message=message):
            return f"E:+{message.role}"
        case _:
            return f"E:{_BOUNDARIES.get(type(event), type(event).__name__)}"


def describe_event(event: AgentEvent) -> str:
    line = f"S:{event.type}@{event.phase}"
    if event.tool_calls:
        line += " " + ",".join(call.id for call in event.tool_calls)
    if event.stop is not None:
        line += f" stop={event.stop.reason}"
    return line


class Probe(AgentExtension):
    """Writes every hook it is called with into `trace`, then calls the function registered for that hook.

    Example:
        >>> probe = Probe(before_run=lambda context: context.add_message(SystemMessage(content="x")))
    """

    def __init__(self, trace: list[str] | None = None, **actions: Callable[..., Any]) -> None:
        self.trace: list[str] = [] if trace is None else trace
        self.actions = actions
        self.notifications: list[ExtensionEvent] = []
        self.contexts: list[AgentRunContext] = []

    async def _hook(self, hook: str, *arguments: Any, note: str = "") -> None:
        self.trace.append(f"H:{hook}{note}")
        await self._act(hook, *arguments)

    async def _act(self, hook: str, *arguments: Any) -> None:
        action = self.actions.get(hook)
        if action is not None:
            result = action(*arguments)
            if inspect.isawaitable(result):
                await result

    async def on_tool(self, context: AgentRunContext) -> None:
        self.contexts.append(context)
        await self._hook("on_tool", context)

    async def on_state(self, context: AgentRunContext) -> None:
        await self._hook("on_state", context)

    async def on_message(self, context: AgentRunContext) -> None:
        await self._hook("on_message", context)

    async def before_run(self, context: AgentRunContext) -> None:
        await self._hook("before_run", context)

    async def before_turn(self, context: AgentRunContext) -> None:
        await self._hook("before_turn", context)

    async def before_model(self, context: AgentRunContext, request: ModelRequest) -> None:
        await self._hook("before_model", context, request)

    async def on_model_request(
        self, context: AgentRunContext, request: ModelRequest, call_next: ModelRequestNext
    ) -> AsyncIterator[ModelEvent]:
        self.trace.append("M:enter")
        try:
            await self._act("on_model_request", context, request)
            async for event in call_next(request):
                yield event
        finally:
            self.trace.append("M:exit")

    async def after_model(self, context: AgentRunContext, response: ModelResponse) -> None:
        await self._hook("after_model", context, response)

    async def before_tool(self, context: AgentRunContext, call: ToolCall) -> None:
        await self._hook("before_tool", context, call, note=f" {call.id}")

    async def on_tool_call(self, context: AgentRunContext, call: ToolCall, call_next: ToolCallNext) -> Any:
        self.trace.append(f"T:enter {call.id}")
        try:
            await self._act("on_tool_call", context, call)
            return await call_next()
        finally:
            self.trace.append(f"T:exit {call.id}")

    async def after_tool(
        self, context: AgentRunContext, call: ToolCall, result: ToolMessage, error: Exception | None
    ) -> None:
        note = f" {call.id}" if error is None else f" {call.id} {type(error).__name__}"
        await self._hook("after_tool", context, call, result, error, note=note)

    async def after_turn(self, context: AgentRunContext, result: AssistantMessage) -> None:
        await self._hook("after_turn", context, result)

    async def after_run(self, context: AgentRunContext, result: AssistantMessage) -> None:
        await self._hook("after_run", context, result)

    async def on_success(self, context: AgentRunContext, result: AssistantMessage) -> None:
        await self._hook("on_success", context, result)

    async def on_error(self, context: AgentRunContext, error: Exception) -> None:
        await self._hook("on_error", context, error, note=f" {type(error).__name__}")

    async def on_compact(self, context: AgentRunContext) -> None:
        await self._hook("on_compact", context)

    async def on_event(self, context: AgentRunContext, event: ExtensionEvent) -> None:
        self.notifications.append(event)
        self.trace.append(describe_notification(event))
        await self._act("on_event", context, event)


class Seed(AgentExtension):
    """Restores a history the first time a session is seen, as a storage would. Register it first."""

    priority = 10

    def __init__(self, *messages: AnyMessage) -> None:
        self.messages = messages
        self._seen: set[str] = set()

    async def on_state(self, context: AgentRunContext) -> None:
        if context.session_id not in self._seen:
            self._seen.add(context.session_id)
            context.replace_messages([*context.state.messages, *self.messages], emit_new=False)


def steer(agent: Any, session_id: str, content: Any = "steer", **payload: Any) -> list[str]:
    """Send steering from outside, as a user interface does."""
    return _send(agent, session_id, "steering_message", {"content": content, **payload})


def tell(agent: Any, session_id: str, content: Any = "internal") -> list[str]:
    """Send an internal message from outside."""
    return _send(agent, session_id, "internal_message", {"content": content})


def _send(agent: Any, session_id: str, name: str, payload: dict[str, Any]) -> list[str]:
    from zett_agent.extensions.external import ExternalEvent

    return agent.emit_external_event(
        ExternalEvent(name, payload), config=AgentRunConfig(session_id=session_id)
    )
