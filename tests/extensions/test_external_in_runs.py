"""Extensions that wait for somebody outside, in real runs: what is asked, answered and left behind."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing

import pytest

from support.external import S1, Question, answer, left_in
from support.loop_tools import make_tool
from zett_agent.agent import Agent, AgentRunConfig
from zett_agent.events import AgentEventType, AgentPhase
from zett_agent.exceptions import AgentProtocolError
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.external import ExternalEvent, ExternalEventExtension, ExternalEventTimeout
from zett_agent.messages import ToolMessage
from zett_agent.testing import FunctionModel, ScriptedModel, call, calls, fail, say


def is_question(event):
    return event.type is AgentEventType.CUSTOM and event.name == "question"


def results(agent, session_id="s1"):
    return {
        message.tool_call_id: (message.text, message.success)
        for message in agent.get_state(session_id).messages
        if isinstance(message, ToolMessage)
    }


async def ask_agent(*steps, extension=None, extensions=(), config=S1):
    extension = extension or Question()
    agent = await Agent.create(ScriptedModel(*steps), extensions=[extension, *extensions], config=config)
    return agent, extension


async def test_x1_parallel_calls_are_asked_one_after_the_other():
    agent, extension = await ask_agent(calls(call("ask", id="c1"), call("ask", id="c2")), say("thanks"))
    other_request = AgentRunConfig("s1", request_id="another")
    log = []
    async with aclosing(agent.stream("go")) as events:
        async for event in events:
            if is_question(event):
                call_id = event.payload["id"]
                log.append(call_id)
                assert agent.pending
                assert extension.pending
                for config, refused in (
                    (S1, answer(call_id, name="wrong")),
                    (S1, answer("wrong")),
                    (S1, answer(5)),
                    (S1, ExternalEvent("answer", {})),
                    (other_request, answer(call_id)),
                    (AgentRunConfig("s2"), answer(call_id)),
                ):
                    assert agent.emit_external_event(refused, config=config) == []
                right = answer(call_id, f"for {call_id}")
                accepted = await asyncio.to_thread(agent.emit_external_event, right, config=S1)
                assert accepted == ["Question"]
                assert agent.emit_external_event(right, config=S1) == []
            elif event.type is AgentEventType.TOOL_STARTED:
                log.append([started.id for started in event.tool_calls])
    assert log == ["c1", "c2", ["c1", "c2"]]
    assert results(agent) == {"c1": ("for c1", True), "c2": ("for c2", True)}
    assert agent.emit_external_event(answer("c1"), config=S1) == []
    assert left_in(extension) == (0, 0)
    assert not extension.pending


async def test_an_answer_may_come_from_a_callback_or_inside_the_loop_body():
    agent, _ = await ask_agent(call("ask", id="c1"), say("thanks"))
    async with aclosing(agent.stream("go")) as events:
        async for event in events:
            if is_question(event):
                assert agent.emit_external_event(answer("c1")) == ["Question"]  # the only active request
    assert results(agent) == {"c1": ("yes", True)}


async def test_two_calls_with_one_id_are_asked_and_answered_separately():  # 50 §1.6
    agent, extension = await ask_agent(calls(call("ask", id="c1"), call("ask", id="c1")), say("thanks"))
    texts = iter(["one", "two"])
    async with aclosing(agent.stream("go")) as events:
        async for event in events:
            if is_question(event):
                assert agent.emit_external_event(answer(event.payload["id"], next(texts)), config=S1)
    assert sorted(results(agent).values()) == [("one", True), ("two", True)]
    assert left_in(extension) == (0, 0)


async def test_ex5_two_sessions_that_wait_for_the_same_call_id():
    model = FunctionModel(
        lambda request, info: (
            say("ok") if isinstance(request.messages[-1], ToolMessage) else call("ask", id="c1")
        )
    )
    extension = Question()
    agent = await Agent.create(model, extensions=[extension], config=S1)
    reached = {session: asyncio.Event() for session in "ab"}

    async def consume(session):
        async with aclosing(agent.stream("go", config=AgentRunConfig(session))) as events:
            async for event in events:
                if is_question(event):
                    reached[session].set()

    tasks = [asyncio.ensure_future(consume(session)) for session in "ab"]
    await asyncio.gather(*(event.wait() for event in reached.values()))
    with pytest.raises(AgentProtocolError, match="require config when multiple sessions"):
        agent.emit_external_event(answer("c1"))
    assert agent.emit_external_event(answer("c1", "b"), config=AgentRunConfig("b")) == ["Question"]
    await asyncio.wait_for(tasks[1], 5)
    assert not tasks[0].done()
    assert agent.emit_external_event(answer("c1", "a"), config=AgentRunConfig("a")) == ["Question"]
    await asyncio.wait_for(tasks[0], 5)
    assert results(agent, "a") == {"c1": ("a", True)}
    assert results(agent, "b") == {"c1": ("b", True)}


async def test_ex6_x2_a_consumer_that_leaves_at_the_question():
    agent, extension = await ask_agent(
        calls(call("ask", id="c1"), call("ask", id="c2")), say("fresh"), extensions=[Remember()]
    )
    async with aclosing(agent.stream("go")) as events:
        async for event in events:
            if is_question(event):
                break
    assert agent.get_state("s1").phase is AgentPhase.CANCELLED
    text = "Request cancelled before tool completion"
    assert results(agent) == {"c1": (text, False), "c2": (text, False)}
    assert isinstance(agent.get_state("s1").messages[-1], ToolMessage)
    assert agent.emit_external_event(answer("c1"), config=S1) == []
    assert left_in(extension) == (0, 0)
    assert not agent.pending
    assert (await agent.run("again")).content == "fresh"


class Remember(AgentExtension):
    """Notes the phases a request goes through."""

    def __init__(self):
        self.phases = []

    async def on_event(self, context, event):
        if hasattr(event, "current_phase"):
            self.phases.append((event.previous_phase, event.current_phase))


async def test_x2_a_consumer_that_is_cancelled_while_it_waits():
    remember = Remember()
    agent, extension = await ask_agent(call("ask", id="c1"), extensions=[remember])
    task = asyncio.ensure_future(agent.run("go"))
    while not extension.pending_requests():
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 5)
    assert remember.phases[-1] == (AgentPhase.READY, AgentPhase.CANCELLED)
    assert results(agent) == {"c1": ("Request cancelled before tool completion", False)}
    assert agent.emit_external_event(answer("c1"), config=S1) == []
    assert left_in(extension) == (0, 0)


async def test_ex9_one_instance_shared_by_two_agents():
    extension = Question()
    child, _ = await ask_agent(
        call("ask", id="c1"), say("ok"), extension=extension, config=AgentRunConfig("child")
    )
    parent = await Agent.create(ScriptedModel(), extensions=[extension], config=AgentRunConfig("parent"))
    task = asyncio.ensure_future(child.run("go"))
    while not extension.pending_requests("child"):
        await asyncio.sleep(0)
    assert parent.emit_external_event(answer("c1")) == []  # that goes to the parent's own session
    assert parent.emit_external_event(answer("c1"), config=AgentRunConfig("child")) == ["Question"]
    assert (await asyncio.wait_for(task, 5)).content == "ok"
    assert results(child, "child") == {"c1": ("yes", True)}


class WaitInside(ExternalEventExtension):
    """Waits in tool middleware, so that parallel calls wait beside each other."""

    def __init__(self):
        super().__init__(response_event_name="answer", correlation_field="id")
        self.error = None

    async def on_tool_call(self, context, call, call_next):
        if call.name != "ask":
            return await call_next()
        async with self._wait_for_external_event(context, call.id):
            pass
        return self._take_external_event(context).payload["text"]


class FailAfter(AgentExtension):
    async def after_tool(self, context, call, result, error):
        if call.name == "quick":
            raise KeyError("after_tool")


async def test_ex10_a_request_that_fails_while_a_sibling_waits():
    extension = WaitInside()
    agent = await Agent.create(
        ScriptedModel(calls(call("ask", id="c1"), call("quick", id="c2"))),
        tools=[make_tool("ask"), make_tool("quick")],
        extensions=[extension, FailAfter()],
        config=S1,
    )
    with pytest.raises(KeyError, match="after_tool"):
        await asyncio.wait_for(agent.run("go"), 5)
    assert left_in(extension) == (0, 0)
    assert agent.get_state("s1").phase is AgentPhase.FAILED
    assert agent.emit_external_event(answer("c1"), config=S1) == []


async def test_waits_inside_parallel_tools_are_answered_in_any_order():
    extension = WaitInside()
    agent = await Agent.create(
        ScriptedModel(calls(call("ask", id="c1"), call("ask", id="c2")), say("ok")),
        tools=[make_tool("ask")],
        extensions=[extension],
        config=S1,
    )
    task = asyncio.ensure_future(agent.run("go"))
    while len(extension.pending_requests()) < 2:
        await asyncio.sleep(0)
    assert agent.emit_external_event(answer("c2", "two"))
    assert agent.emit_external_event(answer("c1", "one"))
    await asyncio.wait_for(task, 5)
    assert results(agent) == {"c1": ("one", True), "c2": ("two", True)}


async def test_a_wrong_use_before_the_tool_fails_the_request_and_inside_only_the_call():
    class Blank(Question):
        async def before_tool(self, context, call):
            async with self._wait_for_external_event(context, " "):
                pass

    agent, _ = await ask_agent(call("ask", id="c1"), extension=Blank())
    with pytest.raises(ValueError, match="correlation_id cannot be empty"):
        await agent.run("go")

    class Unasked(Question):
        async def before_tool(self, context, call):
            pass

    agent, _ = await ask_agent(call("ask", id="c1"), say("ok"), extension=Unasked())
    await agent.run("go")
    [(text, success)] = results(agent).values()
    assert not success
    assert "without an accepted external response" in text


@pytest.mark.parametrize("how", ["completed", "failed", "cancelled"])
async def test_nothing_holds_a_request_that_has_ended(how):
    contexts = []

    class Skipping(Question):
        """Asks, but never takes the response."""

        async def before_tool(self, context, call):
            contexts.append(weakref.ref(context))
            await super().before_tool(context, call)

        async def on_tool_call(self, context, call, call_next):
            return "not run"

    end = {"completed": say("ok"), "failed": fail(KeyError("k")), "cancelled": call("ask", id="c2")}[how]
    agent, extension = await ask_agent(call("ask", id="c1"), end, extension=Skipping())
    try:
        async with aclosing(agent.stream("go")) as events:
            async for event in events:
                if is_question(event):
                    if event.payload["id"] == "c2":
                        break
                    assert agent.emit_external_event(answer("c1"))
    except KeyError as error:
        error.__traceback__ = error.__context__ = None  # its frames hold the context, for as long as we do
    assert agent.get_state("s1").phase == how
    assert left_in(extension) == (0, 0)
    del events, event
    gc.collect()
    assert [context() for context in contexts] == [None] * len(contexts)


async def test_an_instance_overriding_the_hooks_calls_them():
    log = []

    class Overriding(Question):
        async def on_event(self, context, event):
            log.append(type(event).__name__)
            await super().on_event(context, event)

        async def on_error(self, context, error):
            log.append("on_error")
            await super().on_error(context, error)

    agent, extension = await ask_agent(call("ask", id="c1"), extension=Overriding())
    async with aclosing(agent.stream("go")) as events:
        async for event in events:
            if is_question(event):
                break
    assert "RunCancelledEvent" in log
    assert left_in(extension) == (0, 0)


async def test_the_question_is_listed_while_the_consumer_holds_it():
    agent, extension = await ask_agent(call("ask", id="c1"), say("ok"))
    seen = []
    async with aclosing(agent.stream("go")) as events:
        async for event in events:
            if is_question(event):
                seen.append((event, extension.pending_requests("s1")))
                agent.emit_external_event(answer("c1"))
    [(question, [pending])] = seen
    assert pending.correlation_id == "c1"
    assert pending.event is question


async def test_ex4_of_many_deliveries_at_once_exactly_one_is_accepted():
    threads, rounds = 64, 100
    agent, extension = await ask_agent(
        *[step for _ in range(rounds) for step in (call("ask", id="c1"), say("ok"))]
    )
    barrier = threading.Barrier(threads)

    def deliver():
        barrier.wait()
        return agent.emit_external_event(answer("c1"), config=S1)

    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(rounds):
            accepted = []
            async with aclosing(agent.stream("go")) as events:
                async for event in events:
                    if is_question(event):
                        deliveries = [loop.run_in_executor(pool, deliver) for _ in range(threads)]
                        accepted = await asyncio.gather(*deliveries)
            assert sorted(accepted, key=len)[-2:] == [[], ["Question"]]
    assert extension.runs == rounds
    assert left_in(extension) == (0, 0)


async def test_bx2_a_wait_that_times_out_fails_the_call_and_not_the_request():
    agent, extension = await ask_agent(
        call("ask", id="c1"), say("went on"), extension=Question(response_timeout=0.01)
    )
    failed = []
    async with aclosing(agent.stream("go")) as events:
        async for event in events:
            if event.type is AgentEventType.TOOL_FAILED:
                failed.append(event.error)
    [error] = failed
    assert isinstance(error, ExternalEventTimeout)
    assert results(agent) == {"c1": (str(error), False)}
    assert agent.get_state("s1").messages[-1].content == "went on"
    assert agent.emit_external_event(answer("c1"), config=S1) == []
    assert left_in(extension) == (0, 0)
