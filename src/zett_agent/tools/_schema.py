"""JSON Schemas and validation through pydantic, which is imported by the functions that need it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from ._plain import plain_schema
from ._signature import REQUIRED, ToolParameter

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.json_schema import GenerateJsonSchema

__all__ = ["INPUT_TITLE", "InputModel", "input_schema", "return_schema"]

INPUT_TITLE = "ToolInput"

# Where a JSON Schema holds further schemas. Everything else (`default`, `enum`, `examples`, …) is data.
_SCHEMA_KEYWORDS = frozenset(
    {
        "additionalProperties",
        "contains",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
_SCHEMA_LIST_KEYWORDS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_SCHEMA_MAP_KEYWORDS = frozenset({"dependentSchemas", "patternProperties", "properties"})
_DEFINITION_PREFIX = "#/$defs/"


class RecursiveSchemaError(ValueError):
    """A definition contains itself, so it cannot be written out in place."""


class InputModel:
    """The validation model of a tool's parameters: `ToolInput`, which rejects unknown keys.

    Raises:
        Exception: pydantic's own error for a type that it cannot describe.
    """

    def __init__(self, parameters: Sequence[ToolParameter], module: str) -> None:
        from pydantic import ConfigDict, create_model

        self._names = dict(zip(_field_names(parameters), (item.name for item in parameters), strict=True))
        fields: dict[str, Any] = {
            field: (
                item.annotation if field == item.name else _with_alias(item),
                ... if item.default is REQUIRED else item.default,
            )
            for field, item in zip(self._names, parameters, strict=True)
        }
        self._model: type[BaseModel] = create_model(
            INPUT_TITLE,
            __config__=ConfigDict(extra="forbid", protected_namespaces=()),
            __module__=module,
            **fields,
        )

    def validate(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the converted arguments by parameter name, defaults included.

        Raises:
            pydantic.ValidationError: They do not fit.
        """
        fields = self._model.model_validate(arguments).__dict__
        return {name: fields[field] for field, name in self._names.items()}

    def json_schema(self) -> dict[str, Any]:
        """Return the complete input schema, with properties named as the model must name them.

        Raises:
            RecursiveSchemaError: A parameter's type contains itself.
        """
        schema = self._model.model_json_schema(schema_generator=_schema_generator())
        return expand_schema(schema, drop=("discriminator",))


def input_schema(properties: Mapping[str, Any], required: Sequence[str]) -> dict[str, Any]:
    """Return the schema of a tool's input from the schemas of its properties."""
    schema: dict[str, Any] = {"additionalProperties": False, "properties": dict(properties)}
    if required:
        schema["required"] = list(required)
    return {**schema, "title": INPUT_TITLE, "type": "object"}


def return_schema(annotation: Any) -> dict[str, Any] | None:
    """Return the JSON Schema of what a tool returns, or `None` when it says nothing or cannot be had."""
    if annotation is REQUIRED:
        return None
    plain = plain_schema(annotation)
    if plain is not None:
        return plain or None
    from pydantic import TypeAdapter

    try:
        schema = TypeAdapter(annotation).json_schema(
            mode="serialization", schema_generator=_schema_generator()
        )
        return expand_schema(schema, drop=("discriminator", "title")) or None
    except Exception:
        # The schema only informs; a tool must not fail for the lack of it.
        return None


def expand_schema(schema: dict[str, Any], *, drop: Sequence[str]) -> dict[str, Any]:
    """Write every local definition out where it is referred to, and leave out the keywords in `drop`.

    Keywords beside a reference win over those of the definition. Property names are never touched.

    Raises:
        RecursiveSchemaError: A definition contains itself.
    """
    definitions: dict[str, Any] = schema.get("$defs", {})
    dropped = frozenset((*drop, "$defs"))

    def expand(node: Any, open_names: tuple[str, ...]) -> Any:
        if not isinstance(node, dict):
            return node
        items: dict[str, Any] = node  # pyright: ignore[reportUnknownVariableType]
        reference = items.get("$ref")
        if isinstance(reference, str) and reference.startswith(_DEFINITION_PREFIX):
            name = reference.removeprefix(_DEFINITION_PREFIX)
            if name in open_names:
                raise RecursiveSchemaError(
                    f"the recursive model {name} has no finite schema; bound its depth, or take the "
                    "nested data as a plain dict"
                )
            siblings = {key: value for key, value in items.items() if key != "$ref"}
            definition: dict[str, Any] = expand(definitions[name], (*open_names, name))
            return {**definition, **expand(siblings, open_names)}
        return {
            key: _expand_keyword(key, value, lambda child: expand(child, open_names))
            for key, value in items.items()
            if key not in dropped
        }

    return expand(schema, ())


def _expand_keyword(key: str, value: Any, expand: Callable[[Any], Any]) -> Any:
    if key in _SCHEMA_KEYWORDS:
        return expand(value)
    if key in _SCHEMA_LIST_KEYWORDS:
        return [expand(item) for item in value]
    if key in _SCHEMA_MAP_KEYWORDS:
        return {name: expand(item) for name, item in value.items()}
    return value


def _field_names(parameters: Sequence[ToolParameter]) -> list[str]:
    """Return a legal model field name for each parameter: its own, unless pydantic gives that a meaning."""
    from pydantic import BaseModel

    taken = {item.name for item in parameters}
    names: list[str] = []
    for item in parameters:
        name = item.name
        if name.startswith("_") or hasattr(BaseModel, name) or name == "model_config":
            name = f"parameter_{name.strip('_')}"
            while name in taken:
                name += "_"
            taken.add(name)
        names.append(name)
    return names


def _with_alias(parameter: ToolParameter) -> Any:
    """Return the annotation of a renamed field that still goes by the parameter's name."""
    from pydantic import Field
    from pydantic.fields import FieldInfo

    for info in (FieldInfo.from_annotation(parameter.annotation), parameter.default):
        if isinstance(info, FieldInfo) and (info.alias or info.validation_alias):
            return parameter.annotation  # it has a name of the author's choice
    return Annotated[parameter.annotation, Field(validation_alias=parameter.name)]


_generator: type[GenerateJsonSchema] | None = None


def _schema_generator() -> type[GenerateJsonSchema]:
    global _generator
    if _generator is None:
        from pydantic.json_schema import GenerateJsonSchema

        class QuietGenerator(GenerateJsonSchema):
            # A default that JSON cannot hold is left out, which needs no warning.
            ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012

        _generator = QuietGenerator
    return _generator
