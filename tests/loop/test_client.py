"""Dispatcher, client and `create_agent` (12 §8)."""

from __future__ import annotations

import asyncio
import uuid
import warnings
from contextlib import aclosing
from typing import Any

import pytest

from support.loop_models import RawModel, answer, asks, response, text
from support.loop_probe import Probe, Seed
from support.loop_tools import make_tool
from zett_agent.agent import Agent, AgentRunConfig
from zett_agent.client import AgentClient, create_agent
from zett_agent.dispatcher import AgentEventDispatcher
from zett_agent.events import AgentEvent, AgentEventType, AgentPhase
from zett_agent.exceptions import AgentProtocolError, AgentResumeError
from zett_agent.extensions.events import CompactionEvent
from zett_agent.extensions.memory import InMemoryMessageAccumulator
from zett_agent.messages import ToolCall, UserMessage
from zett_agent.model import ModelEvent, ReasoningEffort
from zett_agent.resume import ResumeKind

S = AgentRunConfig(session_id="s")


class Recorder(AgentEventDispatcher):
    def __init__(self, log: list[str] | None = None) -> None:
        self.log: list[str] = [] if log is None else log

    async def dispatch(self, event: AgentEvent) -> None:
        self.log.append(event.type.value)
        await super().dispatch(event)


async def client_of(*steps: Any, dispatcher: Any = None, **options: Any) -> AgentClient:
    return AgentClient(await Agent.create(RawModel(*steps), **options), event_dispatcher=dispatcher)


# CL-1


async def test_cl1_callbacks_come_before_the_event_in_stream_order() -> None:
    log: list[str] = []

    class Two(AgentEventDispatcher):
        async def on_text_delta_event(self, event: AgentEvent) -> None:
            await asyncio.sleep(0)
            log.append(f"callback {event.delta}")

        async def on_run_completed_event(self, event: AgentEvent) -> None:
            log.append(f"callback {event.message.content}")

    events = [ModelEvent.text("a"), ModelEvent.text("b"), response("ab")]
    client = await client_of(events, events, dispatcher=Two())
    async for event in client.stream("go", config=S):
        if event.type in (AgentEventType.TEXT_DELTA, AgentEventType.RUN_COMPLETED):
            log.append(f"event {event.delta or event.message.content}")
    assert log == ["callback a", "event a", "callback b", "event b", "callback ab", "event ab"]
    log.clear()
    assert (await client.run("go", config=S)).content == "ab"
    assert log == ["callback a", "callback b", "callback ab"]


async def test_the_same_event_object_is_dispatched_and_yielded() -> None:
    seen: list[AgentEvent] = []

    class Keeps(AgentEventDispatcher):
        async def dispatch(self, event: AgentEvent) -> None:
            seen.append(event)

    client = await client_of(text(), dispatcher=Keeps())
    got = [event async for event in client.stream("go", config=S)]
    assert len(got) == len(seen) and all(one is two for one, two in zip(got, seen, strict=True))


async def test_custom_name_does_not_choose_the_callback() -> None:
    called: list[str] = []

    class Sees(AgentEventDispatcher):
        async def on_custom_event(self, event: AgentEvent) -> None:
            called.append("custom")

        async def on_text_delta_event(self, event: AgentEvent) -> None:
            called.append("text")

    await Sees().dispatch(AgentEvent(AgentEventType.CUSTOM, "s", name="text_delta"))
    await Sees().dispatch(AgentEvent("text_delta", "s"))  # type: ignore[arg-type]
    assert called == ["custom", "text"]


# CL-2


class FailsAt(AgentEventDispatcher):
    def __init__(self, event_type: AgentEventType) -> None:
        self.event_type = event_type
        self.error = KeyError("callback")

    async def dispatch(self, event: AgentEvent) -> None:
        if event.type is self.event_type:
            raise self.error


@pytest.mark.parametrize("streamed", [True, False])
async def test_cl2_failing_callback_cancels_the_request(streamed: bool) -> None:
    model = RawModel(text(), answer("fine"))
    dispatcher = FailsAt(AgentEventType.TEXT_DELTA)
    client = AgentClient(await Agent.create(model), event_dispatcher=dispatcher)
    with pytest.raises(KeyError) as caught:
        await consume(client, streamed)
    assert caught.value is dispatcher.error
    assert client.agent.get_state("s").phase is AgentPhase.CANCELLED
    assert not client.agent.is_conflict("s") and model.open_streams == 0
    client.event_dispatcher = None
    assert (await client.run("go", config=S)).content == "fine"


@pytest.mark.parametrize("streamed", [True, False])
async def test_cl2_b_cl1_failing_callback_of_run_completed(streamed: bool) -> None:
    memory = InMemoryMessageAccumulator()
    client = await client_of(
        answer("fine"), dispatcher=FailsAt(AgentEventType.RUN_COMPLETED), extensions=[memory]
    )
    assert client.last_result is None and client.result("s") is None
    with pytest.raises(KeyError) as caught:
        await consume(client, streamed)
    assert client.agent.get_state("s").phase is AgentPhase.COMPLETED
    stored = memory.messages("s")[-1]
    assert stored.content == "fine" and not client.agent.is_conflict("s")
    # B-CL1
    assert client.last_result is stored and client.result("s") is stored
    assert client.result("other") is None
    assert caught.value.__notes__


async def consume(client: AgentClient, streamed: bool) -> None:
    if streamed:
        async for _ in client.stream("go", config=S):
            pass
    else:
        await client.run("go", config=S)


async def test_b_cl1_last_result_of_normal_runs() -> None:
    client = await client_of(answer("1"), answer("2"), answer("3"))
    first = await client.run("go", config=S)
    assert client.last_result is first
    second = await client.run("go", config=AgentRunConfig("t"))
    assert client.last_result is second
    assert client.result("s") is first and client.result("t") is second


async def test_cancelled_callback_propagates() -> None:
    class Cancels(AgentEventDispatcher):
        async def on_model_started_event(self, event: AgentEvent) -> None:
            raise asyncio.CancelledError

    client = await client_of(answer(), dispatcher=Cancels())
    with pytest.raises(asyncio.CancelledError):
        await client.run("go", config=S)
    assert not client.agent.is_conflict("s")


# CL-3


async def test_cl3_plain_callbacks_work_beside_async_ones() -> None:
    log: list[str] = []

    class Mixed(AgentEventDispatcher):
        def on_model_started_event(self, event: AgentEvent) -> None:  # type: ignore[override]
            log.append("plain")

        async def on_model_completed_event(self, event: AgentEvent) -> None:
            log.append("async")

        def on_run_completed_event(self, event: AgentEvent) -> Any:
            async def later() -> None:
                log.append("returned awaitable")

            return later()

    client = await client_of(answer(), dispatcher=Mixed())
    await client.run("go", config=S)
    assert log == ["plain", "async", "returned awaitable"]


# CL-4


async def compacts(context: Any) -> None:
    for name in ("started", "text_delta"):
        await context.emit(AgentEvent(AgentEventType(f"compaction_{name}"), context.session_id))
    event = CompactionEvent(1, 1, 2, 2, "summary")
    await context.publish(event)
    await context.emit(
        AgentEvent(AgentEventType.COMPACTION_COMPLETED, context.session_id, applied=True, compaction=event)
    )


async def test_cl4_compact_returns_the_compaction_and_dispatches_every_event() -> None:
    recorder = Recorder()
    client = await client_of(dispatcher=recorder, extensions=[Probe(on_compact=compacts)])
    assert await client.compact(config=S) == CompactionEvent(1, 1, 2, 2, "summary")
    seen = [event.type.value async for event in client.agent.compact(config=S)]
    assert recorder.log == seen == ["compaction_started", "compaction_text_delta", "compaction_completed"]


async def test_cl4_nothing_done_and_failure() -> None:
    client = await client_of(dispatcher=Recorder(), extensions=[])
    assert await client.compact(config=S) is None

    def fail(context: Any) -> None:
        raise AgentProtocolError("hook")

    client = await client_of(extensions=[Probe(on_compact=fail)])
    with pytest.raises(AgentProtocolError, match="hook"):
        await client.compact(config=S)


# CL-5


async def test_cl5_unknown_type_and_one_method_for_each_event() -> None:
    with pytest.raises(ValueError):
        await AgentEventDispatcher().dispatch(AgentEvent("nope", "s"))  # type: ignore[arg-type]
    methods = [
        name for name in dir(AgentEventDispatcher) if name.startswith("on_") and name.endswith("_event")
    ]
    assert len(methods) == 30
    for event_type in AgentEventType:
        event = AgentEvent(event_type, "s", name="x")
        assert await getattr(AgentEventDispatcher(), f"on_{event_type.value}_event")(event) is None
        await AgentEventDispatcher().dispatch(event)


# CL-6


async def test_cl6_create_agent_shares_one_new_session() -> None:
    probe = Probe()
    client = await create_agent(
        RawModel(answer(), repeat=True),
        system_prompt="p",
        tools=[make_tool("t")],
        extensions=[probe],
        reasoning_effort=ReasoningEffort.HIGH,
        parallel_tool_call=False,
        max_iterations=3,
        max_internal_messages=2,
        event_dispatcher=(recorder := Recorder()),
    )
    assert isinstance(client, AgentClient) and client.event_dispatcher is recorder
    await client.run("a")
    await client.run("b")
    async for _ in client.stream("c"):
        pass
    ids = {context.session_id for context in probe.contexts}
    assert len(ids) == 1 and uuid.UUID(ids.pop()).version == 7
    agent = client.agent
    assert (agent.system_prompt, list(agent.tools), agent.max_iterations, agent.max_internal_messages) == (
        "p",
        ["t"],
        3,
        2,
    )
    assert agent.reasoning_effort is ReasoningEffort.HIGH and agent.parallel_tool_call is False
    named = await create_agent(RawModel(answer()), config=S)
    await named.run("a")
    assert named.agent.get_state("s") is not None
    without = await create_agent(None)
    with pytest.raises(AgentProtocolError, match="no default model"):
        await without.run("a")


# CL-7


async def test_cl7_stream_left_early_has_closed_the_provider() -> None:
    model = RawModel(text(), answer("fine"))
    client = AgentClient(await Agent.create(model), event_dispatcher=Recorder())
    async with aclosing(client.stream("go", config=S)) as stream:
        async for event in stream:
            if event.type is AgentEventType.TEXT_DELTA:
                break
    assert model.open_streams == 0 and not client.agent.pending
    assert client.agent.get_state("s").phase is AgentPhase.CANCELLED
    assert (await client.run("go", config=S)).content == "fine"


# Options, resume


async def test_options_reach_the_agent() -> None:
    other = RawModel(answer(), answer())
    probe = Probe()
    client = await client_of(extensions=[probe])
    options: dict[str, Any] = {
        "config": S,
        "model": other,
        "reasoning_effort": ReasoningEffort.LOW,
        "parallel_tool_call": False,
        "metadata": {"a": 1},
        "tags": {"t": "x"},
    }
    await client.run("go", **options)
    async for _ in client.stream("go", **options):
        pass
    for context, request in zip(probe.contexts, other.requests, strict=True):
        assert (context.metadata, context.tags, context.session_id) == ({"a": 1}, {"t": "x"}, "s")
        assert request.reasoning_effort is ReasoningEffort.LOW and not request.parallel_tool_call


async def test_resume_through_the_client() -> None:
    recorder = Recorder()
    history = [UserMessage(content="go")]
    client = await client_of(
        answer("1"),
        answer("2"),
        dispatcher=recorder,
        extensions=[Seed(*history), InMemoryMessageAccumulator()],
    )
    point = await client.resume_point(config=S)
    assert point.kind is ResumeKind.CALL_MODEL and recorder.log == []
    assert (await client.resume(config=S)).content == "1"
    assert recorder.log == ["model_started", "model_completed", "run_completed"]
    assert await client.resume_point(config=S) is None
    with pytest.raises(AgentResumeError) as caught:
        await client.resume(config=S)
    assert caught.value.reason == "completed"
    events = [event.type.value async for event in client.stream_resume(config=AgentRunConfig("t"))]
    assert events == ["model_started", "model_completed", "run_completed"]
    stream = client.stream_resume(config=S)
    with pytest.raises(AgentResumeError):
        await stream.__anext__()


async def test_closing_stream_resume_at_its_first_event_leaves_the_session_idle() -> None:
    memory = InMemoryMessageAccumulator()
    client = await client_of(answer(), extensions=[Seed(UserMessage(content="go")), memory])
    async with aclosing(client.stream_resume(config=S)) as stream:
        async for _ in stream:
            break
    assert not client.agent.is_conflict("s")
    assert [m.content for m in memory.messages("s")] == ["go"]


async def test_calling_the_agent_directly_bypasses_callbacks() -> None:
    client = await client_of(answer(), dispatcher=(recorder := Recorder()))
    await client.agent.run("go", config=S)
    assert recorder.log == []


async def test_callback_delays_the_run() -> None:
    ran: list[str] = []

    async def handler(**_: Any) -> str:
        ran.append("handler")
        return "x"

    class Slow(AgentEventDispatcher):
        async def on_tool_started_event(self, event: AgentEvent) -> None:
            await asyncio.sleep(0.02)
            ran.append("callback")

    client = await client_of(
        asks(ToolCall("c", "t")), answer(), dispatcher=Slow(), tools=[make_tool("t", handler)]
    )
    await client.run("go", config=S)
    assert ran == ["callback", "handler"]


# B-CL2


def test_b_cl2_misspelt_callback_gets_a_warning() -> None:
    with pytest.warns(Warning, match="on_text_deltas_event"):

        class Misspelt(AgentEventDispatcher):
            async def on_text_deltas_event(self, event: AgentEvent) -> None: ...

    with warnings.catch_warnings():
        warnings.simplefilter("error")

        class Fine(Misspelt):
            async def on_text_delta_event(self, event: AgentEvent) -> None: ...

            async def on_something_else(self) -> None: ...

            def event(self) -> None: ...
