"""Faults that were found by trying to break the loop; each stays fixed."""

from __future__ import annotations

import asyncio
import gc
import sys
import weakref
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest

from zett_agent.agent import Agent, AgentRunConfig, AgentRunContext, AgentState
from zett_agent.events import AgentEvent, AgentEventType, AgentPhase
from zett_agent.exceptions import AgentProtocolError
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.events import CompactionEvent, MessageAppendedEvent, MessageTiming
from zett_agent.extensions.memory import InMemoryMessageAccumulator
from zett_agent.messages import AssistantMessage, ToolCall, UserMessage
from zett_agent.model import ModelEvent, ModelEventType, ModelRequest, ModelResponse, RetryOptions
from zett_agent.testing import ScriptedModel, call, hang
from zett_agent.tools.base import AgentTool

S = AgentRunConfig("s")


class Answers:
    """Streams the given events."""

    retry = RetryOptions(max_retries=0)

    def __init__(self, *events: Any) -> None:
        self.events = events

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        for event in self.events:
            yield event


async def failing(**_: Any) -> str:
    raise ValueError("broken")


FAILING = AgentTool("failing", "Fails.", {"type": "object"}, failing, ())


@pytest.mark.timeout(5)
async def test_consumer_that_leaves_at_an_event_of_on_error_does_not_hang() -> None:
    class Tells(AgentExtension):
        async def on_error(self, context: AgentRunContext, error: Exception) -> None:
            await context.emit(AgentEvent(AgentEventType.CUSTOM, context.session_id, name="failed"))

    agent = await Agent.create(Answers(), extensions=[Tells()])
    async with aclosing(agent.stream("go", config=S)) as events:
        async for event in events:
            if event.type is AgentEventType.CUSTOM:
                break
    assert not agent.pending
    assert agent.state.phase is AgentPhase.FAILED


async def test_model_that_never_waits_leaves_the_event_loop_its_turn() -> None:
    """Text and reasoning in turns lie on a boundary each time, so not even the fast path is taken."""
    pair = (ModelEvent.text("a"), ModelEvent.reasoning("b"))
    answer = ModelEvent.completed(ModelResponse(AssistantMessage(content="x")))
    agent = await Agent.create(Answers(*pair * 500, answer), extensions=[])
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    await agent.run("go", config=S)
    counting.cancel()
    assert turns >= 1000 // 64


async def test_message_removed_before_it_was_announced_is_not_announced() -> None:
    announced: list[Any] = []

    class Listens(AgentExtension):
        async def on_event(self, context: AgentRunContext, event: Any) -> None:
            announced.append(event.message)

    context = AgentRunContext(S, AgentState(), {}, (Listens(),))
    first, second = UserMessage(content="1"), UserMessage(content="2")
    context.add_message(first)
    context.add_message(second)
    context.state.messages.remove(first)
    await context.flush_message_events()
    assert announced == [second]


def test_what_is_no_message_is_refused_by_name() -> None:
    context = AgentRunContext(S, AgentState(), {})
    with pytest.raises(TypeError, match="not str; use UserMessage"):
        context.add_message("hello")  # type: ignore[arg-type]


async def test_memory_does_not_take_new_messages_for_collected_ones() -> None:
    memory = InMemoryMessageAccumulator()
    state = AgentState()
    state.messages.extend(UserMessage(content=str(index)) for index in range(100))
    context = AgentRunContext(S, state, {}, (memory,))
    await memory.on_state(context)
    context.replace_messages([UserMessage(content="summary")], emit_new=False)
    await context.publish(CompactionEvent(1, 100, 101, 101, "summary"))
    gc.collect()
    for index in range(100):
        message = UserMessage(content=f"new {index}")
        await context.publish(MessageAppendedEvent(message, MessageTiming.instant()))
    assert len(memory.messages("s")) == 101


@pytest.mark.parametrize(
    "message",
    [
        AssistantMessage(content=None),  # type: ignore[arg-type]
        AssistantMessage(content="x", reasoning=5),  # type: ignore[arg-type]
        AssistantMessage(content="x", tool_calls=None),  # type: ignore[arg-type]
        AssistantMessage(tool_calls=("c1",)),  # type: ignore[arg-type]
        AssistantMessage(tool_calls=(ToolCall("c", "t", "{}"),)),  # type: ignore[arg-type]
        "just text",
    ],
    ids=["content", "reasoning", "no calls", "call", "arguments", "no message"],
)
async def test_answer_of_the_wrong_shape_is_refused_before_it_is_stored(message: Any) -> None:
    response = object.__new__(ModelResponse)
    for name, value in {"message": message, "finish_reason": "stop", "usage": None, "stop": None}.items():
        object.__setattr__(response, name, value)
    agent = await Agent.create(Answers(ModelEvent.completed(response)))
    with pytest.raises(AgentProtocolError, match="Model Answers must"):
        await agent.run("go", config=S)
    assert [type(stored) for stored in agent.state.messages][1:] == [UserMessage]


@pytest.mark.parametrize(
    "event",
    [
        ModelEvent("bogus"),  # type: ignore[arg-type]
        ModelEvent(ModelEventType.TEXT_DELTA, 5),  # type: ignore[arg-type]
        ModelEvent(ModelEventType.RESPONSE, response="text"),  # type: ignore[arg-type]
    ],
    ids=["type", "delta", "response"],
)
async def test_event_of_the_wrong_shape_is_refused(event: ModelEvent) -> None:
    agent = await Agent.create(Answers(event))
    with pytest.raises(AgentProtocolError, match="Model Answers"):
        await agent.run("go", config=S)


async def test_arguments_that_contain_themselves_do_not_hang() -> None:
    arguments: dict[str, Any] = {}
    arguments["self"] = [arguments]
    first = ModelResponse(AssistantMessage(tool_calls=(ToolCall("c", "failing", arguments),)))
    agent = await Agent.create(Answers(ModelEvent.completed(first)), tools=[FAILING], max_iterations=1)
    with pytest.raises(Exception, match="model iterations"):
        await asyncio.wait_for(agent.run("go", config=S), 5)


async def test_surrogates_in_names_and_ids_of_an_answer_are_cleaned() -> None:
    message = AssistantMessage(
        content="x", provider="p\ud800", model="m\ud800", tool_calls=(ToolCall("c\ud800", "failing\ud800"),)
    )
    agent = await Agent.create(
        Answers(ModelEvent.completed(ModelResponse(message))), tools=[FAILING], max_iterations=1
    )
    with pytest.raises(Exception, match="model iterations"):
        await agent.run("go", config=S)
    (tool_call,) = message.tool_calls
    assert (message.provider, message.model) == ("p\ufffd", "m\ufffd")
    assert (tool_call.id, tool_call.name) == ("c\ufffd", "failing\ufffd")
    assert agent.state.messages[-1].tool_call_id == "c\ufffd"


async def test_parallel_tool_that_cancels_its_own_task_is_a_failed_result() -> None:
    async def cancels(**_: Any) -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(1)
        return "never"

    tool = AgentTool("cancels", "Cancels itself.", {"type": "object"}, cancels, ())
    agent = await Agent.create(ScriptedModel(call("cancels"), "done"), tools=[tool])
    assert (await agent.run("go", config=S)).content == "done"
    assert agent.state.messages[-2].success is False


@pytest.mark.parametrize("ends", ["failing tool", "early close", "cancelled"])
async def test_request_that_ends_badly_leaves_nothing_for_the_garbage_collector(ends: str) -> None:
    contexts: list[weakref.ref[AgentRunContext]] = []

    class Notes(AgentExtension):
        async def before_run(self, context: AgentRunContext) -> None:
            contexts.append(weakref.ref(context))

    gc.collect()
    gc.disable()
    try:
        if ends == "failing tool":
            agent = await Agent.create(
                ScriptedModel(call("failing"), "done"), tools=[FAILING], extensions=[Notes()]
            )
            await agent.run("go", config=S)
        elif ends == "early close":
            agent = await Agent.create(ScriptedModel("two words"), extensions=[Notes()])
            stream = agent.stream("go", config=S)
            async for event in stream:
                if event.type is AgentEventType.TEXT_DELTA:
                    break
            await stream.aclose()
            del stream
        else:
            agent = await Agent.create(ScriptedModel(hang()), extensions=[Notes()])
            running = asyncio.create_task(agent.run("go", config=S))
            while not contexts:
                await asyncio.sleep(0)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            del running
        await asyncio.sleep(0)
        assert [context() for context in contexts] == [None]
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tools": [failing]}, "decorate it with @tool"),
        ({"extensions": [InMemoryMessageAccumulator]}, r"write InMemoryMessageAccumulator\(\)"),
    ],
    ids=["function as tool", "class as extension"],
)
def test_common_mistakes_in_building_an_agent_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        Agent(Answers(), **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"config": "ann"}, "AgentRunConfig"), ({"model": "gpt-4"}, "AgentModel")],
    ids=["config", "model"],
)
async def test_common_mistakes_in_starting_a_request_are_named(options: dict[str, Any], message: str) -> None:
    agent = await Agent.create(Answers())
    with pytest.raises(TypeError, match=message):
        await agent.run("go", **options)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="a task does not tell who cancelled it")
async def test_cancellation_that_leaks_from_a_hook_is_a_failure_of_the_request() -> None:
    """Nobody cancelled the caller, so it must learn that something went wrong."""
    errors: list[Exception] = []

    class Leaks(AgentExtension):
        async def before_turn(self, context: AgentRunContext) -> None:
            gone = asyncio.get_running_loop().create_future()
            gone.cancel()
            await gone

        async def on_error(self, context: AgentRunContext, error: Exception) -> None:
            errors.append(error)

    agent = await Agent.create(Answers(), extensions=[Leaks()])
    with pytest.raises(AgentProtocolError, match="cancelled elsewhere") as caught:
        await agent.run("go", config=S)
    assert isinstance(caught.value.__cause__, asyncio.CancelledError)
    assert errors == [caught.value]
    assert agent.state.phase is AgentPhase.FAILED
    assert not agent.pending


@pytest.mark.parametrize("limit", [0, -1, True, "two"])
async def test_limit_of_parallel_tools_is_checked_before_the_request_begins(limit: Any) -> None:
    agent = await Agent.create(Answers())
    agent.max_parallel_tools = limit
    with pytest.raises(ValueError, match="max_parallel_tools"):
        await agent.run("go", config=S)
    assert not agent.pending
