"""`InMemoryMessageAccumulator`: chapter 31 §6, acceptance 16 and "better" 8."""

from __future__ import annotations

import pytest

from zett_agent.agent import Agent, AgentRunConfig, AgentRunContext, AgentState
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.events import CompactionEvent, MessageAppendedEvent, MessageTiming
from zett_agent.extensions.memory import InMemoryMessageAccumulator
from zett_agent.messages import AssistantMessage, SystemMessage, UserMessage
from zett_agent.testing import ScriptedModel, fail

S1 = AgentRunConfig("s1")


async def test_history_is_shared_by_agents_with_one_instance() -> None:
    memory = InMemoryMessageAccumulator()
    first = await Agent.create(ScriptedModel("one"), extensions=[memory])
    model = ScriptedModel("two")
    second = await Agent.create(model, extensions=[memory])

    await first.run("a", config=S1)
    await second.run("b", config=S1)

    assert [message.content for message in model.requests[0].messages[1:]] == ["a", "one", "b"]
    assert isinstance(memory.messages("s1"), tuple)
    assert [message.content for message in memory.messages("s1")] == ["a", "one", "b", "two"]


async def test_restored_messages_are_the_same_objects() -> None:
    memory = InMemoryMessageAccumulator()
    agent = await Agent.create(ScriptedModel("one", "two"), extensions=[memory])
    answer = await agent.run("a", config=S1)
    await agent.run("b", config=S1)
    assert agent.state.messages[2] is answer
    assert memory.messages("s1")[1] is answer


async def test_unknown_sessions_are_empty_and_can_be_cleared() -> None:
    memory = InMemoryMessageAccumulator()
    assert memory.messages("nobody") == ()
    memory.clear("nobody")


async def test_clear_forgets_a_session_and_no_other() -> None:
    memory = InMemoryMessageAccumulator()
    agent = await Agent.create(ScriptedModel("1", "2", "3"), extensions=[memory])
    await agent.run("a", config=S1)
    await agent.run("b", config=AgentRunConfig("s2"))
    memory.clear("s1")
    await agent.run("c", config=S1)
    assert [message.content for message in memory.messages("s1")] == ["c", "3"]
    assert [message.content for message in memory.messages("s2")] == ["b", "2"]


async def test_a_failed_request_keeps_its_input() -> None:
    memory = InMemoryMessageAccumulator()
    agent = await Agent.create(ScriptedModel(fail(ConnectionError("gone"))), extensions=[memory])
    with pytest.raises(ConnectionError):
        await agent.run("a", config=S1)
    assert [message.content for message in memory.messages("s1")] == ["a"]


class _Greeting(AgentExtension):
    """Adds a message in `on_state`, before the accumulator looks."""

    priority = 50

    async def on_state(self, context: AgentRunContext) -> None:
        context.add_message(UserMessage(content="greeting"))


async def test_a_message_of_an_earlier_extension_appears_once() -> None:
    # The published library remembers it twice in the first request.
    memory = InMemoryMessageAccumulator()
    model = ScriptedModel("one", "two")
    agent = await Agent.create(model, extensions=[_Greeting(), memory])
    await agent.run("a", config=S1)
    assert [message.content for message in memory.messages("s1")] == ["greeting", "a", "one"]
    await agent.run("b", config=S1)
    assert [message.content for message in model.requests[1].messages[1:]] == ["greeting", "a", "one", "b"]


class _Sticky(AgentExtension):
    priority = 50

    async def on_state(self, context: AgentRunContext) -> None:
        context.add_message(SystemMessage(content="be kind", include_in_messages=True))


async def test_identical_sticky_system_messages_do_not_pile_up() -> None:
    memory = InMemoryMessageAccumulator()
    model = ScriptedModel("1", "2", "3")
    agent = await Agent.create(model, extensions=[_Sticky(), memory])
    for text in "abc":
        await agent.run(text, config=S1)
    assert [message.content for message in memory.messages("s1")].count("be kind") == 1
    assert [message.content for message in model.requests[2].messages].count("be kind") == 1


async def test_flags_decide_what_is_remembered() -> None:
    memory = InMemoryMessageAccumulator()
    context = AgentRunContext(S1, AgentState(), {}, (memory,))
    await memory.on_state(context)
    for message in (
        UserMessage(content="kept", persist=False),
        UserMessage(content="left out", include_in_messages=False),
        SystemMessage(content="plain instruction"),
        SystemMessage(content="sticky instruction", include_in_messages=True),
    ):
        await context.append_message(message, MessageTiming.instant())
    assert [message.content for message in memory.messages("s1")] == ["kept", "sticky instruction"]


async def test_compaction_replaces_what_is_remembered() -> None:
    memory = InMemoryMessageAccumulator()
    context = AgentRunContext(S1, AgentState(), {}, (memory,))
    await memory.on_state(context)
    for index in range(4):
        await context.append_message(UserMessage(content=str(index)), MessageTiming.instant())
    checkpoint = UserMessage(content="summary")
    context.replace_messages(
        [SystemMessage(content="s"), checkpoint, context.state.messages[3]], emit_new=False
    )
    await context.publish(CompactionEvent(1, 3, 4, 4, "summary"))
    assert memory.messages("s1")[0] is checkpoint
    assert [message.content for message in memory.messages("s1")] == ["summary", "3"]


async def test_the_list_starts_with_the_dialogue_already_in_state() -> None:
    memory = InMemoryMessageAccumulator()
    state = AgentState()
    state.messages.extend(
        [
            SystemMessage(content="s"),
            UserMessage(content="old"),
            AssistantMessage(content="hidden", include_in_messages=False),
        ]
    )
    context = AgentRunContext(S1, state, {}, (memory,))
    await memory.on_state(context)
    assert [message.content for message in memory.messages("s1")] == ["old"]
    assert [message.content for message in context.state.messages] == ["s", "old"]


async def test_one_object_appended_twice_is_remembered_twice() -> None:
    # Some test models answer with one constant object; the conversation still has two answers.
    memory = InMemoryMessageAccumulator()
    context = AgentRunContext(S1, AgentState(), {}, (memory,))
    await memory.on_state(context)
    answer = AssistantMessage(content="always this")
    for _ in range(2):
        await context.publish(MessageAppendedEvent(answer, MessageTiming.instant()))
    assert memory.messages("s1") == (answer, answer)
