"""The in-memory history (31 §6 and acceptance 16)."""

from __future__ import annotations

from typing import Any

import pytest

from support.loop_models import RawModel, answer
from support.loop_probe import Probe, Seed
from zett_agent.agent import Agent, AgentRunConfig
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.events import CompactionEvent
from zett_agent.extensions.memory import InMemoryMessageAccumulator
from zett_agent.messages import AssistantMessage, SystemMessage, UserMessage
from zett_agent.model import ModelRequest

S = AgentRunConfig(session_id="s")


def sent(request: ModelRequest) -> list[str]:
    return [message.content for message in request.messages][1:]


async def test_16_history_is_shared_by_agents_that_share_the_instance() -> None:
    memory = InMemoryMessageAccumulator()
    model = RawModel(answer("1"), answer("2"))
    first = await Agent.create(model, extensions=[memory])
    second = await Agent.create(model, extensions=[memory])
    await first.run("a", config=S)
    await second.run("b", config=S)
    assert sent(model.requests[1]) == ["a", "1", "b"]
    assert [m.content for m in memory.messages("s")] == ["a", "1", "b", "2"]
    assert isinstance(memory.messages("s"), tuple)
    assert memory.messages("unknown") == ()


async def test_16_restored_messages_are_the_same_objects() -> None:
    memory = InMemoryMessageAccumulator()
    agent = await Agent.create(RawModel(answer("1"), answer("2")), extensions=[memory])
    result = await agent.run("a", config=S)
    await agent.run("b", config=S)
    assert agent.state.messages[2] is result is memory.messages("s")[1]


async def test_16_clear() -> None:
    memory = InMemoryMessageAccumulator()
    model = RawModel(answer("1"), answer("2"))
    agent = await Agent.create(model, extensions=[memory])
    await agent.run("a", config=S)
    memory.clear("s")
    memory.clear("unknown")
    assert memory.messages("s") == ()
    await agent.run("b", config=S)
    assert sent(model.requests[1]) == ["b"]


async def test_16_failure_keeps_the_input() -> None:
    memory = InMemoryMessageAccumulator()
    model = RawModel([RuntimeError("x")], answer())
    agent = await Agent.create(model, extensions=[memory])
    with pytest.raises(RuntimeError):
        await agent.run("a", config=S)
    await agent.run("b", config=S)
    assert sent(model.requests[1]) == ["a", "b"]


async def test_16_after_compaction_the_list_is_the_context() -> None:
    async def compact(context: Any) -> None:
        kept = context.state.messages[-1]
        system = [m for m in context.state.messages if isinstance(m, SystemMessage)]
        context.replace_messages([*system, UserMessage(content="summary"), kept], emit_new=False)
        await context.publish(CompactionEvent(1, 1, 2, 2, "summary"))

    memory = InMemoryMessageAccumulator()
    model = RawModel(answer("1"), answer("2"))
    agent = await Agent.create(model, extensions=[memory, Probe(on_compact=compact)])
    await agent.run("a", config=S)
    async for _ in agent.compact(config=S):
        pass
    assert [m.content for m in memory.messages("s")] == ["summary", "1"]
    await agent.run("b", config=S)
    assert sent(model.requests[1]) == ["summary", "1", "b"]


async def test_16_message_of_an_earlier_extension_appears_once() -> None:
    """It is announced and it stands in the context: both ways must not remember it twice (31 §9.8)."""

    class Adds(AgentExtension):
        priority = 10

        async def on_state(self, context: Any) -> None:
            if not any(m.content == "early" for m in context.state.messages):
                context.add_message(UserMessage(content="early"))

    memory = InMemoryMessageAccumulator()
    agent = await Agent.create(RawModel(answer("1")), extensions=[Adds(), memory])
    await agent.run("a", config=S)
    assert [m.content for m in memory.messages("s")] == ["early", "a", "1"]


async def test_sticky_system_message_is_replaced_instead_of_repeated() -> None:
    class Sticky(AgentExtension):
        async def on_state(self, context: Any) -> None:
            context.add_message(SystemMessage(content="rule", include_in_messages=True))

    memory = InMemoryMessageAccumulator()
    model = RawModel(*(answer(str(number)) for number in range(3)))
    agent = await Agent.create(model, extensions=[Sticky(), memory])
    for _ in range(3):
        await agent.run("a", config=S)
    assert [m.content for m in model.requests[2].messages].count(
        "rule"
    ) <= 2  # this request's and the kept one
    assert [m.content for m in memory.messages("s")].count("rule") == 1


async def test_flags() -> None:
    """`persist` is not looked at; `include_in_messages=False` is not remembered."""
    memory = InMemoryMessageAccumulator()
    model = RawModel(*(answer(str(number)) for number in range(3)))
    agent = await Agent.create(model, extensions=[memory])
    await agent.run(UserMessage(content="quiet", persist=False), config=S)
    await agent.run(UserMessage(content="shown only", include_in_messages=False), config=S)
    await agent.run("end", config=S)
    assert sent(model.requests[1]) == ["quiet", "0", "shown only"]
    assert sent(model.requests[2]) == ["quiet", "0", "1", "end"]


async def test_first_sight_of_a_session_takes_the_dialogue_in_state() -> None:
    history = [
        UserMessage(content="old"),
        AssistantMessage(content="answer"),
        UserMessage(content="hidden", include_in_messages=False),
    ]
    memory = InMemoryMessageAccumulator()
    model = RawModel(answer("1"), answer("2"))
    agent = await Agent.create(model, extensions=[Seed(*history), memory])
    await agent.run("a", config=S)
    await agent.run("b", config=S)
    assert sent(model.requests[1]) == ["old", "answer", "a", "1", "b"]


async def test_sessions_are_separate() -> None:
    memory = InMemoryMessageAccumulator()
    agent = await Agent.create(RawModel(answer("x"), repeat=True), extensions=[memory])
    await agent.run("a", config=AgentRunConfig("1"))
    await agent.run("b", config=AgentRunConfig("2"))
    assert [m.content for m in memory.messages("1")] == ["a", "x"]
    assert [m.content for m in memory.messages("2")] == ["b", "x"]
