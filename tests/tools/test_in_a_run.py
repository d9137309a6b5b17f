"""Tools as the model and the program see them in a whole run. 40 §9.6 to §9.8, §10."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import ValidationError

from zett_agent.agent import Agent
from zett_agent.events import AgentEvent, AgentEventType
from zett_agent.extensions.base import AgentExtension
from zett_agent.messages import ImageBytesSource, ImageContent, TextContent, ToolMessage, UserContent
from zett_agent.testing import ScriptedModel, call, calls
from zett_agent.tools.base import AgentTool, ToolExecutionMode, current_tool_call_id, tool

IMAGE = ImageContent(ImageBytesSource(b"\x89PNG", "image/png"))


async def events_of(tools: Sequence[AgentTool], *steps: Any, extensions: Any = ()) -> list[AgentEvent]:
    agent = await Agent.create(ScriptedModel(*steps, "done"), tools=tools, extensions=extensions)
    return [event async for event in agent.stream("go")]


async def result_of(function: Any, arguments: dict[str, Any] | None = None) -> AgentEvent:
    """Run one call of `function` and return the event that reports its end."""
    built = function if isinstance(function, AgentTool) else tool(function, name="work", guidelines="g")
    events = await events_of([built], call(built.name, **(arguments or {})))
    kinds = (AgentEventType.TOOL_COMPLETED, AgentEventType.TOOL_FAILED)
    [event] = [event for event in events if event.type in kinds]
    assert events[-1].type is AgentEventType.RUN_COMPLETED
    return event


def content(event: AgentEvent) -> UserContent:
    assert isinstance(event.message, ToolMessage)
    return event.message.content


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "null"),
        ("s", "s"),
        (5, "5"),
        ({"a": 1}, '{"a": 1}'),
        ([1, 2], "[1, 2]"),
        ([TextContent("a")], [TextContent("a")]),
        (TextContent("b"), [TextContent("b")]),
        ([TextContent("a"), "x"], '[{"text": "a"}, "x"]'),
        ((TextContent("a"),), [TextContent("a")]),
        ([], "[]"),
        (float("nan"), "null"),
        (b"by", '"by"'),
        (IMAGE, [IMAGE]),
        ("cat \ud83d\udc08 x \ud83d", "cat 🐈 x \ufffd"),
    ],
    ids=repr,
)
async def test_results(value, expected):  # 11 A-12, 40 §9.6, 80 C1
    def work() -> Any:
        """Do it."""
        return value

    event = await result_of(work)
    assert event.type is AgentEventType.TOOL_COMPLETED
    assert content(event) == expected


async def test_an_error_is_a_failed_result_and_the_very_object_on_the_event():  # 40 §9.6
    error = RuntimeError("x")

    def work() -> Any:
        """Do it."""
        raise error

    event = await result_of(work)
    assert event.type is AgentEventType.TOOL_FAILED
    assert content(event) == "x"
    assert event.error is error


async def test_an_unknown_tool():  # 40 §9.6
    events = await events_of([], call("n"))
    [event] = [event for event in events if event.type is AgentEventType.TOOL_FAILED]
    assert content(event) == "Unknown tool: n"


async def test_a_result_that_cannot_be_serialized():  # 11 A-12
    def work() -> Any:
        """Do it."""
        return object()

    event = await result_of(work)
    assert event.type is AgentEventType.TOOL_FAILED
    assert "Unable to serialize" in content(event)


async def test_better_12_rejected_arguments():
    def work(a: int) -> Any:
        """Do it."""

    event = await result_of(work, {"a": "x" * 1_000_000})
    assert isinstance(event.error, ValidationError)
    assert content(event) == str(event.error)
    assert len(content(event).encode()) < 2048  # type: ignore[union-attr]
    assert "errors.pydantic.dev" not in content(event)


async def test_better_1_stop_iteration():
    def work() -> Any:
        """Do it."""
        return next(iter([]))

    event = await asyncio.wait_for(result_of(work), 1)
    assert event.type is AgentEventType.TOOL_FAILED
    assert "StopIteration" in content(event)


async def test_better_11_blank_errors():
    def work() -> Any:
        """Do it."""
        raise RuntimeError

    assert content(await result_of(work)) == "RuntimeError"


async def test_better_13_cancelled_inside():
    async def work() -> Any:
        """Do it."""
        inner = asyncio.ensure_future(asyncio.sleep(60))
        await asyncio.sleep(0)
        inner.cancel()
        await inner

    event = await result_of(work)
    assert event.type is AgentEventType.TOOL_FAILED
    assert isinstance(event.error, Exception)
    assert "cancelled" in content(event)


async def test_better_13_a_real_cancellation_still_ends_the_run():
    started = asyncio.Event()

    async def work() -> Any:
        """Do it."""
        started.set()
        await asyncio.sleep(60)

    built = tool(work, guidelines="g")
    agent = await Agent.create(ScriptedModel(call("work"), "done"), tools=[built], extensions=())
    task = asyncio.ensure_future(agent.run("go"))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("blocking", [False, True])
async def test_parallel_tools_first_and_in_the_order_of_their_end(blocking):  # 40 §9.7
    def waiting(name: str, seconds: float, **options: Any) -> AgentTool:
        if blocking:

            def work() -> str:
                """Do it."""
                time.sleep(seconds)
                return name
        else:

            async def work() -> str:
                """Do it."""
                await asyncio.sleep(seconds)
                return name

        return tool(work, name=name, guidelines="g", **options)

    tools = [
        waiting("serial", 0, execution_mode=ToolExecutionMode.SERIAL),
        waiting("slow", 0.2),
        waiting("fast", 0.05),
    ]
    began = time.monotonic()
    events = await events_of(tools, calls(call("serial"), call("slow"), call("fast")))
    assert time.monotonic() - began < 0.35
    started = [event for event in events if event.type is AgentEventType.TOOL_STARTED]
    assert [[item.name for item in event.tool_calls] for event in started] == [["slow", "fast"], ["serial"]]
    ended = [event.message.name for event in events if event.type is AgentEventType.TOOL_COMPLETED]
    assert ended == ["fast", "slow", "serial"]


async def test_the_call_id_is_there_in_the_tool_and_nowhere_else():  # 40 §9.8
    seen: dict[str, str | None] = {}

    async def first() -> None:
        """Do it."""
        seen["async"] = current_tool_call_id()
        await asyncio.ensure_future(child())

    async def child() -> None:
        seen["task"] = current_tool_call_id()

    def second() -> None:
        """Do it."""
        seen["sync"] = current_tool_call_id()

    class Hooks(AgentExtension):
        async def before_tool(self, context: Any, call: Any) -> None:
            seen["before_tool"] = current_tool_call_id()

        async def after_tool(self, context: Any, call: Any, result: Any, error: Any) -> None:
            seen["after_tool"] = current_tool_call_id()

    tools = [tool(first, guidelines="g"), tool(second, guidelines="g")]
    events = await events_of(tools, calls(call("first"), call("second")), extensions=[Hooks()])
    ids = {item.name: item.id for event in events for item in event.tool_calls or ()}
    assert seen == {
        "async": ids["first"],
        "task": ids["first"],
        "sync": ids["second"],
        "before_tool": None,
        "after_tool": None,
    }


async def test_better_9_sixteen_blocking_tools_in_one_batch():
    def wait() -> None:
        """Do it."""
        time.sleep(0.3)

    began = time.monotonic()
    await events_of([tool(wait, guidelines="g")], calls(*(call("wait") for _ in range(16))))
    assert time.monotonic() - began < 0.6


async def test_better_14_closing_the_stream_reaches_a_tool_that_asks():
    from zett_agent.tools.base import tool_cancelled

    started, stopped = threading.Event(), threading.Event()

    def work() -> None:
        """Do it."""
        started.set()
        while not tool_cancelled():
            time.sleep(0.001)
        stopped.set()

    agent = await Agent.create(
        ScriptedModel(call("work"), "done"), tools=[tool(work, guidelines="g")], extensions=()
    )
    task = asyncio.ensure_future(agent.run("go"))
    while not started.is_set():
        await asyncio.sleep(0.002)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(stopped.wait, 5)
