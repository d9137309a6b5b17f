"""An agent together with a dispatcher: `AgentClient`, and `create_agent`, which makes both at once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, cast

from ._runtime.notes import add_note
from .agent import DEFAULT_SYSTEM_PROMPT, Agent
from .events import AgentEvent, AgentEventType
from .exceptions import AgentProtocolError
from .extensions.events import CompactionEvent
from .messages import AssistantMessage, UserMessage
from .model import ReasoningEffort
from .sync_runtime import SyncMethodsMixin

if TYPE_CHECKING:
    from .agent import AgentRunConfig
    from .dispatcher import AgentEventDispatcher
    from .extensions.base import AgentExtension
    from .json_types import JsonValue
    from .model import AgentModel
    from .resume import ResumePoint
    from .tools.base import AgentTool

__all__ = ["AgentClient", "create_agent"]

_REMEMBERED_SESSIONS = 1024


class AgentClient(SyncMethodsMixin):
    """Runs an agent and hands each event to a dispatcher before the caller sees it.

    The agent itself is not changed: calling it directly bypasses the callbacks. A callback that fails
    cancels an unfinished request, and its error is raised. A request whose `RUN_COMPLETED` it failed on
    stays completed; `result` still has the answer.

    Attributes:
        agent: The agent.
        event_dispatcher: Receives the events; `None` for nobody. May be assigned at any time: streams
            follow at once, while a `run` or `resume` that began with nobody stays without callbacks.

    Example:
        >>> client = AgentClient(agent, event_dispatcher=Printer())
        >>> answer = await client.run("What is 2 + 3?")
    """

    def __init__(self, agent: Agent, *, event_dispatcher: AgentEventDispatcher | None = None) -> None:
        self.agent = agent
        self.event_dispatcher = event_dispatcher
        self._last_result: AssistantMessage | None = None
        self._results: OrderedDict[str, AssistantMessage] = OrderedDict()

    @property
    def last_result(self) -> AssistantMessage | None:
        """The answer of the request that completed last through this client."""
        return self._last_result

    def result(self, session_id: str) -> AssistantMessage | None:
        """Return the latest answer in one session through this client, or `None`.

        Known for the 1,024 sessions that were answered last.
        """
        return self._results.get(session_id)

    async def run(
        self,
        message: UserMessage | str,
        *,
        config: AgentRunConfig | None = None,
        model: AgentModel | None = None,
        reasoning_effort: ReasoningEffort | None = None,
        parallel_tool_call: bool | None = None,
        metadata: Mapping[str, JsonValue] | None = None,
        tags: Mapping[str, JsonValue] | None = None,
    ) -> AssistantMessage:
        """Work on a message until there is an answer, and return it.

        Args, errors and cancellation are those of `Agent.run`; callbacks may raise their own.
        """
        if self.event_dispatcher is None and type(self).stream is AgentClient.stream:
            answer = await self.agent.run(
                message,
                config=config,
                model=model,
                reasoning_effort=reasoning_effort,
                parallel_tool_call=parallel_tool_call,
                metadata=metadata,
                tags=tags,
            )
            self._remember(self._session_of(config), answer)
            return answer
        events = self.stream(
            message,
            config=config,
            model=model,
            reasoning_effort=reasoning_effort,
            parallel_tool_call=parallel_tool_call,
            metadata=metadata,
            tags=tags,
        )
        return await _drain(events)

    async def stream(
        self,
        message: UserMessage | str,
        *,
        config: AgentRunConfig | None = None,
        model: AgentModel | None = None,
        reasoning_effort: ReasoningEffort | None = None,
        parallel_tool_call: bool | None = None,
        metadata: Mapping[str, JsonValue] | None = None,
        tags: Mapping[str, JsonValue] | None = None,
    ) -> AsyncGenerator[AgentEvent, None]:
        """Work on a message and yield what happens, each event after its callback.

        Closing the iterator (use `contextlib.aclosing`) closes the agent's, which cancels the request. Args
        and errors are those of `Agent.stream`; callbacks may raise their own.
        """
        events = self.agent.stream(
            message,
            config=config,
            model=model,
            reasoning_effort=reasoning_effort,
            parallel_tool_call=parallel_tool_call,
            metadata=metadata,
            tags=tags,
        )
        async with aclosing(events):
            async for event in events:
                if self.event_dispatcher is not None or event.message is not None:  # cheap for deltas
                    await self._deliver(event)
                yield event

    async def resume(
        self,
        *,
        config: AgentRunConfig | None = None,
        model: AgentModel | None = None,
        reasoning_effort: ReasoningEffort | None = None,
        parallel_tool_call: bool | None = None,
        metadata: Mapping[str, JsonValue] | None = None,
        tags: Mapping[str, JsonValue] | None = None,
    ) -> AssistantMessage:
        """Continue a session without new input and return the answer; see `Agent.resume`."""
        if self.event_dispatcher is None and type(self).stream_resume is AgentClient.stream_resume:
            answer = await self.agent.resume(
                config=config,
                model=model,
                reasoning_effort=reasoning_effort,
                parallel_tool_call=parallel_tool_call,
                metadata=metadata,
                tags=tags,
            )
            self._remember(self._session_of(config), answer)
            return answer
        events = self.stream_resume(
            config=config,
            model=model,
            reasoning_effort=reasoning_effort,
            parallel_tool_call=parallel_tool_call,
            metadata=metadata,
            tags=tags,
        )
        return await _drain(events)

    async def stream_resume(
        self,
        *,
        config: AgentRunConfig | None = None,
        model: AgentModel | None = None,
        reasoning_effort: ReasoningEffort | None = None,
        parallel_tool_call: bool | None = None,
        metadata: Mapping[str, JsonValue] | None = None,
        tags: Mapping[str, JsonValue] | None = None,
    ) -> AsyncGenerator[AgentEvent, None]:
        """Continue a session without new input and yield what happens; see `resume` and `stream`."""
        events = self.agent.stream_resume(
            config=config,
            model=model,
            reasoning_effort=reasoning_effort,
            parallel_tool_call=parallel_tool_call,
            metadata=metadata,
            tags=tags,
        )
        async with aclosing(events):
            async for event in events:
                if self.event_dispatcher is not None or event.message is not None:  # cheap for deltas
                    await self._deliver(event)
                yield event

    async def resume_point(
        self, *, config: AgentRunConfig | None = None, model: AgentModel | None = None
    ) -> ResumePoint | None:
        """Return how a session would be resumed; see `Agent.resume_point`. No callbacks."""
        return await self.agent.resume_point(config=config, model=model)

    async def compact(
        self,
        *,
        config: AgentRunConfig | None = None,
        model: AgentModel | None = None,
        metadata: Mapping[str, JsonValue] | None = None,
        tags: Mapping[str, JsonValue] | None = None,
    ) -> CompactionEvent | None:
        """Shorten a session's context and return what was done, or `None` when nothing was.

        Errors are those of `Agent.compact`; callbacks may raise their own.
        """
        compaction: CompactionEvent | None = None
        events = self.agent.compact(config=config, model=model, metadata=metadata, tags=tags)
        async with aclosing(events):
            async for event in events:
                await self._deliver(event)
                if isinstance(event.compaction, CompactionEvent):
                    compaction = event.compaction
        return compaction

    async def _deliver(self, event: AgentEvent) -> None:
        """Call the callback for an event, after noting the answer that it may bring."""
        answer = _answer_in(event)
        if answer is not None:
            self._remember(event.session_id, answer)
        dispatcher = self.event_dispatcher
        if dispatcher is None:
            return
        try:
            # A `dispatch` that a subclass wrote with plain `def` is as good as a callback of that kind.
            result = cast(object, dispatcher.dispatch(event))
            if result is not None:
                await cast("Awaitable[None]", result)
        except Exception as error:
            if answer is not None:
                add_note(
                    error,
                    f"The request had completed before its callback failed; AgentClient.result("
                    f"{event.session_id!r}) returns its answer",
                )
            raise

    def _session_of(self, config: AgentRunConfig | None) -> str | None:
        config = config or self.agent._config
        return None if config is None else config.session_id

    def _remember(self, session_id: str | None, answer: AssistantMessage) -> None:
        self._last_result = answer
        if session_id is None:
            return  # made up for this request only, and nobody but its hooks has seen it
        self._results[session_id] = answer
        self._results.move_to_end(session_id)
        if len(self._results) > _REMEMBERED_SESSIONS:
            self._results.popitem(last=False)


async def create_agent(
    model: AgentModel | None,
    *,
    config: AgentRunConfig | None = None,
    system_prompt: str = DEFAULT_SYSTEM_PROMPT,
    tools: Sequence[AgentTool] = (),
    extensions: Sequence[AgentExtension] | None = None,
    reasoning_effort: ReasoningEffort = ReasoningEffort.MEDIUM,
    parallel_tool_call: bool = True,
    max_iterations: int = 36,
    max_internal_messages: int = 8,
    event_dispatcher: AgentEventDispatcher | None = None,
) -> AgentClient:
    """Create an initialized agent and a client for it.

    Model and extensions stay the caller's: the client closes nothing. The arguments are those of
    `Agent.create` and `AgentClient`.

    Example:
        >>> client = await create_agent(model, tools=[add])
        >>> answer = await client.run("What is 2 + 3?")
        >>> answer.content
        '5'
    """
    agent = await Agent.create(
        model,
        config=config,
        system_prompt=system_prompt,
        tools=tools,
        extensions=extensions,
        reasoning_effort=reasoning_effort,
        parallel_tool_call=parallel_tool_call,
        max_iterations=max_iterations,
        max_internal_messages=max_internal_messages,
    )
    return AgentClient(agent, event_dispatcher=event_dispatcher)


async def _drain(events: AsyncGenerator[AgentEvent, None]) -> AssistantMessage:
    answer: AssistantMessage | None = None
    async with aclosing(events):
        async for event in events:
            answer = _answer_in(event) or answer
    if answer is None:
        raise AgentProtocolError("The request ended without a final answer")
    return answer


def _answer_in(event: AgentEvent) -> AssistantMessage | None:
    if event.type == AgentEventType.RUN_COMPLETED and isinstance(event.message, AssistantMessage):
        return event.message
    return None
