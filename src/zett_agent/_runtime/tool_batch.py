"""The tools that one answer asked for: parallel ones together, then the others one by one."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from ..events import AgentEventType, AgentPhase
from ..extensions.events import MessageTiming
from ..messages import AssistantMessage, ToolCall, ToolMessage, UserContent, UserMessage
from ..tools._registry import peek_tool
from ..tools.base import AgentTool, ToolExecutionMode
from ..tools.invocation import internal_cancellation, invoke_tool, tool_error_text, tool_result_content
from .channel import WaitMeter, metered_waits
from .gone import loop_is_gone
from .phases import transition
from .recovery import CANCELLED_TOOL, SUPERSEDED_TOOL, failed_result

if TYPE_CHECKING:
    from .run import Run

__all__ = ["ToolBatch"]


@dataclass(slots=True)
class _Outcome:
    """What running a call gave, before anybody was told."""

    content: UserContent
    error: Exception | None
    timing: MessageTiming
    # Whether the handler was cancelled by something else than the request, as far as it could know.
    cancelled_within: bool = False


@dataclass(slots=True)
class _Entry:
    """One call of the batch and how far it has come."""

    call: ToolCall
    outcome: _Outcome | None = None
    # Whether its result is in history, or must not be put there any more.
    settled: bool = False


class ToolBatch:
    """Runs the calls of one assistant message and accounts for each of them."""

    def __init__(self, run: Run, message: AssistantMessage) -> None:
        self._run = run
        self._entries = [_Entry(call) for call in _distinct(message.tool_calls)]
        # The handlers that were told to stop, so that their cancellation is not taken for their own.
        self._stopping = False

    async def run(self) -> UserMessage | None:
        """Run the calls; return a steering message that came in between, with the rest not started."""
        parallel, serial = self._split()
        if parallel:
            await self._run_parallel(parallel)
            steering = self._run.take_steering()
            if steering is not None:
                return steering
        for entry in serial:
            await self._run_serial(entry)
            steering = self._run.take_steering()
            if steering is not None:
                return steering
        return None

    async def skip_rest(self) -> None:
        """Close every call that was not started, because steering takes its place."""
        run = self._run
        for entry in self._entries:
            if not entry.settled:
                message = failed_result(entry.call, SUPERSEDED_TOOL)
                entry.settled = True
                await run.context.append_message(message, MessageTiming.instant())
                await run.emit(AgentEventType.TOOL_SKIPPED, tool_calls=[entry.call], message=message)

    async def settle(self, *, close_unfinished: bool) -> list[BaseException]:
        """Account for the calls when the request ends early, and return the errors of subscribers.

        Calls whose handler had finished get their true result. With `close_unfinished` the others get a
        failed one; without, they stay unanswered for the next request to recover. No tool hook runs and
        nothing is emitted.
        """
        errors: list[BaseException] = []
        loop = asyncio.get_running_loop()
        for entry in self._entries:
            if self._run.abandoned:
                break
            if entry.settled:
                continue
            finished = entry.outcome is not None and not (close_unfinished and entry.outcome.cancelled_within)
            if entry.outcome is not None and finished:
                message, timing = _result_message(entry.call, entry.outcome), entry.outcome.timing
            elif close_unfinished:
                message, timing = failed_result(entry.call, CANCELLED_TOOL), MessageTiming.instant()
            else:
                continue
            entry.settled = True
            try:
                await self._run.context.append_message(message, timing)
            except BaseException as error:
                if loop_is_gone(loop):
                    raise
                errors.append(error)
        return errors

    def _tool(self, name: str) -> AgentTool | None:
        return peek_tool(self._run.context.tools, name)

    def _split(self) -> tuple[list[_Entry], list[_Entry]]:
        parallel: list[_Entry] = []
        serial: list[_Entry] = []
        for entry in self._entries:
            tool = self._tool(entry.call.name)
            together = (
                self._run.parallel_tool_call
                and tool is not None
                and tool.execution_mode is ToolExecutionMode.PARALLEL
            )
            (parallel if together else serial).append(entry)
        return parallel, serial

    async def _run_serial(self, entry: _Entry) -> None:
        run = self._run
        await run.hooks.call("before_tool", run.context, entry.call)
        await transition(run.context, AgentPhase.RUNNING_TOOL)
        await run.emit(AgentEventType.TOOL_STARTED, tool_calls=[entry.call])
        await self._execute(entry)
        await transition(run.context, AgentPhase.READY)
        await self._report(entry)

    async def _run_parallel(self, entries: list[_Entry]) -> None:
        run = self._run
        for entry in entries:
            await run.hooks.call("before_tool", run.context, entry.call)
        await transition(run.context, AgentPhase.RUNNING_TOOL)
        await run.emit(AgentEventType.TOOL_STARTED, tool_calls=[entry.call for entry in entries])
        limit = run.agent.max_parallel_tools
        slots = nullcontext() if limit is None else asyncio.Semaphore(limit)
        finished = _Finished()
        tasks = {asyncio.create_task(self._execute_in_slot(entry, slots)): entry for entry in entries}
        for task in tasks:
            task.add_done_callback(finished.add)
        try:
            for remaining in range(len(tasks), 0, -1):
                task = await finished.next()
                fatal = task.result()
                if fatal is not None:
                    raise fatal
                if remaining == 1:
                    await transition(run.context, AgentPhase.READY)
                await self._report(tasks[task])
        finally:
            await self._stop(list(tasks))
        run.yielded = True

    async def _execute_in_slot(
        self, entry: _Entry, slot: AbstractAsyncContextManager[object]
    ) -> BaseException | None:
        """Run one parallel call; return what is not an `Exception`, because that ends the request."""
        try:
            async with slot:
                await self._execute(entry, own_task=True)
        except asyncio.CancelledError:
            raise
        except BaseException as fatal:
            # Raised out of a task, some of these would stop the event loop instead.
            return fatal
        return None

    async def _stop(self, tasks: list[asyncio.Task[BaseException | None]]) -> None:
        """Cancel the handlers that still run and wait for all of them, whoever cancels the wait."""
        self._stopping = True
        cancelled: asyncio.CancelledError | None = None
        running = {task for task in tasks if not task.done()}
        if running and loop_is_gone(next(iter(running)).get_loop()):
            return
        for task in running:
            task.cancel()
        while running:
            try:
                _, running = await asyncio.wait(running)
            except asyncio.CancelledError as error:
                cancelled = error
        self._stopping = False
        if cancelled is not None:
            raise cancelled

    async def _execute(self, entry: _Entry, *, own_task: bool = False) -> None:
        """Run middleware and handler of one call and keep the outcome.

        In a task of its own a call is cancelled for the request by `_stop` only; whatever else cancels that
        task concerns the tool alone. Otherwise the task is the request's.
        """
        started_at, started = datetime.now(timezone.utc), time.monotonic_ns()
        content: UserContent
        error: Exception | None = None
        cancelled_within = False
        cancellations = _cancellations()
        meter = WaitMeter()
        token = metered_waits.set(meter)
        try:
            content = await self._invoke(entry.call)
        except asyncio.CancelledError as cause:
            request_cancelled = self._stopping or self._run.cancelling
            if request_cancelled or (not own_task and _cancellations() > cancellations):
                raise
            # Nobody cancelled the request: the tool awaited something that was cancelled elsewhere.
            cancelled_within = True
            error = internal_cancellation(entry.call, cause)
            content = tool_error_text(error)
        except Exception as failure:
            error = failure
            content = tool_error_text(failure)
        finally:
            metered_waits.reset(token)
        duration = max(0, time.monotonic_ns() - started - meter.waited_ns)
        timing = MessageTiming(started_at, datetime.now(timezone.utc), duration)
        entry.outcome = _Outcome(content, error, timing, cancelled_within)
        error = None  # its traceback refers to this frame: leave no cycle behind

    async def _invoke(self, call: ToolCall) -> UserContent:
        if call.error is not None:
            raise ValueError(call.error)
        tool = self._tool(call.name)
        if tool is None:
            raise ValueError(f"Unknown tool: {call.name}")
        value = await invoke_tool(self._run.context, call, tool)
        return tool_result_content(tool, value)

    async def _report(self, entry: _Entry) -> None:
        """Let the hooks see a result, put it into history and tell the consumer."""
        run, call, outcome = self._run, entry.call, entry.outcome
        assert outcome is not None
        message = _result_message(call, outcome)
        try:
            await run.hooks.call("after_tool", run.context, call, message, outcome.error)
        except asyncio.CancelledError:
            raise
        except BaseException:
            entry.settled = True  # the hook's contract: a call whose own `after_tool` raised has no result
            raise
        entry.settled = True
        entry.outcome = None  # nobody needs it any more, and an error in it refers back to the entry
        await run.context.append_message(message, outcome.timing)
        if outcome.error is None:
            await run.emit(AgentEventType.TOOL_COMPLETED, tool_calls=[call], message=message)
        else:
            await run.emit(
                AgentEventType.TOOL_FAILED, tool_calls=[call], message=message, error=outcome.error
            )


class _Finished:
    """Tasks in the order in which they ended."""

    def __init__(self) -> None:
        self._tasks: deque[asyncio.Task[BaseException | None]] = deque()
        self._waiter: asyncio.Future[None] | None = None

    def add(self, task: asyncio.Task[BaseException | None]) -> None:
        self._tasks.append(task)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def next(self) -> asyncio.Task[BaseException | None]:
        while not self._tasks:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self._tasks.popleft()


def _distinct(calls: tuple[ToolCall, ...]) -> list[ToolCall]:
    """Return the calls without later ones of an id that came before: one result answers them all."""
    seen: set[str] = set()
    return [call for call in calls if not (call.id in seen or seen.add(call.id))]


def _result_message(call: ToolCall, outcome: _Outcome) -> ToolMessage:
    return ToolMessage(
        tool_call_id=call.id, name=call.name, content=outcome.content, success=outcome.error is None
    )


def _cancellations() -> int:
    """Return how often the current task was asked to cancel; always 0 before Python 3.11."""
    task = asyncio.current_task()
    cancelling = getattr(task, "cancelling", None)
    return cancelling() if cancelling is not None else 0
