"""More input while a request runs, and the budgets (11 §10, 50 §6 and §7)."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.loop_models import RawModel, answer, asks, response
from support.loop_probe import Probe, steer, tell
from support.loop_tools import make_tool, serial_tool
from zett_agent.agent import Agent, AgentRunConfig
from zett_agent.events import AgentEvent, AgentEventType, AgentPhase
from zett_agent.exceptions import AgentIterationLimitError, AgentProtocolError
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.events import InternalMessageEvent, SteeringMessageEvent
from zett_agent.extensions.external import ExternalEvent
from zett_agent.extensions.internal_message import INTERNAL_MESSAGE_EVENT_NAME
from zett_agent.extensions.memory import InMemoryMessageAccumulator
from zett_agent.extensions.steering import STEERING_MESSAGE_EVENT_NAME
from zett_agent.messages import (
    AgentMessage,
    AssistantMessage,
    ImageContent,
    ImageUrlSource,
    TextContent,
    ToolCall,
    ToolMessage,
    UserMessage,
)

S = AgentRunConfig(session_id="s")
IMAGE = ImageContent(ImageUrlSource("https://x/y.png"))


def say(sends: Callable[[Any, str], Any], *contents: str) -> Callable[[], None]:
    """An act of the model: send these from outside."""

    def act() -> None:
        for content in contents:
            assert sends(AGENT[0], content)

    return act


AGENT: list[Any] = [None]


def steering(content: str) -> Callable[[], None]:
    return say(lambda agent, text: steer(agent, "s", text), content)


def internal(content: str) -> Callable[[], None]:
    return say(lambda agent, text: tell(agent, "s", text), content)


async def build(*steps: Any, **options: Any) -> Agent:
    AGENT[0] = agent = await Agent.create(RawModel(*steps), **options)
    return agent


SHORT = {
    "model_started": "MS",
    "model_completed": "MC",
    "run_completed": "RC",
    "tool_started": "TS",
    "tool_completed": "TC",
    "tool_failed": "TF",
    "tool_skipped": "SK",
}


def shorten(event: AgentEvent) -> str:
    word = SHORT.get(event.type, str(event.type))
    if event.tool_calls:
        word += "[" + ",".join(call.id for call in event.tool_calls) + "]"
    if event.steering_message is not None and event.steering_message.content in ("S1", "S2"):
        word += f"({event.steering_message.content})"
    return word


async def trace(agent: Agent) -> str:
    """The events of one request in the notation of 50 §0.2, without deltas."""
    words = [
        shorten(event) async for event in agent.stream("go", config=S) if not event.type.endswith("_delta")
    ]
    return " ".join(words)


def steering_on_run(*contents: str) -> Any:
    async def handler(**_: Any) -> str:
        for content in contents:
            steering(content)()
        return "ok"

    return handler


def both(*ids: str) -> list[ToolCall]:
    return [ToolCall(id, "serial" if id == "c3" else "t") for id in ids]


# ST-1


async def test_st1_during_the_model_step_that_asks_for_tools() -> None:
    agent = await build([steering("S"), *asks(*both("c1", "c2"))], answer(), tools=[make_tool("t")])
    assert await trace(agent) == "MS MC SK[c1] SK[c2] steering_started MS MC steering_completed RC"
    results = [m for m in agent.state.messages if isinstance(m, ToolMessage)]
    assert [(m.content, m.success) for m in results] == [("Superseded by a steering message", False)] * 2


async def test_st1_during_a_parallel_batch_with_a_serial_call_after_it() -> None:
    once = [True]

    async def handler(**_: Any) -> str:
        if once:
            once.clear()
            steering("S")()
        return "ok"

    agent = await build(
        asks(*both("c1", "c2", "c3")), answer(), tools=[make_tool("t", handler), serial_tool("serial")]
    )
    assert await trace(agent) == (
        "MS MC TS[c1,c2] TC[c1] TC[c2] SK[c3] steering_started MS MC steering_completed RC"
    )


async def test_st1_during_the_first_of_two_serial_calls() -> None:
    agent = await build(
        asks(ToolCall("c1", "sends"), ToolCall("c2", "t")),
        answer(),
        tools=[serial_tool("sends", steering_on_run("S")), serial_tool("t")],
    )
    assert await trace(agent) == "MS MC TS[c1] TC[c1] SK[c2] steering_started MS MC steering_completed RC"


async def test_st1_during_a_final_answer() -> None:
    agent = await build([steering("S"), response("one")], answer("two"))
    assert await trace(agent) == "MS MC steering_started MS MC steering_completed RC"
    assert [m.content for m in agent.state.messages][1:] == ["go", "one", "S", "two"]


async def test_a16_st1_two_queued_are_answered_one_after_the_other() -> None:
    agent = await build([steering("S1"), steering("S2"), response("x")], answer("a1"), answer("a2"))
    assert await trace(agent) == (
        "MS MC steering_started(S1) MS MC steering_completed(S1) "
        "steering_started(S2) MS MC steering_completed(S2) RC"
    )
    assert [m.content for m in agent.state.messages][1:] == ["go", "x", "S1", "a1", "S2", "a2"]


async def test_st1_two_queued_and_the_answer_to_the_first_asks_for_a_tool() -> None:
    agent = await build(
        [steering("S1"), steering("S2"), response("x")],
        asks(ToolCall("c2", "t"), deltas=False),
        answer(),
        tools=[make_tool("t")],
    )
    assert await trace(agent) == (
        "MS MC steering_started(S1) MS MC steering_interrupted(S1) SK[c2] "
        "steering_started(S2) MS MC steering_completed(S2) RC"
    )


async def test_a17_im4_steering_before_internal() -> None:
    agent = await build([internal("I"), steering("S"), response("x")], answer("s"), answer("i"))
    assert await trace(agent) == (
        "MS MC steering_started MS MC steering_completed internal_message_started MS MC "
        "internal_message_completed RC"
    )
    assert [m.content for m in agent.state.messages][1:] == ["go", "x", "S", "s", "I", "i"]


async def test_im4_steering_interrupts_an_internal_message() -> None:
    agent = await build(
        [internal("I"), response("x")],
        asks(ToolCall("c1", "sends"), ToolCall("c2", "t"), deltas=False),
        answer(),
        tools=[serial_tool("sends", steering_on_run("S")), serial_tool("t")],
    )
    assert await trace(agent) == (
        "MS MC internal_message_started MS MC TS[c1] TC[c1] internal_message_interrupted SK[c2] "
        "steering_started MS MC steering_completed RC"
    )


async def test_st1_fifty_messages_with_two_iterations_each() -> None:
    first = [*(steering(f"m{number}") for number in range(50)), response("x")]
    agent = await build(first, *(answer(f"a{number}") for number in range(50)), max_iterations=2)
    await agent.run("go", config=S)
    assert [m.content for m in agent.state.messages][2::2] == ["x", *(f"a{number}" for number in range(50))]


async def test_interrupted_skipped_and_started_are_in_phase_ready() -> None:
    agent = await build(
        [steering("S1"), steering("S2"), response("x")],
        asks(ToolCall("c2", "t")),
        answer(),
        tools=[make_tool("t")],
    )
    async for event in agent.stream("go", config=S):
        if event.type.startswith("steering") or event.type is AgentEventType.TOOL_SKIPPED:
            assert event.phase is AgentPhase.READY
            assert event.error is None


# ST-2, ST-3, IM-3, X-3


def held_in_model(agent: Agent) -> tuple[asyncio.Event, asyncio.Task[Any]]:
    release = asyncio.Event()
    agent.model = RawModel([release.wait, response("x")], answer(), answer(), answer(), answer())
    return release, asyncio.create_task(agent.run("go", config=AgentRunConfig("s", request_id="r")))


OUTSIDE: list[Any] = [
    {"content": ""},
    {"content": "  "},
    {"content": 5},
    {"content": None},
    {},
    {"contents": "x"},
]


@pytest.mark.parametrize("name", ["steering_message", "internal_message"])
async def test_st2_im3_x3_unusable_payloads_are_not_accepted(name: str) -> None:
    agent = await build()
    release, run = held_in_model(agent)
    await asyncio.sleep(0.005)
    for payload in OUTSIDE:
        assert agent.emit_external_event(ExternalEvent(name, payload), config=S) == []
    release.set()
    await run
    assert len(agent.state.messages) == 3


async def test_st2_x3_b_x1_steering_messages_without_content_are_not_accepted() -> None:
    agent = await build()
    release, run = held_in_model(agent)
    await asyncio.sleep(0.005)
    for message in (
        "str",
        5,
        UserMessage(content=[]),
        UserMessage(content=""),  # 12 B-X3
        UserMessage(content="  "),
        UserMessage(content=[TextContent(" ")]),
        AgentMessage(content="x"),
    ):
        event = ExternalEvent("steering_message", {"message": message})
        assert agent.emit_external_event(event, config=S) == []
    release.set()
    await run
    assert len(agent.state.messages) == 3


@pytest.mark.parametrize(
    ("payload", "content"),
    [
        ({"content": "  kept  "}, "  kept  "),
        ({"message": UserMessage(content="m"), "content": "c"}, "m"),  # ST-3
        ({"message": "str", "content": "c"}, "c"),
        ({"message": UserMessage(content=[IMAGE])}, [IMAGE]),
        ({"content": "x", "session_id": "other", "request_id": "other"}, "x"),
    ],
)
async def test_st3_x3_accepted_payloads(payload: dict[str, Any], content: Any) -> None:
    agent = await build()
    release, run = held_in_model(agent)
    await asyncio.sleep(0.005)
    event = ExternalEvent("steering_message", payload)
    assert agent.emit_external_event(event, config=S) == ["SteeringExtension"]
    release.set()
    await run
    taken = agent.state.messages[3]
    assert isinstance(taken, UserMessage) and taken.content == content


@pytest.mark.parametrize("name", ["steering_message", "internal_message"])
async def test_st2_im3_routing(name: str) -> None:
    agent = await build()
    event = ExternalEvent(name, {"content": "x"})
    assert agent.emit_external_event(event) == []  # idle
    assert agent.emit_external_event(event, config=S) == []
    release, run = held_in_model(agent)
    await asyncio.sleep(0.005)
    owner = {"steering_message": "SteeringExtension", "internal_message": "InternalMessageExtension"}[name]
    for config in (
        AgentRunConfig("other"),
        AgentRunConfig("s", request_id="other"),
        AgentRunConfig(),
        AgentRunConfig(request_id="r"),
    ):
        assert agent.emit_external_event(event, config=config) == []
    assert agent.emit_external_event(event, config=S) == [owner]
    assert agent.emit_external_event(event, config=AgentRunConfig("s", request_id="r")) == [owner]
    assert agent.emit_external_event(event) == [owner]  # the only active request
    release.set()
    await run
    assert agent.emit_external_event(event, config=S) == []
    kind = UserMessage if name == "steering_message" else AgentMessage
    assert sum(type(m) is kind for m in agent.state.messages) == (4 if kind is UserMessage else 3)


def test_event_names() -> None:
    assert STEERING_MESSAGE_EVENT_NAME == "steering_message"
    assert INTERNAL_MESSAGE_EVENT_NAME == "internal_message"


async def test_x5_nothing_is_accepted_once_run_completed_was_yielded() -> None:
    agent = await build(answer())
    async for event in agent.stream("go", config=S):
        if event.type is AgentEventType.RUN_COMPLETED:
            assert steer(agent, "s") == [] and tell(agent, "s") == []


async def test_passes_have_no_inbox() -> None:
    answers: list[Any] = []

    async def on_state(context: Any) -> None:
        answers.append(steer(agent, "s") + tell(agent, "s"))

    agent = await build(answer(), extensions=[InMemoryMessageAccumulator(), Probe(on_state=on_state)])
    await agent.resume_point(config=S)
    async for _ in agent.compact(config=S):
        pass
    assert answers == [[], []]


# ST-4, A-15


async def test_a15_iteration_limit_fails_after_the_second_turn() -> None:
    agent = await build(
        *(asks(ToolCall(f"c{number}", "t")) for number in range(3)),
        tools=[make_tool("t")],
        extensions=[probe := Probe()],
        max_iterations=2,
    )
    with pytest.raises(AgentIterationLimitError, match=r"2 model iterations|model iterations.*2") as caught:
        await agent.run("go", config=S)
    assert "2" in str(caught.value) and "model iterations" in str(caught.value)
    assert probe.trace.count("H:before_turn") == 2 == probe.trace.count("H:after_turn")
    assert probe.trace[-3:] == ["H:after_turn", "E:ready>failed", "H:on_error AgentIterationLimitError"]


async def test_a15_st4_steering_starts_the_count_again() -> None:
    agent = await build(
        [steering("S"), *asks(ToolCall("c1", "t"))],
        asks(ToolCall("c2", "t")),
        answer("end"),
        tools=[make_tool("t")],
        max_iterations=2,
    )
    assert (await agent.run("go", config=S)).content == "end"

    agent = await build(
        asks(ToolCall("c1", "sends")),
        asks(ToolCall("c2", "t")),
        answer("end"),
        tools=[make_tool("sends", steering_on_run("S")), make_tool("t")],
        max_iterations=2,
    )
    assert (await agent.run("go", config=S)).content == "end"


async def test_pauses_use_the_iteration_budget() -> None:
    from support.loop_models import stopped

    agent = await build(stopped("pause_turn"), stopped("pause_turn"), answer(), max_iterations=2)
    with pytest.raises(AgentIterationLimitError):
        await agent.run("go", config=S)


async def test_steering_is_not_looked_at_between_pause_continuations() -> None:
    from support.loop_models import stopped

    agent = await build([steering("S"), *stopped("pause_turn")], answer("one"), answer("two"))
    assert await trace(agent) == "MS MC MS MC steering_started MS MC steering_completed RC"


# ST-6


async def test_st6_skipped_calls_reach_no_hook_and_no_handler() -> None:
    ran: list[str] = []

    async def handler(**_: Any) -> str:
        ran.append("handler")
        return "x"

    agent = await build(
        [steering("S"), *asks(ToolCall("c1", "t"), ToolCall("c2", "t"))],
        answer(),
        tools=[make_tool("t", handler)],
        extensions=[probe := Probe()],
    )
    await agent.run("go", config=S)
    assert ran == []
    assert not [e for e in probe.trace if e.startswith(("H:before_tool", "H:after_tool", "T:"))]
    assert [e for e in probe.trace if e.startswith("E:+tool")] == ["E:+tool c1 fail", "E:+tool c2 fail"]


# Publishing from inside


async def test_published_in_after_turn_of_the_last_turn_is_in_time() -> None:
    sent = []

    async def publish(context: Any, result: Any) -> None:
        if not sent:
            sent.append(1)
            await context.publish(SteeringMessageEvent(UserMessage(content="S")))
            await context.publish(InternalMessageEvent(AgentMessage(content="I")))

    agent = await build(answer("1"), answer("2"), answer("3"), extensions=[Probe(after_turn=publish)])
    await agent.run("go", config=S)
    assert [m.content for m in agent.state.messages][1:] == ["go", "1", "S", "2", "I", "3"]


@pytest.mark.parametrize("hook", ["after_run", "on_success"])
@pytest.mark.parametrize(
    ("event", "words"),
    [
        (SteeringMessageEvent(UserMessage(content="S")), "Steering inbox is closed"),
        (InternalMessageEvent(AgentMessage(content="I")), "Internal inbox is closed"),
    ],
)
async def test_published_too_late_fails_the_request(hook: str, event: Any, words: str) -> None:
    agent = await build(
        answer("1"),
        extensions=[Probe(**{hook: lambda context, result: context.publish(event)})],
    )
    types: list[str] = []
    with pytest.raises(AgentProtocolError, match=words):
        async for item in agent.stream("go", config=S):
            types.append(item.type)
    assert types == ["model_started", "model_completed"]
    assert agent.state.phase is AgentPhase.FAILED


async def test_published_during_setup_is_taken() -> None:
    async def publish(context: Any) -> None:
        await context.publish(SteeringMessageEvent(UserMessage(content="S")))

    agent = await build(answer("1"), answer("2"), extensions=[Probe(on_tool=publish)])
    await agent.run("go", config=S)
    assert [m.content for m in agent.state.messages][1:] == ["go", "1", "S", "2"]


def test_wrong_messages_are_refused_by_the_events() -> None:
    with pytest.raises(TypeError):
        SteeringMessageEvent(AgentMessage(content="x"))  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        InternalMessageEvent(UserMessage(content="x"))  # type: ignore[arg-type]


# IM-1, IM-2


async def test_im1_trace_and_order_of_started_and_append() -> None:
    agent = await build([internal("I"), response("1")], answer("2"), extensions=[probe := Probe()])
    order: list[str] = []
    async for event in agent.stream("go", config=S):
        if event.type is AgentEventType.INTERNAL_MESSAGE_STARTED:
            assert "E:+agent" not in probe.trace
            assert event.internal_message.content == "I"
        order.append(SHORT.get(event.type, str(event.type)))
    assert " ".join(order) == "MS MC internal_message_started MS MC internal_message_completed RC"
    assert isinstance(agent.state.messages[3], AgentMessage)


class AlwaysMore(AgentExtension):
    async def after_turn(self, context: Any, result: Any) -> None:
        await context.publish(InternalMessageEvent(AgentMessage(content="more")))


@pytest.mark.parametrize("limit", [0, 2, 8])
async def test_im2_limits(limit: int) -> None:
    agent = await build(
        *(answer(str(number)) for number in range(limit + 2)),
        extensions=[AlwaysMore()],
        max_internal_messages=limit,
    )
    types: list[str] = []
    with pytest.raises(AgentIterationLimitError) as caught:
        async for event in agent.stream("go", config=S):
            types.append(event.type)
    assert str(limit) in str(caught.value) and "internal messages" in str(caught.value)
    assert types.count("internal_message_started") == types.count("internal_message_completed") == limit
    assert len([m for m in agent.state.messages if isinstance(m, AssistantMessage)]) == limit + 1
    assert isinstance(agent.state.messages[-1], AssistantMessage)


async def test_internal_message_starts_a_fresh_iteration_count() -> None:
    agent = await build(
        [internal("I"), response("x")],
        asks(ToolCall("c1", "t")),
        answer("end"),
        tools=[make_tool("t")],
        max_iterations=2,
    )
    assert (await agent.run("go", config=S)).content == "end"


# Class API


async def test_inboxes_are_opened_once_and_closed_for_good() -> None:
    from zett_agent.agent import AgentRunContext, AgentState
    from zett_agent.extensions.internal_message import InternalMessageExtension
    from zett_agent.extensions.steering import SteeringExtension

    context = AgentRunContext(S, AgentState(), {})
    inbox = SteeringExtension()
    inbox.open(context)
    with pytest.raises(AgentProtocolError, match="already active"):
        inbox.open(context)
    assert inbox.take(context) is None
    await inbox.on_event(context, SteeringMessageEvent(first := UserMessage(content="1")))
    await inbox.on_event(context, SteeringMessageEvent(UserMessage(content="2")))
    assert inbox.take(context) is first
    assert inbox.select_next(context, lambda: pytest.fail("not asked")).content == "2"
    assert inbox.select_next(context, lambda: True) is None
    assert inbox.accept(S, ExternalEvent("steering_message", {"content": "x"})) is True
    assert inbox.take(context).content == "x"
    assert inbox.select_next(context, lambda: False) is None
    assert inbox.accept(S, ExternalEvent("steering_message", {"content": "x"})) is False
    with pytest.raises(AgentProtocolError, match="closed"):
        await inbox.on_event(context, SteeringMessageEvent(first))
    inbox.close(context)
    inbox.close(context)

    internal_inbox = InternalMessageExtension()
    internal_inbox.open(context)
    with pytest.raises(AgentProtocolError, match="already active"):
        internal_inbox.open(context)
    assert internal_inbox.accept(S, ExternalEvent("internal_message", {"content": "x"})) is True
    assert internal_inbox.next_message(context) == AgentMessage(content="x")
    assert internal_inbox.next_message(context) is None
    assert internal_inbox.accept(S, ExternalEvent("internal_message", {"content": "x"})) is False
    internal_inbox.close(context)
    internal_inbox.close(context)


async def test_max_steering_messages_limits_what_waits() -> None:
    agent = await build(answer(), max_steering_messages=2)
    release, run = held_in_model(agent)
    await asyncio.sleep(0.005)
    assert [len(steer(agent, "s", str(number))) for number in range(4)] == [1, 1, 0, 0]
    release.set()
    await run
    assert [m.content for m in agent.state.messages if isinstance(m, UserMessage)] == ["go", "0", "1"]


# B-A10 and take_unconsumed


async def test_b_a10_discarded_input_is_counted_on_the_error_and_readable() -> None:
    seen: list[Any] = []
    probe = Probe(on_error=lambda context, error: seen.extend(context.discarded_inputs))
    agent = await build(
        [steering("S1"), steering("S2"), internal("I"), RuntimeError("model")], extensions=[probe]
    )
    with pytest.raises(RuntimeError, match="model") as caught:
        await agent.run("go", config=S)
    assert [(type(m), m.content) for m in seen] == [
        (UserMessage, "S1"),
        (UserMessage, "S2"),
        (AgentMessage, "I"),
    ]
    notes = " ".join(caught.value.__notes__)
    assert ("3" in notes) or ("2" in notes and "1" in notes)
    assert [m.content for m in agent.steering.take_unconsumed("s")] == ["S1", "S2"]
    assert agent.steering.take_unconsumed("s") == ()


async def test_b_a10_discarded_input_is_readable_when_the_request_is_cancelled() -> None:
    seen: list[Any] = []

    def on_event(context: Any, event: Any) -> None:
        if type(event).__name__ == "RunCancelledEvent":
            seen.extend(context.discarded_inputs)

    agent = await build(answer(), extensions=[probe := Probe(on_event=on_event)])
    stream = agent.stream("go", config=S)
    await stream.__anext__()
    assert steer(agent, "s", "S")
    assert probe.contexts[0].discarded_inputs == ()
    await stream.aclose()
    assert [m.content for m in seen] == ["S"]
    assert agent.get_state("s").phase is AgentPhase.CANCELLED


async def test_nothing_discarded_by_default() -> None:
    agent = await build(answer(), extensions=[probe := Probe()])
    await agent.run("go", config=S)
    assert probe.contexts[0].discarded_inputs == ()


# ST-5, IM-5, X-6


async def test_st5_ten_threads_send_during_one_run() -> None:
    agent = await build()
    release = asyncio.Event()
    agent.model = RawModel([release.wait, response("x")], *(answer() for _ in range(1001)))
    run = asyncio.create_task(agent.run("go", config=S))
    await asyncio.sleep(0.005)
    accepted: list[list[str]] = [[] for _ in range(10)]

    def send(thread: int) -> None:
        for number in range(100):
            if steer(agent, "s", f"{thread}:{number}"):
                accepted[thread].append(f"{thread}:{number}")

    threads = [threading.Thread(target=send, args=(number,)) for number in range(10)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        await asyncio.sleep(0.001)
    release.set()
    await run
    processed = [m.content for m in agent.state.messages if isinstance(m, UserMessage)][1:]
    assert len(processed) == sum(map(len, accepted)) == 1000
    for thread in range(10):
        assert [text for text in processed if text.startswith(f"{thread}:")] == accepted[thread]


@pytest.fixture
def eager_threads() -> Iterator[None]:
    """Let threads take turns often, so that they really race with the loop."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("sends", [steer, tell])
async def test_im5_x6_an_accepted_message_is_never_lost_by_the_race_with_the_end(
    sends: Any, eager_threads: None
) -> None:
    accepted: dict[str, list[str]] = {f"s{number}": [] for number in range(1000)}
    current = ["s0"]
    stop = threading.Event()
    agent = await build(max_internal_messages=10_000)

    def emit() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            session_id = current[0]
            # A few for each run: a thread that sends faster than the model answers keeps it going for ever.
            if len(accepted[session_id]) < 5 and sends(agent, session_id, f"m{number}"):
                accepted[session_id].append(f"m{number}")
            stop.wait(0.0002)

    thread = threading.Thread(target=emit)
    thread.start()
    processed: dict[str, list[str]] = {}
    try:
        for session_id in accepted:
            current[0] = session_id
            await agent.run("go", config=AgentRunConfig(session_id), model=RawModel(answer(), repeat=True))
            processed[session_id] = [
                m.content for m in agent.get_state(session_id).messages if m.content.startswith("m")
            ]
    finally:
        stop.set()
        thread.join()
    assert processed == accepted
    assert sum(map(len, accepted.values())) > 10


async def test_x6_thousand_events_from_eight_threads_against_a_run_that_ends() -> None:
    reported: list[str] = []
    lock = threading.Lock()
    agent = await build(extensions=[InMemoryMessageAccumulator(), Probe()])
    agent.model = RawModel([0.01, response("x")], [response("y")], repeat=True)
    run = asyncio.create_task(agent.run("go", config=S))
    await asyncio.sleep(0.002)

    def emit(thread: int) -> None:
        for number in range(125):
            text = f"m{thread}:{number}"
            if steer(agent, "s", text):
                with lock:
                    reported.append(text)

    threads = [threading.Thread(target=emit, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    await run
    for thread in threads:
        await asyncio.to_thread(thread.join)
    processed = [m.content for m in agent.state.messages if isinstance(m, UserMessage)][1:]
    assert sorted(processed) == sorted(reported)
