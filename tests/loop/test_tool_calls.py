"""How the calls of an answer are run and what the model gets back (11 §9)."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest

from support.loop_models import RawModel, answer, asks, response
from support.loop_probe import Probe, describe_event
from support.loop_tools import make_tool, serial_tool
from zett_agent.agent import Agent, AgentRunConfig
from zett_agent.events import AgentEvent, AgentEventType, AgentPhase
from zett_agent.exceptions import AgentProtocolError
from zett_agent.extensions.base import AgentExtension
from zett_agent.messages import ImageContent, ImageUrlSource, TextContent, ToolCall, ToolMessage
from zett_agent.tools.base import AgentTool, tool

S = AgentRunConfig(session_id="s")
A = TextContent("a")


def returning(value: Any) -> AgentTool:
    async def handler(**_: Any) -> Any:
        if isinstance(value, BaseException):
            raise value
        return value

    return make_tool("t", handler)


async def run_calls(
    calls: list[ToolCall], tools: list[AgentTool], *extensions: AgentExtension, **options: Any
) -> tuple[Agent, list[AgentEvent]]:
    agent = await Agent.create(RawModel(asks(*calls), answer()), tools=tools, extensions=extensions)
    for name, value in options.items():
        setattr(agent, name, value)
    return agent, [event async for event in agent.stream("go", config=S)]


async def result_of(value: Any) -> tuple[ToolMessage, AgentEvent]:
    agent, events = await run_calls([ToolCall("c", "t")], [returning(value)])
    (ended,) = [event for event in events if event.type in ("tool_completed", "tool_failed")]
    message = ended.message
    assert isinstance(message, ToolMessage)
    assert any(message is item for item in agent.state.messages)
    return message, ended


@pytest.mark.parametrize(
    ("value", "content"),
    [
        (None, "null"),
        ("s", "s"),
        (5, "5"),
        ({"a": 1}, '{"a": 1}'),
        ([1, 2], "[1, 2]"),
        ([A], [A]),
        (TextContent("b"), [TextContent("b")]),
        (ImageContent(ImageUrlSource("https://x/y.png")), [ImageContent(ImageUrlSource("https://x/y.png"))]),
        ([A, "x"], '[{"text": "a"}, "x"]'),
        ((A,), [A]),  # 40 Better 15
        ((1, 2), "[1, 2]"),
        ([], "[]"),
        (float("nan"), "null"),
        (b"by", '"by"'),
        ("é", "é"),
        ({"é": "ü"}, '{"é": "ü"}'),
        (True, "true"),
        (1.5, "1.5"),
    ],
)
async def test_a12_successful_results(value: Any, content: Any) -> None:
    message, ended = await result_of(value)
    assert message.content == content
    assert type(message.content) is type(content)
    assert message.success is True
    assert ended.type is AgentEventType.TOOL_COMPLETED and ended.error is None


async def test_a12_result_that_cannot_be_serialized_fails_the_call() -> None:
    message, ended = await result_of(object())
    assert message.success is False and message.text.strip()
    assert ended.type is AgentEventType.TOOL_FAILED and ended.error is not None


async def test_failed_result_carries_the_text_and_the_very_exception() -> None:
    error = RuntimeError("x")
    message, ended = await result_of(error)
    assert (message.content, message.success) == ("x", False)
    assert ended.error is error


@pytest.mark.parametrize("error", [ValueError(), ValueError(" "), KeyError()])
async def test_b_a17_blank_failure_text_becomes_the_class_name(error: Exception) -> None:
    message, _ = await result_of(error)
    assert message.content == type(error).__name__


async def test_other_failure_text_is_unchanged() -> None:
    message, _ = await result_of(KeyError("k"))
    assert message.content == "'k'"


async def test_unknown_name_and_undecodable_arguments_run_nothing() -> None:
    calls = [ToolCall("c1", "nope"), ToolCall("c2", "t", {}, "bad arguments")]
    _, events = await run_calls(calls, [returning("never")], probe := Probe())
    failed = [event for event in events if event.type is AgentEventType.TOOL_FAILED]
    by_id = {event.tool_calls[0].id: event for event in failed}
    assert set(by_id) == {"c1", "c2"}
    assert by_id["c1"].message.content == "Unknown tool: nope"
    assert by_id["c2"].message.content == "bad arguments"
    assert all(type(event.error) is ValueError for event in failed)
    assert not [entry for entry in probe.trace if entry.startswith("T:")]


@tool
def add(left: int, right: int) -> int:
    """Add two numbers.

    Guidelines:
        - Add with it.
    """
    return left + right


async def test_rejected_arguments_list_the_fields_and_pass_the_middleware() -> None:
    _, events = await run_calls([ToolCall("c", "add", {"left": "x"})], [add], probe := Probe())
    (failed,) = [event for event in events if event.type is AgentEventType.TOOL_FAILED]
    assert type(failed.error).__name__ == "ValidationError"
    assert "left" in failed.message.text and "right" in failed.message.text
    assert "T:enter c" in probe.trace


async def test_a13_before_tool_changes_the_arguments_of_the_stored_message_too() -> None:
    def raise_left(context: Any, call: ToolCall) -> None:
        call.arguments["left"] = 100

    agent, _ = await run_calls(
        [ToolCall("c", "add", {"left": 1, "right": 2})], [add], Probe(before_tool=raise_left)
    )
    assert agent.state.messages[2].tool_calls[0].arguments == {"left": 100, "right": 2}
    assert agent.state.messages[3].content == "102"


class ShortCircuit(AgentExtension):
    async def on_tool_call(self, context: Any, call: Any, call_next: Any) -> Any:
        return "instead"


class Twice(AgentExtension):
    async def on_tool_call(self, context: Any, call: Any, call_next: Any) -> Any:
        return [await call_next(), await call_next()]


@pytest.mark.parametrize(
    ("extension", "runs", "content"), [(ShortCircuit(), 0, "instead"), (Twice(), 2, "[1, 2]")]
)
async def test_a14_middleware_decides_how_often_the_handler_runs(
    extension: AgentExtension, runs: int, content: str
) -> None:
    count = 0

    async def handler(**_: Any) -> int:
        nonlocal count
        count += 1
        return count

    agent, _ = await run_calls([ToolCall("c", "t")], [make_tool("t", handler)], extension)
    assert count == runs
    assert agent.state.messages[3].content == content


async def test_middleware_that_raises_fails_only_the_call() -> None:  # A-18, last sentence
    def fail(context: Any, call: Any) -> None:
        raise KeyError("middleware")

    agent, events = await run_calls([ToolCall("c", "t")], [returning("x")], Probe(on_tool_call=fail))
    assert agent.state.messages[3].success is False
    assert events[-1].type is AgentEventType.RUN_COMPLETED


async def test_innermost_call_takes_a_replaced_registration_and_survives_a_removed_one() -> None:
    class Replace(AgentExtension):
        async def on_tool_call(self, context: Any, call: Any, call_next: Any) -> Any:
            context.tools["t"] = returning("replaced")
            replaced = await call_next()
            del context.tools["t"]
            return [replaced, await call_next()]

    agent, _ = await run_calls([ToolCall("c", "t")], [returning("original")], Replace())
    assert agent.state.messages[3].content == '["replaced", "original"]'


async def test_registration_is_looked_up_for_each_batch() -> None:
    def remove(context: Any, call: Any) -> None:
        context.tools.pop("two", None)

    calls = [ToolCall("c1", "one"), ToolCall("c2", "two")]
    agent, _ = await run_calls(calls, [serial_tool("one"), serial_tool("two")], Probe(before_tool=remove))
    assert [message.content for message in agent.state.messages[3:5]] == ["one done", "Unknown tool: two"]


async def test_after_tool_may_change_result_but_not_the_kind_of_event() -> None:
    def soften(context: Any, call: Any, result: ToolMessage, error: Any) -> None:
        result.content = "softened"
        result.success = False

    agent, events = await run_calls([ToolCall("c", "t")], [returning("x")], Probe(after_tool=soften))
    stored = agent.state.messages[3]
    assert (stored.content, stored.success) == ("softened", False)
    assert AgentEventType.TOOL_COMPLETED in [event.type for event in events]


async def test_serial_when_the_request_says_so() -> None:
    running = most = 0

    async def handler(**_: Any) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return "x"

    calls = [ToolCall(f"c{number}", "t") for number in range(3)]
    agent = await Agent.create(RawModel(asks(*calls), answer()), tools=[make_tool("t", handler)])
    lines = [describe_event(event) async for event in agent.stream("go", config=S, parallel_tool_call=False)]
    assert most == 1
    assert [line for line in lines if "tool_started" in line] == [
        f"S:tool_started@running_tool c{number}" for number in range(3)
    ]


async def test_40_9_7_parallel_results_come_in_completion_order_then_the_serial_one() -> None:
    async def slow(**_: Any) -> str:
        await asyncio.sleep(0.2)
        return "slow"

    async def fast(**_: Any) -> str:
        await asyncio.sleep(0.05)
        return "fast"

    calls = [ToolCall("c1", "ser"), ToolCall("c2", "slow"), ToolCall("c3", "fast")]
    started = asyncio.get_running_loop().time()
    agent, events = await run_calls(
        calls, [serial_tool("ser"), make_tool("slow", slow), make_tool("fast", fast)]
    )
    assert asyncio.get_running_loop().time() - started < 0.35
    batches = [[c.id for c in e.tool_calls] for e in events if e.type is AgentEventType.TOOL_STARTED]
    assert batches == [["c2", "c3"], ["c1"]]
    assert [m.tool_call_id for m in agent.state.messages if isinstance(m, ToolMessage)] == ["c3", "c2", "c1"]


async def test_synchronous_tool_does_not_block_the_loop() -> None:
    import time

    @tool
    def blocks() -> str:
        """Block.

        Guidelines:
            - Block.
        """
        time.sleep(0.1)
        return "x"

    agent = await Agent.create(RawModel(asks(ToolCall("c", "blocks")), answer()), tools=[blocks])
    run = asyncio.create_task(agent.run("go", config=S))
    ticks = 0
    while not run.done():
        await asyncio.sleep(0.005)
        ticks += 1
    assert ticks >= 5 and run.result().content == "done"


# B-A5


async def leaks_cancellation(**_: Any) -> str:
    victim = asyncio.ensure_future(asyncio.sleep(10))
    await asyncio.sleep(0)
    victim.cancel()
    await victim
    raise AssertionError("never reached")


@pytest.mark.parametrize("make", [make_tool, serial_tool])
async def test_b_a5_tool_that_leaks_cancelled_error_fails_alone(make: Any) -> None:
    agent, events = await run_calls(
        [ToolCall("c1", "leaks"), ToolCall("c2", "fine")], [make("leaks", leaks_cancellation), make("fine")]
    )
    results = {m.tool_call_id: m for m in agent.state.messages if isinstance(m, ToolMessage)}
    assert results["c1"].success is False and "cancelled" in results["c1"].text
    assert results["c2"].content == "fine done"
    (failed,) = [event for event in events if event.type is AgentEventType.TOOL_FAILED]
    assert isinstance(failed.error, Exception)
    assert isinstance(failed.error.__cause__ or failed.error.__context__, asyncio.CancelledError)
    assert agent.state.phase is AgentPhase.COMPLETED


@pytest.mark.parametrize("make", [make_tool, serial_tool])
async def test_b_a5_raising_cancelled_error_outright(make: Any) -> None:
    async def handler(**_: Any) -> str:
        raise asyncio.CancelledError("mine")

    agent, _ = await run_calls([ToolCall("c1", "t")], [make("t", handler)])
    assert agent.state.messages[3].success is False
    assert agent.state.phase is AgentPhase.COMPLETED


@pytest.mark.parametrize("make", [make_tool, serial_tool])
async def test_b_a5_middleware_that_leaks_cancelled_error(make: Any) -> None:
    agent, _ = await run_calls(
        [ToolCall("c1", "t")], [make("t")], Probe(on_tool_call=lambda context, call: leaks_cancellation())
    )
    assert agent.state.messages[3].success is False
    assert agent.state.phase is AgentPhase.COMPLETED


# B-A8


async def test_b_a8_closing_at_the_first_result_keeps_the_true_results_of_finished_siblings() -> None:
    async def effect(name: str) -> str:
        return f"did {name}"

    calls = [ToolCall(f"c{number}", "t", {"name": str(number)}) for number in range(3)]
    never = asyncio.Event()

    async def hangs(**_: Any) -> str:
        await never.wait()
        return "x"

    agent = await Agent.create(
        RawModel(asks(*calls, ToolCall("c9", "hangs")), answer()),
        tools=[make_tool("t", effect), make_tool("hangs", hangs)],
        extensions=[probe := Probe()],
    )
    async for event in (stream := agent.stream("go", config=S)):
        if event.type is AgentEventType.TOOL_COMPLETED:
            for _ in range(10):
                await asyncio.sleep(0)
            break
    await stream.aclose()
    results = [m for m in agent.state.messages if isinstance(m, ToolMessage)]
    assert {m.tool_call_id: m.content for m in results} == {
        "c0": "did 0",
        "c1": "did 1",
        "c2": "did 2",
        "c9": "Request cancelled before tool completion",
    }
    assert {m.tool_call_id: m.success for m in results} == {"c0": True, "c1": True, "c2": True, "c9": False}
    assert [entry for entry in probe.trace if entry.startswith("H:after_tool")] == ["H:after_tool c0"]


async def test_b_a8_hook_failure_keeps_true_results_but_not_that_of_its_own_call() -> None:
    def fail(context: Any, call: ToolCall, result: Any, error: Any) -> None:
        if call.id == "c1":
            raise KeyError("hook")

    calls = [ToolCall(f"c{number}", "t") for number in range(3)]
    agent = await Agent.create(
        RawModel(asks(*calls), answer()), tools=[make_tool("t")], extensions=[Probe(after_tool=fail)]
    )
    with pytest.raises(KeyError):
        await agent.run("go", config=S)
    results = {m.tool_call_id: m.content for m in agent.state.messages if isinstance(m, ToolMessage)}
    assert results == {"c0": "t done", "c2": "t done"}


# B-A18


async def test_b_a18_duplicate_and_empty_ids_get_fresh_ones_before_the_message_is_stored() -> None:
    calls = [ToolCall("a", "t"), ToolCall("a", "t"), ToolCall("", "t"), ToolCall("b", "t"), ToolCall("", "t")]
    agent, events = await run_calls(calls, [returning("x")])
    stored = agent.state.messages[2]
    ids = [call.id for call in stored.tool_calls]
    assert ids[0] == "a" and ids[3] == "b"
    assert len(set(ids)) == 5 and all(ids)
    results = [m.tool_call_id for m in agent.state.messages if isinstance(m, ToolMessage)]
    assert sorted(results) == sorted(ids)
    (started,) = [event for event in events if event.type is AgentEventType.TOOL_STARTED]
    assert [call.id for call in started.tool_calls] == ids
    (completed,) = [event for event in events if event.type is AgentEventType.MODEL_COMPLETED][:1]
    assert [call.id for call in completed.response.message.tool_calls] == ids


async def test_b_a18_pinned_duplicates_are_answered_once_and_run_once() -> None:
    runs = 0

    async def handler(**_: Any) -> str:
        nonlocal runs
        runs += 1
        return "x"

    block = {"type": "function_call", "call_id": "a"}
    model = RawModel(
        [response(calls=[ToolCall("a", "t"), ToolCall("a", "t")], replay_blocks=(block,))], answer()
    )
    agent = await Agent.create(model, tools=[make_tool("t", handler)])
    await agent.run("go", config=S)
    assert runs == 1
    assert [m.tool_call_id for m in agent.state.messages if isinstance(m, ToolMessage)] == ["a"]


# B-A21


@pytest.mark.parametrize(("limit", "most"), [(None, 20), (3, 3)])
async def test_b_a21_fan_out_is_bounded_on_request_without_other_events(limit: int | None, most: int) -> None:
    running = peak = 0

    async def handler(**_: Any) -> str:
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        for _step in range(3):
            await asyncio.sleep(0)
        running -= 1
        return "x"

    calls = [ToolCall(f"c{number}", "t") for number in range(20)]
    _, events = await run_calls(calls, [make_tool("t", handler)], max_parallel_tools=limit)
    assert peak == most
    assert [len(e.tool_calls) for e in events if e.type is AgentEventType.TOOL_STARTED] == [20]
    assert len([e for e in events if e.type is AgentEventType.TOOL_COMPLETED]) == 20


# B-A23


def test_b_a23_plain_results_load_no_validation_library() -> None:
    program = """
import asyncio, sys
from zett_agent.agent import Agent, AgentRunConfig
from zett_agent.messages import AssistantMessage, ToolCall
from zett_agent.model import ModelEvent, ModelResponse, RetryOptions
from zett_agent.tools.base import AgentTool
VALUES = [None, True, 5, 1.5, "é", ["a", 1, None], {"é": [1.0, {"b": False}]}]
async def handler(n):
    return VALUES[n]
class Model:
    retry = RetryOptions()
    asked = False
    async def stream(self, request):
        calls = () if self.asked else tuple(ToolCall(f"c{n}", "t", {"n": n}) for n in range(len(VALUES)))
        self.asked = True
        yield ModelEvent.completed(ModelResponse(AssistantMessage(content="x", tool_calls=calls)))
async def main():
    agent = await Agent.create(Model(), tools=[AgentTool("t", "T.", {}, handler, ())])
    await agent.run("go")
    for m in agent.state.messages:
        if m.role == "tool":
            sys.stdout.buffer.write((m.content + "\\n").encode())
    assert "pydantic" not in sys.modules
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode().splitlines() == [
        "null",
        "true",
        "5",
        "1.5",
        "é",
        '["a", 1, null]',
        '{"é": [1.0, {"b": false}]}',
    ]


# 80 C1, loop part


async def test_c1_surrogates_of_input_and_prompt_and_answer() -> None:
    pair, lone = "\ud83d\udc08", "\ud83d"
    model = RawModel(
        [response(f"so {pair} {lone}", calls=[ToolCall("c", "t", {"a": pair, "b": [lone]})])], answer()
    )
    seen: list[Any] = []

    async def handler(**arguments: Any) -> str:
        seen.append(arguments)
        return f"result {pair} x {lone}"

    agent = await Agent.create(model, system_prompt=f"prompt {pair}{lone}", tools=[make_tool("t", handler)])
    await agent.run(f"cat {pair} x {lone}", config=S)
    first, second = model.requests
    assert first.messages[0].content == "prompt 🐈\ufffd"
    assert first.messages[1].content == "cat 🐈 x \ufffd"
    assert second.messages[2].content == "so 🐈 \ufffd"
    assert seen == [{"a": "🐈", "b": ["\ufffd"]}]
    assert second.messages[3].content == "result 🐈 x \ufffd"
    for message in agent.state.messages:
        str(message.content).encode()


async def test_c1_surrogates_of_failures_and_parts_and_added_messages() -> None:
    from zett_agent.messages import AgentMessage, SystemMessage, UserMessage

    calls = [ToolCall("c1", "t"), ToolCall("c2", "parts")]

    async def parts(**_: Any) -> Any:
        return [TextContent("p \ud83d\udc08\ud83d")]

    async def fails(**_: Any) -> str:
        raise RuntimeError("f \ud83d\udc08\ud83d")

    def adds(context: Any) -> None:
        context.add_message(SystemMessage(content="s \ud83d\udc08\ud83d"))

    agent, _ = await run_calls(
        calls, [make_tool("t", fails), make_tool("parts", parts)], Probe(on_state=adds)
    )
    results = {m.tool_call_id: m.content for m in agent.state.messages if isinstance(m, ToolMessage)}
    assert results == {"c1": "f 🐈\ufffd", "c2": [TextContent("p 🐈\ufffd")]}
    assert agent.state.messages[1].content == "s 🐈\ufffd"
    message = UserMessage(content=[TextContent("u \ud83d")])
    agent.model = RawModel(answer())
    await agent.run(message, config=AgentRunConfig("t"))
    assert agent.state.messages[-2].content == [TextContent("u \ufffd")]
    assert AgentMessage(content="x").content == "x"


# 12 §7 from tools


async def test_ev7_events_of_parallel_handlers_arrive_before_their_results() -> None:
    class Emits(AgentExtension):
        async def on_tool_call(self, context: Any, call: ToolCall, call_next: Any) -> Any:
            for number in range(2):
                await context.emit(
                    AgentEvent(AgentEventType.CUSTOM, "s", name=call.id, payload={"n": number})
                )
            return await call_next()

    calls = [ToolCall("c1", "t"), ToolCall("c2", "t")]
    _, events = await run_calls(calls, [make_tool("t")], Emits())
    custom = [(event.name, event.payload["n"]) for event in events if event.type is AgentEventType.CUSTOM]
    assert sorted(custom) == [("c1", 0), ("c1", 1), ("c2", 0), ("c2", 1)]
    assert {event.phase for event in events if event.type is AgentEventType.CUSTOM} == {
        AgentPhase.RUNNING_TOOL
    }
    order = [
        event.name if event.type is AgentEventType.CUSTOM else f"done {event.tool_calls[0].id}"
        for event in events
        if event.type in (AgentEventType.CUSTOM, AgentEventType.TOOL_COMPLETED)
    ]
    for call_id in ("c1", "c2"):
        assert order.index(f"done {call_id}") > max(i for i, item in enumerate(order) if item == call_id)


async def test_before_tool_failure_ends_the_request_and_leaves_the_calls_open() -> None:
    def fail(context: Any, call: Any) -> None:
        raise AgentProtocolError("hook")

    agent = await Agent.create(
        RawModel(asks(ToolCall("c", "t"))), tools=[make_tool("t")], extensions=[Probe(before_tool=fail)]
    )
    with pytest.raises(AgentProtocolError, match="hook"):
        await agent.run("go", config=S)
    assert not [m for m in agent.state.messages if isinstance(m, ToolMessage)]


async def test_failing_hook_cancels_and_awaits_the_other_handlers_first() -> None:
    ended: list[str] = []

    async def slow(**_: Any) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("slow")
        return "x"

    def fail(*_: Any) -> None:
        raise KeyError("hook")

    agent = await Agent.create(
        RawModel(asks(ToolCall("c1", "t"), ToolCall("c2", "slow"))),
        tools=[make_tool("t"), make_tool("slow", slow)],
        extensions=[Probe(after_tool=fail, on_error=lambda *_: ended.append("on_error"))],
    )
    with pytest.raises(KeyError):
        await agent.run("go", config=S)
    assert ended == ["slow", "on_error"]
