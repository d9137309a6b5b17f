"""Tools for models: `AgentTool`, the `@tool` decorator, and the rendering of their guidance.

A tool has a name, texts and a JSON Schema for the model, and a handler for the program. `@tool` makes one of
a typed function with a docstring; an `AgentTool` can also be built by hand around any handler. How a call of
the model becomes a tool message is in `zett_agent.tools.invocation`.
"""

from __future__ import annotations

import copy
import functools
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING, Any, cast, overload

from .._strenum import StrEnum
from ..model import ToolDefinition
from ..sync_runtime import SyncMethodsMixin
from ._docstring import get_tool_guidelines, get_tool_snippet, read_docstring
from ._function import ToolFunction, callable_name
from ._guidance import render_tool_description, render_tool_guidance, render_tool_search_text
from ._running import current_tool_call_id, tool_cancelled
from ._schema import return_schema as describe_return
from ._serialize import result_text
from ._signature import read_signature, unwrap_callable

if TYPE_CHECKING:
    from ..json_types import JsonValue

if sys.version_info >= (3, 12):
    from typing import TypeAliasType
else:
    from typing_extensions import TypeAliasType

__all__ = [
    "AgentTool",
    "ToolExecutionMode",
    "ToolResult",
    "copy_for_request",
    "current_tool_call_id",
    "get_tool_guidelines",
    "get_tool_snippet",
    "render_tool_description",
    "render_tool_guidance",
    "render_tool_search_text",
    "tool",
    "tool_cancelled",
]

ToolResult = TypeAliasType("ToolResult", Any)
"""What a handler may return.

`str` and content parts (`TextContent`, `ImageContent`, lists of them) reach the model as they are, anything
else as JSON.
"""


class ToolExecutionMode(StrEnum):
    """Whether a tool may run beside others of the same model response."""

    SERIAL = "serial"
    PARALLEL = "parallel"


# Values that are worked out on first use may be asked for by two threads at once.
_lazy_lock = threading.RLock()


class _LazyReturnSchema:
    """Lets the return schema be worked out when it is first read, which most programs never do."""

    __slots__ = ("_make_return_schema",)

    _make_return_schema: Callable[[], dict[str, Any] | None]

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            # Reached only for a slot without a value.
            if name != "return_schema":
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            with _lazy_lock:
                self.return_schema = self._make_return_schema()
            return self.return_schema


@dataclass(slots=True)
class AgentTool(_LazyReturnSchema, SyncMethodsMixin):
    """Something that a model can call.

    Attributes:
        name: Shown to the model and used to find the tool; not validated.
        description: What the tool does.
        parameters: JSON Schema of the keyword arguments.
        handler: Called with the arguments as keywords; awaited.
        guidelines: Usage rules; may be empty.
        snippet: Call examples, one per line.
        return_schema: JSON Schema of the result; only informs.
        execution_mode: Whether it may run beside other tools.
        deferred: Whether its definition may be loaded later, through tool search.
        local_tool_search: Whether it answers tool searches of the model.
        metadata: Application data for policies and observers; never sent to a provider.

    Raises:
        ValueError: A text is blank, a flag is not a `bool`, a value is of another type, or the tool is both
            deferred and the tool search.

    Example:
        >>> async def shout(text: str) -> str:
        ...     return text.upper()
        >>> schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
        >>> shouting = AgentTool("shout", "Return text in capitals.", schema, shout, ())
        >>> shouting.definition.name
        'shout'
    """

    name: str
    description: str
    parameters: dict[str, Any]
    handler: Callable[..., Awaitable[ToolResult]]
    guidelines: tuple[str, ...]
    snippet: str = ""
    return_schema: dict[str, Any] | None = None
    execution_mode: ToolExecutionMode = ToolExecutionMode.PARALLEL
    deferred: bool = False
    local_tool_search: bool = False
    metadata: Mapping[str, JsonValue] = field(default_factory=dict[str, "JsonValue"], repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.description, str) or not self.description.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"Tool {self.name!r}: description cannot be empty")
        self.guidelines = _as_guidelines(self.guidelines)
        if not all(isinstance(rule, str) and rule.strip() for rule in self.guidelines):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"Tool {self.name!r}: guidelines cannot be blank")
        if not isinstance(self.execution_mode, ToolExecutionMode):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(
                f"Tool {self.name!r}: execution_mode must be a ToolExecutionMode, got {self.execution_mode!r}"
            )
        for flag in ("deferred", "local_tool_search"):
            if not isinstance(getattr(self, flag), bool):
                raise ValueError(f"Tool {self.name!r}: {flag} must be a bool, got {getattr(self, flag)!r}")
        if self.return_schema is not None and not isinstance(self.return_schema, dict):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"Tool {self.name!r}: return_schema must be a dict or None")
        if not isinstance(self.metadata, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"Tool {self.name!r}: metadata must be a mapping, got {self.metadata!r}")
        if self.local_tool_search and self.deferred:
            raise ValueError(
                f"Tool {self.name!r}: local_tool_search and deferred exclude each other, because the search "
                "must be available before anything can be found"
            )

    @property
    def definition(self) -> ToolDefinition:
        """What a model is told about the tool, with the very `parameters` mapping."""
        return ToolDefinition(
            self.name,
            self.description,
            self.parameters,
            deferred=self.deferred,
            local_tool_search=self.local_tool_search,
        )

    async def __call__(self, arguments: Mapping[str, Any]) -> ToolResult:
        """Run the handler with `arguments` as keywords and return its raw result.

        Cancellation reaches an asynchronous handler; for a function in a worker thread the call returns at
        once and `tool_cancelled()` becomes true in the thread.

        Args:
            arguments: What the model sent, as one mapping.

        Raises:
            pydantic.ValidationError: A decorated function's arguments do not fit; it was not called.
            BaseException: Whatever the handler raises.

        Example:
            >>> await add({"a": 1, "b": 2})  # doctest: +SKIP
            3
        """
        return await self.handler(**arguments)

    def serialize_result(self, value: ToolResult) -> str:
        """Return a string unchanged, and anything else as JSON text.

        Non-ASCII stays as it is, `NaN` and infinities become `null`, sets are sorted where that is possible,
        models go by their aliases, and bytes are text, or base64 if they are not UTF-8.

        Raises:
            ValueError: The value contains itself or is nested too deeply.
            pydantic_core.PydanticSerializationError: It is of a type that JSON cannot express.

        Example:
            >>> shouting.serialize_result({"é": float("nan")})  # doctest: +SKIP
            '{"é": null}'
        """
        return result_text(value)

    def __copy__(self) -> AgentTool:
        """Copy the fields without working out a return schema that nobody has asked for."""
        kind = type(self)
        duplicate = kind.__new__(kind)
        for name in _slot_names(kind):
            try:
                value = object.__getattribute__(self, name)
            except AttributeError:
                continue  # nothing in this slot yet
            setattr(duplicate, name, value)
        if hasattr(self, "__dict__"):  # a subclass without slots
            vars(duplicate).update(vars(self))
        return duplicate


def copy_for_request(tool: AgentTool) -> AgentTool:
    """Return a copy that one request may change: same handler, its own `parameters` and `metadata`.

    Example:
        >>> own = copy_for_request(shouting)  # doctest: +SKIP
        >>> own.parameters["properties"].clear()  # the original keeps its properties
    """
    duplicate = copy.copy(tool)
    duplicate.parameters = _copy_json(tool.parameters)
    duplicate.metadata = _copy_json(tool.metadata)
    return duplicate


@overload
def tool(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    snippet: str | None = None,
    guidelines: str | Sequence[str] | None = None,
    execution_mode: ToolExecutionMode = ToolExecutionMode.PARALLEL,
    deferred: bool = False,
    local_tool_search: bool = False,
    metadata: Mapping[str, JsonValue] | None = None,
) -> AgentTool: ...


@overload
def tool(
    function: None = None,
    *,
    name: str | None = None,
    snippet: str | None = None,
    guidelines: str | Sequence[str] | None = None,
    execution_mode: ToolExecutionMode = ToolExecutionMode.PARALLEL,
    deferred: bool = False,
    local_tool_search: bool = False,
    metadata: Mapping[str, JsonValue] | None = None,
) -> Callable[[Callable[..., Any]], AgentTool]: ...


def tool(
    function: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    snippet: str | None = None,
    guidelines: str | Sequence[str] | None = None,
    execution_mode: ToolExecutionMode = ToolExecutionMode.PARALLEL,
    deferred: bool = False,
    local_tool_search: bool = False,
    metadata: Mapping[str, JsonValue] | None = None,
) -> AgentTool | Callable[[Callable[..., Any]], AgentTool]:
    """Make a tool of a typed function with a docstring, as `@tool`, `@tool(...)` or `tool(function, ...)`.

    The docstring's first paragraph is the description. Its `Args:`, `Snippet:` and `Guidelines:` sections
    describe the parameters, show calls and give usage rules; at least one rule is needed. Arguments are
    validated against the annotations before the function runs. A plain function runs in a worker thread, an
    asynchronous one on the event loop. A parameter annotated `AgentRunContext` receives the context of the
    run and is hidden from the model.

    Args:
        function: What to run: a function, method, `functools.partial` or callable object.
        name: Instead of the function's name.
        snippet: Instead of the docstring section; an empty string for none.
        guidelines: Instead of the docstring section: one rule or several.
        execution_mode: Whether it may run beside other tools.
        deferred: Whether its definition may be loaded later, through tool search.
        local_tool_search: Whether it answers tool searches of the model.
        metadata: Application data for policies and observers.

    Raises:
        ValueError: The description or every guideline is missing; a parameter is positional-only, variadic,
            without annotation or of a recursive type; the docstring describes unknown parameters; the
            function is an asynchronous generator.
        NameError: An annotation uses a name that does not exist at run time.
        TypeError: `function` cannot be called.

    Example:
        >>> @tool
        ... def add(a: int, b: int) -> int:
        ...     '''Add two numbers.
        ...
        ...     Args:
        ...         a: First number.
        ...         b: Second number.
        ...
        ...     Snippet:
        ...         add(a=1, b=2)
        ...
        ...     Guidelines:
        ...         - Use it for sums instead of adding in your head.
        ...     '''
        ...     return a + b
        >>> add.parameters["required"]
        ['a', 'b']
    """

    def build(target: Callable[..., Any], frame: FrameType) -> AgentTool:
        return _build_tool(
            target,
            frame,
            name=name,
            snippet=snippet,
            guidelines=guidelines,
            execution_mode=execution_mode,
            deferred=deferred,
            local_tool_search=local_tool_search,
            metadata={} if metadata is None else metadata,
        )

    def decorate(target: Callable[..., Any]) -> AgentTool:
        return build(target, sys._getframe(1))  # annotations may use names of the place of decoration

    return decorate if function is None else build(function, sys._getframe(1))


def _build_tool(
    function: Callable[..., Any],
    frame: FrameType,
    *,
    name: str | None,
    snippet: str | None,
    guidelines: str | Sequence[str] | None,
    **options: Any,
) -> AgentTool:
    if not callable(function):
        raise TypeError(f"@tool needs a function, got {function!r}")
    tool_name = name or callable_name(function)
    try:
        documentation = read_docstring(unwrap_callable(function))
    except ValueError as error:
        raise ValueError(f"Tool {tool_name!r}: {error}") from None
    rules = documentation.guidelines if guidelines is None else _as_guidelines(guidelines)
    if not any(rule.strip() for rule in rules):
        raise ValueError(
            f"Tool {tool_name!r} needs at least one non-empty guideline: add a Guidelines section to its "
            "docstring or pass guidelines="
        )
    signature = read_signature(function, tool_name, frame)
    unknown = sorted(documentation.arguments.keys() - signature.names)
    if unknown:
        raise ValueError(
            f"The docstring of tool {tool_name!r} describes unknown parameters: {', '.join(unknown)}"
        )
    runner = ToolFunction(function, signature, documentation, tool_name)
    built = AgentTool(
        tool_name,
        documentation.description,
        runner.parameters,
        runner.handler,
        rules,
        documentation.snippet if snippet is None else snippet,
        **options,
    )
    built._make_return_schema = functools.partial(describe_return, signature.returns)
    del built.return_schema  # until somebody reads it
    return built


def _as_guidelines(guidelines: str | Sequence[str]) -> tuple[str, ...]:
    return (guidelines,) if isinstance(guidelines, str) else tuple(guidelines)


def _copy_json(value: Any) -> Any:
    """Return a deep copy; containers of JSON are copied the short way."""
    if type(value) is dict:
        return {key: _copy_json(item) for key, item in cast("dict[Any, Any]", value).items()}
    if type(value) is list:
        return [_copy_json(item) for item in cast("list[Any]", value)]
    return value if type(value) in _ATOMS else copy.deepcopy(value)


_ATOMS = frozenset({str, int, float, bool, type(None)})


@functools.cache
def _slot_names(kind: type[AgentTool]) -> tuple[str, ...]:
    slots: list[str] = []
    for base in kind.__mro__:
        own: str | Sequence[str] = base.__dict__.get("__slots__", ())
        slots.extend([own] if isinstance(own, str) else own)
    return tuple(name for name in slots if name not in ("__dict__", "__weakref__"))
