"""Who owns a session, for how long, and what runs where (11 §6)."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
import time
from contextlib import aclosing
from typing import Any

import pytest

from support.loop_models import RawModel, answer, asks, response, text
from support.loop_probe import Probe
from support.loop_tools import make_tool
from zett_agent.agent import Agent, AgentRunConfig
from zett_agent.events import AgentEventType, AgentPhase
from zett_agent.exceptions import AgentProtocolError
from zett_agent.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from zett_agent.model import ModelEvent
from zett_agent.tools.base import current_tool_call_id, tool

S = AgentRunConfig(session_id="s")


def contents(agent: Agent, session_id: str = "s") -> list[Any]:
    return [message.content for message in agent.get_state(session_id).messages]


async def test_a4_default_agent_remembers_and_an_empty_one_does_not() -> None:
    for extensions, expected in ((None, ["one", "1", "two", "2"]), ([], ["two", "2"])):
        agent = await Agent.create(RawModel(answer("1"), answer("2")), extensions=extensions)
        await agent.run("one", config=S)
        await agent.run("two", config=S)
        assert contents(agent)[1:] == expected
        assert agent.state is agent.get_state("s")


async def test_a9_close_at_first_delta() -> None:
    deltas = [ModelEvent.text(str(number)) for number in range(200)]
    model = RawModel([*deltas, response("x")], text())
    agent = await Agent.create(model)
    received = 0
    async with aclosing(agent.stream("go", config=S)) as stream:
        async for event in stream:
            if event.type is AgentEventType.TEXT_DELTA:
                received += 1
                break
    made = model.yielded
    assert made <= received + 64
    assert model.open_streams == 0
    assert not agent.pending and agent.get_state("s").phase is AgentPhase.CANCELLED
    await asyncio.sleep(0.01)
    assert model.yielded == made
    assert (await agent.run("again", config=S)).content == "hi"


class CountingModel(RawModel):
    """Streams deltas without ever waiting, and notes how far ahead of the consumer it gets."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count
        self.received = 0
        self.ahead: list[int] = []

    async def stream(self, request: Any) -> Any:
        for number in range(1, self.count + 1):
            self.ahead.append(number - self.received)
            yield ModelEvent.text(str(number))
        yield response("x")


async def test_deltas_run_ahead_by_at_most_64_and_nothing_else_does() -> None:
    model = CountingModel(500)
    agent = await Agent.create(model, extensions=[probe := Probe()])
    async for event in agent.stream("go", config=S):
        if event.type is AgentEventType.TEXT_DELTA:
            model.received += 1
            if model.received % 50 == 0:
                for _ in range(5):
                    await asyncio.sleep(0)
                assert "E:content_completed" not in probe.trace
    assert model.received == 500
    assert max(model.ahead) == 64
    assert probe.trace.index("E:content_completed") < probe.trace.index("E:generating>ready")


async def test_response_is_not_taken_up_before_the_consumer_has_all_deltas() -> None:
    model = RawModel([ModelEvent.text("a"), ModelEvent.text("b"), response("ab")])
    agent = await Agent.create(model, extensions=[probe := Probe()])
    async for event in agent.stream("go", config=S):
        for _ in range(5):
            await asyncio.sleep(0)
        if event.type is AgentEventType.TEXT_DELTA:
            assert "E:content_completed" not in probe.trace
            assert "E:+assistant" not in probe.trace


async def test_a10_two_sessions_run_at_once() -> None:
    agent = await Agent.create(RawModel([0.2, response("x")], repeat=True))
    started = time.monotonic()
    both = [asyncio.create_task(agent.run("go", config=AgentRunConfig(session))) for session in ("a", "b")]
    await asyncio.sleep(0.05)
    assert agent.is_conflict("a") and agent.is_conflict("b") and not agent.is_conflict("c")
    assert agent.pending
    with pytest.raises(AgentProtocolError, match="generating"):
        await agent.run("third", config=AgentRunConfig("a"))
    assert agent.get_state("a") is not agent.get_state("b")
    await asyncio.gather(*both)
    assert time.monotonic() - started < 0.35
    assert contents(agent, "a")[1:] == ["go", "x"]
    assert not agent.pending and not agent.is_conflict("a")


async def test_a11_run_completed_in_hand_still_owns_the_session() -> None:
    agent = await Agent.create(RawModel(answer(), repeat=True))
    stream = agent.stream("go", config=S)
    async for event in stream:
        if event.type is AgentEventType.RUN_COMPLETED:
            break
    assert agent.get_state("s").phase is AgentPhase.COMPLETED
    assert agent.is_conflict("s") and agent.pending
    with pytest.raises(AgentProtocolError, match="completed") as caught:
        await agent.run("go", config=S)
    assert "RUN_COMPLETED" in str(caught.value)  # B-A19: only the reading of it is outstanding
    with pytest.raises(StopAsyncIteration):
        await stream.__anext__()
    assert not agent.is_conflict("s")
    await agent.run("go", config=S)


async def test_closing_at_run_completed_frees_the_session_and_keeps_it_completed() -> None:
    agent = await Agent.create(RawModel(answer(), repeat=True), extensions=[probe := Probe()])
    async with aclosing(agent.stream("go", config=S)) as stream:
        async for event in stream:
            if event.type is AgentEventType.RUN_COMPLETED:
                seen = list(probe.trace)
                break
    assert probe.trace == seen
    assert agent.get_state("s").phase is AgentPhase.COMPLETED and not agent.is_conflict("s")


async def test_session_is_free_once_run_returned() -> None:
    agent = await Agent.create(RawModel(answer(), repeat=True))
    for _ in range(3):
        await agent.run("go", config=S)
        assert not agent.is_conflict("s") and not agent.pending


async def test_own_session_conflicts_and_another_works_from_hook_and_tool() -> None:
    outcomes: list[Any] = []

    async def nested(*_: Any, **__: Any) -> str:
        try:
            await agent.run("inner", config=S)
        except AgentProtocolError:
            outcomes.append("conflict")
        inner = await agent.run("inner", config=AgentRunConfig("other"), model=RawModel(answer("in")))
        outcomes.append(inner.content)
        return "ok"

    agent = await Agent.create(
        RawModel(asks(ToolCall("c", "t")), answer()),
        tools=[make_tool("t", nested)],
        extensions=[Probe(before_run=lambda context: nested() if context.session_id == "s" else None)],
    )
    await agent.run("go", config=S)
    assert outcomes == ["conflict", "in"] * 2


async def test_two_agents_do_not_know_each_others_sessions() -> None:
    first, second = [await Agent.create(RawModel(answer())) for _ in range(2)]
    stream = first.stream("go", config=S)
    await stream.__anext__()
    await second.run("go", config=S)
    await stream.aclose()


variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


async def test_hooks_see_the_callers_context_variables_and_leak_none() -> None:
    seen: list[str] = []

    def hook(context: Any) -> None:
        seen.append(variable.get())
        variable.set("from hook")

    async def handler(**_: Any) -> str:
        seen.append(variable.get())
        variable.set("from tool")
        return "x"

    agent = await Agent.create(
        RawModel(asks(ToolCall("c", "t")), answer()),
        tools=[make_tool("t", handler)],
        extensions=[Probe(before_run=hook, after_run=lambda context, result: seen.append(variable.get()))],
    )
    variable.set("from caller")
    async for _ in agent.stream("go", config=S):
        assert variable.get() == "from caller"
    assert seen == ["from caller", "from hook", "from hook"]
    variable.set("unset")


async def test_each_step_of_a_stream_may_come_from_another_task() -> None:
    agent = await Agent.create(RawModel(text()))
    stream = agent.stream("go", config=S)
    types = []
    while True:
        try:
            types.append((await asyncio.create_task(_next(stream))).type)
        except StopAsyncIteration:  # pragma: no cover - a task cannot raise it
            break
        except _Done:
            break
    assert types[0] == "model_started" and types[-1] == "run_completed"
    assert not agent.pending


class _Done(Exception):
    pass


async def _next(stream: Any) -> Any:
    try:
        return await stream.__anext__()
    except StopAsyncIteration:
        raise _Done from None


async def test_current_tool_call_id_in_handler_and_middleware_only() -> None:
    seen: list[tuple[str, str | None]] = []

    def note(place: str) -> Any:
        return lambda *_: seen.append((place, current_tool_call_id()))

    async def handler(**_: Any) -> str:
        seen.append(("handler", current_tool_call_id()))
        await asyncio.create_task(_note_in_task(seen))
        return "x"

    agent = await Agent.create(
        RawModel(asks(ToolCall("c7", "t")), answer()),
        tools=[make_tool("t", handler)],
        extensions=[
            Probe(before_tool=note("before"), on_tool_call=note("middleware"), after_tool=note("after"))
        ],
    )
    await agent.run("go", config=S)
    assert seen == [
        ("before", None),
        ("middleware", "c7"),
        ("handler", "c7"),
        ("task", "c7"),
        ("after", None),
    ]


async def _note_in_task(seen: list[Any]) -> None:
    seen.append(("task", current_tool_call_id()))


async def test_state_questions_are_safe_from_another_thread() -> None:
    agent = await Agent.create(RawModel([0.02, response("x")], repeat=True))

    def ask() -> list[Any]:
        return [agent.pending, agent.is_conflict("s"), agent.get_state("s").phase, agent.get_state("t")]

    run = asyncio.create_task(agent.run("go", config=S))
    await asyncio.sleep(0.005)
    assert await asyncio.to_thread(ask) == [True, True, AgentPhase.GENERATING, None]
    await run
    assert await asyncio.to_thread(ask) == [False, False, AgentPhase.COMPLETED, None]


async def test_leaving_an_unnamed_stream_closes_it_when_it_is_collected() -> None:
    model = RawModel(text(), repeat=True)
    agent = await Agent.create(model)
    async for event in agent.stream("go", config=S):
        if event.type is AgentEventType.TEXT_DELTA:
            break
    gc.collect()
    for _ in range(20):
        await asyncio.sleep(0)
    assert not agent.pending and model.open_streams == 0
    assert agent.get_state("s").phase is AgentPhase.CANCELLED


async def test_a_stream_that_is_kept_but_not_read_owns_its_session() -> None:
    agent = await Agent.create(RawModel(text(), repeat=True))
    stream = agent.stream("go", config=S)
    await stream.__anext__()
    await asyncio.sleep(0.01)
    assert agent.is_conflict("s") and agent.get_state("s").phase is AgentPhase.GENERATING
    await stream.aclose()
    assert not agent.is_conflict("s")


async def test_extension_is_pending_while_any_agent_that_holds_it_works() -> None:
    probe = Probe()
    first, second = [
        await Agent.create(RawModel(answer(), repeat=True), extensions=[probe]) for _ in range(2)
    ]
    assert not probe.pending
    one = first.stream("go", config=S)
    two = second.stream("go", config=S)
    await one.__anext__()
    await two.__anext__()
    await one.aclose()
    assert probe.pending and not first.pending and second.pending
    await two.aclose()
    assert not probe.pending
    await first.resume_point(config=S)
    assert not probe.pending


async def test_many_sessions_on_one_agent_at_once() -> None:
    @tool
    def double(number: int) -> int:
        """Double a number.

        Guidelines:
            - Use it.
        """
        return 2 * number

    class Asks(RawModel):
        async def stream(self, request: Any) -> Any:
            last = request.messages[-1]
            if isinstance(last, ToolMessage):
                yield response(f"got {last.text}")
            else:
                yield response(calls=[ToolCall("c", "double", {"number": int(last.text)})])

    agent = await Agent.create(Asks(), tools=[double])
    answers = await asyncio.gather(
        *(agent.run(str(number), config=AgentRunConfig(f"s{number}")) for number in range(200))
    )
    assert [message.content for message in answers] == [f"got {2 * number}" for number in range(200)]
    assert not agent.pending


async def test_agent_works_on_one_loop_after_another() -> None:
    agent = await Agent.create(RawModel(asks(ToolCall("c", "t")), answer(), answer()), tools=[make_tool("t")])

    def in_its_own_loop() -> Any:
        return asyncio.run(agent.run("go", config=S))

    assert (await asyncio.to_thread(in_its_own_loop)).content == "done"
    assert (await agent.run("again", config=S)).content == "done"
    assert [type(m) for m in agent.state.messages][1:] == [
        UserMessage,
        AssistantMessage,
        ToolMessage,
        AssistantMessage,
        UserMessage,
        AssistantMessage,
    ]


def test_a_session_is_claimed_once_among_threads_with_loops_of_their_own() -> None:
    agent = asyncio.run(Agent.create(RawModel([0.05, response("x")], repeat=True)))
    barrier = threading.Barrier(8)
    outcomes: list[str] = []

    def claim(session_id: str) -> None:
        barrier.wait()
        try:
            outcomes.append(asyncio.run(agent.run("go", config=AgentRunConfig(session_id))).content)
        except AgentProtocolError:
            outcomes.append("conflict")

    for sessions, expected in (
        (["s"] * 8, ["conflict"] * 7 + ["x"]),
        ([f"s{n}" for n in range(8)], ["x"] * 8),
    ):
        outcomes.clear()
        threads = [threading.Thread(target=claim, args=(session_id,)) for session_id in sessions]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(outcomes) == expected
        assert not agent.pending


# B-A14


async def test_b_a14_states_of_ended_sessions_are_bounded() -> None:
    agent = await Agent.create(RawModel(answer(), repeat=True), extensions=[])
    assert agent.max_retained_states == 1024
    agent.max_retained_states = 3
    parked = agent.stream("go", config=AgentRunConfig("parked"))
    await parked.__anext__()
    for number in range(10):
        await agent.run("go", config=AgentRunConfig(f"s{number}"))
    known = [number for number in range(10) if agent.get_state(f"s{number}") is not None]
    assert known == [7, 8, 9]
    assert agent.get_state("parked") is not None and agent.is_conflict("parked")
    agent.discard_state("s9")
    assert agent.get_state("s9") is None and agent.get_state("s8") is not None
    await parked.aclose()


async def test_b_a14_default_keeps_the_most_recent_1024() -> None:
    agent = await Agent.create(RawModel([response("x")], repeat=True), extensions=[])
    for number in range(1030):
        await agent.run("go", config=AgentRunConfig(f"s{number}"))
    assert agent.get_state("s5") is None and agent.get_state("s6") is not None


# B-A19


class PlainHook(Probe):
    def before_run(self, context: Any) -> None:  # type: ignore[override]
        return None


class PlainMiddleware(Probe):
    async def on_model_request(self, context: Any, request: Any, call_next: Any) -> Any:  # type: ignore[override]
        return call_next(request)


@pytest.mark.parametrize(
    ("extension", "hook"), [(PlainHook(), "before_run"), (PlainMiddleware(), "on_model_request")]
)
async def test_b_a19_hook_of_the_wrong_kind_is_named(extension: Probe, hook: str) -> None:
    agent = await Agent.create(RawModel(answer()), extensions=[extension])
    with pytest.raises(TypeError) as caught:
        await agent.run("go", config=S)
    assert extension.name in str(caught.value) and hook in str(caught.value)
    assert not agent.pending
