"""Continuing a session without new input (11 §12)."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from support.loop_models import RawModel, answer, asks, pause, response, stopped
from support.loop_probe import Probe, Seed
from support.loop_tools import make_tool
from zett_agent.agent import Agent, AgentRunConfig
from zett_agent.events import AgentEventType, AgentPhase
from zett_agent.exceptions import AgentError, AgentIterationLimitError, AgentResumeError
from zett_agent.extensions.memory import InMemoryMessageAccumulator
from zett_agent.messages import (
    AgentMessage,
    AnyMessage,
    AssistantMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from zett_agent.model import ModelEvent
from zett_agent.resume import ResumeKind, ResumePoint, classify_resume
from zett_agent.stop import StopInfo, StopReason

S = AgentRunConfig(session_id="s")
ONE, TWO, THREE = ToolCall("1", "zeta"), ToolCall("2", "alpha"), ToolCall("3", "alpha")


def user() -> UserMessage:
    return UserMessage(content="go")


def done(call: ToolCall) -> ToolMessage:
    return ToolMessage(tool_call_id=call.id, name=call.name, content="r")


def cut(reason: StopReason, **fields: Any) -> AssistantMessage:
    return AssistantMessage(content="x", stop=StopInfo(reason), **fields)


ASKED = AssistantMessage(tool_calls=(ONE, TWO, THREE))

# every row of the table.
POINTS: list[tuple[str, list[AnyMessage], ResumeKind, tuple[ToolCall, ...]]] = [
    ("user", [user()], ResumeKind.CALL_MODEL, ()),
    ("user after an answer", [user(), AssistantMessage(content="x"), user()], ResumeKind.CALL_MODEL, ()),
    ("agent message", [user(), AgentMessage(content="x")], ResumeKind.CALL_MODEL, ()),
    (
        "all answered",
        [user(), ASKED, done(TWO), done(ONE), done(THREE)],
        ResumeKind.CALL_MODEL,
        (),
    ),
    ("some answered", [user(), ASKED, done(TWO)], ResumeKind.RECOVER_TOOLS, (ONE, THREE)),
    ("none answered", [user(), ASKED], ResumeKind.RECOVER_TOOLS, (ONE, TWO, THREE)),
    (
        "none answered, cut at the limit",
        [user(), cut(StopReason.MAX_OUTPUT, tool_calls=(ONE,))],
        ResumeKind.RECOVER_TOOLS,
        (ONE,),
    ),
    (
        "none answered, interrupted",
        [user(), cut(StopReason.INTERRUPTED, tool_calls=(ONE,))],
        ResumeKind.RECOVER_TOOLS,
        (ONE,),
    ),
    ("interrupted", [user(), cut(StopReason.INTERRUPTED)], ResumeKind.RETRY_RESPONSE, ()),
    ("output limit", [user(), cut(StopReason.MAX_OUTPUT)], ResumeKind.CONTINUE_RESPONSE, ()),
    ("paused", [user(), cut(StopReason.PAUSED)], ResumeKind.CALL_MODEL, ()),
    # 80 B10: ids that come again every turn
    (
        "same id again, open",
        [user(), AssistantMessage(tool_calls=(ONE,)), done(ONE), AssistantMessage(tool_calls=(ONE,))],
        ResumeKind.RECOVER_TOOLS,
        (ONE,),
    ),
]

ERRORS: list[tuple[str, list[AnyMessage], str]] = [
    ("nothing", [], "empty"),
    ("only system messages", [SystemMessage(content="x")], "empty"),
    ("answer", [user(), AssistantMessage(content="x")], "completed"),
    ("answer with an ok stop", [user(), cut(StopReason.END_TURN)], "completed"),
    ("results of nobody", [user(), done(ONE)], "malformed"),
    ("results after an answer", [user(), AssistantMessage(content="x"), done(ONE)], "malformed"),
    ("results at the beginning", [done(ONE)], "malformed"),
    ("refusal", [user(), cut(StopReason.REFUSAL)], "refused"),
    ("full context", [user(), cut(StopReason.CONTEXT_FULL)], "context_full"),
    ("unknown stop", [user(), cut(StopReason.OTHER)], "unknown_stop"),
]


def with_system(messages: list[AnyMessage]) -> list[list[AnyMessage]]:
    note = SystemMessage(content="note")
    mixed: list[AnyMessage] = [note]
    for message in messages:
        mixed += [message, note]
    return [messages, [*messages, note, note], mixed]


@pytest.mark.parametrize(("_name", "messages", "kind", "unanswered"), POINTS)
def test_a19_b10_tails_that_can_be_resumed(
    _name: str, messages: list[AnyMessage], kind: ResumeKind, unanswered: tuple[ToolCall, ...]
) -> None:
    for variant in with_system(messages):
        point = classify_resume(variant)
        assert point.kind is kind
        assert point.unanswered_tool_calls == unanswered
        assert point.description.strip()
        last = messages[-1]
        expects_stop = isinstance(last, AssistantMessage) and not last.tool_calls
        assert point.stop == (last.stop if expects_stop else None)


@pytest.mark.parametrize(("_name", "messages", "reason"), ERRORS)
def test_a19_tails_that_cannot_be_resumed(_name: str, messages: list[AnyMessage], reason: str) -> None:
    for variant in with_system(messages):
        with pytest.raises(AgentResumeError) as caught:
            classify_resume(variant)
        assert caught.value.reason == reason
        assert isinstance(caught.value, AgentError)


def test_a19_description_names_the_tools_sorted_and_once() -> None:
    text = classify_resume([user(), ASKED]).description
    assert "alpha, zeta" in text and text.count("alpha") == 1


def test_resume_values() -> None:
    assert [kind.value for kind in ResumeKind] == [
        "call_model",
        "recover_tools",
        "retry_response",
        "continue_response",
    ]
    assert ResumePoint(ResumeKind.CALL_MODEL, "x") == ResumePoint(ResumeKind.CALL_MODEL, "x", (), None)


async def remembering(*messages: AnyMessage, model: Any = None, **options: Any) -> Agent:
    extensions = [Seed(*messages), InMemoryMessageAccumulator(), *options.pop("extensions", [])]
    return await Agent.create(model or RawModel(answer()), extensions=extensions, **options)


#


async def test_a20_broken_batch_before_another_message_is_left_alone() -> None:
    broken = [user(), AssistantMessage(tool_calls=(ONE,)), UserMessage(content="later")]
    agent = await remembering(*broken)
    await agent.run("new", config=S)
    assert [m.role for m in agent.state.messages][1:] == ["user", "assistant", "user", "user", "assistant"]
    assert agent.state.messages[-2].content == "new"


async def test_only_the_last_batch_is_repaired_in_call_order() -> None:
    history = [user(), AssistantMessage(tool_calls=(ONE, TWO, THREE)), done(TWO)]
    agent = await remembering(*history, extensions=[probe := Probe()])
    await agent.run("new", config=S)
    repaired = [m for m in agent.state.messages if isinstance(m, ToolMessage)][1:]
    assert [(m.tool_call_id, m.name, m.success) for m in repaired] == [
        ("1", "zeta", False),
        ("3", "alpha", False),
    ]
    for message in repaired:
        text = message.text.lower()
        assert "unknown" in text and "check" in text and ("may or may not" in text)
    assert not [line for line in probe.trace if "H:before_tool" in line or "H:after_tool" in line]


# A-22 and the instructions


async def test_a22_resume_after_an_interrupted_response() -> None:
    model = RawModel(stopped("network_error", "par"), answer("whole"))
    agent = await Agent.create(model)
    first = await agent.run("go", config=S)
    assert first.stop.reason is StopReason.INTERRUPTED
    result = await agent.resume(config=S)
    assert result.content == "whole"
    _, question, partial, instruction, final = agent.state.messages
    assert question == UserMessage(content="go")
    assert partial is first and final is result
    assert isinstance(instruction, AgentMessage) and instruction.attributes == {"resume": "retry_response"}
    with pytest.raises(AgentResumeError) as caught:
        await agent.resume(config=S)
    assert caught.value.reason == "completed"


async def test_resume_after_the_output_limit_asks_to_continue() -> None:
    agent = await Agent.create(RawModel(stopped("length", "half"), answer("rest")))
    await agent.run("go", config=S)
    await agent.resume(config=S)
    instruction = agent.state.messages[3]
    assert instruction.attributes == {"resume": "continue_response"}
    assert "continue" in instruction.content.lower() and "repeat" in instruction.content.lower()


async def test_resume_has_no_input_and_no_on_message() -> None:
    agent = await remembering(user(), extensions=[probe := Probe()])
    await agent.resume(config=S)
    assert "H:on_message" not in probe.trace
    assert probe.contexts[0].input_message is None and probe.contexts[0].operation == "resume"


async def test_resume_has_fresh_budgets() -> None:
    agent = await Agent.create(
        RawModel(asks(ONE), answer("end")), tools=[make_tool("zeta")], max_iterations=1
    )
    with pytest.raises(AgentIterationLimitError):
        await agent.run("go", config=S)
    assert (await agent.resume(config=S)).content == "end"


async def test_resume_runs_no_tool_again() -> None:
    ran: list[str] = []

    async def handler(**_: Any) -> str:
        ran.append("x")
        return "x"

    agent = await remembering(user(), AssistantMessage(tool_calls=(ONE,)), tools=[make_tool("zeta", handler)])
    events = [event.type async for event in agent.stream_resume(config=S)]
    assert ran == [] and not [item for item in events if item.startswith("tool")]


async def test_resume_of_nothing_fails_through_the_hooks_from_the_first_step() -> None:
    agent = await Agent.create(RawModel(), extensions=[probe := Probe()])
    stream = agent.stream_resume(config=S)
    with pytest.raises(AgentResumeError) as caught:
        await stream.__anext__()
    assert caught.value.reason == "empty"
    assert agent.state.phase is AgentPhase.FAILED and not agent.is_conflict("s")
    assert probe.trace[-1] == "H:on_error AgentResumeError"


async def test_closing_a_resume_at_its_first_event_leaves_the_session_idle_and_unchanged() -> None:
    memory = InMemoryMessageAccumulator()
    agent = await Agent.create(RawModel(answer()), extensions=[Seed(user()), memory])
    async with aclosing(agent.stream_resume(config=S)) as stream:
        async for _ in stream:
            break
    assert not agent.is_conflict("s") and not agent.pending
    assert [m.role for m in memory.messages("s")] == ["user"]


# What is found after each kind of end


async def found(agent: Agent) -> str | None:
    point = await agent.resume_point(config=S)
    return None if point is None else point.kind.value


async def test_after_a_cancelled_tool_and_a_closed_stream_the_model_is_called() -> None:
    agent = await Agent.create(RawModel(asks(ONE)), tools=[make_tool("zeta")])
    async with aclosing(agent.stream("go", config=S)) as stream:
        async for event in stream:
            if event.type is AgentEventType.TOOL_STARTED:
                break
    assert await found(agent) == "call_model"


@pytest.mark.parametrize(
    ("finish", "kind"),
    [
        ("refusal", None),
        ("model_context_window_exceeded", None),
        ("weird", None),
        ("stop", None),
        ("error", "retry_response"),
        ("max_tokens", "continue_response"),
    ],
)
async def test_after_each_stop(finish: str, kind: str | None) -> None:
    agent = await Agent.create(RawModel(stopped(finish, "x")))
    await agent.run("go", config=S)
    assert await found(agent) == kind


async def test_resume_point_reports_the_point_itself() -> None:
    agent = await remembering(user(), AssistantMessage(tool_calls=(ONE, TWO)), done(ONE))
    point = await agent.resume_point(config=S)
    assert point.kind is ResumeKind.RECOVER_TOOLS and point.unanswered_tool_calls == (TWO,)
    assert agent.state.phase is AgentPhase.COMPLETED


# B-A6


@pytest.mark.parametrize("outcome", ["normal", "nothing", "failure", "cancelled"])
async def test_b_a6_resume_point_writes_nothing_under_any_outcome(outcome: str) -> None:
    inside = asyncio.Event()

    async def on_state(context: Any) -> None:
        context.add_message(SystemMessage(content="setup"))
        if outcome == "failure":
            raise KeyError("hook")
        if outcome == "cancelled":
            inside.set()
            await asyncio.Event().wait()

    history: list[AnyMessage] = [user(), AssistantMessage(tool_calls=(ONE,))]
    if outcome == "nothing":
        history = [user(), AssistantMessage(content="x")]
    memory = InMemoryMessageAccumulator()
    agent = await Agent.create(
        RawModel(), extensions=[Seed(*history), memory, probe := Probe(on_state=on_state)]
    )
    for _ in range(3):
        inside.clear()
        pass_ = asyncio.create_task(agent.resume_point(config=S))
        if outcome == "cancelled":
            await inside.wait()
            pass_.cancel()
        if outcome in ("failure", "cancelled"):
            with pytest.raises(KeyError if outcome == "failure" else asyncio.CancelledError):
                await pass_
        else:
            await pass_
    assert not [line for line in probe.trace if line.startswith("E:+")]
    assert [m.role for m in memory.messages("s")] == ["user", "assistant"]
    phase = {"failure": AgentPhase.FAILED, "cancelled": AgentPhase.CANCELLED}.get(
        outcome, AgentPhase.COMPLETED
    )
    assert agent.state.phase is phase
    if outcome == "failure":
        assert probe.trace[-1] == "H:on_error KeyError"
    assert not agent.is_conflict("s") and not agent.pending


# Pauses


async def test_pause_is_continued_at_most_five_times_in_a_row_and_counted_afresh_after_another_step() -> None:
    tool_step = asks(ONE)
    steps = [
        *(stopped("pause_turn", "p") for _ in range(5)),
        tool_step,
        *(stopped("pause_turn", "p") for _ in range(6)),
    ]
    agent = await Agent.create(RawModel(*steps), tools=[make_tool("zeta")])
    types = [event.type async for event in agent.stream("go", config=S)]
    assert types.count("model_stopped") == 1 and types[-1] == "run_completed"
    last = agent.state.messages[-1]
    assert last.stop.reason is StopReason.PAUSED
    assert [m.stop for m in agent.state.messages if isinstance(m, AssistantMessage)][:-1] == [None] * 11


async def test_no_continuation_when_the_agent_says_zero() -> None:
    agent = await Agent.create(RawModel(stopped("pause_turn", "p")))
    agent.max_pause_continuations = 0
    types = [event.type async for event in agent.stream("go", config=S)]
    assert types == ["model_started", "model_completed", "model_stopped", "run_completed"]


async def test_pause_with_tool_calls_is_not_continued() -> None:
    agent = await Agent.create(
        RawModel(stopped("pause_turn", calls=[ONE]), answer()),
        tools=[make_tool("zeta")],
        extensions=[probe := Probe()],
    )
    types = [event.type async for event in agent.stream("go", config=S)]
    assert types[:4] == ["model_started", "model_completed", "model_stopped", "tool_started"]
    assert probe.trace.count("H:before_turn") == 2


@pytest.mark.parametrize("end", ["closed", "budget", "failed"])
async def test_b_a7_a_paused_turn_that_was_never_continued_can_be_resumed(end: str) -> None:
    steps = [stopped("pause_turn", "p"), [pause, RuntimeError("model")] if end == "failed" else answer("end")]
    memory = InMemoryMessageAccumulator()
    agent = await Agent.create(
        RawModel(*steps), extensions=[memory], max_iterations=1 if end == "budget" else 36
    )
    if end == "closed":
        async with aclosing(agent.stream("go", config=S)) as stream:
            async for event in stream:
                if event.type is AgentEventType.MODEL_COMPLETED:
                    break
    else:
        with pytest.raises((RuntimeError, AgentIterationLimitError)):
            await agent.run("go", config=S)
    stored = memory.messages("s")[-1]
    assert isinstance(stored, AssistantMessage) and stored.stop is None
    assert await found(agent) == "call_model"
    agent.model = RawModel(answer("end"))
    assert (await agent.resume(config=S)).content == "end"
    assert await found(agent) is None


async def test_b_a7_the_mark_survives_storage() -> None:
    storage = pytest.importorskip("zett_agent.storage")
    memory = InMemoryMessageAccumulator()
    agent = await Agent.create(RawModel(stopped("pause_turn", "p")), extensions=[memory], max_iterations=1)
    with pytest.raises(AgentIterationLimitError):
        await agent.run("go", config=S)
    restored = storage.decode_messages(storage.encode_messages(list(memory.messages("s"))))
    assert classify_resume(restored).kind is ResumeKind.CALL_MODEL


# §8.1


async def test_refusal_withholds_the_calls_and_lists_them() -> None:
    for finish, reason in (("refusal", StopReason.REFUSAL), ("error", StopReason.INTERRUPTED)):
        agent = await Agent.create(
            RawModel(stopped(finish, "no", calls=[ONE, TWO])), tools=[make_tool("zeta")]
        )
        events = [event async for event in agent.stream("go", config=S)]
        result = events[-1].message
        assert result.tool_calls == () and result.stop.reason is reason
        assert result.stop.detail["withheld_tool_calls"] == ["zeta", "alpha"]
        assert [m.role for m in agent.state.messages][1:] == ["user", "assistant"]
        stopped_event = next(event for event in events if event.type is AgentEventType.MODEL_STOPPED)
        assert stopped_event.message is result and stopped_event.stop == result.stop
        assert stopped_event.response.message.tool_calls == ()


async def test_normal_stop_leaves_the_message_untouched() -> None:
    agent = await Agent.create(RawModel(answer("x")), extensions=[])
    events = [event async for event in agent.stream("go", config=S)]
    assert events[-1].message.stop is None
    assert events[1].response.stop.reason is StopReason.END_TURN


# 80 B10, in memory


async def test_b10_ids_that_come_again_in_every_turn() -> None:
    memory = InMemoryMessageAccumulator()

    async def handler(n: int) -> str:
        return f"r{n}"

    steps = [asks(ToolCall("look:0", "look", {"n": number})) for number in range(3)]
    agent = await Agent.create(
        RawModel(*steps, answer()), tools=[make_tool("look", handler)], extensions=[memory]
    )
    await agent.run("go", config=S)
    model = RawModel(answer())
    again = await Agent.create(model, extensions=[memory])
    await again.run("next", config=S)
    messages = [m for m in model.requests[0].messages if not isinstance(m, SystemMessage)]
    assert [m.role for m in messages] == ["user", *["assistant", "tool"] * 3, "assistant", "user"]
    assert [m.content for m in messages if isinstance(m, ToolMessage)] == ["r0", "r1", "r2"]
    assert [m.tool_call_id for m in messages if isinstance(m, ToolMessage)] == ["look:0"] * 3


async def test_b10_repair_looks_only_at_its_own_batch() -> None:
    same = ToolCall("look:0", "look")
    agent = await remembering(
        user(), AssistantMessage(tool_calls=(same,)), done(same), AssistantMessage(tool_calls=(same,))
    )
    await agent.run("next", config=S)
    results = [m for m in agent.state.messages if isinstance(m, ToolMessage)]
    assert [m.success for m in results] == [True, False]


# 80 B11, loop part


async def test_b11_new_question_after_a_cancelled_tool_finds_exactly_one_failed_result() -> None:
    started = asyncio.Event()

    async def handler(**_: Any) -> str:
        started.set()
        await asyncio.Event().wait()
        return "x"

    model = RawModel(asks(ONE), answer("later"))
    agent = await Agent.create(model, tools=[make_tool("zeta", handler)])
    run = asyncio.create_task(agent.run("go", config=S))
    await started.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    await agent.run("new", config=S)
    sent = [m for m in model.requests[1].messages if not isinstance(m, SystemMessage)]
    assert [m.role for m in sent] == ["user", "assistant", "tool", "user"]
    assert (sent[2].tool_call_id, sent[2].success) == ("1", False)


@pytest.mark.parametrize("operation", ["resume then run", "run"])
async def test_b11_new_question_after_a_killed_tool(operation: str) -> None:
    model = RawModel(answer("a"), answer("b"))
    agent = await remembering(user(), AssistantMessage(tool_calls=(ONE,)), model=model)
    if operation == "resume then run":
        await agent.resume(config=S)
    await agent.run("new", config=S)
    sent = [m for m in model.requests[-1].messages if not isinstance(m, SystemMessage)]
    assert [m.role for m in sent][:3] == ["user", "assistant", "tool"]
    assert [m.role for m in sent].count("tool") == 1
    assert (sent[2].tool_call_id, sent[2].success) == ("1", False)
    assert sent[-1].content == "new"


# Model events of the raw model used above


async def test_stopped_text_is_relayed_with_the_stop_of_the_response() -> None:
    agent = await Agent.create(
        RawModel([ModelEvent.text("x"), response("x", finish="length")]), extensions=[]
    )
    events = [event async for event in agent.stream("go", config=S)]
    assert [event.type.value for event in events][-3:] == [
        "model_completed",
        "model_stopped",
        "run_completed",
    ]
    assert events[-1].message.stop.raw == "length"
