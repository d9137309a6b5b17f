"""A harness that disturbs a request at every point where it can be disturbed, and checks what is left.

A `Shape` is a request that passes through certain parts of the loop. It is built anew for each disturbance:
a cancellation after the n-th step of any task, a consumer that leaves at the n-th event, an error in the n-th
call of a hook, subscriber or middleware. After each, `Rig.check` asks for everything the loop promises.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from typing import Any

from support.loop_models import RawModel, asks, pause, response
from support.loop_probe import Seed, steer, tell
from support.loop_tools import make_tool, serial_tool
from zett_agent.agent import Agent, AgentRunConfig
from zett_agent.client import AgentClient
from zett_agent.dispatcher import AgentEventDispatcher
from zett_agent.events import AgentEvent, AgentEventType, AgentPhase
from zett_agent.extensions.base import HOOK_NAMES, AgentExtension
from zett_agent.extensions.events import (
    CompactionEvent,
    MessageAppendedEvent,
    PhaseTransitionEvent,
    RunCancelledEvent,
)
from zett_agent.extensions.external import ExternalEvent, ExternalEventExtension
from zett_agent.extensions.memory import InMemoryMessageAccumulator
from zett_agent.messages import (
    AnyMessage,
    AssistantMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from zett_agent.model import ModelEvent

SESSION = "s"
CONFIG = AgentRunConfig(session_id=SESSION)
HOOKS = sorted(HOOK_NAMES - {"accept", "on_model_request", "on_tool_call"})


CANCELLED = "Request cancelled before tool completion"


class Abort(BaseException):
    """An error that is no `Exception`."""


# Steps of tasks.


class _Stepped(Coroutine[Any, Any, Any]):
    """A coroutine that reports each of its steps."""

    def __init__(self, inner: Coroutine[Any, Any, Any], on_step: Callable[[], None]) -> None:
        self._inner = inner
        self._on_step = on_step

    def send(self, value: Any) -> Any:
        try:
            return self._inner.send(value)
        finally:
            self._on_step()

    def throw(self, *error: Any) -> Any:
        try:
            return self._inner.throw(*error)
        finally:
            self._on_step()

    def close(self) -> None:
        self._inner.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._inner.__await__()


@contextmanager
def watched_steps(on_step: Callable[[], None]) -> Iterator[None]:
    """Call `on_step` after each step of each task that is created inside."""
    loop = asyncio.get_running_loop()

    def factory(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
        return asyncio.Task(_Stepped(coroutine, on_step), loop=loop, **options)

    loop.set_task_factory(factory)  # type: ignore[arg-type]
    try:
        yield
    finally:
        loop.set_task_factory(None)


# Extensions.


class Yielding(AgentExtension):
    """Suspends in every hook and both kinds of middleware, so that each of them can be disturbed."""

    async def on_model_request(self, context: Any, request: Any, call_next: Any) -> AsyncIterator[ModelEvent]:
        await pause()
        try:
            async for event in call_next(request):
                yield event
        finally:
            await pause()

    async def on_tool_call(self, context: Any, call: ToolCall, call_next: Any) -> Any:
        await pause()
        return await call_next()


async def _suspend(*_: Any) -> None:
    await pause()


for _name in HOOKS:
    setattr(Yielding, _name, _suspend)


class Saboteur(AgentExtension):
    """Raises at its n-th call of any kind; with `lasting`, at each later one too. `only` names one hook."""

    def __init__(
        self,
        at: int,
        error: BaseException | None,
        *,
        lasting: bool = False,
        priority: int = 100,
        only: str = "",
    ) -> None:
        self.at, self.error, self.lasting, self.priority, self.only = at, error, lasting, priority, only
        self.later: type[BaseException] = RuntimeError
        self.calls = 0
        self.raised_in: list[str] = []

    def strike(self, place: str) -> None:
        if not place.startswith(self.only):
            return
        self.calls += 1
        if self.error is not None and (self.calls == self.at or (self.lasting and self.calls > self.at)):
            self.raised_in.append(place)
            raise self.error if len(self.raised_in) == 1 else self.later(f"again in {place}")

    async def on_model_request(self, context: Any, request: Any, call_next: Any) -> AsyncIterator[ModelEvent]:
        self.strike("on_model_request enter")
        async for event in call_next(request):
            self.strike("on_model_request event")
            yield event
        self.strike("on_model_request exit")

    async def on_tool_call(self, context: Any, call: ToolCall, call_next: Any) -> Any:
        self.strike("on_tool_call enter")
        result = await call_next()
        self.strike("on_tool_call exit")
        return result


def _striking(hook: str) -> Any:
    async def method(self: Saboteur, context: Any, *arguments: Any) -> None:
        place = hook
        if hook == "on_event":
            event = arguments[0]
            place += f" {type(event).__name__}"
            if isinstance(event, PhaseTransitionEvent):
                place += f" {event.current_phase}"
        elif hook == "after_tool":
            place += f" {arguments[0].id}"
        self.strike(place)

    return method


for _name in HOOKS:
    setattr(Saboteur, _name, _striking(_name))


class Store(AgentExtension):
    """Writes what is appended, slowly, and remembers what became of the request."""

    priority = 150
    # Whether nobody before it keeps notifications from it.
    complete = True

    def __init__(self) -> None:
        self.written: list[AnyMessage] = []
        self.phases: list[AgentPhase] = []
        self.cancelled = 0
        self.errors: list[BaseException] = []

    async def on_event(self, context: Any, event: Any) -> None:
        match event:
            case MessageAppendedEvent(message=message):
                await pause()
                self.written.append(message)
            case PhaseTransitionEvent(current_phase=phase):
                self.phases.append(phase)
            case RunCancelledEvent():
                self.cancelled += 1
            case _:
                pass

    async def on_error(self, context: Any, error: Exception) -> None:
        self.errors.append(error)


class Asks(ExternalEventExtension):
    """Waits for an answer before each call of `deploy`; somebody gives it a moment later."""

    def __init__(self, rig: Rig) -> None:
        super().__init__(response_event_name="answer", correlation_field="id")
        self.rig = rig

    async def before_tool(self, context: Any, call: ToolCall) -> None:
        if call.name == "deploy":
            async with self._wait_for_external_event(context, call.id):
                await context.emit(AgentEvent(AgentEventType.CUSTOM, context.session_id, name="ask"))
                asyncio.get_running_loop().call_soon(self.answer, call.id)

    def answer(self, call_id: str) -> None:
        self.rig.agent.emit_external_event(ExternalEvent("answer", {"id": call_id}), config=CONFIG)

    async def on_tool_call(self, context: Any, call: ToolCall, call_next: Any) -> Any:
        if call.name == "deploy":
            self._take_external_event(context)
        return await call_next()


class SlowDispatcher(AgentEventDispatcher):
    """Suspends in each callback."""

    async def dispatch(self, event: AgentEvent) -> None:
        await pause()
        await super().dispatch(event)
        await pause()


class Compacts(AgentExtension):
    """Replaces all but the last message by a summary."""

    async def on_compact(self, context: Any) -> None:
        await self.compact(context)

    async def compact(self, context: Any) -> None:
        system = [m for m in context.state.messages if isinstance(m, SystemMessage)]
        dialogue = [m for m in context.state.messages if not isinstance(m, SystemMessage)]
        for name in ("started", "reasoning_delta", "text_delta"):
            await context.emit(AgentEvent(AgentEventType(f"compaction_{name}"), context.session_id))
        summary = UserMessage(content="summary")
        context.replace_messages([*system, summary, dialogue[-1]], emit_new=False)
        event = CompactionEvent(1, len(dialogue) - 1, len(dialogue), len(dialogue), "summary")
        await context.publish(event)
        await context.emit(
            AgentEvent(
                AgentEventType.COMPACTION_COMPLETED, context.session_id, applied=True, compaction=event
            )
        )


class CompactsOnce(Compacts):
    """Does so before the second model step."""

    steps = 0

    async def before_model(self, context: Any, request: Any) -> None:
        self.steps += 1
        if self.steps == 2:
            await self.compact(context)


# The rig.


@dataclass
class Rig:
    """An agent in the middle of its parts, and one request to it."""

    operation: str = "run"
    effects: dict[str, str] = field(default_factory=dict)
    begun: list[str] = field(default_factory=list)
    running: int = 0
    store: Store = field(default_factory=Store)
    memory: InMemoryMessageAccumulator = field(default_factory=InMemoryMessageAccumulator)
    model: RawModel = field(default_factory=RawModel)
    agent: Agent = None  # type: ignore[assignment]
    waits: Asks | None = None

    def handler(self, name: str, pauses: int) -> Callable[..., Awaitable[str]]:
        async def handler(id: str) -> str:
            self.begun.append(id)
            self.running += 1
            try:
                for _ in range(pauses):
                    await pause()
                self.effects[id] = f"{name} happened"
                return self.effects[id]
            finally:
                self.running -= 1

        return handler

    async def assemble(self, *extensions: AgentExtension, **options: Any) -> Rig:
        self.agent = await Agent.create(
            self.model, extensions=[self.memory, Yielding(), self.store, *extensions], **options
        )
        return self

    def stream(self) -> Any:
        match self.operation:
            case "resume":
                return self.agent.stream_resume(config=CONFIG)
            case "compact":
                return self.agent.compact(config=CONFIG)
            case _:
                return self.agent.stream("go", config=CONFIG)

    async def consume(self, *, leave_at: int | None = None, pauses: bool = False) -> list[AgentEvent]:
        """Read the stream; leave it at event number `leave_at`."""
        events: list[AgentEvent] = []
        async with aclosing(self.stream()) as stream:
            async for event in stream:
                if pauses:
                    await pause()
                events.append(event)
                if len(events) - 1 == leave_at:
                    break
        return events

    async def drive(self) -> Any:
        """Run the request without looking at its events."""
        match self.operation:
            case "resume":
                return await self.agent.resume(config=CONFIG)
            case "compact":
                return await self.consume()
            case _:
                return await self.agent.run("go", config=CONFIG)

    async def drive_client(self) -> Any:
        """Run the request through a client whose callbacks suspend."""
        client = AgentClient(self.agent, event_dispatcher=SlowDispatcher())
        match self.operation:
            case "resume":
                return await client.resume(config=CONFIG)
            case "compact":
                return await client.compact(config=CONFIG)
            case _:
                return await client.run("go", config=CONFIG)

    # What must hold afterwards.

    def check(self, *, where: str, open_tail: bool) -> None:
        """Check what the request leaves behind.

        Args:
            where: What was done, for the message of a failure.
            open_tail: Whether the last tool batch may lack results, to be recovered by the next request.
        """
        agent = self.agent
        assert not agent.pending and not agent.is_conflict(SESSION), f"{where}: the session is not free"
        assert not any(extension.pending for extension in agent.extensions), f"{where}: extension pending"
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        assert not left, f"{where}: tasks are left: {left}"
        assert self.model.open_streams == 0, f"{where}: a model stream is open"
        assert self.running == 0, f"{where}: a handler is running"
        assert steer(agent, SESSION) == tell(agent, SESSION) == [], f"{where}: an inbox is open"
        if self.waits is not None:
            assert not self.waits.pending_requests(), f"{where}: a wait is open"

        state = agent.get_state(SESSION)
        if state is None:
            assert not self.store.phases
            return
        ends = (AgentPhase.COMPLETED, AgentPhase.FAILED, AgentPhase.CANCELLED)
        assert state.phase in ends, f"{where}: phase {state.phase}"
        self._check_history(state.messages, where, open_tail)
        self._check_history(self.memory.messages(SESSION), f"{where}, memory", open_tail)
        written = [id(message) for message in self.store.written]
        assert len(written) == len(set(written)), f"{where}: written twice"
        if self.store.complete:
            for message in state.messages:
                if isinstance(message, ToolMessage) and message.content == CANCELLED:
                    assert id(message) in written, f"{where}: the clean-up did not write {message}"

    def check_notified(self, where: str) -> None:
        """Check that the extensions were told how the request ended."""
        state = self.agent.get_state(SESSION)
        if state is None or not self.store.phases:
            return
        assert self.store.phases[-1] is state.phase, f"{where}: {self.store.phases} but {state.phase}"
        assert self.store.cancelled == (state.phase is AgentPhase.CANCELLED), where
        if state.phase is AgentPhase.CANCELLED:
            assert not self.store.errors, where

    def _check_history(self, messages: Any, where: str, open_tail: bool) -> None:
        problems, unanswered = examine(messages)
        assert not problems, f"{where}: {problems}"
        own = [call_id for call_id in unanswered if call_id.startswith("c")]  # the others are older: B-A9
        assert open_tail or not own, f"{where}: unanswered {own}"
        results = {m.tool_call_id: m for m in messages if isinstance(m, ToolMessage)}
        for call_id, result in results.items():
            if result.success and call_id.startswith("c"):
                assert result.content == self.effects.get(call_id), f"{where}: invented result of {call_id}"

    def check_nothing_ran_ahead(self, events: list[AgentEvent], where: str) -> None:
        """Check that no model call and no tool had begun that the last event did not announce."""
        passed = events[:-1]
        calls = sum(event.type is AgentEventType.MODEL_STARTED for event in passed)
        assert self.model.opened == calls, f"{where}: {self.model.opened} model calls"
        announced = {
            call.id
            for event in passed
            if event.type is AgentEventType.TOOL_STARTED
            for call in event.tool_calls
        }
        assert set(self.begun) <= announced, f"{where}: {self.begun} had begun"

    def check_effects(self, where: str, *, but: str | None = None) -> None:
        """Check that what handlers did is told truly, except for call `but`."""
        results = {
            m.tool_call_id: m
            for m in self.agent.get_state(SESSION).messages  # type: ignore[union-attr]
            if isinstance(m, ToolMessage)
        }
        for call_id, effect in self.effects.items():
            if call_id != but:
                result = results.get(call_id)
                assert result is not None and result.content == effect, f"{where}: lost result of {call_id}"

    async def check_next_run(self, where: str) -> None:
        """Check that the session goes on, and that a provider would take what is sent."""
        model = RawModel([response("fine")])
        result = await self.agent.run("next", config=CONFIG, model=model)
        assert result.content == "fine", where
        problems, unanswered = examine(model.requests[0].messages)
        assert not problems and not unanswered, f"{where}, next run: {problems} {unanswered}"
        assert not self.agent.pending, where


def examine(messages: Any) -> tuple[list[str], list[str]]:
    """Return what a provider would refuse in a history, and the calls without result at its end."""
    problems: list[str] = []
    asked: list[str] = []
    for message in messages:
        match message:
            case SystemMessage():
                continue
            case ToolMessage(tool_call_id=call_id):
                if call_id in asked:
                    asked.remove(call_id)
                else:
                    problems.append(f"result {call_id} of nobody, or a second one")
            case _:
                problems.extend(f"call {call_id} is not answered" for call_id in asked)
                asked = []
                if isinstance(message, AssistantMessage):
                    asked = [call.id for call in message.tool_calls]
    return problems, asked


# Shapes.


def _call(id: str, name: str) -> ToolCall:
    return ToolCall(id, name, {"id": id})


def _text(content: str = "hi") -> list[Any]:
    return [ModelEvent.reasoning("hm"), pause, ModelEvent.text(content), pause, response(content)]


async def plain(*extensions: AgentExtension) -> Rig:
    rig = Rig(model=RawModel(_text()))
    return await rig.assemble(*extensions)


async def one_tool(*extensions: AgentExtension) -> Rig:
    rig = Rig(model=RawModel(asks(_call("c1", "t")), _text()))
    return await rig.assemble(*extensions, tools=[make_tool("t", rig.handler("t", 2))])


async def three_parallel(*extensions: AgentExtension) -> Rig:
    rig = Rig(model=RawModel(asks(*(_call(f"c{n}", f"t{n}") for n in (1, 2, 3))), _text()))
    tools = [make_tool(f"t{n}", rig.handler(f"t{n}", pauses)) for n, pauses in ((1, 6), (2, 0), (3, 1))]
    return await rig.assemble(*extensions, tools=tools)


async def parallel_and_serial(*extensions: AgentExtension) -> Rig:
    rig = Rig(model=RawModel(asks(_call("c1", "ser"), _call("c2", "par"), _call("c3", "ser")), _text()))
    tools = [serial_tool("ser", rig.handler("ser", 1)), make_tool("par", rig.handler("par", 1))]
    return await rig.assemble(*extensions, tools=tools)


async def steering(*extensions: AgentExtension) -> Rig:
    rig = Rig()
    first = asks(_call("c1", "sends"), _call("c2", "t"))
    rig.model = RawModel(first, [lambda: steer(rig.agent, SESSION, "S2"), *_text("one")], _text("two"))

    async def sends(id: str) -> str:
        steer(rig.agent, SESSION, "S1")
        return await rig.handler("sends", 0)(id)

    return await rig.assemble(
        *extensions, tools=[serial_tool("sends", sends), serial_tool("t", rig.handler("t", 0))]
    )


async def internal(*extensions: AgentExtension) -> Rig:
    rig = Rig()
    rig.model = RawModel([lambda: tell(rig.agent, SESSION), *_text()], asks(_call("c1", "t")), _text())
    return await rig.assemble(*extensions, tools=[make_tool("t", rig.handler("t", 1))])


async def resume(*extensions: AgentExtension) -> Rig:
    rig = Rig("resume", model=RawModel(asks(_call("c1", "t")), _text()))
    history = [UserMessage(content="old"), AssistantMessage(tool_calls=(_call("k1", "t"), _call("k2", "t")))]
    return await rig.assemble(
        *extensions, Seed(*copy.deepcopy(history)), tools=[make_tool("t", rig.handler("t", 1))]
    )


async def compaction_pass(*extensions: AgentExtension) -> Rig:
    rig = Rig("compact")
    history = [UserMessage(content="old"), AssistantMessage(content="a"), UserMessage(content="new")]
    return await rig.assemble(*extensions, Seed(*history), Compacts())


async def compaction_in_run(*extensions: AgentExtension) -> Rig:
    rig = Rig(model=RawModel([lambda: tell(rig.agent, SESSION), *_text()], _text()))
    return await rig.assemble(*extensions, CompactsOnce())


async def external_wait(*extensions: AgentExtension) -> Rig:
    rig = Rig(model=RawModel(asks(_call("c1", "deploy"), _call("c2", "deploy")), _text()))
    rig.waits = Asks(rig)
    return await rig.assemble(*extensions, rig.waits, tools=[make_tool("deploy", rig.handler("deploy", 1))])


async def paused(*extensions: AgentExtension) -> Rig:
    rig = Rig(model=RawModel([pause, response("p", finish="pause_turn")], _text()))
    return await rig.assemble(*extensions)


Shape = Callable[..., Awaitable[Rig]]
SHAPES: dict[str, Shape] = {
    shape.__name__: shape
    for shape in (
        plain,
        one_tool,
        three_parallel,
        parallel_and_serial,
        steering,
        internal,
        resume,
        compaction_pass,
        compaction_in_run,
        external_wait,
        paused,
    )
}


# Disturbances.


@dataclass
class Outcome:
    """How a disturbed request ended for its caller."""

    steps: int
    result: Any = None
    error: BaseException | None = None


async def cancelled_after(
    operation: Coroutine[Any, Any, Any], cancel: Callable[[int], bool], *, everybody: bool = False
) -> Outcome:
    """Await `operation` in a task that is cancelled after each step for which `cancel(number)` is true.

    With `everybody`, so is every other task, as when the program ends.
    """
    observer = asyncio.current_task()
    steps = 0
    task: asyncio.Task[Any] | None = None

    def on_step() -> None:
        nonlocal steps
        steps += 1
        if task is not None and not task.done() and cancel(steps):
            for each in asyncio.all_tasks() - {observer} if everybody else {task}:
                each.cancel()

    with watched_steps(on_step):
        task = asyncio.get_running_loop().create_task(operation)
        await asyncio.wait([task])
    if task.cancelled():
        return Outcome(steps, error=asyncio.CancelledError())
    error = task.exception()
    return Outcome(steps, error=error) if error is not None else Outcome(steps, result=task.result())
