"""An extension that asks somebody outside, and what its tests need around it."""

from __future__ import annotations

from zett_agent.agent import AgentRunConfig
from zett_agent.events import AgentEvent, AgentEventType
from zett_agent.extensions.external import ExternalEvent, ExternalEventExtension

from .loop_tools import make_tool

S1 = AgentRunConfig("s1")


class Question(ExternalEventExtension):
    """A tool `ask` whose result is what somebody outside answers."""

    def __init__(self, name="answer", *, wait=None, **options):
        super().__init__(response_event_name=name, correlation_field="id", **options)
        self.wait = wait or {}
        self.runs = 0

    async def on_tool(self, context):
        async def ask(**_):
            self.runs += 1
            return self._take_external_event(context).payload["text"]

        context.register_tool(make_tool("ask", ask))

    async def before_tool(self, context, call):
        if call.name == "ask":
            async with self._wait_for_external_event(context, call.id, **self.wait):
                await self.ask(context, call)

    async def ask(self, context, call):
        await context.emit(
            AgentEvent(AgentEventType.CUSTOM, context.session_id, name="question", payload={"id": call.id})
        )


def answer(call_id, text="yes", *, name="answer"):
    return ExternalEvent(name, {"id": call_id, "text": text})


def left_in(extension):
    """Return how many waits and requests an extension still holds."""
    return len(extension._external_waits), len(extension._external_requests)
