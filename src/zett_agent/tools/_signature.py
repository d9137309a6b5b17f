"""Which parameters a tool's function has, with their annotations resolved."""

from __future__ import annotations

import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

__all__ = [
    "REQUIRED",
    "ToolParameter",
    "ToolSignature",
    "is_asynchronous",
    "read_signature",
    "unwrap_callable",
]

REQUIRED: Any = inspect.Parameter.empty
"""The default of a parameter that has none."""

_CONTEXT_CLASS = "AgentRunContext"
_NAMED_KINDS = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@dataclass(frozen=True, slots=True)
class ToolParameter:
    """A parameter that the model fills."""

    name: str
    annotation: Any
    default: Any = REQUIRED


@dataclass(frozen=True, slots=True)
class ToolSignature:
    """The parameters of a tool's function.

    Attributes:
        parameters: What the model fills, in order.
        context_parameters: Names of parameters that receive the running `AgentRunContext`.
        names: Every parameter name, whoever fills it.
        returns: The return annotation, or `REQUIRED` when there is none or it cannot be resolved.
    """

    parameters: tuple[ToolParameter, ...]
    context_parameters: tuple[str, ...]
    names: frozenset[str]
    returns: Any


def unwrap_callable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the plain function behind static methods, bound methods, partials and callable objects."""
    current: Any = function
    while True:
        if isinstance(current, functools.partial):
            current = current.func  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]
        elif isinstance(current, (staticmethod, types.MethodType)):
            current = current.__func__  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]
        elif inspect.isroutine(current) or isinstance(current, type):
            return current
        else:
            return type(current).__call__  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]


def is_asynchronous(function: Callable[..., Any]) -> bool:
    """Return whether calling `function` only makes a coroutine, so that it may happen on the event loop.

    Raises:
        ValueError: It is an asynchronous generator function.
    """
    plain = unwrap_callable(function)
    if inspect.isasyncgenfunction(plain):
        raise ValueError(
            "an asynchronous generator cannot be a tool: tools return one value, so collect the items and "
            "return a list"
        )
    return inspect.iscoroutinefunction(plain)


def read_signature(
    function: Callable[..., Any], tool_name: str, frame: types.FrameType | None
) -> ToolSignature:
    """Return the parameters of `function`, with annotations resolved and `Annotated` kept.

    Names are looked up in the function's module, then in `frame` (where it is decorated) and among the
    variables that it closes over.

    Raises:
        ValueError: A parameter is not a named one or has no annotation.
        NameError: An annotation uses a name that does not exist at run time.
    """
    plain = unwrap_callable(function)
    bound = _bound_keywords(function)
    signature = _inspect_signature(function)
    names = _Names(plain, frame)
    parameters: list[ToolParameter] = []
    context_parameters: list[str] = []
    for parameter in signature.parameters.values():
        if parameter.kind not in _NAMED_KINDS:
            raise ValueError(
                f"Tool {tool_name!r} may have only named parameters; {parameter} cannot be passed by name"
            )
        if parameter.name in bound:
            continue  # `functools.partial` has filled it: it belongs to the program, not to the model
        if parameter.annotation is REQUIRED:
            raise ValueError(f"Missing annotation for {parameter.name} of tool {tool_name!r}")
        try:
            annotation = names.resolve(parameter.annotation)
        except NameError as error:
            if _names_context(parameter.annotation):
                context_parameters.append(parameter.name)
                continue
            raise _unknown_name(error, tool_name, parameter.name) from error
        if _is_context(annotation):
            context_parameters.append(parameter.name)
        else:
            parameters.append(ToolParameter(parameter.name, annotation, parameter.default))
    return ToolSignature(
        tuple(parameters),
        tuple(context_parameters),
        frozenset(signature.parameters),
        names.resolve_return(signature),
    )


def _inspect_signature(function: Callable[..., Any]) -> inspect.Signature:
    target = function.__func__ if isinstance(function, staticmethod) else function
    if sys.version_info >= (3, 14):
        import annotationlib

        # Names that exist for the type checker only must not fail before we can say which tool uses them.
        return inspect.signature(target, annotation_format=annotationlib.Format.FORWARDREF)
    return inspect.signature(target)


def _bound_keywords(function: Callable[..., Any]) -> frozenset[str]:
    if isinstance(function, functools.partial):
        return frozenset(function.keywords)  # pyright: ignore[reportUnknownMemberType]
    return frozenset()


class _Names:
    """Where the names of a function's annotations are looked up."""

    def __init__(self, function: Callable[..., Any], frame: types.FrameType | None) -> None:
        self._function = function
        self._frame = frame
        innermost = inspect.unwrap(function)
        self._globals: dict[str, Any] = getattr(innermost, "__globals__", {})
        self._locals: dict[str, Any] | None = None

    def resolve(self, annotation: Any) -> Any:
        """Evaluate `annotation` as far as it is written as text.

        Raises:
            NameError: A name is defined nowhere.
        """
        if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
            return annotation
        try:
            return _evaluate(annotation, self._globals)
        except NameError:
            # Globals still win over locals: a module must mean the same with and without this second look.
            if self._locals is None:
                self._locals = {**self._enclosing(), **self._globals}
            return _evaluate(annotation, self._globals, self._locals)

    def resolve_return(self, signature: inspect.Signature) -> Any:
        """Like `resolve` for the return annotation, but give up silently: it only informs."""
        if signature.return_annotation is REQUIRED:
            return REQUIRED
        try:
            return self.resolve(signature.return_annotation)
        except Exception:
            return REQUIRED

    def _enclosing(self) -> Mapping[str, Any]:
        """Return the names visible where the function is decorated, where it is defined, and inside it."""
        code = getattr(self._function, "__code__", None)
        names: dict[str, Any] = {} if self._frame is None else dict(self._frame.f_locals)
        frame = self._frame
        while frame is not None and code is not None:
            if any(constant is code for constant in frame.f_code.co_consts):
                names.update(frame.f_locals)
                break
            frame = frame.f_back
        cells = getattr(self._function, "__closure__", None) or ()
        for name, cell in zip(code.co_freevars if code else (), cells, strict=False):
            with suppress(ValueError):  # not assigned yet
                names[name] = cell.cell_contents
        return names


class _Annotated:
    """Carries one annotation to `typing.get_type_hints`, the public way to evaluate it."""

    def __init__(self, annotation: Any) -> None:
        self.__annotations__ = {"it": annotation}


def _evaluate(
    annotation: Any, global_names: dict[str, Any], local_names: dict[str, Any] | None = None
) -> Any:
    hints = typing.get_type_hints(_Annotated(annotation), global_names, local_names, include_extras=True)
    return hints["it"]


def _is_context(annotation: Any) -> bool:
    # By name, because the module of the class may not be imported just to decorate a tool.
    return (
        isinstance(annotation, type)
        and annotation.__name__ == _CONTEXT_CLASS
        and annotation.__module__.partition(".")[0] == __name__.partition(".")[0]
    )


def _names_context(annotation: Any) -> bool:
    text = getattr(annotation, "__forward_arg__", annotation)
    return isinstance(text, str) and text.strip("'\" ").rpartition(".")[2] == _CONTEXT_CLASS


def _unknown_name(error: NameError, tool_name: str, parameter: str) -> NameError:
    name = getattr(error, "name", None)
    return NameError(
        f"Tool {tool_name!r}: the annotation of parameter {parameter!r} uses the name {name!r}, which is not "
        "defined when the tool is built; define it earlier, and outside `if TYPE_CHECKING:`",
        name=name,
    )
