"""Events of a run as callbacks: a class with one method for each type of event."""

from __future__ import annotations

import difflib
import warnings
from typing import Any

from .events import AgentEvent, AgentEventType
from .sync_runtime import SyncMethodsMixin

__all__ = ["AgentEventDispatcher"]

_CALLBACKS = {event_type: f"on_{event_type.value}_event" for event_type in AgentEventType}


class AgentEventDispatcher(SyncMethodsMixin):
    """Calls one method for each event; override those that matter, as `async def` or plain `def`.

    Callbacks run one after the other on the agent's event loop, so a slow one delays the request. What they
    raise reaches the caller of the request and cancels it.

    A subclass that defines a method `on_…_event` for no existing type of event, most likely a misspelling,
    gets a warning when the class is created.

    Example:
        >>> class Printer(AgentEventDispatcher):
        ...     def on_text_delta_event(self, event):
        ...         print(event.delta, end="")
        >>> client = await create_agent(model, event_dispatcher=Printer())
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in vars(cls):
            if name.startswith("on_") and name.endswith("_event") and not hasattr(AgentEventDispatcher, name):
                close = difflib.get_close_matches(name, _CALLBACKS.values(), n=1, cutoff=0.8)
                hint = f"; did you mean {close[0]}?" if close else ""
                warnings.warn(
                    f"{cls.__name__}.{name} is never called: there is no such type of event{hint}",
                    stacklevel=2,
                )

    async def dispatch(self, event: AgentEvent) -> None:
        """Call the method for `event.type`, and await its result if that is awaitable.

        Raises:
            ValueError: The type is unknown.
        """
        callback = _CALLBACKS.get(event.type)
        if callback is None:
            callback = _CALLBACKS[AgentEventType(event.type)]
        result: Any = getattr(self, callback)(event)
        if hasattr(result, "__await__"):
            await result

    async def on_compaction_started_event(self, event: AgentEvent) -> None:
        """An extension began to shorten the context."""

    async def on_compaction_text_delta_event(self, event: AgentEvent) -> None:
        """A piece of the summary's text: `event.delta`."""

    async def on_compaction_reasoning_delta_event(self, event: AgentEvent) -> None:
        """A piece of reasoning about the summary: `event.delta`."""

    async def on_compaction_completed_event(self, event: AgentEvent) -> None:
        """The compaction ended: `event.applied`, `event.compaction`."""

    async def on_model_started_event(self, event: AgentEvent) -> None:
        """A model step begins."""

    async def on_content_started_event(self, event: AgentEvent) -> None:
        """The visible answer of a step begins."""

    async def on_content_completed_event(self, event: AgentEvent) -> None:
        """The visible answer of a step is complete."""

    async def on_reasoning_started_event(self, event: AgentEvent) -> None:
        """A segment of reasoning begins."""

    async def on_reasoning_completed_event(self, event: AgentEvent) -> None:
        """A segment of reasoning ended."""

    async def on_text_delta_event(self, event: AgentEvent) -> None:
        """A piece of the visible answer: `event.delta`."""

    async def on_reasoning_delta_event(self, event: AgentEvent) -> None:
        """A piece of readable reasoning: `event.delta`."""

    async def on_tool_call_delta_event(self, event: AgentEvent) -> None:
        """A fragment of a tool call: `event.tool_call_delta`."""

    async def on_server_tool_started_event(self, event: AgentEvent) -> None:
        """The provider runs a hosted tool: `event.server_tool_call`."""

    async def on_server_tool_input_delta_event(self, event: AgentEvent) -> None:
        """A piece of a hosted tool's input: `event.server_tool_input_delta`."""

    async def on_server_tool_completed_event(self, event: AgentEvent) -> None:
        """A hosted tool succeeded: `event.server_tool_result`."""

    async def on_server_tool_failed_event(self, event: AgentEvent) -> None:
        """A hosted tool failed: `event.server_tool_result`."""

    async def on_model_completed_event(self, event: AgentEvent) -> None:
        """A model step is over and in history: `event.response`."""

    async def on_model_stopped_event(self, event: AgentEvent) -> None:
        """The model stopped abnormally: `event.stop`, `event.message`."""

    async def on_tool_started_event(self, event: AgentEvent) -> None:
        """Tools begin to run, a whole parallel batch or one alone: `event.tool_calls`."""

    async def on_tool_completed_event(self, event: AgentEvent) -> None:
        """A tool succeeded: `event.tool_calls`, `event.message`."""

    async def on_tool_failed_event(self, event: AgentEvent) -> None:
        """A tool failed: `event.tool_calls`, `event.message`, `event.error`."""

    async def on_tool_skipped_event(self, event: AgentEvent) -> None:
        """A tool call was superseded by steering: `event.tool_calls`, `event.message`."""

    async def on_steering_started_event(self, event: AgentEvent) -> None:
        """A steering message was taken: `event.steering_message`."""

    async def on_steering_completed_event(self, event: AgentEvent) -> None:
        """A steering message was answered: `event.steering_message`, `event.message`."""

    async def on_steering_interrupted_event(self, event: AgentEvent) -> None:
        """A steering message was superseded: `event.steering_message`."""

    async def on_internal_message_started_event(self, event: AgentEvent) -> None:
        """An internal message was taken: `event.internal_message`."""

    async def on_internal_message_completed_event(self, event: AgentEvent) -> None:
        """An internal message was answered: `event.internal_message`, `event.message`."""

    async def on_internal_message_interrupted_event(self, event: AgentEvent) -> None:
        """An internal message was superseded: `event.internal_message`."""

    async def on_run_completed_event(self, event: AgentEvent) -> None:
        """The request succeeded: `event.message` is the answer."""

    async def on_custom_event(self, event: AgentEvent) -> None:
        """An extension reports something: `event.name`, `event.payload`."""
