"""Input from outside and tools that wait for a person (12 §9, 50 §1)."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import time
from contextlib import aclosing
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from support.loop_models import RawModel, answer, asks
from support.loop_probe import Probe
from support.loop_tools import make_tool, serial_tool
from zett_agent.agent import Agent, AgentRunConfig, AgentRunContext, AgentState
from zett_agent.events import AgentEvent, AgentEventType, AgentPhase
from zett_agent.exceptions import AgentError, AgentProtocolError
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.external import ExternalEvent, ExternalEventExtension, ExternalEventTimeout
from zett_agent.messages import ToolCall, ToolMessage

S = AgentRunConfig(session_id="s", request_id="r")


class Confirm(ExternalEventExtension):
    """Asks before each call of `deploy`, and gives the answer as the tool's result."""

    def __init__(self, **options: Any) -> None:
        super().__init__(
            response_event_name=options.pop("names", ("confirmed", "refused")),
            correlation_field="call_id",
            **options,
        )
        self.narrow: str | None = None

    async def before_tool(self, context: Any, call: ToolCall) -> None:
        if call.name == "deploy":
            async with self._wait_for_external_event(context, call.id, response_event_name=self.narrow):
                question = AgentEvent(
                    AgentEventType.CUSTOM, context.session_id, name="confirm", payload={"call_id": call.id}
                )
                await context.emit(question)

    async def on_tool_call(self, context: Any, call: ToolCall, call_next: Any) -> Any:
        if call.name == "deploy":
            return self._take_external_event(context).payload["answer"]
        return await call_next()


def reply(call_id: Any, content: Any = "yes", name: str = "confirmed") -> ExternalEvent:
    return ExternalEvent(name, {"call_id": call_id, "answer": content})


def deploys(*ids: str) -> list[Any]:
    return asks(*(ToolCall(id, "deploy") for id in ids), deltas=False)


async def build(*extensions: AgentExtension, ids: tuple[str, ...] = ("c1",), make: Any = make_tool) -> Agent:
    return await Agent.create(
        RawModel(deploys(*ids), answer(), answer("again")),
        tools=[make("deploy")],
        extensions=list(extensions),
    )


def nothing_left(extension: ExternalEventExtension) -> None:
    assert extension.pending_requests() == () and not extension.pending
    assert not extension._external_waits and not len(extension._external_requests)


# EX-1


@pytest.mark.parametrize("name", ["", " ", None, 5])
def test_ex1_blank_names(name: Any) -> None:
    with pytest.raises(ValueError, match="name cannot be empty"):
        ExternalEvent(name, {})


@pytest.mark.parametrize("payload", [[], None, {1: 2}, "x"])
def test_ex1_payload_must_be_a_dictionary_with_string_keys(payload: Any) -> None:
    with pytest.raises(TypeError, match="dictionary with string keys"):
        ExternalEvent("x", payload)


def test_ex1_value() -> None:
    payload: dict[str, Any] = {}
    event = ExternalEvent("x", payload)
    assert event.payload is payload and event == ExternalEvent(name="x", payload={})
    with pytest.raises(TypeError):
        hash(event)
    with pytest.raises(FrozenInstanceError):
        event.name = "y"  # type: ignore[misc]


# EX-2


@pytest.mark.parametrize("names", ["", " ", (), [], ("a", " "), (1,), None])
def test_ex2_bad_names(names: Any) -> None:
    with pytest.raises(ValueError, match="cannot be empty"):
        ExternalEventExtension(response_event_name=names, correlation_field="id")


@pytest.mark.parametrize("field", ["", " "])
def test_ex2_bad_field(field: str) -> None:
    with pytest.raises(ValueError, match="correlation_field cannot be empty"):
        ExternalEventExtension(response_event_name="a", correlation_field=field)


def test_ex2_collections() -> None:
    for names in (["a", "b"], {"a"}, frozenset("a"), ("a",), "a"):
        ExternalEventExtension(response_event_name=names, correlation_field="id")


#


async def test_x1_two_questions_of_one_batch() -> None:
    confirm = Confirm()
    confirm.narrow = "confirmed"
    agent = await build(confirm, ids=("c1", "c2"))
    trace: list[str] = []
    async for event in agent.stream("go", config=S):
        trace.append(event.name or event.type.value)
        if event.type is not AgentEventType.CUSTOM:
            continue
        call_id = event.payload["call_id"]
        trace.append(call_id)
        for wrong, config in (
            (reply(call_id, name="other"), S),
            (reply(call_id, name="refused"), S),  # the wait is narrowed
            (reply("c9"), S),
            (reply(call_id), AgentRunConfig("s", request_id="other")),
            (reply(call_id), AgentRunConfig("other")),
            (reply(call_id), AgentRunConfig()),
        ):
            assert agent.emit_external_event(wrong, config=config) == []
        right = reply(call_id, f"for {call_id}")
        assert await asyncio.to_thread(agent.emit_external_event, right, config=S) == ["Confirm"]
        assert agent.emit_external_event(right, config=S) == []
    assert trace == [
        "model_started", "model_completed", "confirm", "c1", "confirm", "c2", "tool_started",
        "tool_completed", "tool_completed", "model_started", "model_completed", "run_completed",
    ]  # fmt: skip
    results = {m.tool_call_id: m.content for m in agent.state.messages if isinstance(m, ToolMessage)}
    assert results == {"c1": "for c1", "c2": "for c2"}
    nothing_left(confirm)


async def test_answer_given_while_the_question_is_delivered_is_not_lost() -> None:
    confirm = Confirm()
    agent = await build(confirm)
    async for event in agent.stream("go", config=S):
        if event.type is AgentEventType.CUSTOM:
            assert agent.emit_external_event(reply("c1", "at once")) == ["Confirm"]
    assert agent.state.messages[3].content == "at once"


# EX-3


async def test_ex3_one_wait() -> None:
    confirm = Confirm()
    agent = await build(confirm)
    async for event in agent.stream("go", config=S):
        if event.type is AgentEventType.CUSTOM:
            assert confirm.pending and agent.pending
            for wrong in (reply("c2"), reply(5), reply(""), reply(" c1 "), reply("c1", name="x")):
                assert agent.emit_external_event(wrong, config=S) == []
            assert agent.emit_external_event(ExternalEvent("confirmed", {}), config=S) == []
            assert agent.emit_external_event(reply("c1"), config=AgentRunConfig("other")) == []
            assert agent.emit_external_event(reply("c1"), config=AgentRunConfig("s", request_id="x")) == []
            assert agent.emit_external_event(reply("c1"), config=S) == ["Confirm"]
            assert agent.emit_external_event(reply("c1"), config=S) == []
    assert agent.emit_external_event(reply("c1"), config=S) == []
    nothing_left(confirm)


# EX-4


async def test_ex4_of_64_threads_exactly_one_is_accepted() -> None:
    ran: list[int] = []

    class Counts(Confirm):
        async def on_tool_call(self, context: Any, call: ToolCall, call_next: Any) -> Any:
            ran.append(1)
            return await super().on_tool_call(context, call, call_next)

    agent = await build(Counts())
    barrier = threading.Barrier(64)
    accepted: list[str] = []
    rounds: list[asyncio.Event] = [asyncio.Event()]
    loop = asyncio.get_running_loop()
    session: list[AgentRunConfig] = [S]
    stop = False

    def deliver() -> None:
        while True:
            barrier.wait()
            if stop:
                return
            accepted.extend(agent.emit_external_event(reply("c1"), config=session[0]))
            if barrier.wait() == 0:
                loop.call_soon_threadsafe(rounds[0].set)

    threads = [threading.Thread(target=deliver) for _ in range(63)]
    for thread in threads:
        thread.start()
    try:
        for number in range(100):
            session[0] = AgentRunConfig(f"s{number}")
            accepted.clear()
            async for event in agent.stream("go", config=session[0], model=RawModel(deploys("c1"), answer())):
                if event.type is AgentEventType.CUSTOM:
                    await asyncio.to_thread(_deliver_once, barrier, agent, session[0], accepted)
            assert accepted == ["Counts"]
    finally:
        stop = True
        await asyncio.to_thread(barrier.wait)
        for thread in threads:
            thread.join()
    assert len(ran) == 100


def _deliver_once(
    barrier: threading.Barrier, agent: Agent, config: AgentRunConfig, accepted: list[str]
) -> None:
    barrier.wait()
    accepted.extend(agent.emit_external_event(reply("c1"), config=config))
    barrier.wait()


# EX-5, X-4


async def test_ex5_x4_two_sessions_wait_on_the_same_id() -> None:
    confirm = Confirm()
    agent = await Agent.create(
        RawModel(deploys("c1"), deploys("c1"), answer(), answer()),
        tools=[make_tool("deploy")],
        extensions=[confirm],
    )
    tasks = {name: asyncio.create_task(agent.run("go", config=AgentRunConfig(name))) for name in "ab"}
    while len(confirm.pending_requests()) < 2:
        await asyncio.sleep(0.001)
    with pytest.raises(AgentProtocolError, match="require config when multiple sessions"):
        agent.emit_external_event(reply("c1"))
    for name in "ba":
        assert agent.emit_external_event(reply("c1", f"for {name}"), config=AgentRunConfig(name)) == [
            "Confirm"
        ]
    await asyncio.gather(*tasks.values())
    for name in "ab":
        results = [m.content for m in agent.get_state(name).messages if isinstance(m, ToolMessage)]
        assert results == [f"for {name}"]
    nothing_left(confirm)


async def test_x4_routing_without_config() -> None:
    configs: list[Any] = []

    class Sees(AgentExtension):
        def accept(self, config: Any, event: Any) -> bool:
            configs.append(config)
            return True

    agent = Agent(RawModel(answer(), repeat=True), extensions=[Sees()])
    assert agent.emit_external_event(reply("c")) == ["Sees"]
    assert configs == [None]
    await agent.initialize(config=AgentRunConfig("init"))
    agent.emit_external_event(reply("c"))
    assert configs[-1] == AgentRunConfig("init")
    stream = agent.stream("go", config=AgentRunConfig())
    await stream.__anext__()
    agent.emit_external_event(event := reply("c"))
    assert configs[-1].session_id and configs[-1].request_id and configs[-1].session_id != "init"
    agent.emit_external_event(event, config=AgentRunConfig("given"))
    assert configs[-1] == AgentRunConfig("given")
    await stream.aclose()


async def test_x4_before_initialization_nobody_takes_it() -> None:
    agent = Agent(RawModel())
    assert agent.emit_external_event(ExternalEvent("steering_message", {"content": "x"})) == []


async def test_delivery_goes_to_all_in_order_and_untouched() -> None:
    seen: list[Any] = []

    class Takes(AgentExtension):
        def __init__(self, name: str, priority: int) -> None:
            self.name, self.priority = name, priority

        def accept(self, config: Any, event: Any) -> bool:
            seen.append((self.name, event))
            return self.name != "b"

    agent = Agent(RawModel(), extensions=[Takes("c", 3), Takes("b", 2), Takes("a", 1)])
    event = reply("x")
    assert agent.emit_external_event(event) == ["a", "c"]
    assert [name for name, _ in seen] == ["a", "b", "c"] and all(item is event for _, item in seen)


# EX-6, X-2


async def test_ex6_consumer_leaves_at_the_question() -> None:
    confirm = Confirm()
    agent = await build(confirm)
    async with aclosing(agent.stream("go", config=S)) as stream:
        async for event in stream:
            if event.type is AgentEventType.CUSTOM:
                break
    nothing_left(confirm)
    assert agent.get_state("s").phase is AgentPhase.CANCELLED
    assert agent.emit_external_event(reply("c1"), config=S) == []
    result = agent.state.messages[-1]
    assert isinstance(result, ToolMessage) and not result.success
    assert result.content == "Request cancelled before tool completion"
    agent.model = RawModel(answer("fine"))
    assert (await agent.run("again", config=S)).content == "fine"


async def test_x2_cancellation_while_waiting() -> None:
    confirm = Confirm()
    agent = await build(confirm, probe := Probe(), ids=("c1", "c2"))
    run = asyncio.create_task(agent.run("go", config=S))
    while not confirm.pending_requests():
        await asyncio.sleep(0.001)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    results = [m for m in agent.state.messages if isinstance(m, ToolMessage)]
    assert [(m.tool_call_id, m.success) for m in results] == [("c1", False), ("c2", False)]
    assert probe.trace[-2:] == ["E:ready>cancelled", "E:run_cancelled prev=ready"]
    assert agent.emit_external_event(reply("c1"), config=S) == []
    nothing_left(confirm)


async def test_cancellation_with_a_staged_response_drops_it() -> None:
    confirm = Confirm()
    agent = await build(confirm, ids=("c1", "c2"))
    run = asyncio.create_task(agent.run("go", config=S))
    while not confirm.pending_requests():
        await asyncio.sleep(0.001)
    assert agent.emit_external_event(reply("c1")) == ["Confirm"]
    while not [item for item in confirm.pending_requests() if item.correlation_id == "c2"]:
        await asyncio.sleep(0.001)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    nothing_left(confirm)


# Errors of the wait and of the take


class InHook(ExternalEventExtension):
    def __init__(self, act: Any, hook: str = "before_tool") -> None:
        super().__init__(response_event_name=["a", "b"], correlation_field="id")
        self.act, self.hook = act, hook

    async def before_tool(self, context: Any, call: Any) -> None:
        if self.hook == "before_tool":
            await self.act(self, context)

    async def on_tool_call(self, context: Any, call: Any, call_next: Any) -> Any:
        if self.hook == "on_tool_call":
            await self.act(self, context)
        return await call_next()


async def waits_wrong(extension: InHook, context: Any, *arguments: Any, **options: Any) -> None:
    async with extension._wait_for_external_event(context, *arguments, **options):
        raise AssertionError("the body must not run")


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        (("",), {}, "correlation_id cannot be empty"),
        ((" ",), {}, "correlation_id cannot be empty"),
        (("x",), {"response_event_name": "c"}, "Unsupported response event name"),
    ],
)
@pytest.mark.parametrize("hook", ["before_tool", "on_tool_call"])
async def test_wrong_waits(hook: str, arguments: Any, options: Any, words: str) -> None:
    async def act(extension: InHook, context: Any) -> None:
        await waits_wrong(extension, context, *arguments, **options)

    extension = InHook(act, hook)
    agent = await build(extension)
    if hook == "before_tool":
        with pytest.raises(ValueError, match=words):
            await agent.run("go", config=S)
    else:
        await agent.run("go", config=S)
        assert words in agent.state.messages[3].content and not agent.state.messages[3].success
    nothing_left(extension)


async def test_a_second_wait_under_one_id_is_refused() -> None:
    async def act(extension: InHook, context: Any) -> None:
        async with extension._wait_for_external_event(context, "x"):
            await waits_wrong(extension, context, "x")

    extension = InHook(act)
    agent = await build(extension)
    with pytest.raises(RuntimeError, match="already pending"):
        await agent.run("go", config=S)
    nothing_left(extension)


async def test_body_that_raises_ends_the_wait_without_waiting() -> None:
    async def act(extension: InHook, context: Any) -> None:
        async with extension._wait_for_external_event(context, "x"):
            raise KeyError("body")

    extension = InHook(act)
    agent = await build(extension)
    with pytest.raises(KeyError):
        await asyncio.wait_for(agent.run("go", config=S), 5)
    nothing_left(extension)


async def test_taking_without_and_twice() -> None:
    messages: list[str] = []

    class TakesTwice(Confirm):
        async def on_tool_call(self, context: Any, call: ToolCall, call_next: Any) -> Any:
            value = await super().on_tool_call(context, call, call_next)
            for _ in range(2):
                with pytest.raises(RuntimeError, match="without an accepted external response") as caught:
                    self._take_external_event(context)
                messages.append(str(caught.value))
            return value

    extension = TakesTwice()
    agent = await build(extension)
    async for event in agent.stream("go", config=S):
        if event.type is AgentEventType.CUSTOM:
            agent.emit_external_event(reply("c1"))
    assert len(messages) == 2 and agent.state.messages[3].content == "yes"
    with pytest.raises(RuntimeError, match="without an accepted external response"):
        extension._take_external_event(AgentRunContext(S, AgentState(), {}))


async def test_same_id_twice_in_one_response_is_asked_twice_and_answered_each() -> None:  # 50 §1.6
    confirm = Confirm()
    agent = await build(confirm, ids=("c1", "c1"))
    number = 0
    async for event in agent.stream("go", config=S):
        if event.type is AgentEventType.CUSTOM:
            number += 1
            answered = reply(event.payload["call_id"], f"answer {number}")
            assert agent.emit_external_event(answered) == ["Confirm"]
    results = [m.content for m in agent.state.messages if isinstance(m, ToolMessage)]
    assert sorted(results) == ["answer 1", "answer 2"]


# EX-7


async def cleanup_cost(waiting: int) -> tuple[float, float]:
    """CPU seconds that one failing request costs, and that cancelling all `waiting` ones costs."""
    confirm = Confirm()

    class Model:
        retry = RawModel.retry

        async def stream(self, request: Any) -> Any:
            for item in deploys("c1"):
                if not callable(item):
                    yield item

    agent = await Agent.create(Model(), tools=[make_tool("deploy")], extensions=[confirm])
    tasks = [asyncio.create_task(agent.run("go", config=AgentRunConfig(f"s{n}"))) for n in range(waiting)]
    while len(confirm.pending_requests()) < waiting:
        await asyncio.sleep(0.01)
    failing = RawModel([RuntimeError("x")], repeat=True)
    gc.collect()
    gc.disable()
    try:
        before = time.process_time()
        for number in range(50):
            with pytest.raises(RuntimeError):
                await agent.run("go", config=AgentRunConfig(f"f{number}"), model=failing)
        failed = (time.process_time() - before) / 50
        before = time.process_time()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        cancelled = time.process_time() - before
    finally:
        gc.enable()
    nothing_left(confirm)
    return failed, cancelled


@pytest.mark.no_cover  # measures time
async def test_ex7_cleanup_touches_only_the_requests_own_waits() -> None:
    few = min([(await cleanup_cost(10))[0] for _ in range(3)])
    small = [await cleanup_cost(300) for _ in range(3)]
    large = [await cleanup_cost(1_200) for _ in range(2)]
    # The reference scans all waits: some 70 microseconds more at 1,200.
    assert min(failed for failed, _ in large) - few < 50e-6 + 0.5 * few
    # Doubling the count twice.
    cancelled_small, cancelled_large = (min(each for _, each in costs) for costs in (small, large))
    assert cancelled_large <= 2.5 * 2.5 * cancelled_small


# EX-8


def test_ex8_loop_closed_while_a_wait_is_pending() -> None:
    confirm = Confirm()
    agents: list[Agent] = []
    loop = asyncio.new_event_loop()

    async def begin() -> None:
        agents.append(await build(confirm))
        task = loop.create_task(agents[0].run("go", config=S))
        while not confirm.pending_requests():
            await asyncio.sleep(0.001)
        kept.append(task)

    kept: list[Any] = []
    loop.run_until_complete(begin())
    loop.close()
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(confirm.accept(S, reply("c1"))))
    thread.start()
    thread.join()
    assert results == [False]
    assert confirm.pending_requests() == ()
    kept[0]._log_destroy_pending = False


# EX-9


async def test_ex9_shared_instance_answers_through_another_agent() -> None:
    confirm = Confirm()
    asking = await build(confirm)
    other = await Agent.create(RawModel(answer()), extensions=[confirm])
    run = asyncio.create_task(asking.run("go", config=S))
    while not confirm.pending_requests():
        await asyncio.sleep(0.001)
    assert other.emit_external_event(reply("c1"), config=AgentRunConfig("s")) == ["Confirm"]
    assert (await run).content == "done"


# EX-10


async def test_ex10_failing_after_tool_while_a_sibling_waits() -> None:
    class WaitsInside(ExternalEventExtension):
        def __init__(self) -> None:
            super().__init__(response_event_name="a", correlation_field="id")

        async def on_tool_call(self, context: Any, call: ToolCall, call_next: Any) -> Any:
            if call.id == "c2":
                async with self._wait_for_external_event(context, call.id):
                    pass
            return await call_next()

    def fail(*_: Any) -> None:
        raise KeyError("after_tool")

    waits = WaitsInside()
    agent = await build(waits, Probe(after_tool=fail), ids=("c1", "c2"))
    with pytest.raises(KeyError):
        async for _ in agent.stream("go", config=S):
            pass
    nothing_left(waits)


async def test_request_that_fails_drops_its_waits_and_staged_responses() -> None:
    class FailsAtSecond(AgentExtension):
        async def before_tool(self, context: Any, call: ToolCall) -> None:
            if call.id == "c2":
                raise KeyError("hook")

    confirm = Confirm()
    agent = await build(confirm, FailsAtSecond(), ids=("c1", "c2"))
    run = asyncio.create_task(agent.run("go", config=S))
    for call_id in ("c1", "c2"):
        while not confirm.pending_requests():
            await asyncio.sleep(0.001)
        agent.emit_external_event(reply(call_id))
        await asyncio.sleep(0.005)
    with pytest.raises(KeyError):
        await run
    nothing_left(confirm)


# Pending requests


async def test_open_questions_can_be_listed() -> None:
    confirm = Confirm()
    agent = await build(confirm)
    async for event in agent.stream("go", config=S):
        if event.type is AgentEventType.CUSTOM:
            (open_,) = confirm.pending_requests("s")
            assert (open_.session_id, open_.request_id, open_.correlation_id) == ("s", "r", "c1")
            assert open_.response_event_names == frozenset({"confirmed", "refused"})
            assert open_.event is event and open_.created_at.utcoffset().total_seconds() == 0
            assert confirm.pending_requests("other") == ()
            agent.emit_external_event(reply("c1"))
            assert confirm.pending_requests() == ()


# B-X1


async def test_b_x1_failing_accept_does_not_stop_the_broadcast() -> None:
    asked: list[str] = []

    class Takes(AgentExtension):
        def __init__(self, name: str, error: Exception | None = None) -> None:
            self.name, self.error = name, error

        def accept(self, config: Any, event: Any) -> bool:
            asked.append(self.name)
            if self.error is not None:
                raise self.error
            return True

    first, second = KeyError("first"), ValueError("second")
    agent = Agent(RawModel(), extensions=[Takes("a"), Takes("b", first), Takes("c", second), Takes("d")])
    with pytest.raises(KeyError) as caught:
        agent.emit_external_event(reply("x"))
    assert caught.value is first and asked == ["a", "b", "c", "d"]
    text = "\n".join(first.__notes__)
    assert "a" in text and "d" in text


# B-X2


@pytest.mark.parametrize("make", [make_tool, serial_tool])
async def test_b_x2_unanswered_question_fails_only_its_call(make: Any) -> None:
    confirm = Confirm(response_timeout=0.02)
    agent = await build(confirm, make=make)
    events = [event async for event in agent.stream("go", config=S)]
    (failed,) = [event for event in events if event.type is AgentEventType.TOOL_FAILED]
    assert isinstance(failed.error, ExternalEventTimeout)
    assert isinstance(failed.error, AgentError) and isinstance(failed.error, TimeoutError)
    assert "c1" in str(failed.error) and "0.02" in str(failed.error)
    assert events[-1].type is AgentEventType.RUN_COMPLETED
    assert agent.emit_external_event(reply("c1"), config=S) == []
    nothing_left(confirm)


async def test_b_x2_timeout_of_one_wait() -> None:
    class Impatient(Confirm):
        async def before_tool(self, context: Any, call: ToolCall) -> None:
            async with self._wait_for_external_event(context, call.id, timeout=0.01):
                pass

    agent = await build(Impatient())
    await asyncio.wait_for(agent.run("go", config=S), 5)
    assert "c1" in agent.state.messages[3].content and not agent.state.messages[3].success


# B-X4


async def test_b_x4_slow_accept_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Slow(AgentExtension):
        def accept(self, config: Any, event: Any) -> bool:
            time.sleep(0.12)
            return True

    agent = Agent(RawModel(), extensions=[Slow()])
    with caplog.at_level(logging.WARNING, "zett_agent"):
        agent.emit_external_event(reply("x"))
    assert "Slow" in caplog.text and [r.levelname for r in caplog.records] == ["WARNING"]
    caplog.clear()
    quick = Agent(RawModel(), extensions=[Probe()])
    quick.emit_external_event(reply("x"))
    assert not caplog.records
