"""The contract between the loop and a model adapter: requests, events, responses, options."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from ._strenum import StrEnum
from .messages import AnyMessage, AssistantMessage
from .stop import StopInfo, classify_stop

__all__ = [
    "DEFAULT_RETRY_OPTIONS",
    "DEFAULT_TIMEOUT_OPTIONS",
    "AgentModel",
    "ModelEvent",
    "ModelEventType",
    "ModelRequest",
    "ModelResponse",
    "ModelUsage",
    "NativeDeferredToolsModel",
    "ReasoningEffort",
    "RetryOptions",
    "ServerToolCall",
    "ServerToolDefinition",
    "ServerToolInputDelta",
    "ServerToolResult",
    "TimeoutOptions",
    "ToolCallDelta",
    "ToolDefinition",
    "validate_response",
    "validate_retry",
    "validate_timeout",
]


class ReasoningEffort(StrEnum):
    """How much a model should think, from least to most. Adapters map a level they lack to the closest."""

    OFF = "off"
    MINIMAL = "minimal"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    XHIGH = "xhigh"
    MAX = "max"
    ULTRA = "ultra"


def _require_text(value: object, owner: str, name: str) -> None:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{owner} {name} cannot be empty, got {value!r}")


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A local tool as a provider sees it.

    Attributes:
        name: Name the model calls it by.
        description: What it does.
        parameters: JSON Schema of its keyword arguments.
        deferred: Whether a provider with tool search may load the definition later.
        local_tool_search: Whether this tool answers client-side tool search.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    deferred: bool = False
    local_tool_search: bool = False


@dataclass(frozen=True, slots=True)
class ServerToolDefinition:
    """A tool that runs at the provider.

    Attributes:
        type: The exact wire discriminator, such as `"web_search"`.
        configuration: Further wire fields.

    Raises:
        ValueError: `type` is blank, or `configuration` has a key `"type"`.
    """

    type: str
    configuration: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        _require_text(self.type, "ServerToolDefinition", "type")
        if "type" in self.configuration:
            raise ValueError(
                "ServerToolDefinition configuration cannot contain 'type'; it is a field of its own"
            )


@dataclass(frozen=True, slots=True)
class ServerToolCall:
    """The provider began to run a hosted tool."""

    id: str
    name: str
    input: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        _require_text(self.id, "ServerToolCall", "id")
        _require_text(self.name, "ServerToolCall", "name")


@dataclass(frozen=True, slots=True)
class ServerToolInputDelta:
    """A piece of a hosted tool's input, as text."""

    call_id: str
    delta: str

    def __post_init__(self) -> None:
        _require_text(self.call_id, "ServerToolInputDelta", "call_id")
        if not self.delta:
            raise ValueError("ServerToolInputDelta delta cannot be empty")


@dataclass(frozen=True, slots=True)
class ServerToolResult:
    """A hosted tool ended; `error_code` is set when it failed."""

    call_id: str
    name: str
    output: Any = None
    error_code: str | None = None

    def __post_init__(self) -> None:
        _require_text(self.call_id, "ServerToolResult", "call_id")
        _require_text(self.name, "ServerToolResult", "name")


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """Everything an adapter needs for one model call.

    Attributes:
        messages: The full context in order, system instructions and tool round trips included.
        tools: Local tools offered in this step.
        server_tools: Hosted tools offered in this step.
        reasoning_effort: How much to think.
        tool_choice: A local tool name or hosted tool type that must be called.
        parallel_tool_call: Whether the provider may return several calls at once.
        cache_key: Routing key for prompt caches.

    Raises:
        ValueError: `parallel_tool_call` is not a bool, or `cache_key` is blank.
    """

    messages: Sequence[AnyMessage]
    tools: Sequence[ToolDefinition] = ()
    server_tools: Sequence[ServerToolDefinition] = ()
    reasoning_effort: ReasoningEffort = ReasoningEffort.MEDIUM
    tool_choice: str | None = None
    parallel_tool_call: bool = True
    cache_key: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.parallel_tool_call, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"parallel_tool_call must be a bool, got {self.parallel_tool_call!r}")
        if self.cache_key is not None and not self.cache_key.strip():
            raise ValueError("cache_key cannot be blank; use None for no key")


def _require_number(value: object, name: str, *, minimum: float, exclusive: bool = False) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number, got {value!r}")
    if value < minimum or (exclusive and value == minimum):
        bound = "greater than" if exclusive else "at least"
        raise ValueError(f"{name} must be {bound} {minimum:g}, got {value!r}")


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


@dataclass(frozen=True, slots=True)
class RetryOptions:
    """How an adapter repeats a failed request; see `delay`.

    Attributes:
        base_delay: Seconds before the first retry; each further one waits twice as long.
        max_delay: Longest wait in seconds.
        max_retries: Additional attempts; 0 disables retries.
        max_retry_after: Longest wait in seconds that a service may ask for; beyond it the error is raised
            at once.
        jitter: 0 to 1; each wait is multiplied by a random factor between `1 - jitter` and `1 + jitter`.

    Raises:
        ValueError: A value is of the wrong type or out of range; the message names the field.
    """

    base_delay: float = 0.25
    max_delay: float = 8.0
    max_retries: int = 3
    max_retry_after: float = 60.0
    jitter: float = 0.0

    def __post_init__(self) -> None:
        _require_number(self.base_delay, "base_delay", minimum=0)
        _require_number(self.max_delay, "max_delay", minimum=0)
        _require_number(self.max_retry_after, "max_retry_after", minimum=0)
        _require_number(self.jitter, "jitter", minimum=0)
        if self.jitter > 1:
            raise ValueError(f"jitter must be at most 1, got {self.jitter!r}")
        if not _is_int(self.max_retries) or self.max_retries < 0:
            raise ValueError(f"max_retries must be an int of at least 0, got {self.max_retries!r}")

    def delay(self, retry: int) -> float:
        """Return the seconds to wait before retry number `retry` (from 1), without jitter.

        Example:
            >>> [RetryOptions(1, 5, 4).delay(n) for n in (1, 2, 3, 4)]
            [1.0, 2.0, 4.0, 5.0]
        """
        try:
            doubled = math.ldexp(self.base_delay, retry - 1)
        except OverflowError:
            doubled = math.inf
        return min(float(self.max_delay), doubled)


DEFAULT_RETRY_OPTIONS = RetryOptions()


@dataclass(frozen=True, slots=True)
class TimeoutOptions:
    """Time limits of a provider request in seconds; `None` disables one. There is no total limit.

    Attributes:
        connect: Opening the connection.
        first_byte: From sending the request to the response headers.
        idle: Between two pieces of a response that has begun.

    Raises:
        ValueError: A limit is not a finite number above 0; the message names the field.
    """

    connect: float | None = 5.0
    first_byte: float | None = 60.0
    idle: float | None = 600.0

    def __post_init__(self) -> None:
        for name in ("connect", "first_byte", "idle"):
            value = getattr(self, name)
            if value is not None:
                _require_number(value, name, minimum=0, exclusive=True)


DEFAULT_TIMEOUT_OPTIONS = TimeoutOptions()


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """Token counts of one model call.

    Attributes:
        input_tokens: The complete input, cache reads and writes included.
        output_tokens: The complete output, reasoning included.
        cache_read_tokens: Input served from a prompt cache.
        cache_write_tokens: Input written to a prompt cache.
        cache_reported: Whether the provider says anything about its cache.
        reasoning_tokens: Output spent on reasoning.

    Raises:
        ValueError: A counter is negative, not an int, or larger than the total it is part of.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cache_reported: bool = True
    reasoning_tokens: int = 0

    def __post_init__(self) -> None:
        if not (
            self.input_tokens.__class__ is int
            and self.output_tokens.__class__ is int
            and self.cache_read_tokens.__class__ is int
            and self.cache_write_tokens.__class__ is int
            and self.reasoning_tokens.__class__ is int
            and 0 <= self.cache_read_tokens <= self.input_tokens
            and 0 <= self.cache_write_tokens <= self.input_tokens
            and 0 <= self.reasoning_tokens <= self.output_tokens
        ):
            self._check()

    def _check(self) -> None:
        """Name what is wrong; nothing may be, with subclasses of int."""
        for name in _COUNTERS:
            value = getattr(self, name)
            if not _is_int(value):
                raise ValueError(f"{name} must be an int, got {value!r}")
            if value < 0:
                raise ValueError(f"{name} cannot be negative, got {value}")
        for part, whole in _SUBSETS:
            if getattr(self, part) > getattr(self, whole):
                raise ValueError(
                    f"{part} ({getattr(self, part)}) cannot exceed {whole} ({getattr(self, whole)})"
                )

    @classmethod
    def from_counts(
        cls,
        input_tokens: int = 0,
        output_tokens: int = 0,
        cache_read_tokens: int = 0,
        cache_write_tokens: int = 0,
        cache_reported: bool = True,
        reasoning_tokens: int = 0,
    ) -> ModelUsage:
        """Build usage from counters that may contradict each other, by clamping them.

        Adapters use this: a service's bookkeeping error must not lose a paid answer. Negative counters
        become 0, cache counters are limited to the input and reasoning to the output.

        Example:
            >>> ModelUsage.from_counts(5, -1, cache_read_tokens=9).cache_read_tokens
            5
        """
        whole_input = max(0, input_tokens)
        whole_output = max(0, output_tokens)
        return cls(
            whole_input,
            whole_output,
            min(max(0, cache_read_tokens), whole_input),
            min(max(0, cache_write_tokens), whole_input),
            cache_reported,
            min(max(0, reasoning_tokens), whole_output),
        )

    @property
    def total_tokens(self) -> int:
        """Input plus output."""
        return self.input_tokens + self.output_tokens

    @property
    def cache_hit_rate(self) -> float | None:
        """Share of the input read from a cache (0 to 1), or `None` when that is not known."""
        if not self.cache_reported or not self.input_tokens:
            return None
        return self.cache_read_tokens / self.input_tokens


_COUNTERS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
_SUBSETS = (
    ("cache_read_tokens", "input_tokens"),
    ("cache_write_tokens", "input_tokens"),
    ("reasoning_tokens", "output_tokens"),
)


@dataclass(frozen=True, slots=True)
class ModelResponse:
    """The complete answer of one model call.

    Attributes:
        message: Complete text, reasoning and tool calls.
        finish_reason: The provider's stop value.
        usage: Token counts of this call only.
        stop: How it ended; derived from `finish_reason` when left out, so never `None` afterwards.
    """

    message: AssistantMessage
    finish_reason: str | None = None
    usage: ModelUsage = field(default_factory=ModelUsage)
    stop: StopInfo | None = None

    def __post_init__(self) -> None:
        if self.stop is None:
            stop = classify_stop(self.finish_reason, has_tool_calls=bool(self.message.tool_calls))
            object.__setattr__(self, "stop", stop)


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """A fragment of a tool call, for display only; fragments of one call share an `index`.

    Raises:
        ValueError: `index` is negative or all fragments are empty.
    """

    index: int
    id_delta: str = ""
    name_delta: str = ""
    arguments_delta: str = ""

    def __post_init__(self) -> None:
        if self.index < 0:
            raise ValueError(f"ToolCallDelta index cannot be negative, got {self.index}")
        if not (self.id_delta or self.name_delta or self.arguments_delta):
            raise ValueError("ToolCallDelta needs an id_delta, a name_delta or an arguments_delta")


class ModelEventType(StrEnum):
    """What a model stream can say."""

    TEXT_DELTA = "text_delta"
    REASONING_DELTA = "reasoning_delta"
    TOOL_CALL_DELTA = "tool_call_delta"
    SERVER_TOOL_STARTED = "server_tool_started"
    SERVER_TOOL_INPUT_DELTA = "server_tool_input_delta"
    SERVER_TOOL_COMPLETED = "server_tool_completed"
    SERVER_TOOL_FAILED = "server_tool_failed"
    RESPONSE = "response"


@dataclass(frozen=True, slots=True)
class ModelEvent:
    """One event of a model stream. Build it with the classmethods; the loop checks the payload."""

    type: ModelEventType
    delta: str = ""
    tool_call_delta: ToolCallDelta | None = None
    server_tool_call: ServerToolCall | None = None
    server_tool_input_delta: ServerToolInputDelta | None = None
    server_tool_result: ServerToolResult | None = None
    response: ModelResponse | None = None

    @classmethod
    def text(cls, delta: str) -> ModelEvent:
        """A piece of the visible answer."""
        return cls(ModelEventType.TEXT_DELTA, delta)

    @classmethod
    def reasoning(cls, delta: str) -> ModelEvent:
        """A piece of readable reasoning."""
        return cls(ModelEventType.REASONING_DELTA, delta)

    @classmethod
    def tool_call(cls, delta: ToolCallDelta) -> ModelEvent:
        """A fragment of a tool call."""
        return cls(ModelEventType.TOOL_CALL_DELTA, tool_call_delta=delta)

    @classmethod
    def server_tool_started(cls, call: ServerToolCall) -> ModelEvent:
        """A hosted tool began."""
        return cls(ModelEventType.SERVER_TOOL_STARTED, server_tool_call=call)

    @classmethod
    def server_tool_input(cls, delta: ServerToolInputDelta) -> ModelEvent:
        """A piece of a hosted tool's input."""
        return cls(ModelEventType.SERVER_TOOL_INPUT_DELTA, server_tool_input_delta=delta)

    @classmethod
    def server_tool_completed(cls, result: ServerToolResult) -> ModelEvent:
        """A hosted tool succeeded."""
        return cls(ModelEventType.SERVER_TOOL_COMPLETED, server_tool_result=result)

    @classmethod
    def server_tool_failed(cls, result: ServerToolResult) -> ModelEvent:
        """A hosted tool failed."""
        return cls(ModelEventType.SERVER_TOOL_FAILED, server_tool_result=result)

    @classmethod
    def completed(cls, response: ModelResponse) -> ModelEvent:
        """The complete response; always the last event."""
        return cls(ModelEventType.RESPONSE, response=response)


@runtime_checkable
class AgentModel(Protocol):
    """What the loop needs of a model.

    `stream` yields deltas and hosted-tool events, then exactly one `RESPONSE`, and ends. The response's
    message is complete by itself; deltas are for display. Failures are raised. Closing or cancelling the
    iterator releases the transport. An instance may be called concurrently for different sessions.

    Example:
        >>> class Shout:
        ...     retry = RetryOptions(max_retries=0)
        ...     async def stream(self, request):
        ...         yield ModelEvent.completed(ModelResponse(AssistantMessage(content="HELLO")))
    """

    retry: RetryOptions = DEFAULT_RETRY_OPTIONS

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Answer one request."""
        ...


@runtime_checkable
class NativeDeferredToolsModel(AgentModel, Protocol):
    """A model that can say whether its endpoint loads deferred tool definitions on demand."""

    native_deferred_tools: bool


def validate_retry(retry: object) -> RetryOptions:
    """Return `retry`, or raise `ValueError` unless it is a `RetryOptions`."""
    if not isinstance(retry, RetryOptions):
        raise ValueError(f"retry must be a RetryOptions instance, got {type(retry).__name__}")
    return retry


def validate_timeout(timeout: object) -> TimeoutOptions:
    """Return `timeout`, or raise `ValueError` unless it is a `TimeoutOptions`."""
    if not isinstance(timeout, TimeoutOptions):
        raise ValueError(f"timeout must be a TimeoutOptions instance, got {type(timeout).__name__}")
    return timeout


def validate_response(response: object) -> bool:
    """Return `response`, or raise `ValueError` unless it is a `bool`."""
    if not isinstance(response, bool):
        raise ValueError(f"response must be a boolean, got {type(response).__name__}")
    return response
