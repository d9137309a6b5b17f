"""One model call: the hooks before it, the streamed answer, and what becomes of it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from ..events import AgentEvent, AgentEventType, AgentPhase, ModelOutputTracker
from ..exceptions import AgentProtocolError
from ..extensions.base import AgentExtension, hook_type_error
from ..ids import new_uuid7
from ..messages import AssistantMessage, ToolCall
from ..model import ModelEvent, ModelEventType, ModelRequest, ModelResponse
from ..resume import PAUSE_MARK
from ..stop import StopInfo, StopReason
from ..tools._registry import RequestTools
from .channel import RUN_AHEAD
from .gone import loop_is_gone
from .hooks import call_hook
from .notes import note_errors
from .phases import transition

if TYPE_CHECKING:
    from .run import Run

__all__ = ["ModelStep"]

# Stops after which the tools that were asked for must not run.
_WITHHOLD_CALLS = frozenset({StopReason.REFUSAL, StopReason.INTERRUPTED})

# How a model event that is relayed as it is becomes an agent event: type, and the field of its payload.
_RELAYED: dict[str, tuple[AgentEventType, str]] = {
    ModelEventType.TEXT_DELTA: (AgentEventType.TEXT_DELTA, "delta"),
    ModelEventType.REASONING_DELTA: (AgentEventType.REASONING_DELTA, "delta"),
    ModelEventType.TOOL_CALL_DELTA: (AgentEventType.TOOL_CALL_DELTA, "tool_call_delta"),
    ModelEventType.SERVER_TOOL_STARTED: (AgentEventType.SERVER_TOOL_STARTED, "server_tool_call"),
    ModelEventType.SERVER_TOOL_INPUT_DELTA: (
        AgentEventType.SERVER_TOOL_INPUT_DELTA,
        "server_tool_input_delta",
    ),
    ModelEventType.SERVER_TOOL_COMPLETED: (AgentEventType.SERVER_TOOL_COMPLETED, "server_tool_result"),
    ModelEventType.SERVER_TOOL_FAILED: (AgentEventType.SERVER_TOOL_FAILED, "server_tool_result"),
}
_DELTAS = frozenset(
    {
        ModelEventType.TEXT_DELTA,
        ModelEventType.REASONING_DELTA,
        ModelEventType.TOOL_CALL_DELTA,
        ModelEventType.SERVER_TOOL_INPUT_DELTA,
    }
)


class ModelStep:
    """One call of the model of a run.

    Attributes:
        continues: After `run`: whether the provider paused and the step is to be repeated.
    """

    def __init__(self, run: Run, *, may_continue: bool) -> None:
        self._run = run
        self._may_continue = may_continue
        self._model_name = type(run.model).__name__
        self._tracker = ModelOutputTracker()
        self._tracker._source = f"Model {self._model_name}"
        self._opened: list[Any] = []
        self._waited_before = 0
        self.continues = False

    async def run(self) -> ModelResponse:
        """Call the model, store its answer and report it; return the settled response."""
        run = self._run
        request = await self._prepare()
        started = await transition(run.context, AgentPhase.GENERATING)
        self._waited_before = run.channel.waited_ns
        await run.emit(AgentEventType.MODEL_STARTED)
        await run.breathe()
        response = self._settle(await self._generate(request))
        completed = await transition(run.context, AgentPhase.READY)
        self._tracker._waited_ns = run.channel.waited_ns - self._waited_before
        timing = self._tracker.message_timing(started, completed)
        message = response.message
        run.expect_tool_results(message)
        await run.context.append_message(message, timing, response.usage)
        await run.hooks.call("after_model", run.context, response)
        await run.emit(AgentEventType.MODEL_COMPLETED, response=response)
        stop = cast(StopInfo, response.stop)
        if not stop.ok and not self.continues:
            await run.emit(AgentEventType.MODEL_STOPPED, response=response, stop=stop, message=message)
        return response

    async def _prepare(self) -> ModelRequest:
        """Let the hooks change the context, then build what the provider gets."""
        run = self._run
        for extension in run.hooks.of("before_model"):
            await call_hook(extension, "before_model", run.context, self._build_request())
        await run.context.flush_message_events()
        return self._build_request()

    def _build_request(self) -> ModelRequest:
        run = self._run
        context = run.context
        tools = context.tools
        definitions = (
            tools.definitions()
            if isinstance(tools, RequestTools)
            else tuple(tool.definition for tool in tools.values())
        )
        return ModelRequest(
            messages=tuple(context.state._history),
            tools=definitions,
            server_tools=tuple(context.server_tools.values()),
            reasoning_effort=run.reasoning_effort,
            parallel_tool_call=run.parallel_tool_call,
            cache_key=context.config.cache_key or context.session_id,
        )

    # The stream.

    async def _generate(self, request: ModelRequest) -> ModelResponse:
        """Relay the stream and return its response. Every iterator that was opened is closed here."""
        loop = asyncio.get_running_loop()
        try:
            response = await self._relay_all(self._open(0, request))
        except asyncio.CancelledError:
            await self._close_streams()
            raise
        except BaseException:
            if loop_is_gone(loop):
                raise
            # What the model said before it failed is delivered before the failure.
            await self._run.channel.drain()
            await self._close_streams()
            raise
        await self._close_streams()
        return response

    async def _relay_all(self, stream: AsyncIterator[ModelEvent]) -> ModelResponse:
        channel = self._run.channel
        consumed = channel.consumed
        quiet = self._tracker._quiet
        received = 0
        response: ModelResponse | None = None
        async for event in stream:
            if not isinstance(event, ModelEvent):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise AgentProtocolError(
                    f"Model {self._model_name} must yield ModelEvent objects, not {type(event).__name__}"
                )
            if not consumed:
                received += 1
                if received % RUN_AHEAD == 0:
                    await asyncio.sleep(0)  # a model that never waits must not block the event loop
            if response is None and quiet(event):
                # The path of nearly all events: a delta on no boundary, handed over without waiting.
                if consumed and channel.push(self._relay_event(event)):
                    await channel.drain()
            else:
                await self._observe(event)
                if event.type == ModelEventType.RESPONSE:
                    response = event.response
        if response is None:
            raise AgentProtocolError(f"Model {self._model_name} ended its stream without a response")
        if not isinstance(response, ModelResponse):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise AgentProtocolError(f"Model {self._model_name} must answer with a ModelResponse")
        self._check_message(response.message)
        return response

    def _check_message(self, message: Any) -> None:
        """Refuse an answer of the wrong shape before it becomes part of the history."""
        if not isinstance(message, AssistantMessage):
            wrong = f"answer with an AssistantMessage, not {type(message).__name__}"
        elif not isinstance(message.content, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            wrong = f"give its message a str as content, not {type(message.content).__name__}"
        elif not isinstance(message.reasoning, (str, type(None))):  # pyright: ignore[reportUnnecessaryIsInstance]
            wrong = f"give its message a str or None as reasoning, not {type(message.reasoning).__name__}"
        elif not _are_calls(message.tool_calls):
            wrong = "give its message a tuple of ToolCall with str ids and names and dict arguments"
        else:
            message.tool_calls = tuple(message.tool_calls)
            return
        raise AgentProtocolError(f"Model {self._model_name} must {wrong}")

    async def _observe(self, event: ModelEvent) -> None:
        """Relay an event that lies on a boundary or is not a delta."""
        run = self._run
        if event.delta.__class__ is not str:
            raise AgentProtocolError(
                f"Model {self._model_name} sent {event.type} with a delta that is no str"
            )
        if event.type not in _RELAYED and event.type != ModelEventType.RESPONSE:
            raise AgentProtocolError(f"Model {self._model_name} sent an unknown event type: {event.type!r}")
        await run.channel.drain()
        self._tracker._waited_ns = run.channel.waited_ns - self._waited_before
        for boundary in await self._tracker.observe(run.context, event):
            await run.emit(boundary)
        if event.type == ModelEventType.RESPONSE:
            return
        if event.type in _DELTAS:
            if run.channel.consumed:
                run.channel.push(self._relay_event(event))
        else:
            kind, payload = _RELAYED[event.type]
            await run.emit(kind, **{payload: getattr(event, payload)})

    def _relay_event(self, event: ModelEvent) -> AgentEvent:
        session_id = self._run.session_id
        kind = event.type
        if kind == ModelEventType.TEXT_DELTA:
            return AgentEvent(AgentEventType.TEXT_DELTA, session_id, AgentPhase.GENERATING, event.delta)
        if kind == ModelEventType.REASONING_DELTA:
            return AgentEvent(AgentEventType.REASONING_DELTA, session_id, AgentPhase.GENERATING, event.delta)
        relayed, payload = _RELAYED[kind]
        return AgentEvent(relayed, session_id, AgentPhase.GENERATING, **{payload: getattr(event, payload)})

    # The layers of middleware around the provider.

    def _open(self, layer: int, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Return the stream of middleware `layer`, or of the provider below the last one."""
        layers = self._run.hooks.of("on_model_request")
        if layer == len(layers):
            stream = _model_stream(self._run.model, request)
        else:
            extension = layers[layer]

            def call_next(request: ModelRequest) -> AsyncIterator[ModelEvent]:
                return self._open(layer + 1, request)

            stream = _middleware_stream(
                extension, extension.on_model_request(self._run.context, request, call_next)
            )
        self._opened.append(stream)
        return stream

    async def _close_streams(self) -> None:
        """Close what is still open, outermost first, whatever the middleware did with it.

        A cancellation in the middle is raised when all are closed: the provider's stream is the last.
        """
        errors: list[BaseException] = []
        cancelled: asyncio.CancelledError | None = None
        for stream in self._opened:
            aclose = getattr(stream, "aclose", None)
            if aclose is not None:
                try:
                    await aclose()
                except asyncio.CancelledError as error:
                    cancelled = error
                except BaseException as error:
                    errors.append(error)
        self._opened.clear()
        note_errors(None, f"Closing the stream of model {self._model_name}", errors)
        if cancelled is not None:
            raise cancelled

    # What becomes of the answer.

    def _settle(self, response: ModelResponse) -> ModelResponse:
        """Decide what the stop means for the stored message."""
        message, stop = response.message, cast(StopInfo, response.stop)
        if message.tool_calls:
            if stop.reason in _WITHHOLD_CALLS:
                names = [call.name for call in message.tool_calls]
                stop = replace(stop, detail={**stop.detail, "withheld_tool_calls": names})
                message.tool_calls = ()
                response = replace(response, stop=stop)
            elif not message.replay_blocks:
                message.tool_calls = _with_unique_ids(message.tool_calls)
        self.continues = self._may_continue and stop.reason is StopReason.PAUSED and not message.tool_calls
        if self.continues:
            # Should the process die before the continuation, a resume must see that the turn is open.
            message.attributes[PAUSE_MARK] = True
        elif not stop.ok:
            message.stop = stop
        return response


def _are_calls(calls: Any) -> bool:
    return isinstance(calls, (tuple, list)) and all(
        isinstance(call, ToolCall)
        and isinstance(call.id, str)  # pyright: ignore[reportUnnecessaryIsInstance]
        and isinstance(call.name, str)  # pyright: ignore[reportUnnecessaryIsInstance]
        and isinstance(call.arguments, dict)  # pyright: ignore[reportUnnecessaryIsInstance]
        for call in cast("list[Any]", calls)
    )


def _with_unique_ids(calls: tuple[ToolCall, ...]) -> tuple[ToolCall, ...]:
    """Return the calls with fresh ids for empty and repeated ones: providers refuse such a history."""
    seen: set[str] = set()
    unique: list[ToolCall] = []
    for call in calls:
        if not call.id or call.id in seen:
            call = replace(call, id=f"call_{new_uuid7()}")
        seen.add(call.id)
        unique.append(call)
    return tuple(unique) if any(new is not old for new, old in zip(unique, calls, strict=True)) else calls


def _model_stream(model: Any, request: ModelRequest) -> AsyncIterator[ModelEvent]:
    """Return the provider's stream as an iterator that can be closed."""
    stream = model.stream(request)
    if inspect.iscoroutine(stream):
        return _awaited_stream(model, stream)
    return _checked_stream(model, stream)


def _checked_stream(model: Any, stream: Any) -> AsyncIterator[ModelEvent]:
    if hasattr(stream, "__anext__"):
        return stream if hasattr(stream, "aclose") else _closable(stream)
    if hasattr(stream, "__aiter__"):
        return _closable(stream)
    hint = ""
    if hasattr(stream, "__iter__"):
        hint = "; wrap a model with an ordinary iterator in SyncModelAdapter"
    raise AgentProtocolError(
        f"{type(model).__name__}.stream must return an async iterator of ModelEvent "
        f"(usually by being an async generator), not {type(stream).__name__}{hint}"
    )


async def _closable(stream: Any) -> AsyncIterator[ModelEvent]:
    async for event in stream:
        yield event


async def _awaited_stream(model: Any, coroutine: Awaitable[Any]) -> AsyncIterator[ModelEvent]:
    """Stream what `async def stream(...): return iterator` returns: a mistake that works all the same."""
    stream = _checked_stream(model, await coroutine)
    try:
        async for event in stream:
            yield event
    finally:
        await cast(Any, stream).aclose()


def _middleware_stream(extension: AgentExtension, stream: Any) -> AsyncIterator[ModelEvent]:
    if not hasattr(stream, "__anext__"):
        if inspect.iscoroutine(stream):
            stream.close()
        raise hook_type_error(extension, "on_model_request", "an async generator (async def with yield)")
    return stream if hasattr(stream, "aclose") else _closable(stream)
