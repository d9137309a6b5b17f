"""Configuration, state, context and construction (11 §1 to §5)."""

from __future__ import annotations

import copy
import pickle
import uuid
import weakref
from typing import Any

import pytest

from support.loop_models import RawModel, answer, asks
from support.loop_probe import Probe
from support.loop_tools import make_tool
from zett_agent.agent import Agent, AgentRunConfig, AgentRunContext, AgentState
from zett_agent.events import AgentPhase
from zett_agent.exceptions import AgentProtocolError
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.events import MessageAppendedEvent, MessageTiming
from zett_agent.extensions.internal_message import InternalMessageExtension
from zett_agent.extensions.memory import InMemoryMessageAccumulator
from zett_agent.extensions.steering import SteeringExtension
from zett_agent.messages import AgentMessage, AssistantMessage, SystemMessage, ToolCall, UserMessage
from zett_agent.model import ModelUsage, ReasoningEffort, ServerToolDefinition

S = AgentRunConfig(session_id="s")


class Named(AgentExtension):
    def __init__(self, name: str, priority: int = 100) -> None:
        self.name = name
        self.priority = priority


#


def test_a3_config_strips_and_turns_blank_into_none() -> None:
    config = AgentRunConfig(" a ", request_id=" ", cache_key=" ")
    assert (config.session_id, config.request_id, config.cache_key) == ("a", None, None)
    assert AgentRunConfig(parent_session_id=" p ").parent_session_id == " p "
    assert {AgentRunConfig("a"): 1}[AgentRunConfig("a")] == 1
    with pytest.raises(AttributeError):
        config.session_id = "b"  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(config)) == config


@pytest.mark.parametrize("bad", [{"parent_session_id": " "}, {"parent_session_id": ""}])
def test_a3_blank_parent_is_refused(bad: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="parent_session_id"):
        AgentRunConfig("s", **bad)


def test_a3_parent_equal_to_session_is_refused() -> None:
    with pytest.raises(ValueError, match="parent_session_id"):
        AgentRunConfig("s", parent_session_id="s")
    with pytest.raises(ValueError, match="parent_session_id"):
        AgentRunConfig(" s ", parent_session_id="s")


# construction


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_iterations": 0}, ["max_iterations"]),
        ({"max_iterations": -1}, ["max_iterations"]),
        ({"parallel_tool_call": 1}, ["parallel_tool_call"]),
        ({"parallel_tool_call": None}, ["parallel_tool_call"]),
        ({"max_internal_messages": -1}, ["max_internal_messages"]),
        ({"max_internal_messages": True}, ["max_internal_messages"]),
        ({"max_internal_messages": 1.0}, ["max_internal_messages"]),
        ({"tools": [make_tool("a"), make_tool("a")]}, ["Tool names must be unique"]),
        ({"extensions": [SteeringExtension()]}, ["SteeringExtension", "built-in"]),
        ({"extensions": [InternalMessageExtension()]}, ["InternalMessageExtension", "built-in"]),
        ({"extensions": [Named(" ")]}, ["Extension name"]),
        ({"extensions": [Named("")]}, ["Extension name"]),
        ({"extensions": [Named(5)]}, ["Extension name"]),  # type: ignore[arg-type]
        ({"extensions": [Named("x"), Named("x")]}, ["Duplicate extension name", "x"]),
        ({"extensions": [Named("SteeringExtension")]}, ["Duplicate extension name", "SteeringExtension"]),
    ],
)
async def test_a2_bad_constructor_argument(options: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ValueError) as caught:
        Agent(RawModel(), **options)
    assert all(word in str(caught.value) for word in words)
    with pytest.raises(ValueError):
        await Agent.create(RawModel(), **options)


def test_constructor_defaults_and_attributes() -> None:
    model, tool_ = RawModel(), make_tool("a")
    agent = Agent(model, tools=[tool_])
    assert agent.model is model
    assert list(agent.tools) == ["a"]
    assert agent.system_prompt == "You are a helpful assistant."
    assert agent.reasoning_effort is ReasoningEffort.MEDIUM
    assert agent.parallel_tool_call is True
    assert (agent.max_iterations, agent.max_internal_messages) == (36, 8)
    assert (Agent.max_pause_continuations, agent.max_pause_continuations) == (5, 5)
    assert agent.state.phase is AgentPhase.CREATED and agent.state.messages == ()
    assert not agent.pending and agent.get_state("s") is None
    assert [extension.name for extension in agent.extensions] == [
        "InMemoryMessageAccumulator",
        "ToolGuidelinesExtension",
        "InternalMessageExtension",
        "SteeringExtension",
    ]
    assert isinstance(agent.extensions, tuple)


# start of a request


async def start(agent: Agent, operation: str, **options: Any) -> None:
    if operation == "run":
        await agent.run(options.pop("message", "go"), **options)
    elif operation == "stream":
        async for _ in agent.stream(options.pop("message", "go"), **options):
            pass
    elif operation == "stream_resume":
        async for _ in agent.stream_resume(**options):
            pass
    elif operation == "compact":
        async for _ in agent.compact(**options):
            pass
    else:
        await getattr(agent, operation)(**options)


REQUESTS = ["run", "stream", "resume", "stream_resume"]
PASSES = ["compact", "resume_point"]


def untouched(agent: Agent, probe: Probe) -> None:
    assert probe.trace == []
    assert not agent.pending and not agent.is_conflict("s") and not probe.pending
    assert agent.get_state("s") is None


@pytest.mark.parametrize("operation", ["run", "stream"])
@pytest.mark.parametrize(
    "message", [5, None, b"x", AgentMessage(content="x"), ["x"], SystemMessage(content="x")]
)
async def test_a2_b_a16_input_of_another_type_is_refused_first(operation: str, message: Any) -> None:
    probe = Probe()
    agent = Agent(None, extensions=[probe])  # neither initialized nor with a model: those errors come later
    with pytest.raises(TypeError, match=type(message).__name__):
        await start(agent, operation, message=message, parallel_tool_call=1, metadata={1: 1})
    untouched(agent, probe)


@pytest.mark.parametrize("operation", REQUESTS)
async def test_a2_parallel_tool_call_comes_second(operation: str) -> None:
    probe = Probe()
    agent = Agent(None, extensions=[probe])
    with pytest.raises(ValueError, match="parallel_tool_call"):
        await start(agent, operation, parallel_tool_call=1, metadata={1: 1})
    untouched(agent, probe)


@pytest.mark.parametrize("operation", REQUESTS + PASSES)
async def test_a2_not_initialized_comes_third(operation: str) -> None:
    probe = Probe()
    agent = Agent(None, extensions=[probe])
    options = {} if operation == "resume_point" else {"metadata": {1: 1}}
    with pytest.raises(AgentProtocolError, match="not initialized"):
        await start(agent, operation, **options)
    untouched(agent, probe)


@pytest.mark.parametrize("operation", REQUESTS + PASSES)
async def test_a2_missing_model_comes_next(operation: str) -> None:
    probe = Probe()
    agent = await Agent.create(None, extensions=[probe])
    options = {} if operation == "resume_point" else {"metadata": {1: 1}}
    with pytest.raises(AgentProtocolError, match="no default model"):
        await start(agent, operation, config=S, **options)
    untouched(agent, probe)


@pytest.mark.parametrize("operation", [*REQUESTS, "compact"])
@pytest.mark.parametrize(
    ("mappings", "words"),
    [
        ({"metadata": {1: 1}}, "Context metadata"),
        ({"metadata": {"a": object()}}, "Context metadata"),
        ({"tags": {" ": 1}}, "Context tags"),
        ({"tags": {"a": {1}}}, "Context tags"),
    ],
)
async def test_a2_bad_mappings_come_before_the_claim(
    operation: str, mappings: dict[str, Any], words: str
) -> None:
    probe = Probe()
    agent = await Agent.create(RawModel(), extensions=[probe])
    with pytest.raises(ValueError, match=words):
        await start(agent, operation, config=S, **mappings)
    untouched(agent, probe)


async def test_a2_conflict_comes_last_and_names_the_phase() -> None:
    probe = Probe()
    agent = await Agent.create(RawModel(answer()), extensions=[probe])
    stream = agent.stream("go", config=AgentRunConfig("s", request_id="req-1"))
    await stream.__anext__()
    seen = list(probe.trace)
    for operation in REQUESTS + PASSES:
        with pytest.raises(AgentProtocolError, match="generating") as caught:
            await start(agent, operation, config=S)
        # B-A19: who owns it
        assert "'s'" in str(caught.value) or " s" in str(caught.value)
        assert "req-1" in str(caught.value)
        with pytest.raises(ValueError):
            await start(agent, "run", config=S, metadata={1: 1})
    assert probe.trace == seen
    await stream.aclose()
    assert not agent.is_conflict("s")


async def test_stream_does_nothing_before_its_first_step() -> None:
    agent = Agent(None)
    stream = agent.stream(5)  # type: ignore[arg-type]
    assert not agent.pending
    with pytest.raises(TypeError):
        await stream.__anext__()
    unused = agent.stream("go", config=S)
    await unused.aclose()
    assert agent.get_state("s") is None


# Identity of requests


async def test_initialize_binds_once() -> None:
    agent = Agent(RawModel(answer(), repeat=True), extensions=[probe := Probe()])
    await agent.initialize(config=AgentRunConfig("s", request_id="r"))
    await agent.initialize()
    await agent.initialize(config=AgentRunConfig("s", request_id="other"))
    with pytest.raises(AgentProtocolError, match="already initialized"):
        await agent.initialize(config=AgentRunConfig("t"))
    await agent.run("a")
    await agent.run("b")
    assert [(c.session_id, c.config.request_id) for c in probe.contexts] == [("s", "r"), ("s", "r")]


async def test_initialize_without_session_generates_one_that_requests_share() -> None:
    agent = await Agent.create(RawModel(answer(), repeat=True), extensions=[probe := Probe()])
    await agent.run("a")
    await agent.run("b")
    first, second = probe.contexts
    assert first.session_id == second.session_id
    assert uuid.UUID(first.session_id).version == 7
    assert first.config.request_id != second.config.request_id
    assert uuid.UUID(first.config.request_id).version == 7


async def test_config_without_session_gets_a_new_one_for_each_request() -> None:
    agent = await Agent.create(RawModel(answer(), repeat=True), extensions=[probe := Probe()])
    await agent.run("a", config=AgentRunConfig())
    await agent.run("b", config=AgentRunConfig(cache_key="k"))
    first, second = probe.contexts
    assert first.session_id != second.session_id
    assert {uuid.UUID(context.session_id).version for context in probe.contexts} == {7}


async def test_create_returns_the_class_it_is_called_on() -> None:
    class Mine(Agent):
        pass

    assert type(await Mine.create(RawModel())) is Mine


async def test_is_conflict_wants_a_session_id() -> None:
    agent = Agent(RawModel())
    for bad in ("", " ", None, 5):
        with pytest.raises(ValueError, match="session_id"):
            agent.is_conflict(bad)  # type: ignore[arg-type]
    assert agent.is_conflict("s") is False


# A-8, request options


async def test_a8_request_handed_to_the_model() -> None:
    model = RawModel(answer(), repeat=True)
    agent = await Agent.create(model, tools=[make_tool("a")])
    await agent.run("go", config=S)
    await agent.run("go", config=AgentRunConfig("s", cache_key="key"))
    request, keyed = model.requests
    assert isinstance(request.messages, tuple)
    assert isinstance(request.tools, tuple)
    assert isinstance(request.server_tools, tuple)
    assert request.cache_key == "s" and keyed.cache_key == "key"
    assert request.tool_choice is None
    assert request.reasoning_effort is ReasoningEffort.MEDIUM and request.parallel_tool_call is True
    assert [definition.name for definition in request.tools] == ["a"]


async def test_options_of_one_request_and_changed_defaults() -> None:
    model, other = RawModel(answer(), repeat=True), RawModel(answer(), repeat=True)
    agent = await Agent.create(model, extensions=[])
    await agent.run(
        "a", config=S, model=other, reasoning_effort=ReasoningEffort.HIGH, parallel_tool_call=False
    )
    assert other.requests[0].reasoning_effort is ReasoningEffort.HIGH
    assert other.requests[0].parallel_tool_call is False
    agent.system_prompt = ""
    agent.reasoning_effort = ReasoningEffort.LOW
    agent.tools["late"] = make_tool("late")
    await agent.run("b", config=S)
    request = model.requests[0]
    assert [type(message) for message in request.messages] == [UserMessage]
    assert request.reasoning_effort is ReasoningEffort.LOW
    assert [definition.name for definition in request.tools] == ["late"]


async def test_given_user_message_is_used_as_it_is_and_empty_text_is_legal() -> None:
    message = UserMessage(content="hello")
    agent = await Agent.create(RawModel(answer(), repeat=True), extensions=[])
    await agent.run(message, config=S)
    assert agent.state.messages[1] is message
    await agent.run("", config=S)
    assert agent.state.messages[1] == UserMessage(content="")


async def test_answer_is_the_object_in_history() -> None:
    agent = await Agent.create(RawModel(answer("x")))
    result = await agent.run("go", config=S)
    assert result is agent.get_state("s").messages[-1] is agent.state.messages[-1]


async def test_metadata_and_tags_are_top_level_copies() -> None:
    metadata, tags = {"a": [1], "": 2}, {"t": "x"}
    agent = await Agent.create(RawModel(answer()), extensions=[probe := Probe()])
    await agent.run("go", config=S, metadata=metadata, tags=tags)
    context = probe.contexts[0]
    assert context.metadata == metadata and context.metadata is not metadata
    assert context.metadata["a"] is metadata["a"]
    assert context.tags == tags and context.tags is not tags


#


class A(AgentExtension):
    priority = 50


class B(AgentExtension):
    pass


class C(AgentExtension):
    pass


async def test_a5_order_of_extensions() -> None:
    a, b, c = A(), B(), C()
    agent = await Agent.create(RawModel(answer()), extensions=[InMemoryMessageAccumulator(), b, a, c])
    names = ["A", "InMemoryMessageAccumulator", "B", "C", "InternalMessageExtension", "SteeringExtension"]
    assert [extension.name for extension in agent.extensions] == names
    b.priority = 1
    await agent.run("go", config=S)
    assert [extension.name for extension in agent.extensions] == names


def test_name_by_class_attribute_and_by_assignment() -> None:
    class Fixed(AgentExtension):
        name = "fixed"  # type: ignore[assignment]

    extension = B()
    assert extension.name == "B"
    extension.name = "mine"
    assert extension.name == "mine"
    assert Fixed().name == "fixed"
    agent = Agent(RawModel(), extensions=[Fixed(), extension])
    assert [item.name for item in agent.extensions][:2] == ["fixed", "mine"]


# State


def test_state_by_hand() -> None:
    state = AgentState()
    assert state.phase is AgentPhase.CREATED and state.parent_session_id is None and state.messages == ()
    with pytest.raises(AttributeError):
        state.messages = ()  # type: ignore[misc]
    with pytest.raises(AttributeError):
        state.nonsense = 1  # type: ignore[attr-defined]


def test_messages_are_a_tuple_that_also_edits_the_state() -> None:
    state = AgentState()
    first, second, third = (UserMessage(content=str(number)) for number in range(3))
    before = state.messages
    before.append(first)
    assert before == () and state.messages == (first,)
    state.messages.extend([second, third])
    snapshot = state.messages
    assert snapshot == (first, second, third) and isinstance(snapshot, tuple)
    match snapshot:
        case (one, *rest):
            assert one is first and rest == [second, third]
        case _:
            pytest.fail("does not match a sequence pattern")
    state.messages.remove(second)
    state.messages.insert(0, second)
    assert state.messages == (second, first, third)
    assert state.messages.pop() is third
    assert state.messages.pop(0) is second
    state.messages.clear()
    assert state.messages == ()
    assert snapshot == (first, second, third)
    assert snapshot[1:] == (second, third) and snapshot[-1] is third and len(snapshot) == 3


async def test_seed_program_restores_history_through_state_messages() -> None:
    class Restore(AgentExtension):
        async def on_state(self, context: AgentRunContext) -> None:
            context.state.messages.extend([UserMessage(content="old"), AssistantMessage(content="ancient")])

    model = RawModel(answer())
    agent = await Agent.create(model, extensions=[Restore(), probe := Probe()])
    await agent.run("new", config=S)
    assert [getattr(m, "content", None) for m in model.requests[0].messages][1:] == ["old", "ancient", "new"]
    assert [entry for entry in probe.trace if entry.startswith("E:+")] == [
        "E:+system",
        "E:+user",
        "E:+assistant",
    ]


def test_state_can_be_copied_and_pickled() -> None:
    state = AgentState(parent_session_id="p")
    state.messages.append(UserMessage(content="x"))
    for twin in (copy.deepcopy(state), pickle.loads(pickle.dumps(state))):
        assert twin.messages == state.messages and twin.parent_session_id == "p"


# Context


def by_hand(*extensions: AgentExtension) -> AgentRunContext:
    return AgentRunContext(AgentRunConfig("z"), AgentState(), {}, extensions)


def test_context_by_hand_outside_a_loop() -> None:
    context = AgentRunContext(AgentRunConfig("z"), AgentState(), {})
    assert context.session_id == "z" and context.operation == "run"
    assert (context.extensions, context.model, context.metadata, context.tags) == ((), None, {}, {})
    assert context.input_message is None and context.server_tools == {}
    assert context.event_queue.empty and not context.event_queue.closed
    assert hash(context) == hash(context) and context == context
    assert context != AgentRunContext(AgentRunConfig("z"), context.state, {})
    assert weakref.ref(context)() is context
    assert weakref.WeakKeyDictionary({context: 1})[context] == 1
    with pytest.raises(AgentProtocolError):
        _ = AgentRunContext(AgentRunConfig(), AgentState(), {}).session_id


async def test_registering_tools_copies_and_refuses_doubles() -> None:
    context, tool_ = by_hand(), make_tool("a")
    context.register_tool(tool_)
    stored = context.tools["a"]
    assert stored is not tool_ and stored.handler is tool_.handler
    stored.parameters["properties"]["x"] = {}
    assert tool_.parameters["properties"] == {}
    with pytest.raises(ValueError, match=r"(?s)a.*already registered"):
        context.register_tool(make_tool("a"))
    search = ServerToolDefinition("web_search", {"deep": {"a": 1}})
    context.register_server_tool(search)
    context.server_tools["web_search"].configuration["deep"]["a"] = 2  # type: ignore[index]
    assert search.configuration == {"deep": {"a": 1}}
    with pytest.raises(ValueError, match="web_search"):
        context.register_server_tool(search)


async def test_queued_append_events_are_published_once_in_context_order() -> None:
    context = by_hand(probe := Probe())
    one, two, three = (SystemMessage(content=str(number)) for number in range(3))
    context.add_message(two)
    context.add_message(three)
    context.add_message(one, index=0)
    context.add_message_event(three)
    gone = UserMessage(content="gone")
    context.add_message(gone)
    context.replace_messages([m for m in context.state.messages if m is not gone])
    assert context.state.messages == (one, two, three)
    assert probe.notifications == []
    await context.flush_message_events()
    assert [event.message for event in probe.notifications] == [one, two, three]
    await context.flush_message_events()
    assert len(probe.notifications) == 3


async def test_last_queued_usage_wins() -> None:
    context = by_hand(probe := Probe())
    message = AssistantMessage(content="x")
    context.add_message(message, usage=ModelUsage(1))
    context.add_message_event(message, ModelUsage(2))
    await context.flush_message_events()
    (event,) = probe.notifications
    assert isinstance(event, MessageAppendedEvent) and event.usage == ModelUsage(2)


async def test_replacing_announces_only_new_objects_and_only_when_asked() -> None:
    context = by_hand(probe := Probe())
    old, new = UserMessage(content="x"), UserMessage(content="x")  # equal, but another object
    context.state.messages.append(old)
    context.replace_messages([old, new])
    await context.flush_message_events()
    assert len(probe.notifications) == 1 and probe.notifications[0].message is new
    context.replace_messages([UserMessage(content="quiet")], emit_new=False)
    await context.flush_message_events()
    assert len(probe.notifications) == 1


async def test_append_message_publishes_at_once_and_stays_when_a_subscriber_fails() -> None:
    def fail(context: AgentRunContext, event: Any) -> None:
        raise KeyError("disk")

    context = by_hand(Probe(on_event=fail))
    message = UserMessage(content="x")
    with pytest.raises(KeyError):
        await context.append_message(message, MessageTiming.instant())
    assert context.state.messages == (message,)


async def test_on_message_may_replace_the_input_but_only_by_a_user_message() -> None:
    def replace(context: AgentRunContext) -> None:
        assert context.input_message == UserMessage(content="go")
        context.input_message = UserMessage(content="better")

    agent = await Agent.create(RawModel(answer()), extensions=[Probe(on_message=replace)])
    await agent.run("go", config=S)
    assert agent.state.messages[1] == UserMessage(content="better")

    def spoil(context: AgentRunContext) -> None:
        context.input_message = AgentMessage(content="x")  # type: ignore[assignment]

    agent = await Agent.create(RawModel(answer()), extensions=[Probe(on_message=spoil)])
    with pytest.raises(AgentProtocolError):
        await agent.run("go", config=S)
    assert agent.state.phase is AgentPhase.FAILED


async def test_input_message_is_pending_only_until_it_is_appended() -> None:
    seen: list[Any] = []
    probe = Probe(
        on_state=lambda context: seen.append(context.input_message),
        before_run=lambda context: seen.append(context.input_message),
    )
    agent = await Agent.create(RawModel(answer()), extensions=[probe])
    await agent.run("go", config=S)
    assert seen == [UserMessage(content="go"), None]


async def test_operation_says_what_kind_of_request_it_is() -> None:
    agent = await Agent.create(
        RawModel(answer(), repeat=True), extensions=[InMemoryMessageAccumulator(), probe := Probe()]
    )
    await agent.run("go", config=S)
    async for _ in agent.stream("go", config=S):
        pass
    await agent.resume_point(config=S)
    async for _ in agent.compact(config=S):
        pass
    with pytest.raises(Exception, match=r"."):
        await agent.resume(config=S)
    assert [c.operation for c in probe.contexts] == ["run", "run", "resume_point", "compact", "resume"]
    with pytest.raises(AttributeError):
        probe.contexts[0].operation = "x"  # type: ignore[misc]


async def test_a6_before_model_sees_what_earlier_extensions_added() -> None:
    counts: list[int] = []

    def adds(context: AgentRunContext, request: Any) -> None:
        counts.append(len(request.messages))
        context.add_message(SystemMessage(content="more"))

    probes = [Probe(before_model=adds) for _ in range(3)]
    for number, probe in enumerate(probes):
        probe.name = f"p{number}"
    model = RawModel(answer())
    agent = await Agent.create(model, extensions=probes)
    types: list[str] = []
    async for event in agent.stream("go", config=S):
        if event.type == "model_started":
            assert probes[0].trace.count("E:+system") == 4  # the prompt and the three
        types.append(event.type)
    assert counts == [2, 3, 4]
    assert len(model.requests[0].messages) == 5
    assert types[0] == "model_started"


async def test_a7_tool_registered_before_the_model_is_offered_and_runs_but_stays_in_the_request() -> None:
    def registers(context: AgentRunContext, request: Any) -> None:
        if "late" not in context.tools:
            context.register_tool(make_tool("late"))

    model = RawModel(asks(ToolCall("c1", "late")), answer())
    agent = await Agent.create(model, extensions=[Probe(before_model=registers)])
    await agent.run("go", config=S)
    assert [definition.name for definition in model.requests[0].tools] == ["late"]
    assert agent.state.messages[3].content == "late done"
    assert "late" not in agent.tools


async def test_tools_of_a_request_are_copies_of_the_agents() -> None:
    def spoils(context: AgentRunContext) -> None:
        context.tools["a"].parameters["properties"]["x"] = {"type": "string"}
        context.tools["a"].description = "changed"
        del context.tools["b"]

    model = RawModel(answer(), repeat=True)
    agent = await Agent.create(
        model, tools=[make_tool("a"), make_tool("b")], extensions=[Probe(on_tool=spoils)]
    )
    await agent.run("go", config=S)
    (offered,) = model.requests[0].tools
    assert offered.description == "changed"
    assert agent.tools["a"].parameters["properties"] == {} and "b" in agent.tools
    assert agent.tools["a"].description == "Do a."


def test_root_names() -> None:
    import zett_agent

    for name in [
        "Agent",
        "AgentRunConfig",
        "AgentRunContext",
        "AgentState",
        "AgentExtension",
        "AgentEventHooksMixin",
        "AgentModelHooksMixin",
        "AgentRunHooksMixin",
        "AgentSetupHooksMixin",
        "AgentToolHooksMixin",
        "AgentTurnHooksMixin",
        "MiddlewareHook",
        "ModelRequestNext",
        "ToolCallNext",
        "InternalMessageExtension",
        "INTERNAL_MESSAGE_EVENT_NAME",
        "SteeringExtension",
        "STEERING_MESSAGE_EVENT_NAME",
        "InMemoryMessageAccumulator",
        "AgentMaintenanceHooksMixin",
        "ResumeKind",
        "ResumePoint",
        "classify_resume",
        "AgentEvent",
        "AgentEventType",
        "AgentPhase",
        "AgentPhaseTransitionMixin",
        "ModelOutputTracker",
        "AgentEventQueue",
        "ExtensionEvent",
        "MessageAppendedEvent",
        "PhaseTransitionEvent",
        "RunCancelledEvent",
        "ReasoningStartedEvent",
        "ReasoningCompletedEvent",
        "ContentStartedEvent",
        "ContentCompletedEvent",
        "CompactionEvent",
        "MessageTiming",
        "InternalMessageEvent",
        "SteeringMessageEvent",
    ]:
        assert getattr(zett_agent, name) is not None
    assert zett_agent.Agent is Agent
    assert issubclass(Agent, zett_agent.AgentPhaseTransitionMixin)
