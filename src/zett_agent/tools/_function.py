"""The handler of a decorated function: takes the model's arguments, validates them, calls the function."""

from __future__ import annotations

import functools
import inspect
import json
import threading
from collections.abc import Awaitable, Callable, Mapping
from types import GeneratorType
from typing import Any

from .._text import encodable_json
from ._docstring import ToolDocumentation
from ._errors import compact_validation_error
from ._plain import PlainInput, plain_input
from ._running import running_context
from ._schema import InputModel, RecursiveSchemaError, input_schema
from ._signature import REQUIRED, ToolSignature, is_asynchronous, unwrap_callable
from ._threads import run_in_thread

__all__ = ["ToolFunction", "callable_name"]

# Built once per tool, at its first call; two event loops in two threads may be first together.
_build_lock = threading.Lock()


class ToolFunction:
    """A function as a tool: its input schema, and a `handler` that validates and runs it.

    Raises:
        ValueError: The function has an unsuitable parameter, or a recursive one.
        NameError: An annotation cannot be resolved.
        Exception: pydantic's own error for a type that it cannot describe.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        signature: ToolSignature,
        documentation: ToolDocumentation,
        tool_name: str,
    ) -> None:
        self._plain_function = unwrap_callable(function)
        self._function: Callable[..., Any] = function
        self._signature = signature
        self._tool_name = tool_name
        self._asynchronous = is_asynchronous(function)
        self._module = getattr(self._plain_function, "__module__", None) or __name__
        self._plain: PlainInput | None = plain_input(signature.parameters)
        self._model: InputModel | None = None
        self.parameters: dict[str, Any] = self._input_schema(documentation.arguments)
        self.handler = self._make_handler()

    def _input_schema(self, descriptions: Mapping[str, str]) -> dict[str, Any]:
        parameters = self._signature.parameters
        if self._plain is not None:
            required = [item.name for item in parameters if item.default is REQUIRED]
            schema = input_schema(self._plain.properties, required)
        else:
            try:
                schema = self._input_model().json_schema()
            except RecursiveSchemaError as error:
                raise RecursiveSchemaError(f"Tool {self._tool_name!r}: {error}") from None
        # An alias may have renamed a property, but none is added, left out or moved.
        properties: dict[str, dict[str, Any]] = schema["properties"]
        for key, item in zip(properties, parameters, strict=True):
            if text := descriptions.get(item.name):
                described = {**properties[key], "description": text}
                properties[key] = {keyword: described[keyword] for keyword in sorted(described)}
        return schema

    def _make_handler(self) -> Callable[..., Awaitable[Any]]:
        async def handler(**arguments: Any) -> Any:
            return await self.run(arguments)

        return functools.update_wrapper(handler, self._plain_function)

    async def run(self, arguments: Mapping[str, Any]) -> Any:
        """Validate `arguments` and run the function, in a worker thread unless it is asynchronous.

        Raises:
            pydantic.ValidationError: The arguments do not fit; the function was not called.
            RuntimeError: The function wants the running context and there is none.
            BaseException: Whatever the function raises.
        """
        values = self.validate(arguments)
        for name in self._signature.context_parameters:
            values[name] = self._running_context(name)
        if self._asynchronous:
            return await self._function(**values)
        result = await run_in_thread(_collecting(self._function), values)
        # A plain function may hand out a coroutine, as wrappers of asynchronous functions do.
        if inspect.isawaitable(result):
            return await result
        return result

    def validate(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values the function is called with.

        Raises:
            pydantic.ValidationError: The arguments do not fit.
        """
        arguments = encodable_json(arguments)
        if self._plain is not None:
            values = self._plain.accept(arguments)
            if values is not None:
                return values
        model = self._input_model()
        from pydantic_core import ValidationError

        try:
            return model.validate(arguments)
        except ValidationError as error:
            repaired = self._parse_text_arguments(arguments)
            if repaired is not None:
                try:
                    return model.validate(repaired)
                except ValidationError:
                    pass  # the first error describes what the model wrote
            compact = compact_validation_error(error)
        raise compact

    def _input_model(self) -> InputModel:
        model = self._model
        if model is None:
            with _build_lock:
                model = self._model or InputModel(self._signature.parameters, self._module)
                self._model = model
        return model

    def _parse_text_arguments(self, arguments: Mapping[str, Any]) -> dict[str, Any] | None:
        """Parse JSON text that stands where an array or object belongs; `None` when there is none."""
        parsed: dict[str, Any] = {}
        for key, schema in self.parameters["properties"].items():
            value = arguments.get(key)
            if isinstance(value, str) and schema.get("type") in ("array", "object"):
                try:
                    parsed[key] = json.loads(value)
                except (ValueError, RecursionError):
                    continue
        return {**arguments, **parsed} if parsed else None

    def _running_context(self, parameter: str) -> Any:
        context = running_context()
        if context is None:
            raise RuntimeError(
                f"Tool {self._tool_name!r} can be called only within a run: its parameter {parameter!r} "
                "receives the running AgentRunContext"
            )
        return context


_LAZY_TYPES = (GeneratorType, map, filter, zip, enumerate, reversed)


def callable_name(function: Callable[..., Any]) -> str:
    """Return the name of a function, or of the class of a callable object."""
    if isinstance(function, functools.partial):
        return callable_name(function.func)  # pyright: ignore[reportUnknownMemberType,reportUnknownArgumentType]
    name = getattr(function, "__name__", None)
    return name if isinstance(name, str) else type(function).__name__


def _collecting(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a generator, or another lazy result, run in the worker thread and not where it is serialized."""

    def collect(**arguments: Any) -> Any:
        result = function(**arguments)
        return list(result) if _is_lazy(result) else result

    return collect


def _is_lazy(result: Any) -> bool:
    return isinstance(result, _LAZY_TYPES) or type(result).__module__ == "itertools"
