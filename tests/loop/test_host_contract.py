"""What a large host program relies on in the core (63 §4 and §5)."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import threading
import weakref
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from support.loop_models import RawModel, answer, asks, text
from support.loop_probe import Probe
from support.loop_tools import make_tool
from zett_agent.agent import Agent, AgentRunConfig
from zett_agent.client import AgentClient
from zett_agent.dispatcher import AgentEventDispatcher
from zett_agent.events import AgentEvent, AgentEventType, AgentPhase
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.events import CompactionEvent, MessageAppendedEvent
from zett_agent.extensions.memory import InMemoryMessageAccumulator
from zett_agent.messages import AssistantMessage, SystemMessage, ToolCall, ToolMessage, UserMessage
from zett_agent.stop import StopInfo, StopReason

S = AgentRunConfig(session_id="s")


class HostAgent(Agent):
    """Adds attributes and watches the stream."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.seen: list[str] = []

    async def stream(self, message: Any, **options: Any) -> AsyncIterator[AgentEvent]:
        self.seen.append("begin")
        async with aclosing(super().stream(message, **options)) as events:
            async for event in events:
                self.seen.append(event.type)
                yield event
        self.seen.append("end")


async def test_sub_create_returns_a_sub_and_run_goes_through_its_stream() -> None:
    agent = await HostAgent.create(RawModel(answer("x")), config=S)
    assert type(agent) is HostAgent
    agent.extra = 1  # type: ignore[attr-defined]
    result = await agent.run("go", reasoning_effort=None, metadata={"a": 1})
    assert result.content == "x" and result is agent.state.messages[-1]
    assert agent.seen == ["begin", "model_started", "model_completed", "run_completed", "end"]
    assert not agent.pending


async def test_run_of_a_sub_that_filters_its_stream() -> None:
    class Filters(Agent):
        async def stream(self, message: Any, **options: Any) -> AsyncIterator[AgentEvent]:
            async for event in super().stream(f"<{message}>", **options):
                yield event

    agent = await Filters.create(RawModel(answer("x")))
    await agent.run("go", config=S)
    assert agent.state.messages[1].content == "<go>"


async def test_cancelling_run_of_a_sub_cancels_the_request() -> None:
    model = RawModel(text(), repeat=True)
    started = asyncio.Event()

    async def hang(*_: Any) -> None:
        started.set()
        await asyncio.Event().wait()

    agent = await HostAgent.create(model, extensions=[Probe(before_model=hang)])
    run = asyncio.create_task(agent.run("go", config=S))
    await started.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert not agent.is_conflict("s") and agent.get_state("s").phase is AgentPhase.CANCELLED


async def test_client_of_a_sub_uses_its_stream() -> None:
    agent = await HostAgent.create(RawModel(answer("x")), config=S)
    client = AgentClient(agent)
    await client.run("go")
    assert agent.seen[0] == "begin"


class NoInit(AgentExtension):
    """Never calls `super().__init__()`, and is frozen to boot."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    async def before_run(self, context: Any) -> None:
        assert self.pending
        self.calls.append(context.session_id)


async def test_extensions_need_no_super_init() -> None:
    extension = NoInit()
    agent = await Agent.create(RawModel(answer(), repeat=True), extensions=[extension])
    assert extension.name == "NoInit" and extension.priority == 100 and not extension.pending
    await agent.run("go", config=S)
    assert extension.calls == ["s"] and not extension.pending


async def test_pending_redefined_by_an_extension_does_not_disturb_the_runtime() -> None:
    class OwnPending(AgentExtension):
        @property
        def pending(self) -> Any:  # type: ignore[override]
            return {"its": "own"}

    class Raises(AgentExtension):
        @property
        def pending(self) -> bool:
            raise AssertionError("the runtime must not ask")

    extension = OwnPending()
    agent = await Agent.create(RawModel(answer()), extensions=[extension, Raises()])
    stream = agent.stream("go", config=S)
    await stream.__anext__()
    assert agent.pending and agent.is_conflict("s")
    await stream.aclose()
    assert not agent.pending and extension.pending == {"its": "own"}


async def test_extension_attributes_belong_to_the_host() -> None:
    names = [
        "_requests",
        "_models",
        "_switch",
        "_built",
        "_started",
        "_totals",
        "_policy",
        "_store",
        "_pending",
        "_requested",
        "_sessions",
    ]
    for name in names:
        assert not hasattr(AgentExtension, name)

    class Host(AgentExtension):
        def __init__(self) -> None:
            for name in names:
                setattr(self, name, weakref.WeakKeyDictionary())

        async def on_tool(self, context: Any) -> None:
            for name in names:
                getattr(self, name)[context] = 1

    host = Host()
    agent = await Agent.create(RawModel(answer(), repeat=True), extensions=[host])
    await agent.run("go", config=S)
    await agent.run("go", config=S)


async def test_contexts_are_not_kept_alive() -> None:
    kept: weakref.WeakSet[Any] = weakref.WeakSet()
    agent = await Agent.create(
        RawModel(asks(ToolCall("c", "t")), answer(), repeat=False),
        tools=[make_tool("t")],
        extensions=[InMemoryMessageAccumulator(), Weak(kept)],
    )
    await agent.run("go", config=S)
    import gc

    gc.collect()
    assert len(kept) == 0


class Weak(AgentExtension):
    def __init__(self, kept: Any) -> None:
        self.kept = kept

    async def on_tool(self, context: Any) -> None:
        self.kept.add(context)


async def test_context_members_a_host_uses() -> None:
    def on_state(context: Any) -> None:
        assert context.state.parent_session_id == "p"
        context.state.parent_session_id = "q"
        assert "t" in context.tools and list(context.tools) == ["t"]
        context.tools.pop("t", None)
        context.tools.pop("t", None)
        context.add_message(SystemMessage(content="first"), index=0)
        context.replace_messages(list(context.state.messages), emit_new=False)
        assert context.model is model and context.extensions == agent.extensions

    model = RawModel(answer())
    agent = await Agent.create(model, tools=[make_tool("t")], extensions=[Probe(on_state=on_state)])
    await agent.run("go", config=AgentRunConfig("s", parent_session_id="p"))
    assert agent.state.parent_session_id == "q"
    assert model.requests[0].tools == ()
    assert model.requests[0].messages[0].content == "first"


def test_messages_can_be_replaced_and_their_attributes_changed() -> None:
    message = AssistantMessage(content="x", stop=StopInfo(StopReason.PAUSED), attributes={"a": 1})
    twin = dataclasses.replace(message, attributes={**message.attributes, "b": 2}, include_in_messages=False)
    assert twin.content == "x" and twin.stop == message.stop and not twin.include_in_messages
    twin.attributes["c"] = 3
    assert message.attributes == {"a": 1}
    for each in (
        UserMessage(content="x"),
        SystemMessage(content="x"),
        ToolMessage(tool_call_id="c", name="t", content="x"),
    ):
        assert dataclasses.replace(each, attributes={"k": 1}).attributes == {"k": 1}
        assert copy.deepcopy(each) == each


async def test_tool_message_content_assigned_in_after_tool_is_what_the_model_gets() -> None:
    def shorten(context: Any, call: Any, result: ToolMessage, error: Any) -> None:
        result.content = result.text[:4]

    model = RawModel(asks(ToolCall("c", "t")), answer())
    agent = await Agent.create(model, tools=[make_tool("t")], extensions=[Probe(after_tool=shorten)])
    await agent.run("go", config=S)
    assert model.requests[1].messages[-1].content == "t do"


async def test_dispatcher_that_overrides_dispatch_and_is_assigned_later() -> None:
    class Sees(AgentEventDispatcher):
        def __init__(self) -> None:
            self.types: list[str] = []

        async def dispatch(self, event: AgentEvent) -> None:
            self.types.append(event.type)

    client = AgentClient(await Agent.create(RawModel(answer(), repeat=True), config=S))
    await client.run("go")
    client.event_dispatcher = Sees()
    await client.run("go")
    assert client.event_dispatcher.types == ["model_started", "model_completed", "run_completed"]


async def test_notifications_match_by_keyword_patterns() -> None:
    agent = await Agent.create(RawModel(answer()), extensions=[probe := Probe()])
    await agent.run("go", config=S)
    found = 0
    for event in probe.notifications:
        match event:
            case MessageAppendedEvent(message=AssistantMessage(), timing=timing, usage=usage):
                found += 1
                assert timing.duration_ns >= 0 and usage is not None
            case MessageAppendedEvent(usage=None):
                found += 1
            case _:
                pass
    assert found == 3
    match CompactionEvent(1, 2, 3, 4, "x"):
        case CompactionEvent(summary=summary, compressed_from=1):
            assert summary == "x"


async def test_events_are_compared_with_is() -> None:
    agent = await Agent.create(RawModel(asks(ToolCall("c", "t")), text()), tools=[make_tool("t")])
    async for event in agent.stream("go", config=S):
        assert event.type is AgentEventType[event.type.name]


def test_import_in_background_threads_at_the_same_time() -> None:
    import subprocess
    import sys

    program = """
import collections.abc  # its own first import is not safe in threads on 3.13.0
import importlib, threading
names = ["client", "agent", "dispatcher", "events", "resume", "extensions.memory", "extensions.external",
         "extensions.steering"]
errors = []
def load(name):
    try:
        importlib.import_module(f"zett_agent.{name}")
    except BaseException as error:
        errors.append(error)
threads = [threading.Thread(target=load, args=(name,)) for name in names]
[t.start() for t in threads]; [t.join() for t in threads]
assert not errors, errors
import sys
heavy = {"openai", "anthropic", "google", "sqlalchemy", "mcp", "tiktoken", "httpx", "pydantic"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


async def test_emitting_from_a_foreign_thread_while_the_consumer_holds_an_event() -> None:
    from support.loop_probe import steer

    agent = await Agent.create(RawModel(answer("1"), answer("2")))
    results: list[list[str]] = []
    async for event in agent.stream("go", config=S):
        if event.type is AgentEventType.MODEL_STARTED and not results:
            thread = threading.Thread(target=lambda: results.append(steer(agent, "s", "S")))
            thread.start()
            thread.join()
    assert results == [["SteeringExtension"]]
    assert [m.content for m in agent.state.messages][1:] == ["go", "1", "S", "2"]
