"""The recorded sequences of hooks, notifications and events (11 §14), entry by entry."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from support.loop_models import RawModel, asks, pause, response, stopped, text
from support.loop_probe import Probe, Seed, describe_event, steer, tell
from support.loop_tools import make_tool, serial_tool
from zett_agent.agent import Agent, AgentRunConfig
from zett_agent.events import AgentEvent, AgentEventType
from zett_agent.extensions.events import CompactionEvent
from zett_agent.extensions.memory import InMemoryMessageAccumulator
from zett_agent.messages import AnyMessage, AssistantMessage, ToolCall, ToolMessage, UserMessage
from zett_agent.model import ModelEvent
from zett_agent.stop import StopInfo, StopReason
from zett_agent.tools.base import AgentTool, tool

DATA = json.loads((Path(__file__).parents[1] / "data" / "agent_traces.json").read_text())
TRACES: dict[str, dict[str, Any]] = DATA["traces"]
ABBREVIATIONS: dict[str, list[str]] = DATA["abbreviations"]
DELTA = "S:tool_call_delta@generating"


def expand(entries: Sequence[str]) -> list[str]:
    """Write the abbreviations of a trace out."""
    full: list[str] = []
    for entry in entries:
        if match := re.fullmatch(r"<CALL_STEP (\d+)>", entry):
            for step in ABBREVIATIONS["<CALL_STEP n>"]:
                full.extend([step] * (int(match[1]) if step == DELTA else 1))
        elif entry.startswith("<"):
            full.extend(ABBREVIATIONS[entry])
        else:
            full.append(entry)
    return full


@dataclass
class Scene:
    """How a recorded situation is made: what the model says, what is remembered, what the consumer does."""

    steps: Sequence[Sequence[Any]] = ()
    tools: Sequence[AgentTool] = ()
    history: Sequence[AnyMessage] = ()
    operation: str = "run"
    close_at: AgentEventType | None = None
    cancel_when: asyncio.Event | None = None
    on_compact: Callable[..., Any] | None = None
    max_iterations: int = 36
    max_internal_messages: int = 8


@dataclass
class Stage:
    """A scene with the agent it is played by."""

    scene: Scene
    agent: Agent
    probe: Probe
    session_id: str
    events: list[AgentEvent] = field(default_factory=list)
    deferred: list[Callable[[], Any]] = field(default_factory=list)

    @property
    def config(self) -> AgentRunConfig:
        return AgentRunConfig(session_id=self.session_id)


current_session: list[str] = [""]
current_agent: list[Any] = [None]


def from_outside(send: Callable[[Any, str], list[str]]) -> Callable[[], None]:
    """An act of the model that sends external input to the request which is running."""

    def act() -> None:
        assert send(current_agent[0], current_session[0])

    return act


def calls(*names: str) -> tuple[ToolCall, ...]:
    return tuple(ToolCall(f"c{number}", name, {}) for number, name in enumerate(names, 1))


@tool
def picky(count: int) -> str:
    """Count.

    Guidelines:
        - Count.
    """
    return str(count)


def broken_tool() -> AgentTool:
    async def broken(**_: Any) -> str:
        raise RuntimeError("broken")

    return make_tool("broken", broken)


def steering_tool() -> AgentTool:
    async def handler(**_: Any) -> str:
        from_outside(steer)()
        return "ok"

    return make_tool("steers", handler)


def slow_and_fast() -> list[AgentTool]:
    async def slow(**_: Any) -> str:
        await asyncio.sleep(0.2)  # the machine may be busy
        return "slow"

    return [serial_tool("ser"), make_tool("slow", slow), make_tool("fast")]


def hanging(started: asyncio.Event) -> AgentTool:
    async def hang(**_: Any) -> str:
        started.set()
        await asyncio.Event().wait()
        raise AssertionError("never reached")

    return make_tool("hangs", hang)


async def compacts(context: Any) -> None:
    for event_type in ("started", "reasoning_delta", "text_delta"):
        await context.emit(AgentEvent(AgentEventType(f"compaction_{event_type}"), context.session_id))
    event = CompactionEvent(1, 1, 2, 2, "summary")
    await context.publish(event)
    await context.emit(
        AgentEvent(AgentEventType.COMPACTION_COMPLETED, context.session_id, applied=True, compaction=event)
    )


def killed_during_tools() -> list[AnyMessage]:
    first, second = calls("one", "two")
    return [
        UserMessage(content="go"),
        AssistantMessage(tool_calls=(first, second)),
        ToolMessage(tool_call_id="c1", name="one", content="1"),
    ]


def cut(reason: StopReason) -> list[AnyMessage]:
    return [UserMessage(content="go"), AssistantMessage(content="par", stop=StopInfo(reason))]


def task_cancelled() -> Scene:
    started = asyncio.Event()
    return Scene([asks(*calls("hangs", "ser"))], [hanging(started), serial_tool("ser")], cancel_when=started)


ONE = [make_tool("one")]
SCENES: dict[str, Callable[[], Scene]] = {
    "plain_answer": lambda: Scene([text()]),
    "one_tool_round": lambda: Scene([asks(*calls("one")), text()], ONE),
    "two_parallel_one_serial (call order: ser c1, slow c2, fast c3)": lambda: Scene(
        [asks(*calls("ser", "slow", "fast")), text()], slow_and_fast()
    ),
    "tool_raises": lambda: Scene([asks(*calls("broken")), text()], [broken_tool()]),
    "unknown_tool": lambda: Scene([asks(*calls("nope")), text()], ONE),
    "invalid_arguments": lambda: Scene([asks(*calls("picky")), text()], [picky]),
    "undecodable_arguments (ToolCall.error set)": lambda: Scene(
        [asks(ToolCall("c1", "one", {}, "cannot decode")), text()], ONE
    ),
    "unknown_plus_known (c1 unknown, c2 parallel)": lambda: Scene([asks(*calls("nope", "one")), text()], ONE),
    "model_error_mid_stream": lambda: Scene([[ModelEvent.text("a"), pause, RuntimeError("reset")]]),
    "model_ends_without_response": lambda: Scene([[ModelEvent.text("a"), pause]]),
    "consumer_closes_after_first_text_delta": lambda: Scene([text()], close_at=AgentEventType.TEXT_DELTA),
    "consumer_closes_at_model_completed_with_calls": lambda: Scene(
        [asks(*calls("one"))], ONE, close_at=AgentEventType.MODEL_COMPLETED
    ),
    "consumer_closes_at_tool_started": lambda: Scene(
        [asks(*calls("one"))], ONE, close_at=AgentEventType.TOOL_STARTED
    ),
    "consumer_closes_at_run_completed": lambda: Scene([text()], close_at=AgentEventType.RUN_COMPLETED),
    "task_cancelled_while_tool_runs (c1 parallel running, c2 serial not started)": task_cancelled,
    "iteration_limit (max_iterations=1)": lambda: Scene([asks(*calls("one"))], ONE, max_iterations=1),
    "steering_during_parallel_tool (c2 serial skipped)": lambda: Scene(
        [asks(*calls("steers", "ser")), text()], [steering_tool(), serial_tool("ser")]
    ),
    "steering_during_generation_with_calls": lambda: Scene(
        [[from_outside(steer), *asks(*calls("one"))], text()], ONE
    ),
    "steering_during_final_answer": lambda: Scene([[from_outside(steer), *text()], text()]),
    "internal_message_during_final_answer": lambda: Scene([[from_outside(tell), *text()], text()]),
    "internal_then_steering_with_calls": lambda: Scene(
        [[from_outside(tell), *text()], [from_outside(steer), *asks(*calls("one"))], text()], ONE
    ),
    "internal_limit_zero": lambda: Scene([[from_outside(tell), *text()]], max_internal_messages=0),
    "pause_continued_once": lambda: Scene([stopped("pause_turn", "p"), text()]),
    "pause_budget_exhausted (max_pause_continuations=5, six pauses)": lambda: Scene(
        [stopped("pause_turn", "p") for _ in range(6)]
    ),
    "refusal_with_calls": lambda: Scene([stopped("refusal", calls=calls("one"))], ONE),
    "max_output_with_calls": lambda: Scene([stopped("length", calls=calls("one")), text()], ONE),
    "resume_call_model (tail: user)": lambda: Scene(
        [text()], history=[UserMessage(content="go")], operation="resume"
    ),
    "resume_recover_tools (c1 answered, c2 not)": lambda: Scene(
        [text()], history=killed_during_tools(), operation="resume"
    ),
    "resume_retry_response (tail stop=interrupted)": lambda: Scene(
        [text()], history=cut(StopReason.INTERRUPTED), operation="resume"
    ),
    "resume_continue_response (tail stop=max_output)": lambda: Scene(
        [text()], history=cut(StopReason.MAX_OUTPUT), operation="resume"
    ),
    "resume_nothing (tail: finished answer)": lambda: Scene(
        history=[UserMessage(content="go"), AssistantMessage(content="done")], operation="resume"
    ),
    "new_input_after_killed_tools (c1 answered, c2 not)": lambda: Scene(
        [text()], history=killed_during_tools()
    ),
    "compact_nothing": lambda: Scene(history=[UserMessage(content="go")], operation="compact"),
    "compact_applied": lambda: Scene(
        history=[UserMessage(content="go")], on_compact=compacts, operation="compact"
    ),
}


async def set_stage(scene: Scene, session_id: str = "s") -> Stage:
    probe = Probe(on_compact=scene.on_compact or (lambda context: None))
    agent = await Agent.create(
        RawModel(*scene.steps, *scene_again(scene)),
        tools=scene.tools,
        extensions=[Seed(*scene.history), InMemoryMessageAccumulator(), probe],
        max_iterations=scene.max_iterations,
        max_internal_messages=scene.max_internal_messages,
    )
    return Stage(scene, agent, probe, session_id)


def scene_again(scene: Scene) -> Sequence[Any]:
    """The same steps with message objects of their own, for a second performance."""
    return [[renew(item) for item in step] for step in scene.steps]


def renew(item: Any) -> Any:
    if isinstance(item, ModelEvent) and item.response is not None:
        message = item.response.message
        fresh = dataclasses.replace(message, tool_calls=tuple(map(dataclasses.replace, message.tool_calls)))
        return response(fresh.content, calls=fresh.tool_calls, finish=item.response.finish_reason)
    return item


async def perform(stage: Stage, *, streamed: bool = True) -> str:
    """Play the scene; return how it ended for the consumer."""
    current_agent[0], current_session[0] = stage.agent, stage.session_id
    stage.probe.trace.clear()
    stage.events.clear()
    operation = consume(stage) if streamed else drive(stage)
    task = asyncio.ensure_future(operation)
    started = stage.scene.cancel_when
    if started is not None:
        await started.wait()
        started.clear()
        stage.probe.trace.append("X:task_cancelled")
        task.cancel()
    try:
        return await task
    except asyncio.CancelledError:
        return "raised CancelledError"
    except Exception as error:
        return f"raised {type(error).__name__}"


def open_stream(stage: Stage) -> AsyncIterator[AgentEvent]:
    agent, config = stage.agent, stage.config
    if stage.scene.operation == "resume":
        return agent.stream_resume(config=config)
    if stage.scene.operation == "compact":
        return agent.compact(config=config)
    return agent.stream("question", config=config)


async def consume(stage: Stage) -> str:
    async with aclosing(open_stream(stage)) as stream:  # type: ignore[type-var]
        async for event in stream:
            stage.events.append(event)
            stage.probe.trace.append(describe_event(event))
            if event.type is stage.scene.close_at:
                stage.probe.trace.append("X:consumer_closes")
                return_after = "closed"
                break
        else:
            return_after = "ended"
    return return_after


async def drive(stage: Stage) -> str:
    if stage.scene.operation == "resume":
        await stage.agent.resume(config=stage.config)
    else:
        await stage.agent.run("question", config=stage.config)
    return "ended"


def test_a1_every_recorded_trace_has_its_scene() -> None:
    assert SCENES.keys() == TRACES.keys()


@pytest.mark.parametrize("name", TRACES)
async def test_a1_trace_is_reproduced_entry_by_entry_and_a_second_time(name: str) -> None:
    record = TRACES[name]
    stage = await set_stage(SCENES[name]())
    for session_id in ("s", "t"):
        stage.session_id = session_id
        if "resume_point_before" in record:
            assert await offered(stage) == record["resume_point_before"]

        assert await perform(stage) == record["end"]

        assert stage.probe.trace == expand(record["trace"])
        assert stage.agent.get_state(session_id).phase == record["phase"]
        assert not stage.agent.pending and not stage.agent.is_conflict(session_id)
        if "resume_point_after" in record:
            assert await offered(stage) == record["resume_point_after"]


@pytest.mark.parametrize("name", [name for name in TRACES if not SCENES[name]().history])
async def test_a1_trace_is_reproduced_twice_in_one_session(name: str) -> None:
    record = TRACES[name]
    stage = await set_stage(SCENES[name]())
    for _ in range(2):
        assert await perform(stage) == record["end"]
        assert stage.probe.trace == expand(record["trace"])


@pytest.mark.parametrize(
    "name", [name for name in TRACES if SCENES[name]().close_at is None and not name.startswith("compact")]
)
async def test_a1_trace_of_hooks_and_notifications_through_run(name: str) -> None:
    record = TRACES[name]
    stage = await set_stage(SCENES[name]())

    assert await perform(stage, streamed=False) == record["end"]

    expected = [entry for entry in expand(record["trace"]) if not entry.startswith("S:")]
    assert stage.probe.trace == expected
    assert stage.agent.get_state("s").phase == record["phase"]


@pytest.mark.parametrize("name", TRACES)
async def test_a1_trace_of_a_model_that_never_waits_differs_only_in_where_its_end_stands(name: str) -> None:
    """Deltas may run ahead, so `M:exit` may stand before the deltas directly in front of it."""
    record = TRACES[name]
    scene = SCENES[name]()
    scene.steps = [[item for item in step if item is not pause] for step in scene.steps]
    stage = await set_stage(scene)

    assert await perform(stage) == record["end"]

    assert exits_before_deltas(stage.probe.trace) == exits_before_deltas(expand(record["trace"]))


def exits_before_deltas(trace: Sequence[str]) -> list[str]:
    """Move each `M:exit` to where it may stand earliest."""
    moved: list[str] = []
    for entry in trace:
        at = len(moved)
        if entry == "M:exit":
            while at and re.match(r"S:(text|reasoning|tool_call|server_tool_input)_delta@", moved[at - 1]):
                at -= 1
        moved.insert(at, entry)
    return moved


async def offered(stage: Stage) -> str | None:
    """Ask what a resume would do; B-A6: nothing is written, so no message is announced."""
    trace = stage.probe.trace
    before = list(trace)
    trace.clear()
    point = await stage.agent.resume_point(config=stage.config)
    assert trace == [
        "E:created>loading_context",
        "H:on_tool",
        "H:on_state",
        "E:loading_context>ready",
        "E:ready>completed",
    ]
    trace[:] = before
    return None if point is None else point.kind.value


# 12 §1: the fields of each type; those not listed are at their default.
FIELDS: dict[str, set[str]] = {
    "compaction_started": set(),
    "compaction_text_delta": set(),  # the scene sends empty ones
    "compaction_reasoning_delta": set(),
    "compaction_completed": {"applied", "compaction"},
    "model_started": set(),
    "content_started": set(),
    "content_completed": set(),
    "text_delta": {"delta"},
    "tool_call_delta": {"tool_call_delta"},
    "model_completed": {"response"},
    "model_stopped": {"response", "stop", "message"},
    "tool_started": {"tool_calls"},
    "tool_completed": {"tool_calls", "message"},
    "tool_failed": {"tool_calls", "message", "error"},
    "tool_skipped": {"tool_calls", "message"},
    "steering_started": {"steering_message"},
    "steering_completed": {"steering_message", "message"},
    "steering_interrupted": {"steering_message"},
    "internal_message_started": {"internal_message"},
    "internal_message_completed": {"internal_message", "message"},
    "internal_message_interrupted": {"internal_message"},
    "run_completed": {"message"},
}


@pytest.mark.parametrize("name", TRACES)
async def test_ev2_events_of_a_trace_carry_the_fields_of_their_type_and_no_other(name: str) -> None:
    stage = await set_stage(SCENES[name]())
    await perform(stage)

    default = AgentEvent(AgentEventType.MODEL_STARTED, "s")
    history = stage.agent.get_state("s").messages
    for event in stage.events:
        assert event.session_id == "s"
        filled = {
            item.name
            for item in dataclasses.fields(AgentEvent)
            if item.name not in ("type", "session_id", "phase")
            and getattr(event, item.name) != getattr(default, item.name)
        }
        assert filled == FIELDS[event.type], event
        if event.type is AgentEventType.RUN_COMPLETED:
            assert event.message is [m for m in history if isinstance(m, AssistantMessage)][-1]
        if event.type is AgentEventType.MODEL_COMPLETED:
            assert any(event.response.message is message for message in history)
        if event.type in (
            AgentEventType.TOOL_COMPLETED,
            AgentEventType.TOOL_FAILED,
            AgentEventType.TOOL_SKIPPED,
        ):
            assert any(event.message is message for message in history)
            assert [call.id for call in event.tool_calls] == [event.message.tool_call_id]
        if event.type is AgentEventType.STEERING_STARTED:
            assert any(event.steering_message is message for message in history)


# 11 §14, last paragraph: two extensions around one step and one tool call.


class Layer(Probe):
    """Writes its name into a trace shared with other layers."""

    def __init__(self, name: str, trace: list[str]) -> None:
        super().__init__()
        self.name = name
        self.shared = trace

    async def before_model(self, context: Any, request: Any) -> None:
        self.shared.append(f"{self.name}.before_model")

    async def on_model_request(self, context: Any, request: Any, call_next: Any) -> Any:
        self.shared.append(f"{self.name} request in")
        async for event in call_next(request):
            self.shared.append(f"{self.name} {'response' if event.response else 'delta'}")
            yield event
        self.shared.append(f"{self.name} request out")

    async def on_tool_call(self, context: Any, call: Any, call_next: Any) -> Any:
        self.shared.append(f"{self.name} tool in")
        result = await call_next()
        self.shared.append(f"{self.name} tool out")
        return result


async def test_two_extensions_wrap_a_step_and_a_tool_like_layers() -> None:
    trace: list[str] = []

    async def handler(**_: Any) -> str:
        trace.append("handler")
        return "x"

    inner, outer = Layer("B", trace), Layer("A", trace)
    outer.priority = 50
    agent = await Agent.create(
        RawModel(asks(*calls("t")), text()), tools=[make_tool("t", handler)], extensions=[inner, outer]
    )

    await agent.run("go", config=AgentRunConfig("s"))

    step = [
        "A.before_model", "B.before_model", "A request in", "B request in", "B delta", "A delta",
        "B response", "A response", "B request out", "A request out",
    ]  # fmt: skip
    assert trace == [*step, "A tool in", "B tool in", "handler", "B tool out", "A tool out", *step]
