"""Client, dispatcher and agent together, and `create_agent`."""

from __future__ import annotations

import asyncio
import inspect
import uuid
from contextlib import aclosing

import pytest

from zett_agent.agent import Agent, AgentRunConfig
from zett_agent.client import AgentClient, create_agent
from zett_agent.dispatcher import AgentEventDispatcher
from zett_agent.events import AgentEvent, AgentEventType, AgentPhase
from zett_agent.exceptions import AgentProtocolError, AgentResumeError
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.events import CompactionEvent
from zett_agent.extensions.memory import InMemoryMessageAccumulator
from zett_agent.messages import UserMessage
from zett_agent.model import ModelEvent, ReasoningEffort, RetryOptions
from zett_agent.testing import FunctionModel, ScriptedModel, fail, say
from zett_agent.tools.base import tool

S1 = AgentRunConfig("s1")


class Recorder(AgentEventDispatcher):
    """Notes every event, before or after what a test notes itself."""

    def __init__(self, log=None):
        self.log = [] if log is None else log

    async def dispatch(self, event):
        self.log.append(event)
        await super().dispatch(event)


async def client_of(*steps, dispatcher=None, **options):
    options.setdefault("config", S1)
    return await create_agent(ScriptedModel(*steps), event_dispatcher=dispatcher, **options)


async def drain(stream):
    async with aclosing(stream) as events:
        return [event async for event in events]


def types(events):
    return [event.type for event in events]


# Streams and callbacks.


async def test_cl1_each_callback_runs_before_its_event_is_yielded():
    log = []

    class Two(AgentEventDispatcher):
        async def on_model_started_event(self, event):
            log.append(("callback", event))

        async def on_text_delta_event(self, event):
            log.append(("callback", event))

    client = await client_of(say("ab", chunks=2), dispatcher=Two())
    async for event in client.stream("hi"):
        log.append(("yielded", event))

    overridden = {AgentEventType.MODEL_STARTED, AgentEventType.TEXT_DELTA}
    yielded = [event for kind, event in log if kind == "yielded"]
    expected = []
    for event in yielded:
        if event.type in overridden:
            expected.append(("callback", event))
        expected.append(("yielded", event))
    assert [(kind, id(event)) for kind, event in log] == [(kind, id(event)) for kind, event in expected]
    assert [event.delta for event in yielded if event.type == "text_delta"] == ["a", "b"]


async def test_the_client_yields_what_the_agent_does():
    plain = await client_of(say("hello", reasoning="because"))
    watched = await client_of(say("hello", reasoning="because"), dispatcher=Recorder())
    events = await drain(plain.stream("hi"))
    assert types(events) == types(await drain(watched.stream("hi"))) == types(watched.event_dispatcher.log)
    agent = await Agent.create(ScriptedModel(say("hello", reasoning="because")), config=S1)
    assert types(events) == types(await drain(agent.stream("hi")))


async def test_run_returns_the_answer_that_is_in_history():
    for dispatcher in (None, Recorder()):
        client = await client_of(say("hello"), dispatcher=dispatcher)
        answer = await client.run("hi")
        assert answer.content == "hello"
        assert answer is client.agent.get_state("s1").messages[-1]


async def test_options_reach_the_agent():
    seen = []

    class Look(AgentExtension):
        async def before_model(self, context, request):
            config = context.config
            seen.append(
                (config.session_id, config.request_id, request.reasoning_effort, request.parallel_tool_call)
            )
            seen.append((context.metadata, context.tags, type(context.model)))

    for dispatcher in (None, Recorder()):
        client = await create_agent(None, extensions=[Look()], config=S1, event_dispatcher=dispatcher)
        options = {
            "config": AgentRunConfig("s2", request_id="r2"),
            "model": FunctionModel(lambda request, info: "ok"),
            "reasoning_effort": ReasoningEffort.LOW,
            "parallel_tool_call": False,
            "metadata": {"m": 1},
            "tags": {"t": 2},
        }
        await client.run(UserMessage(content="hi"), **options)
        await drain(client.stream("hi", **options))
    assert seen[::2] == [("s2", "r2", "low", False)] * 4
    assert seen[1::2] == [({"m": 1}, {"t": 2}, FunctionModel)] * 4


async def test_nothing_happens_before_the_first_event_is_asked_for():
    client = await client_of(say("a"))
    stream = client.stream(5)  # refused, but not yet
    assert inspect.isasyncgen(stream)
    assert not client.agent.pending
    with pytest.raises(TypeError):
        await stream.__anext__()
    resuming = client.stream_resume()
    with pytest.raises(AgentResumeError):
        await resuming.__anext__()


async def test_without_a_dispatcher_run_asks_the_agent_for_the_answer_only(monkeypatch):
    client = await client_of(say("a"), say("b"))
    streams = []
    stream = AgentClient.stream
    monkeypatch.setattr(
        AgentClient,
        "stream",
        lambda self, *args, **options: streams.append(1) or stream(self, *args, **options),
    )
    assert (await client.run("hi")).content == "a"
    assert streams == []
    client.event_dispatcher = Recorder()
    assert (await client.run("hi")).content == "b"
    assert streams == [1]


async def test_the_dispatcher_may_be_assigned_later_and_during_a_stream():
    client = await client_of(say("abc", chunks=3), say("d"))
    recorder = Recorder()
    async with aclosing(client.stream("hi")) as events:
        async for event in events:
            if event.delta == "a":
                client.event_dispatcher = recorder
            if event.delta == "b":
                client.event_dispatcher = None
    assert [event.delta for event in recorder.log] == ["b"]
    client.event_dispatcher = recorder
    await client.run("hi")
    assert recorder.log[-1].type is AgentEventType.RUN_COMPLETED


async def test_an_agent_used_directly_bypasses_the_callbacks():
    recorder = Recorder()
    client = await client_of(say("a"), dispatcher=recorder)
    await client.agent.run("hi")
    assert recorder.log == []


async def test_a_plain_dispatch_of_a_subclass_works():
    log = []

    class Plain(AgentEventDispatcher):
        def dispatch(self, event):
            log.append(event.type)

    client = await client_of(say("a"), dispatcher=Plain())
    await client.run("hi")
    assert log[-1] is AgentEventType.RUN_COMPLETED


async def test_cl3_plain_and_async_callbacks_mix():
    log = []

    class Mixed(AgentEventDispatcher):
        def on_text_delta_event(self, event):
            log.append(event.delta)

        async def on_content_completed_event(self, event):
            await asyncio.sleep(0)
            log.append("content")

        def on_run_completed_event(self, event):
            log.append("done")

    client = await client_of(say("ab", chunks=2), dispatcher=Mixed())
    assert (await client.run("hi")).content == "ab"
    assert log == ["a", "b", "content", "done"]


async def test_a_run_of_a_client_subclass_goes_through_its_stream():
    class Counting(AgentClient):
        async def stream(self, message, **options):
            async with aclosing(super().stream(message, **options)) as events:
                async for event in events:
                    self.count += 1
                    yield event

    client = Counting(await Agent.create(ScriptedModel(say("a")), config=S1))
    client.count = 0
    assert (await client.run("hi")).content == "a"
    assert client.count > 3


async def test_a_run_of_an_agent_subclass_goes_through_its_stream():
    class Watching(Agent):
        async def stream(self, message, **options):
            async with aclosing(super().stream(message, **options)) as events:
                async for event in events:
                    self.count += 1
                    yield event

    for dispatcher in (None, Recorder()):
        agent = await Watching.create(ScriptedModel(say("a")), config=S1)
        agent.count = 0
        await AgentClient(agent, event_dispatcher=dispatcher).run("hi")
        assert agent.count > 3


# Failing callbacks.


def failing_at(event_type, error):
    async def callback(self, event):
        raise error

    return type("Failing", (AgentEventDispatcher,), {f"on_{event_type}_event": callback})()


def notes_of(error):
    return "\n".join(getattr(error, "__notes__", []))


@pytest.mark.parametrize("how", ["run", "stream"])
async def test_cl2_a_callback_that_fails_midway_cancels_the_request(how):
    error = KeyError("k")
    client = await client_of(say("abc", chunks=3), say("again"), dispatcher=failing_at("text_delta", error))
    with pytest.raises(KeyError) as caught:
        await (client.run("hi") if how == "run" else drain(client.stream("hi")))
    assert caught.value is error
    assert client.agent.get_state("s1").phase is AgentPhase.CANCELLED
    assert not client.agent.pending
    assert client.last_result is client.result("s1") is None
    assert notes_of(error) == ""
    client.event_dispatcher = None
    assert (await client.run("hi")).content == "again"


@pytest.mark.parametrize("how", ["run", "stream"])
async def test_cl2_bcl1_a_callback_that_fails_at_the_end_leaves_the_answer(how):
    error = KeyError("k")
    client = await client_of(say("hello"), say("again"), dispatcher=failing_at("run_completed", error))
    with pytest.raises(KeyError) as caught:
        await (client.run("hi") if how == "run" else drain(client.stream("hi")))
    assert caught.value is error
    state = client.agent.get_state("s1")
    assert state.phase is AgentPhase.COMPLETED
    assert state.messages[-1].content == "hello"
    assert client.last_result is client.result("s1") is state.messages[-1]
    assert "result('s1')" in notes_of(error)
    assert not client.agent.pending


async def test_a_callback_that_is_cancelled_cancels_the_request():
    entered = asyncio.Event()

    class Stuck(AgentEventDispatcher):
        async def on_text_delta_event(self, event):
            entered.set()
            await asyncio.sleep(3600)

    client = await client_of(say("abc", chunks=3), dispatcher=Stuck())
    task = asyncio.ensure_future(client.run("hi"))
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert client.agent.get_state("s1").phase is AgentPhase.CANCELLED


async def test_an_error_of_the_model_is_raised_unchanged():
    error = KeyError("k")
    for dispatcher in (None, Recorder()):
        client = await client_of(fail(error), dispatcher=dispatcher)
        with pytest.raises(KeyError) as caught:
            await client.run("hi")
        assert caught.value is error


# Results.


async def test_bcl1_results_are_kept_for_each_session():
    for dispatcher in (None, Recorder()):
        client = await client_of(say("one"), say("two"), say("three"), say("four"), dispatcher=dispatcher)
        assert client.last_result is None
        one = await client.run("hi", config=AgentRunConfig("a"))
        two = await client.run("hi", config=AgentRunConfig("b"))
        assert (client.result("a"), client.result("b"), client.last_result) == (one, two, two)
        await drain(client.stream("hi"))
        assert client.last_result is client.result("s1")
        four = await client.run("hi", config=AgentRunConfig(request_id="r"))  # a session of its own
        assert client.last_result is four
        assert client.result("nobody") is None


async def test_bcl1_results_of_many_sessions_do_not_pile_up():
    client = await create_agent(FunctionModel(lambda request, info: "ok"), extensions=[], config=S1)
    for number in range(1030):
        await client.run("hi", config=AgentRunConfig(f"s{number}"))
    assert client.result("s0") is None
    assert client.result("s1029").content == "ok"
    assert sum(client.result(f"s{number}") is not None for number in range(1030)) == 1024


# Closing.


class TrackedModel:
    """Streams for ever, and notes when it is closed."""

    retry = RetryOptions(max_retries=0)

    def __init__(self):
        self.closed = 0

    async def stream(self, request):
        try:
            while True:
                yield ModelEvent.text("a")
                await asyncio.sleep(0)
        finally:
            self.closed += 1


@pytest.mark.parametrize("dispatcher", [None, Recorder()])
async def test_cl7_a_stream_left_early_closes_the_provider_stream(dispatcher):
    model = TrackedModel()
    client = await create_agent(model, config=S1, event_dispatcher=dispatcher)
    async with aclosing(client.stream("hi")) as events:
        async for event in events:
            if event.type is AgentEventType.TEXT_DELTA:
                break
    assert model.closed == 1
    assert not client.agent.pending
    assert client.agent.get_state("s1").phase is AgentPhase.CANCELLED


async def test_cl7_a_consumer_that_fails_or_is_cancelled_closes_it_too():
    model = TrackedModel()
    client = await create_agent(model, config=S1)

    async def consume(error):
        async with aclosing(client.stream("hi")) as events:
            async for event in events:
                if event.type is AgentEventType.TEXT_DELTA:
                    raise error

    with pytest.raises(KeyError):
        await consume(KeyError("k"))
    with pytest.raises(asyncio.CancelledError):
        await consume(asyncio.CancelledError())
    assert model.closed == 2
    task = asyncio.ensure_future(client.run("hi"))
    for _ in range(10):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert model.closed == 3
    assert not client.agent.pending


# Resuming.


async def test_resume_and_resume_point():
    for dispatcher in (None, Recorder()):
        client = await client_of(
            say("resumed"), dispatcher=dispatcher, extensions=[InMemoryMessageAccumulator()]
        )
        async with aclosing(client.stream("hi")) as events:
            await events.__anext__()
        point = await client.resume_point()
        assert point is not None
        if dispatcher is not None:
            dispatcher.log.clear()
        answer = await client.resume()
        assert answer.content == "resumed"
        assert client.result("s1") is answer
        assert await client.resume_point() is None
        if dispatcher is not None:
            assert dispatcher.log[-1].type is AgentEventType.RUN_COMPLETED


async def test_stream_resume_yields_after_the_callbacks():
    recorder = Recorder()
    client = await client_of(say("resumed"), dispatcher=recorder)
    async with aclosing(client.stream("hi")) as events:
        await events.__anext__()
    recorder.log.clear()
    events = await drain(client.stream_resume(reasoning_effort=ReasoningEffort.LOW))
    assert [id(event) for event in events] == [id(event) for event in recorder.log]
    with pytest.raises(AgentResumeError) as caught:
        await client.resume()
    assert caught.value.reason == "completed"


async def test_closing_stream_resume_at_its_first_event_leaves_the_session_idle():
    client = await client_of(say("resumed"))
    async with aclosing(client.stream("hi")) as events:
        await events.__anext__()
    before = await client.resume_point()
    async with aclosing(client.stream_resume()) as events:
        await events.__anext__()
    assert not client.agent.pending
    assert await client.resume_point() == before


# Compaction.

APPLIED = CompactionEvent(1, 4, 5, 6, "summary")


class Compacting(AgentExtension):
    def __init__(self, applied=True, error=None):
        self.applied = applied
        self.error = error

    async def on_compact(self, context):
        session = context.session_id
        await context.emit(AgentEvent(AgentEventType.COMPACTION_STARTED, session))
        await context.emit(AgentEvent(AgentEventType.COMPACTION_TEXT_DELTA, session, delta="sum"))
        if self.error is not None:
            raise self.error
        await context.emit(
            AgentEvent(
                AgentEventType.COMPACTION_COMPLETED,
                session,
                applied=self.applied,
                compaction=APPLIED if self.applied else None,
            )
        )


async def test_cl4_compact_returns_what_was_done_and_dispatches_every_event():
    recorder = Recorder()
    client = await client_of(extensions=[Compacting()], dispatcher=recorder)
    assert await client.compact() is APPLIED
    agent = await Agent.create(ScriptedModel(), extensions=[Compacting()], config=S1)
    assert recorder.log == await drain(agent.compact())
    assert types(recorder.log) == ["compaction_started", "compaction_text_delta", "compaction_completed"]
    assert not client.agent.pending


async def test_cl4_compact_without_a_result():
    client = await client_of(extensions=[Compacting(applied=False)])
    assert await client.compact() is None
    client = await client_of(extensions=[])
    assert await client.compact(config=S1, metadata={"a": 1}, tags={"t": 1}) is None


async def test_cl4_an_error_of_the_hook_is_raised():
    error = AgentProtocolError("the hook's own")
    client = await client_of(extensions=[Compacting(error=error)])
    with pytest.raises(AgentProtocolError) as caught:
        await client.compact()
    assert caught.value is error


async def test_cl4_a_failing_callback_ends_the_pass():
    error = KeyError("k")
    client = await client_of(extensions=[Compacting()], dispatcher=failing_at("compaction_text_delta", error))
    with pytest.raises(KeyError):
        await client.compact()
    assert not client.agent.pending


# create_agent.


async def test_cl6_without_config_one_session_is_made_and_reused():
    client = await create_agent(FunctionModel(lambda request, info: str(len(request.messages))))
    events = await drain(client.stream("hi"))
    [session_id] = {event.session_id for event in events}
    assert uuid.UUID(session_id).version == 7
    await client.run("hi")
    assert {event.session_id for event in await drain(client.stream("hi"))} == {session_id}
    assert client.result(session_id).content == "6"  # system, three questions, two answers


async def test_create_agent_passes_everything_on():
    @tool(guidelines="Use it for sums.")
    def add(left: int, right: int) -> int:
        """Add two numbers.

        Args:
            left: One of them.
            right: The other.
        """
        return left + right

    dispatcher, extension = Recorder(), Compacting()
    client = await create_agent(
        None,
        config=AgentRunConfig("s9"),
        system_prompt="Be exact.",
        tools=[add],
        extensions=[extension],
        reasoning_effort=ReasoningEffort.HIGH,
        parallel_tool_call=False,
        max_iterations=5,
        max_internal_messages=0,
        event_dispatcher=dispatcher,
    )
    agent = client.agent
    assert type(client) is AgentClient
    assert type(agent) is Agent
    assert client.event_dispatcher is dispatcher
    assert (agent.model, agent.system_prompt, list(agent.tools)) == (None, "Be exact.", ["add"])
    assert extension in agent.extensions
    assert (agent.reasoning_effort, agent.parallel_tool_call) == (ReasoningEffort.HIGH, False)
    assert (agent.max_iterations, agent.max_internal_messages) == (5, 0)
    with pytest.raises(AgentProtocolError, match="s9"):
        await agent.initialize(config=S1)


async def test_create_agent_refuses_what_the_agent_refuses():
    with pytest.raises(ValueError, match="max_iterations"):
        await create_agent(None, max_iterations=0)


async def test_two_sessions_of_one_client_run_at_once():
    waiting, both = set(), asyncio.Event()

    async def meet(request, info):
        waiting.add(info.session_id)
        if len(waiting) == 2:
            both.set()
        await both.wait()
        return info.session_id

    client = await create_agent(FunctionModel(meet), event_dispatcher=Recorder(), config=S1)
    answers = await asyncio.gather(
        *(client.run("hi", config=AgentRunConfig(session)) for session in ("a", "b"))
    )
    assert [answer.content for answer in answers] == ["a", "b"]
    assert (client.result("a"), client.result("b")) == tuple(answers)
