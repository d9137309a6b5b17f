"""One request or pass, from its claim on the session to its one end.

`Run` owns everything that belongs to a request: context, inboxes, counters, stream. Read it from `_work`:
the steps stand in the order in which a user message meets them.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncGenerator, Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..events import AgentEvent, AgentEventType, AgentPhase
from ..exceptions import AgentIterationLimitError, AgentProtocolError, AgentResumeError
from ..extensions.base import mark_active
from ..extensions.events import ExtensionEvent, MessageTiming, RunCancelledEvent
from ..json_types import JsonValue
from ..messages import AgentMessage, AssistantMessage, SystemMessage, UserMessage
from ..model import AgentModel, ModelResponse, ReasoningEffort
from ..resume import ResumePoint, classify_resume, unanswered_calls
from ..tools._registry import AgentTools, RequestTools
from .channel import EventChannel
from .context import AgentRunConfig, AgentRunContext, AgentState
from .gone import loop_is_gone
from .hooks import Hooks
from .model_step import ModelStep
from .notes import add_note, note_errors
from .phases import ACTIVE_PHASES, enter_phase, transition
from .recovery import UNKNOWN_OUTCOME, failed_result, resume_instruction
from .tool_batch import ToolBatch

if TYPE_CHECKING:
    from ..agent import Agent

__all__ = ["Run", "RunSetup"]

logger = logging.getLogger("zett_agent")


@dataclass(slots=True)
class RunSetup:
    """What a request was asked to do, checked and with every default filled in."""

    operation: str
    config: AgentRunConfig
    model: AgentModel
    reasoning_effort: ReasoningEffort
    parallel_tool_call: bool
    system_prompt: str
    tools: AgentTools
    metadata: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    tags: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    message: UserMessage | None = None


class Run:
    """One request or pass.

    Attributes:
        agent: The agent it belongs to.
        context: What its hooks work with.
        channel: Its events on their way to the consumer.
        hooks: Its hook table.
        cancelling: Whether it was told to stop.
        abandoned: Whether its clean-up was given up, so that it must not write any more.
        yielded: Whether the event loop had its turn since the last model step.
    """

    def __init__(self, agent: Agent, setup: RunSetup, *, consumed: bool) -> None:
        self.agent = agent
        self.operation = setup.operation
        self.model = setup.model
        self.reasoning_effort = setup.reasoning_effort
        self.parallel_tool_call = setup.parallel_tool_call
        self.hooks: Hooks = agent._hooks.current()
        self.channel = EventChannel(consumed=consumed)
        self.context = self._build_context(setup)
        self.session_id = self.context.session_id
        self.cancelling = False
        self.abandoned = False
        self.resume_point: ResumePoint | None = None
        self.yielded = True
        self._answer: AssistantMessage | None = None
        self._batch: ToolBatch | None = None
        self._model_calls = 0
        self._internal_messages = 0
        # The steering or internal message that is being worked on, if the current input is one.
        self._active_input: UserMessage | AgentMessage | None = None
        self._next_internal: AgentMessage | None = None
        self._task: asyncio.Task[None] | None = None
        self._cleanup: asyncio.Task[None] | None = None
        self._started = False
        self._released = False
        self._error: BaseException | None = None
        # Errors of the clean-up, for the exception that the caller receives.
        self._late_errors: list[tuple[str, BaseException]] = []

    def _build_context(self, setup: RunSetup) -> AgentRunContext:
        context = AgentRunContext(
            setup.config,
            AgentState(parent_session_id=setup.config.parent_session_id),
            RequestTools(setup.tools),
            self.hooks.extensions,
            setup.model,
            setup.metadata,
            setup.tags,
            setup.message,
            event_queue=self.channel,
        )
        context._operation = setup.operation
        context._hooks = self.hooks
        if setup.system_prompt:
            context.add_message(SystemMessage(content=setup.system_prompt))
        return context

    @property
    def is_pass(self) -> bool:
        """Whether this is a compaction or a look at the resume point, without any model step."""
        return self.operation in ("compact", "resume_point")

    # What the agent's methods use.

    async def events(self) -> AsyncGenerator[AgentEvent, None]:
        """Drive the run and yield its events; leaving early cancels it and waits for its end."""
        channel = self.channel
        self._start()
        try:
            while True:
                event = channel.take()
                if event is not None:
                    yield event
                elif not await channel.wait():
                    break
        except BaseException as cause:
            await self._stop(cause)
            raise
        self._raise_error()

    async def complete(self) -> AssistantMessage | None:
        """Drive the run without looking at its events and return its answer, if it has one."""
        self._start()
        try:
            await self.channel.wait()
        except BaseException as cause:
            await self._stop(cause)
            raise
        self._raise_error()
        return self._answer

    def describe(self) -> str:
        """Return who owns the session, for the error that a second request gets."""
        config = self.context.config
        text = f"request {config.request_id} ({self.operation}, phase {self.context.state.phase})"
        if self._answer is not None and self.context.state.phase is AgentPhase.COMPLETED:
            text += "; it is finished, only its consumer has not read on past RUN_COMPLETED"
        return text

    # What the steps use.

    async def emit(self, event_type: AgentEventType, **fields: Any) -> None:
        """Send an event of the loop to the consumer and wait until it asks for the next one."""
        channel = self.channel
        if channel.consumed:
            await channel.put(AgentEvent(event_type, self.session_id, self.context.state.phase, **fields))

    async def breathe(self) -> None:
        """Give the event loop a turn in each step, so that it can cancel the run or do other work.

        With a consumer every event does that. Without one, a model and tools that never wait would not.
        """
        if not (self.channel.consumed or self.yielded):
            await asyncio.sleep(0)
        self.yielded = False

    def expect_tool_results(self, message: AssistantMessage) -> None:
        """Note the calls of an answer that is about to be stored, so that every end accounts for them."""
        if message.tool_calls:
            self._batch = ToolBatch(self, message)

    def take_steering(self) -> UserMessage | None:
        """Return a steering message that waits, if any."""
        return self.agent._steering.take(self.context)

    # The request, step by step.

    async def _work(self) -> None:
        await self._load()
        if self.operation == "compact":
            await self.hooks.call("on_compact", self.context)
        elif self.operation == "resume_point":
            self.resume_point = self._find_resume_point()
        else:
            await self._accept_input()
            await self.hooks.call("before_run", self.context)
            answer = await self._converse()
            await self.hooks.call("after_run", self.context, answer)
            await self.hooks.call("on_success", self.context, answer)
            self._answer = answer
        await self._announce_completion()
        if self._answer is not None:
            await self.emit(AgentEventType.RUN_COMPLETED, message=self._answer)

    async def _announce_completion(self) -> None:
        """Enter the final phase and tell every extension, also after one of them raised."""
        event = enter_phase(self.context.state, AgentPhase.COMPLETED)
        errors = await self._publish_all(event)
        if errors:
            first = next((error for error in errors if isinstance(error, asyncio.CancelledError)), errors[0])
            self._note("The completed notification", [error for error in errors if error is not first])
            raise first

    async def _load(self) -> None:
        """Let the extensions register tools, restore history and see the input."""
        context = self.context
        await transition(context, AgentPhase.LOADING_CONTEXT)
        await self.hooks.call("on_tool", context)
        await self.hooks.call("on_state", context)
        if self.operation == "run":
            await self.hooks.call("on_message", context)
            if not isinstance(context.input_message, UserMessage):
                raise AgentProtocolError(
                    "on_message must leave a UserMessage in context.input_message, "
                    f"not {type(context.input_message).__name__}"
                )
        if self.operation == "resume_point":
            context._queued_appends.clear()  # looking must not write
        await context.flush_message_events()
        await transition(context, AgentPhase.READY)

    async def _accept_input(self) -> None:
        """Close what an earlier process left open, then append the new input or prepare the resume."""
        context = self.context
        point = classify_resume(context.state._history) if self.operation == "resume" else None
        for call in unanswered_calls(context.state._history):
            await context.append_message(failed_result(call, UNKNOWN_OUTCOME), MessageTiming.instant())
        message = resume_instruction(point.kind) if point is not None else context.input_message
        context.input_message = None
        if message is not None:
            await context.append_message(message, MessageTiming.instant())

    def _find_resume_point(self) -> ResumePoint | None:
        try:
            return classify_resume(self.context.state._history)
        except AgentResumeError:
            return None

    async def _converse(self) -> AssistantMessage:
        """Take turns until an answer stays without further input."""
        while True:
            answer = await self._turn()
            if answer is not None and not await self._take_further_input():
                return answer

    async def _turn(self) -> AssistantMessage | None:
        """One model step and the tools it asks for; return its message if it is an answer."""
        context = self.context
        self._count_model_call()
        await self.hooks.call("before_turn", context)
        message = (await self._model_step()).message
        if self._batch is None:
            await self._complete_input(message)
            await self.hooks.call("after_turn", context, message)
            return message
        steering = self.take_steering() or await self._batch.run()
        if steering is not None:
            await self._interrupt_input()
            await self._batch.skip_rest()
            await self._begin_steering(steering)
        self._batch = None
        await self.hooks.call("after_turn", context, message)
        return None

    async def _model_step(self) -> ModelResponse:
        """Call the model, again while the provider pauses the turn and wants it sent back."""
        continuations = 0
        while True:
            step = ModelStep(self, may_continue=continuations < self.agent.max_pause_continuations)
            response = await step.run()
            if not step.continues:
                return response
            continuations += 1
            self._count_model_call()

    def _count_model_call(self) -> None:
        limit = self.agent.max_iterations
        if self._model_calls >= limit:
            raise AgentIterationLimitError(
                f"The input is not answered after {limit} model iterations; raise max_iterations"
            )
        self._model_calls += 1

    # Further input.

    async def _take_further_input(self) -> bool:
        """After an answer: begin work on steering or, without any, on an internal message."""
        steering = self.agent._steering.select_next(self.context, self._reserve_internal_message)
        if steering is not None:
            await self._begin_steering(steering)
            return True
        internal, self._next_internal = self._next_internal, None
        if internal is None:
            return False
        limit = self.agent.max_internal_messages
        if self._internal_messages >= limit:
            raise AgentIterationLimitError(
                f"The request has used up its {limit} internal messages; raise max_internal_messages"
            )
        self._internal_messages += 1
        await self.emit(AgentEventType.INTERNAL_MESSAGE_STARTED, internal_message=internal)
        await self._begin_input(internal)
        return True

    def _reserve_internal_message(self) -> bool:
        self._next_internal = self.agent._internal_messages.next_message(self.context)
        return self._next_internal is not None

    async def _begin_steering(self, message: UserMessage) -> None:
        await self._begin_input(message)
        await self.emit(AgentEventType.STEERING_STARTED, steering_message=message)

    async def _begin_input(self, message: UserMessage | AgentMessage) -> None:
        self._model_calls = 0
        self._active_input = message
        await self.context.append_message(message, MessageTiming.instant())

    async def _complete_input(self, answer: AssistantMessage) -> None:
        message, self._active_input = self._active_input, None
        if isinstance(message, UserMessage):
            await self.emit(AgentEventType.STEERING_COMPLETED, steering_message=message, message=answer)
        elif message is not None:
            await self.emit(
                AgentEventType.INTERNAL_MESSAGE_COMPLETED, internal_message=message, message=answer
            )

    async def _interrupt_input(self) -> None:
        message, self._active_input = self._active_input, None
        if isinstance(message, UserMessage):
            await self.emit(AgentEventType.STEERING_INTERRUPTED, steering_message=message)
        elif message is not None:
            await self.emit(AgentEventType.INTERNAL_MESSAGE_INTERRUPTED, internal_message=message)

    # The one end.

    def _start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._drive())

    async def _drive(self) -> None:
        """Work, and end: success, failure, cancellation and an early close all come through here."""
        self._started = True
        loop = asyncio.get_running_loop()
        try:
            self._open_inboxes()
            await self._work()
        except asyncio.CancelledError as error:
            if self._was_cancelled():
                self._error = error
                await self._shielded(self._end_cancelled())
            else:
                failure = AgentProtocolError(
                    "A hook or the model awaited something that was cancelled elsewhere; the request was not"
                )
                failure.__cause__ = error
                self._error = failure
                await self._shielded(self._end_failed(failure))
        except BaseException as error:
            if loop_is_gone(loop):
                raise
            self._error = error
            await self._shielded(self._end_failed(error))
        finally:
            self._release()

    def _was_cancelled(self) -> bool:
        """Return whether somebody cancelled the request, and not only something that it waited for.

        Before Python 3.11 a task does not tell, so there the answer is yes.
        """
        if self.cancelling or sys.version_info < (3, 11):
            return True
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0

    def _open_inboxes(self) -> None:
        if not self.is_pass:
            self.agent._internal_messages.open(self.context)
            self.agent._steering.open(self.context)

    async def _end_cancelled(self) -> None:
        """Account for every tool call and tell the extensions. Runs shielded: it writes history."""
        self._discard_inputs()
        if self._batch is not None:
            self._note(
                "Storing the results of cancelled tools", await self._batch.settle(close_unfinished=True)
            )
        state = self.context.state
        if state.phase in ACTIVE_PHASES and not self.abandoned:
            event = enter_phase(state, AgentPhase.CANCELLED)
            self._note("The cancelled notification", await self._publish_all(event))
            cancelled = RunCancelledEvent(event.previous_phase, event.occurred_at, event.monotonic_ns)
            self._note("The cancelled notification", await self._publish_all(cancelled))

    async def _end_failed(self, error: BaseException) -> None:
        """Keep what finished tools gave and tell the extensions. Runs shielded, like `_end_cancelled`."""
        self._discard_inputs()
        if self._batch is not None:
            settling = self._batch.settle(close_unfinished=False)
            self._note("Storing the results of finished tools", await settling)
        state = self.context.state
        if state.phase in ACTIVE_PHASES and not self.abandoned:
            event = enter_phase(state, AgentPhase.FAILED)
            self._note("The failed notification", await self._publish_all(event))
        if isinstance(error, Exception):
            self._note(
                "on_error",
                await self.hooks.call_all(self.hooks.of("on_error"), "on_error", self.context, error),
            )

    async def _publish_all(self, event: ExtensionEvent) -> list[BaseException]:
        subscribers = self.hooks.subscribers(type(event))
        return await self.hooks.call_all(subscribers, "on_event", self.context, event)

    def _note(self, what: str, errors: list[BaseException]) -> None:
        self._late_errors.extend((what, error) for error in errors)

    def _discard_inputs(self) -> None:
        """Close the inboxes and keep what was accepted but not taken, for the hooks to see."""
        if self.is_pass:
            return
        steering = self.agent._steering._inboxes.close(self.context)
        internal = self.agent._internal_messages._inboxes.close(self.context)
        self.context._discarded_inputs = (*steering, *internal)

    async def _shielded(self, work: Coroutine[Any, Any, None]) -> None:
        """Await `work` in a task of its own, so that cancelling this one again does not interrupt it."""
        task = self._cleanup = asyncio.create_task(work)
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError:
                continue
        if not task.cancelled():
            task.result()

    def _release(self) -> None:
        """Give the session back. Every way out leads here; the second time does nothing."""
        if self._released:
            return
        self._released = True
        self._batch = None
        state = self.context.state
        if not state.phase.accepts_new_request or state.phase is AgentPhase.CREATED:
            state.phase = AgentPhase.CANCELLED
        if not self.is_pass:
            self.agent._steering.close(self.context)
            self.agent._internal_messages.close(self.context)
        self.agent._release(self)
        mark_active(self.hooks.extensions, -1)
        self.channel.end()

    async def _stop(self, cause: BaseException) -> None:
        """Cancel the run because its consumer leaves with `cause`, and wait until it has ended.

        The first cancellation waits as long as handlers and subscribers need. Another one limits the rest
        to `agent.cleanup_timeout` seconds; then the session is released whatever still runs.
        """
        task = self._task
        assert task is not None
        self.cancelling = True
        if loop_is_gone(task.get_loop()):
            self._release()  # nothing can be awaited any more
            return
        if not self._started:
            task.cancel()
            self._release()
        again: asyncio.CancelledError | None = None
        deadline: float | None = None
        loop = asyncio.get_running_loop()
        if not task.done():
            task.cancel()
        # Only now, so that the run does not go on past the event that its consumer left at.
        self.channel.abandon()
        while not task.done():
            try:
                timeout = None if deadline is None else max(0.0, deadline - loop.time())
                done, _ = await asyncio.wait({task}, timeout=timeout)
            except asyncio.CancelledError as error:
                again = error
                if deadline is None:
                    deadline = loop.time() + self.agent.cleanup_timeout
                continue
            if not done:
                self._abandon()
                break
        self._error = None  # the consumer leaves with an exception of its own
        self._report_late_errors(cause if again is None else again)
        if again is not None:
            try:
                raise again
            finally:
                del again, cause  # their tracebacks refer to this frame: leave no cycle behind

    def _abandon(self) -> None:
        logger.error(
            "Session %s: the clean-up of a cancelled request did not end within %s seconds; "
            "the session is released without it",
            self.session_id,
            self.agent.cleanup_timeout,
        )
        self.abandoned = True
        seconds = self.agent.cleanup_timeout
        self._note("The clean-up", [TimeoutError(f"it took longer than {seconds} seconds and was given up")])
        for task in (self._cleanup, self._task):
            if task is not None:
                task.cancel()
        self._release()

    def _raise_error(self) -> None:
        """Raise what ended the run, the same object, with notes about whatever else went wrong."""
        error, self._error = self._error, None
        self._report_late_errors(error)
        if error is not None:
            try:
                raise error
            finally:
                del error  # the traceback refers to this frame: leave no cycle behind

    def _report_late_errors(self, error: BaseException | None) -> None:
        late, self._late_errors = self._late_errors, []
        for what, extra in late:
            note_errors(error, what, [extra])
        discarded = self.context.discarded_inputs
        if discarded and error is not None:
            steering = sum(isinstance(message, UserMessage) for message in discarded)
            add_note(
                error,
                f"Discarded input that was accepted: {steering} steering and "
                f"{len(discarded) - steering} internal messages (context.discarded_inputs)",
            )
