"""The agent: configuration, the table of running sessions, and the ways to open a request.

A request itself is a `Run` (`_runtime/run.py`); everything here only decides what it starts with.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from ._runtime.context import AgentRunConfig, AgentRunContext, AgentState
from ._runtime.hooks import Hooks
from ._runtime.run import Run, RunSetup
from .events import AgentEvent, AgentEventType, AgentPhaseTransitionMixin
from .exceptions import AgentProtocolError
from .extensions.base import AgentExtension, mark_active
from .ids import new_uuid7
from .json_types import JsonValue, json_object
from .messages import AssistantMessage, UserMessage
from .model import AgentModel, ReasoningEffort
from .resume import ResumePoint
from .sync_runtime import SyncMethodsMixin
from .tools._registry import AgentTools
from .tools.base import AgentTool

if TYPE_CHECKING:
    from typing_extensions import Self

    from .extensions.external import ExternalEvent
    from .extensions.steering import SteeringExtension

__all__ = ["Agent", "AgentRunConfig", "AgentRunContext", "AgentState"]

DEFAULT_SYSTEM_PROMPT = "You are a helpful assistant."


class Agent(AgentPhaseTransitionMixin, SyncMethodsMixin):
    """A model, its tools and its extensions; runs any number of sessions, one request at a time in each.

    Args:
        model: The default model; `None` means that each request brings its own.
        system_prompt: First message of every request; empty for none.
        tools: Tools offered in every request, with unique names.
        extensions: Hooks and middleware. Left out, the agent remembers conversations in memory and tells
            the model how to use its tools; any sequence, also an empty one, replaces these two.
        reasoning_effort: Default effort.
        parallel_tool_call: Whether several tools of one answer may be asked for and run at once.
        max_iterations: Model calls per input, at least 1.
        max_internal_messages: Internal messages that one request may take.
        max_steering_messages: Steering messages that may wait at once; `None` for no limit.

    Attributes:
        max_pause_continuations: How often in a row a turn that the provider paused is sent back.
        max_parallel_tools: How many handlers of one batch run at once; `None` for all.
        max_retained_states: How many ended sessions `get_state` still knows.
        cleanup_timeout: Seconds that a request which is cancelled twice may take to clean up.
        state: State of the request or pass started last.

    Raises:
        ValueError: An argument is out of range, or names are not unique.

    Example:
        >>> agent = await Agent.create(model, tools=[add])
        >>> answer = await agent.run("What is 2 + 3?")
        >>> answer.content
        '5'
    """

    max_pause_continuations: int = 5
    max_parallel_tools: int | None = None
    max_retained_states: int = 1024
    cleanup_timeout: float = 10.0

    def __init__(
        self,
        model: AgentModel | None,
        *,
        system_prompt: str = DEFAULT_SYSTEM_PROMPT,
        tools: Sequence[AgentTool] = (),
        extensions: Sequence[AgentExtension] | None = None,
        reasoning_effort: ReasoningEffort = ReasoningEffort.MEDIUM,
        parallel_tool_call: bool = True,
        max_iterations: int = 36,
        max_internal_messages: int = 8,
        max_steering_messages: int | None = None,
    ) -> None:
        if max_iterations < 1:
            raise ValueError(f"max_iterations must be at least 1, got {max_iterations}")
        _require_bool(parallel_tool_call, "parallel_tool_call")
        _require_count(max_internal_messages, "max_internal_messages")
        if max_steering_messages is not None:
            _require_count(max_steering_messages, "max_steering_messages")
        self.model = model
        self.system_prompt = system_prompt
        self.tools = _tools_by_name(tools)
        self.reasoning_effort = reasoning_effort
        self.parallel_tool_call = parallel_tool_call
        self.max_iterations = max_iterations
        self.max_internal_messages = max_internal_messages
        self.state = AgentState()
        self._hooks = Hooks(self._order_extensions(extensions, max_steering_messages))
        self._agent_tools: AgentTools | None = None
        self._config: AgentRunConfig | None = None
        self._lock = threading.Lock()
        self._runs: dict[str, Run] = {}
        self._ended: OrderedDict[str, AgentState] = OrderedDict()

    def _order_extensions(
        self, extensions: Sequence[AgentExtension] | None, max_steering_messages: int | None
    ) -> list[AgentExtension]:
        from .extensions.internal_message import InternalMessageExtension
        from .extensions.steering import SteeringExtension

        if extensions is None:
            from .extensions.memory import InMemoryMessageAccumulator
            from .extensions.tool_guidelines import ToolGuidelinesExtension

            extensions = (InMemoryMessageAccumulator(), ToolGuidelinesExtension())
        for extension in extensions:
            if isinstance(extension, type):
                raise TypeError(f"extensions must be objects; write {extension.__name__}() to make one")
            if isinstance(extension, (InternalMessageExtension, SteeringExtension)):
                raise ValueError(f"{type(extension).__name__} is built-in and cannot be supplied")
        self._internal_messages = InternalMessageExtension()
        self._steering = SteeringExtension()
        self._steering.max_messages = max_steering_messages
        everything = [*extensions, self._internal_messages, self._steering]
        _check_names(everything)
        return sorted(everything, key=lambda extension: extension.priority)

    @property
    def extensions(self) -> tuple[AgentExtension, ...]:
        """All extensions in the order in which their hooks run, the built-in ones included."""
        return self._hooks.extensions

    @property
    def steering(self) -> SteeringExtension:
        """The built-in steering inbox."""
        return self._steering

    # Setting up.

    @classmethod
    async def create(
        cls,
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
        **options: Any,
    ) -> Self:
        """Construct an agent of this class and initialize it.

        Args are those of the constructor, `config` that of `initialize`. Further keywords go to the
        constructor, so a subclass may add its own.
        """
        agent = cls(
            model,
            system_prompt=system_prompt,
            tools=tools,
            extensions=extensions,
            reasoning_effort=reasoning_effort,
            parallel_tool_call=parallel_tool_call,
            max_iterations=max_iterations,
            max_internal_messages=max_internal_messages,
            **options,
        )
        await agent.initialize(config=config)
        return agent

    async def initialize(self, *, config: AgentRunConfig | None = None) -> None:
        """Bind the configuration that requests use by default. Performs no I/O.

        Without a session id a new one is generated. Repeating it for the same session does nothing.

        Raises:
            AgentProtocolError: The agent is bound to another session already.
        """
        wanted = config or AgentRunConfig()
        if self._config is None:
            self._config = replace(wanted, session_id=wanted.session_id or new_uuid7())
        elif wanted.session_id not in (None, self._config.session_id):
            raise AgentProtocolError(
                f"Agent is already initialized with session {self._config.session_id}; give another session "
                "to each request as config=AgentRunConfig(...) instead"
            )

    # Requests.

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

        The returned object is the one in history. An abnormal stop is not raised: see
        `AssistantMessage.raise_for_stop()`. Cancelling the call cancels the request and waits until its
        tools have stopped and history is consistent.

        Args:
            message: New input; a string becomes a `UserMessage`.
            config: Identity of the request; the initialized one by default.
            model: Model for this request.
            reasoning_effort: Effort for this request.
            parallel_tool_call: Whether tools may run at once in this request.
            metadata: JSON data for extensions and storage; the provider never sees it.
            tags: JSON labels with non-empty keys, likewise.

        Raises:
            TypeError: `message` is neither a string nor a `UserMessage`.
            ValueError: Another argument is malformed.
            AgentProtocolError: The agent is not initialized, has no model, or the session is busy; or a
                model stream broke its contract.
            AgentIterationLimitError: A budget is used up.
            ProviderError: The model's adapter failed.
        """
        if getattr(self.stream, "__func__", None) is not Agent.stream:
            # A subclass that adds to the stream adds to every run.
            events = self.stream(
                message,
                config=config,
                model=model,
                reasoning_effort=reasoning_effort,
                parallel_tool_call=parallel_tool_call,
                metadata=metadata,
                tags=tags,
            )
            return await _answer_of(events)
        user_message = _user_message(message)
        options = self._options("run", config, model, reasoning_effort, parallel_tool_call, metadata, tags)
        options.message = user_message
        return _require_answer(await self._claim(options, consumed=False).complete())

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
        """Work on a message and yield what happens; the last event is `RUN_COMPLETED` with the answer.

        Nothing happens before the first event is asked for. While the caller handles an event, the request
        does not go on; only text, reasoning and tool-call deltas may be up to 64 ahead. Closing the
        iterator (use `contextlib.aclosing`) cancels the request and waits for its end.

        Args and errors are those of `run`.

        Example:
            >>> async with aclosing(agent.stream("Hello")) as events:
            ...     async for event in events:
            ...         if event.type is AgentEventType.TEXT_DELTA:
            ...             print(event.delta, end="")
        """
        user_message = _user_message(message)
        options = self._options("run", config, model, reasoning_effort, parallel_tool_call, metadata, tags)
        options.message = user_message
        async with aclosing(self._claim(options, consumed=True).events()) as events:
            async for event in events:
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
        """Continue a session without new input and return the answer.

        Tool calls left without a result are marked as having an unknown outcome; no tool is run again.
        Args and further errors are those of `run`.

        Raises:
            AgentResumeError: There is nothing to resume.
        """
        if getattr(self.stream_resume, "__func__", None) is not Agent.stream_resume:
            events = self.stream_resume(
                config=config,
                model=model,
                reasoning_effort=reasoning_effort,
                parallel_tool_call=parallel_tool_call,
                metadata=metadata,
                tags=tags,
            )
            return await _answer_of(events)
        options = self._options("resume", config, model, reasoning_effort, parallel_tool_call, metadata, tags)
        return _require_answer(await self._claim(options, consumed=False).complete())

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
        options = self._options("resume", config, model, reasoning_effort, parallel_tool_call, metadata, tags)
        async with aclosing(self._claim(options, consumed=True).events()) as events:
            async for event in events:
                yield event

    # Passes.

    async def resume_point(
        self, *, config: AgentRunConfig | None = None, model: AgentModel | None = None
    ) -> ResumePoint | None:
        """Return how a session would be resumed, or `None` when there is nothing to resume.

        Loads the session through the extensions, calls no model and writes nothing.

        Raises:
            AgentProtocolError: The agent is not initialized, has no model, or the session is busy.
        """
        run = self._claim(self._options("resume_point", config, model), consumed=False)
        await run.complete()
        return run.resume_point

    async def compact(
        self,
        *,
        config: AgentRunConfig | None = None,
        model: AgentModel | None = None,
        metadata: Mapping[str, JsonValue] | None = None,
        tags: Mapping[str, JsonValue] | None = None,
    ) -> AsyncGenerator[AgentEvent, None]:
        """Let the extensions shorten a session's context and yield what they report; maybe nothing.

        Raises:
            AgentProtocolError: The agent is not initialized, has no model, or the session is busy.
        """
        options = self._options("compact", config, model, metadata=metadata, tags=tags)
        async with aclosing(self._claim(options, consumed=True).events()) as events:
            async for event in events:
                yield event

    # Looking from outside. Safe from any thread.

    @property
    def pending(self) -> bool:
        """Whether a request or pass owns a session."""
        return bool(self._runs)

    def is_conflict(self, session_id: str) -> bool:
        """Return whether a request on this session would be refused now.

        Raises:
            ValueError: `session_id` is blank or not a string.
        """
        if not isinstance(session_id, str) or not session_id.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"session_id must be a non-empty string, got {session_id!r}")
        return session_id in self._runs

    def get_state(self, session_id: str) -> AgentState | None:
        """Return the latest state of a session, also after its request ended, or `None`."""
        with self._lock:
            run = self._runs.get(session_id)
            return run.context.state if run is not None else self._ended.get(session_id)

    def discard_state(self, session_id: str) -> None:
        """Forget the state of an ended session. Unknown and running sessions are left alone."""
        with self._lock:
            self._ended.pop(session_id, None)

    def emit_external_event(self, event: ExternalEvent, *, config: AgentRunConfig | None = None) -> list[str]:
        """Offer an event to every extension and return the names of those that took it.

        Without `config` it goes to the only active session, else to the initialized one.

        Raises:
            AgentProtocolError: Several sessions are active and `config` does not choose one.
        """
        from ._runtime.external import deliver

        if config is None:
            with self._lock:
                active = list(self._runs.values())
            if len(active) > 1:
                raise AgentProtocolError(
                    "External events require config when multiple sessions are active; pass "
                    "config=AgentRunConfig(session_id=...)"
                )
            config = active[0].context.config if active else self._config
        return deliver(self._hooks.current(), config, event)

    # Opening a request.

    def _options(
        self,
        operation: str,
        config: AgentRunConfig | None,
        model: AgentModel | None,
        reasoning_effort: ReasoningEffort | None = None,
        parallel_tool_call: bool | None = None,
        metadata: Mapping[str, JsonValue] | None = None,
        tags: Mapping[str, JsonValue] | None = None,
    ) -> RunSetup:
        """Check the arguments of a request and fill in the agent's defaults."""
        if parallel_tool_call is None:
            parallel_tool_call = self.parallel_tool_call
        _require_bool(parallel_tool_call, "parallel_tool_call")
        if self.max_parallel_tools is not None and (
            _require_count(self.max_parallel_tools, "max_parallel_tools") < 1
        ):
            raise ValueError("max_parallel_tools must be at least 1, or None for no limit")
        if self._config is None:
            raise AgentProtocolError(
                "Agent is not initialized; use Agent.create() or await agent.initialize()"
            )
        config = config or self._config
        if not isinstance(config, AgentRunConfig):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"config must be an AgentRunConfig, not {config!r}")
        config = AgentRunConfig(
            config.session_id or new_uuid7(),
            config.request_id or new_uuid7(),
            config.parent_session_id,
            config.cache_key,
        )
        if model is None:
            model = self.model
        if model is None:
            raise AgentProtocolError("Agent has no default model; pass model=... to this call")
        if not callable(getattr(model, "stream", None)):
            raise TypeError(f"model must be an AgentModel with a stream method, not {model!r}")
        if self._agent_tools is None or not self._agent_tools.matches(self.tools):
            self._agent_tools = AgentTools(self.tools)
        return RunSetup(
            operation,
            config,
            model,
            self.reasoning_effort if reasoning_effort is None else reasoning_effort,
            parallel_tool_call,
            self.system_prompt,
            self._agent_tools,
            json_object(metadata, field_name="Context metadata"),
            json_object(tags, field_name="Context tags", nonempty_keys=True),
        )

    def _claim(self, options: RunSetup, *, consumed: bool) -> Run:
        """Take the session for a request, or say who has it."""
        session_id = cast(str, options.config.session_id)
        with self._lock:
            owner = self._runs.get(session_id)
            if owner is not None:
                raise AgentProtocolError(f"Session {session_id} is busy: it is owned by {owner.describe()}")
            run = Run(self, options, consumed=consumed)
            self._runs[session_id] = run
            self._ended.pop(session_id, None)
        self.state = run.context.state
        mark_active(run.hooks.extensions, +1)
        return run

    def _release(self, run: Run) -> None:
        """Give back the session of a run that has ended."""
        with self._lock:
            if self._runs.get(run.session_id) is run:
                del self._runs[run.session_id]
            self._ended[run.session_id] = run.context.state
            self._ended.move_to_end(run.session_id)
            while len(self._ended) > max(0, self.max_retained_states):
                self._ended.popitem(last=False)


def _require_bool(value: object, name: str) -> None:
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be a bool, got {value!r}")


def _require_count(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{name} must be an int of at least 0, got {value!r}")
    return value


def _tools_by_name(tools: Sequence[AgentTool]) -> dict[str, AgentTool]:
    for candidate in tools:
        if not isinstance(candidate, AgentTool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"tools must be AgentTool objects, not {candidate!r}; decorate it with @tool")
    by_name = {tool.name: tool for tool in tools}
    if len(by_name) != len(tools):
        names = [tool.name for tool in tools]
        repeated = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"Tool names must be unique; repeated: {', '.join(repeated)}")
    return by_name


def _check_names(extensions: Sequence[AgentExtension]) -> None:
    seen: set[str] = set()
    for extension in extensions:
        name = extension.name
        if not isinstance(name, str) or not name.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"Extension name must be a non-empty string, got {name!r}")
        if name in seen:
            raise ValueError(f"Duplicate extension name {name!r}; give one of them another `name`")
        seen.add(name)


def _user_message(message: object) -> UserMessage:
    if isinstance(message, str):
        return UserMessage(content=message)
    if isinstance(message, UserMessage):
        return message
    raise TypeError(f"message must be a str or a UserMessage, not {type(message).__name__}")


async def _answer_of(events: AsyncGenerator[AgentEvent, None]) -> AssistantMessage:
    """Drain a stream and return the answer of its `RUN_COMPLETED`."""
    answer: AssistantMessage | None = None
    async with aclosing(events):
        async for event in events:
            if event.type == AgentEventType.RUN_COMPLETED and isinstance(event.message, AssistantMessage):
                answer = event.message
    return _require_answer(answer)


def _require_answer(answer: AssistantMessage | None) -> AssistantMessage:
    if answer is None:
        raise AgentProtocolError("The request ended without a final answer")
    return answer
