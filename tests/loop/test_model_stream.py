"""Middleware around the model, and what a model may return (11 §4 and B-A15, 10 §6.8)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from support.loop_checks import assert_free_and_usable
from support.loop_models import RawModel, response, text
from support.loop_probe import Probe
from support.loop_tools import make_tool
from zett_agent.agent import Agent, AgentRunConfig
from zett_agent.events import AgentPhase
from zett_agent.exceptions import AgentProtocolError
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.events import PhaseTransitionEvent
from zett_agent.messages import AssistantMessage
from zett_agent.model import ModelEvent

S = AgentRunConfig(session_id="s")


# B-A15


class Abandons(AgentExtension):
    """Leaves the inner stream in the middle, without closing it."""

    async def on_model_request(self, context: Any, request: Any, call_next: Any) -> Any:
        self.inner = call_next(request)
        async for _event in self.inner:
            break
        yield response("instead")


async def test_b_a15_provider_stream_is_closed_before_generating_is_left() -> None:
    model = RawModel(text())
    open_at: list[tuple[str, int]] = []

    def on_event(context: Any, event: Any) -> None:
        if isinstance(event, PhaseTransitionEvent) and event.previous_phase is AgentPhase.GENERATING:
            open_at.append((event.current_phase.value, model.open_streams))

    agent = await Agent.create(model, extensions=[Abandons(), Probe(on_event=on_event)])
    result = await agent.run("go", config=S)
    assert result.content == "instead"
    assert open_at == [("ready", 0)]


async def test_b_a15_also_when_the_middleware_fails_after_leaving() -> None:
    failures = [KeyError("middleware")]

    class Fails(Abandons):
        async def on_model_request(self, context: Any, request: Any, call_next: Any) -> Any:
            async for event in super().on_model_request(context, request, call_next):
                if failures:
                    raise failures.pop()
                yield replace(
                    event, response=replace(event.response, message=AssistantMessage(content="fine"))
                )

    model = RawModel(text())
    agent = await Agent.create(model, extensions=[Fails()])
    with pytest.raises(KeyError):
        await agent.run("go", config=S)
    assert model.open_streams == 0
    await assert_free_and_usable(agent, settle=5)  # the loop closes the generator that the test abandons


async def test_b_a15_also_when_the_middleware_leaks_a_cancellation_while_it_is_closed() -> None:
    class Leaks(AgentExtension):
        async def on_model_request(self, context: Any, request: Any, call_next: Any) -> Any:
            self.inner = call_next(request)
            try:
                async for _event in self.inner:
                    raise KeyError("middleware")
                yield response("never")
            finally:
                await leaked_cancellation()

    model = RawModel(text())
    agent = await Agent.create(model, extensions=[Leaks()])
    # Before Python 3.11 a task does not tell that nobody cancelled it.
    with pytest.raises((KeyError, AgentProtocolError, asyncio.CancelledError)):
        await agent.run("go", config=S)
    assert model.open_streams == 0
    assert not agent.pending and not agent.is_conflict("s")


async def leaked_cancellation() -> None:
    victim = asyncio.ensure_future(asyncio.sleep(10))
    await asyncio.sleep(0)
    victim.cancel()
    await victim


async def test_middleware_may_replace_the_request_filter_events_and_call_again() -> None:
    class Retries(AgentExtension):
        async def on_model_request(self, context: Any, request: Any, call_next: Any) -> Any:
            request = replace(request, tool_choice="t", messages=request.messages[1:])
            try:
                async for event in call_next(request):
                    yield event
            except ConnectionError:
                async for event in call_next(request):
                    if event.delta != "b":
                        yield event

    again = [ModelEvent.text("a"), ModelEvent.text("b"), response("ab")]
    model = RawModel([ConnectionError("reset")], again)
    agent = await Agent.create(model, tools=[make_tool("t")], extensions=[Retries()])
    deltas = [event.delta async for event in agent.stream("go", config=S) if event.delta]
    assert deltas == ["a"]
    assert [request.tool_choice for request in model.requests] == ["t", "t"]
    assert [m.role for m in model.requests[1].messages] == ["user"]
    assert model.open_streams == 0 and len(agent.state.messages) == 3


async def test_middleware_that_swallows_the_response_breaks_the_protocol() -> None:
    class Swallows(AgentExtension):
        async def on_model_request(self, context: Any, request: Any, call_next: Any) -> Any:
            async for event in call_next(request):
                if event.response is None:
                    yield event

    agent = await Agent.create(RawModel(text()), extensions=[Swallows()])
    with pytest.raises(AgentProtocolError):
        await agent.run("go", config=S)


async def test_middleware_that_never_calls_next_makes_no_provider_call() -> None:
    class Answers(AgentExtension):
        async def on_model_request(self, context: Any, request: Any, call_next: Any) -> Any:
            yield response("cached")

    model = RawModel()
    agent = await Agent.create(model, extensions=[Answers()])
    assert (await agent.run("go", config=S)).content == "cached"
    assert model.requests == []


# Model contract: 10 B-MD1, B-MD2, B-MD5


class PlainIterator:
    """An async iterator that is no generator and has no `aclose`."""

    def __init__(self, *events: Any) -> None:
        self.events = list(events)

    def __aiter__(self) -> PlainIterator:
        return self

    async def __anext__(self) -> Any:
        if not self.events:
            raise StopAsyncIteration
        return self.events.pop(0)


class ReturnsIterator:
    retry = RawModel.retry

    def stream(self, request: Any) -> Any:
        return PlainIterator(ModelEvent.text("x"), response("x"))


class CoroutineReturnsIterator(ReturnsIterator):
    async def stream(self, request: Any) -> Any:
        return PlainIterator(ModelEvent.text("x"), response("x"))


class ReturnsList(ReturnsIterator):
    def stream(self, request: Any) -> Any:
        return [response("x")]


class ReturnsSyncGenerator(ReturnsIterator):
    def stream(self, request: Any) -> Any:
        yield response("x")


async def test_b_md1_any_async_iterator_will_do() -> None:
    agent = await Agent.create(ReturnsIterator())  # type: ignore[arg-type]
    assert (await agent.run("go", config=S)).content == "x"


async def test_b_md2_a_coroutine_that_returns_the_iterator_is_awaited_or_explained() -> None:
    agent = await Agent.create(CoroutineReturnsIterator())  # type: ignore[arg-type]
    try:
        assert (await agent.run("go", config=S)).content == "x"
    except AgentProtocolError as error:
        assert "CoroutineReturnsIterator" in str(error) and "stream" in str(error)


@pytest.mark.parametrize("model", [ReturnsList(), ReturnsSyncGenerator()])
async def test_b_md2_a_synchronous_iterator_is_explained(model: Any) -> None:
    agent = await Agent.create(model)
    with pytest.raises(AgentProtocolError) as caught:
        await agent.run("go", config=S)
    assert type(model).__name__ in str(caught.value) and "SyncModelAdapter" in str(caught.value)
    await assert_free_and_usable(agent)
