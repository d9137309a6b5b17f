"""What a decorated function's parameters become: schema, validation, conversion. 40 §4, §4.2."""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, Union
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    PydanticSchemaGenerationError,
    ValidationError,
)
from typing_extensions import TypedDict

from zett_agent.json_types import JsonValue
from zett_agent.tools._function import ToolFunction
from zett_agent.tools._plain import plain_input
from zett_agent.tools._schema import InputModel
from zett_agent.tools._signature import REQUIRED, ToolParameter
from zett_agent.tools.base import AgentTool, tool


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Point(BaseModel):
    x: int
    y: int = 0


class Node(BaseModel):
    children: list[Node] = []


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


class Options(TypedDict, total=False):
    deep: bool


@dataclasses.dataclass
class Size:
    width: int


def as_tool(function: Callable[..., Any], **options: Any) -> AgentTool:
    if function.__doc__ is None:
        function.__doc__ = "Do it."
    return tool(function, guidelines="Any.", **options)


def contains_key(schema: Any, key: str) -> bool:
    return f'"{key}"' in json.dumps(schema)


async def test_everything_at_once():  # 40 §9.1
    seen: dict[str, Any] = {}

    def everything(
        a: int,
        b: str = "x",
        c: int | None = None,
        d: Colour = Colour.RED,
        e: Literal["p", "q"] = "p",
        f: Annotated[int, Field(ge=1, le=5, description="between")] = 1,
        g: Point | None = None,
        h: list[Point] = [],  # noqa: B006
        j: tuple[int, str] = (1, "a"),
        *,
        kw: bool,
    ) -> None:
        seen.update(locals())

    built = as_tool(everything)
    schema = built.parameters
    assert schema["required"] == ["a", "kw"]
    assert list(schema["properties"]) == ["a", "b", "c", "d", "e", "f", "g", "h", "j", "kw"]
    assert (schema["type"], schema["title"], schema["additionalProperties"]) == ("object", "ToolInput", False)
    assert not contains_key(schema, "$ref")
    assert not contains_key(schema, "$defs")
    assert schema["properties"]["f"]["description"] == "between"
    assert schema["properties"]["d"]["default"] == "red"
    await built({"a": "5", "kw": "yes", "d": "blue", "g": {"x": 1}})
    assert seen["a"] == 5
    assert seen["kw"] is True
    assert seen["d"] is Colour.BLUE
    assert seen["g"] == Point(x=1)
    assert (seen["b"], seen["h"], seen["j"]) == ("x", [], (1, "a"))


@pytest.mark.parametrize(
    "arguments",
    [{}, {"n": 1, "more": 2}, {"n": 9}, {"n": "x"}, {"n": 1.5}, {"n": None}, {"n": [1]}],
    ids=["missing", "unknown", "out of range", "wrong type", "fraction", "null", "list"],
)
@pytest.mark.parametrize("annotation", [int, Annotated[int, Field(le=5)]], ids=["plain", "library"])
async def test_bad_arguments_never_reach_the_function(annotation, arguments):  # 40 §9.2
    calls = 0

    def count(n) -> int:
        nonlocal calls
        calls += 1
        return n

    count.__annotations__["n"] = annotation
    built = as_tool(count)
    if arguments == {"n": 9} and annotation is int:
        assert await built(arguments) == 9
        return
    with pytest.raises(ValidationError) as caught:
        await built(arguments)
    assert isinstance(caught.value, ValueError)
    assert caught.value.title == "ToolInput"
    assert calls == 0


async def test_lax_conversion():
    def echo(
        i: int, b: bool, f: float, s: set[int], p: Path, t: datetime, u: UUID, d: Decimal, y: bytes
    ) -> Any:
        return i, b, f, s, p, t, u, d, y

    arguments = {
        "i": "5",
        "b": "yes",
        "f": 2,
        "s": [1, 1],
        "p": "/a",
        "t": "2020-01-02T03:04:05",
        "u": "00000000-0000-0000-0000-000000000001",
        "d": "1.5",
        "y": "x",
    }
    assert await as_tool(echo)(arguments) == (
        5,
        True,
        2.0,
        {1},
        Path("/a"),
        datetime(2020, 1, 2, 3, 4, 5),
        UUID(int=1),
        Decimal("1.5"),
        b"x",
    )


async def test_more_types():
    def echo(
        size: Size,
        options: Options,
        animal: Annotated[Cat | Dog, Field(discriminator="kind")],
        value: Annotated[str, Field(pattern="^a", examples=["ab"], deprecated=True)] = "a",
        many: Annotated[list[int], Field(default_factory=lambda: [7])] = REQUIRED,
    ) -> Any:
        return size, options, animal, value, many

    # `default_factory` within `Annotated`, without a default of the function's own
    echo.__defaults__ = ("a", Field(default_factory=lambda: [7]))
    built = as_tool(echo)
    arguments = {"size": {"width": 1}, "options": {"deep": True}, "animal": {"kind": "dog"}}
    assert await built(arguments) == (Size(1), {"deep": True}, Dog(kind="dog"), "a", [7])
    properties = built.parameters["properties"]
    assert properties["value"]["pattern"] == "^a"
    assert properties["value"]["examples"] == ["ab"]
    assert properties["value"]["deprecated"] is True
    assert "discriminator" not in properties["animal"]
    assert len(properties["animal"]["oneOf"]) == 2
    assert built.parameters["required"] == ["size", "options", "animal"]


async def test_a_default_factory_alone_makes_a_parameter_optional():
    def echo(many: Annotated[list[int], Field(default_factory=lambda: [7])]) -> Any:
        return many

    built = as_tool(echo)
    assert "required" not in built.parameters
    assert await built({}) == [7]


async def test_defaults_are_neither_validated_nor_shared():
    def echo(wrong: int = "text", items: list[int] = []) -> Any:  # noqa: B006 # type: ignore[assignment]
        items.append(1)
        return wrong, items

    built = as_tool(echo)
    assert await built({}) == ("text", [1])
    assert await built({}) == ("text", [1])


def test_a_default_that_is_not_json_is_left_out():
    class Odd:
        pass

    def echo(value: Any = Odd()) -> Any:  # noqa: B008
        return value

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        schema = as_tool(echo).parameters
    assert schema["properties"]["value"] == {"title": "Value"}


def test_no_parameters():
    def nothing() -> str:
        return ""

    assert as_tool(nothing).parameters == {
        "additionalProperties": False,
        "properties": {},
        "title": "ToolInput",
        "type": "object",
    }


def test_a_reference_is_expanded_with_its_siblings():
    def echo(point: Point, other: Annotated[Point, Field(description="beside", title="Mine")]) -> Any:
        """Do it.

        Args:
            point: From the docstring.
        """

    properties = as_tool(echo).parameters["properties"]
    assert properties["point"]["description"] == "From the docstring."
    assert properties["point"]["properties"]["x"] == {"title": "X", "type": "integer"}
    assert properties["other"]["description"] == "beside"
    assert properties["other"]["title"] == "Mine"
    assert properties["other"]["required"] == ["x"]


@pytest.mark.parametrize("annotation", [Node, list[Node], JsonValue], ids=["model", "list", "alias"])
def test_recursive_types_are_refused(annotation):  # 40 §9.3
    def echo(value) -> Any:
        return value

    echo.__annotations__["value"] = annotation
    name = "JsonValue" if annotation is JsonValue else "Node"
    with pytest.raises(ValueError, match=rf"'echo'.*recursive model.*{name}"):
        as_tool(echo)


def test_types_that_cannot_be_described_fail_with_the_library_s_own_error():
    class Odd:
        pass

    def echo(value) -> Any:
        return value

    echo.__annotations__["value"] = Odd
    with pytest.raises(PydanticSchemaGenerationError):
        as_tool(echo)


class TestSignature:
    def test_only_named_parameters(self):  # 40 §9.3
        def positional(a: int, /) -> Any: ...
        def star(*a: int) -> Any: ...
        def stars(**a: int) -> Any: ...

        for function in (positional, star, stars):
            with pytest.raises(ValueError, match="only named parameters"):
                as_tool(function)

    def test_annotations_are_required(self):  # 40 §9.3
        def echo(a: int, b) -> Any: ...

        with pytest.raises(ValueError, match="Missing annotation for b"):
            as_tool(echo)

    def test_a_method_in_a_class_body_lacks_one(self):  # 40 §9.3
        with pytest.raises(ValueError, match="Missing annotation for self"):

            class _Service:
                @tool(guidelines="Any.")
                def go(self, a: int) -> Any:
                    """Do it."""

    def test_something_that_cannot_be_called(self):
        with pytest.raises(TypeError, match="function"):
            tool(5)  # pyright: ignore[reportCallIssue,reportArgumentType]


class TestForms:
    async def test_bare_with_options_and_as_a_call(self):
        @tool
        def one(a: int) -> int:
            """Do it.

            Guidelines:
                - g
            """
            return a

        @tool(name="deux", guidelines="g")
        def two(a: int) -> int:
            """Do it."""
            return a

        assert (one.name, two.name) == ("one", "deux")
        assert as_tool(lambda: 1, name="three").name == "three"
        assert as_tool(one.handler, name="").name == "one"
        assert await one({"a": 1}) == await two({"a": 1}) == 1
        with pytest.raises(TypeError):
            one(1, 2)  # pyright: ignore[reportCallIssue]

    async def test_bound_methods_and_static_methods(self):
        class Service:
            def __init__(self) -> None:
                self.base = 10

            def plus(self, a: int) -> int:
                """Do it."""
                return self.base + a

            @staticmethod
            def twice(a: int) -> int:
                """Do it."""
                return 2 * a

        plus = as_tool(Service().plus)
        twice = as_tool(Service.__dict__["twice"])
        assert (plus.name, await plus({"a": 1})) == ("plus", 11)
        assert (twice.name, await twice({"a": 1})) == ("twice", 2)
        assert list(plus.parameters["properties"]) == ["a"]

    async def test_a_closure(self):
        factor = 3

        def scaled(a: int) -> int:
            return a * factor

        assert await as_tool(scaled)({"a": 2}) == 6

    def test_the_handler_belongs_to_the_function_s_module(self):
        def one() -> None: ...

        built = as_tool(one)
        assert built.handler.__module__ == __name__
        assert built.handler.__name__ == "one"
        assert built.handler.__wrapped__ is one


class TestNames:
    @pytest.mark.parametrize(
        "name",
        [
            "_private",
            "__dunder__",
            "model_config",
            "json",
            "schema",
            "copy",
            "dict",
            "validate",
            "model_dump",
            "model_fields",
            "model_x",
            "self",
            "cls",
            "arguments",
            "discriminator",
            "title",
            "construct",
            "é",
        ],
    )
    @pytest.mark.parametrize("annotation", ["int", "Annotated[int, Field(le=9)]"], ids=["plain", "library"])
    async def test_better_4_and_5_every_parameter_name_works(self, name, annotation):
        namespace: dict[str, Any] = {"Annotated": Annotated, "Field": Field}
        exec(f"def echo({name}: {annotation}, other: {annotation} = 2): return {name}, other", namespace)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            built = as_tool(namespace["echo"])
            assert await built({name: "5"}) == (5, 2)
        assert list(built.parameters["properties"]) == [name, "other"]
        assert built.parameters["required"] == [name]
        with pytest.raises(ValidationError) as caught:
            await built({name: "x"})
        assert caught.value.errors()[0]["loc"] == (name,)

    async def test_better_5_renamed_fields_do_not_collide(self):
        def echo(_a: Annotated[int, Field(le=9)], parameter_a: int) -> Any:
            return _a, parameter_a

        assert await as_tool(echo)({"_a": 1, "parameter_a": 2}) == (1, 2)

    async def test_better_6_an_alias_takes_the_documented_text(self):
        def echo(
            start: Annotated[int, Field(alias="from")],
            json: Annotated[int, Field(validation_alias=AliasChoices("data", "body"))] = 0,
        ) -> Any:
            """Do it.

            Args:
                start: Where to begin.
                json: What to send.
            """
            return start, json

        built = as_tool(echo)
        assert built.parameters["properties"]["from"]["description"] == "Where to begin."
        assert built.parameters["properties"]["data"]["description"] == "What to send."
        assert await built({"from": 1, "body": 2}) == (1, 2)

    async def test_a_description_in_the_docstring_wins_over_a_field(self):
        def echo(
            a: Annotated[int, Field(description="annotated")], b: int = Field(5, description="default")
        ) -> Any:
            """Do it.

            Args:
                a: documented a
                b: documented b
            """
            return a, b

        built = as_tool(echo)
        assert built.parameters["properties"]["a"]["description"] == "documented a"
        assert built.parameters["properties"]["b"]["description"] == "documented b"
        assert await built({"a": 1}) == (1, 5)


class TestForwardReferences:
    async def test_better_8_a_class_of_the_enclosing_function(self):
        class Local(BaseModel):
            x: int

        @tool(guidelines="Any.")
        def echo(value: Local, more: list[Local] | None = None) -> Local:
            """Do it."""
            return value

        assert await echo({"value": {"x": 1}}) == Local(x=1)
        assert echo.return_schema["properties"]["x"] == {"type": "integer"}

    async def test_better_8_a_class_in_the_closure(self):
        class Local(BaseModel):
            x: int

        def make():
            def echo(value: Local) -> Any:
                return isinstance(value, Local)

            return as_tool(echo)

        assert await make()({"value": {"x": 1}}) is True

    def test_better_8_an_unknown_name_says_where(self):
        def echo(value: list[Missing]) -> Any:  # noqa: F821
            return value

        with pytest.raises(NameError, match=r"echo.*value.*Missing") as caught:
            as_tool(echo)
        assert caught.value.name == "Missing"

    def test_a_module_name_wins_over_a_local_one(self):
        # As without the second look: the same annotation must not change its meaning.
        Colour = int  # noqa: F841

        @tool(guidelines="Any.")
        def echo(value: Colour) -> Any:
            """Do it."""

        assert echo.parameters["properties"]["value"]["enum"] == ["red", "blue"]


F1_MODULE = """
{future}
from typing import TYPE_CHECKING
from zett_agent.tools.base import tool

if TYPE_CHECKING:
    from decimal import Decimal

@tool(guidelines="g")
def f(x: int) -> Decimal:
    "Do it."
    return x

import asyncio
assert f.return_schema is None
assert asyncio.run(f({{"x": 1}})) == 1

def g(x: Decimal): "Do it."
try:
    tool(g, guidelines="g")
except NameError as error:
    assert all(word in str(error) for word in ("'g'", "'x'", "Decimal")), error
else:
    raise SystemExit("no error")
"""


def test_f1_types_that_exist_only_for_the_type_checker(tmp_path):  # 80 F1
    futures = ["from __future__ import annotations"] + ([""] if sys.version_info >= (3, 14) else [])
    for future in futures:
        module = tmp_path / "module.py"
        module.write_text(F1_MODULE.format(future=future))
        subprocess.run([sys.executable, str(module)], check=True)


class TestJsonText:
    async def test_better_16_json_text_where_an_array_or_object_belongs(self):
        def echo(
            items: list[Point],
            options: dict[str, int] | None = None,
            point: Point = Point(x=0),  # noqa: B008
            text: str = "",
        ) -> Any:
            return items, options, point, text

        built = as_tool(echo)
        arguments = {"items": '[{"x": 1}]', "point": '{"x": "2"}', "text": "[1]"}
        assert await built(arguments) == ([Point(x=1)], None, Point(x=2), "[1]")
        assert arguments["items"] == '[{"x": 1}]'
        with pytest.raises(ValidationError) as caught:  # `anyOf` is not exactly an object
            await built({"items": [], "options": "{}"})
        assert caught.value.errors()[0]["loc"] == ("options",)

    @pytest.mark.parametrize("text", ["[", "5", '{"x": 1}', '[{"z": 1}]', "[" * 5000])
    async def test_better_16_the_first_error_is_reported(self, text):
        def echo(items: list[Point]) -> Any:
            return items

        with pytest.raises(ValidationError) as caught:
            await as_tool(echo)({"items": text})
        [error] = caught.value.errors()
        assert (error["type"], error["input"]) == ("list_type", text)

    async def test_better_16_plain_types_too(self):
        def echo(items: list[int], options: dict[str, int]) -> Any:
            return items, options

        assert await as_tool(echo)({"items": "[1, 2]", "options": '{"a": 1}'}) == ([1, 2], {"a": 1})

    async def test_better_16_text_that_fits_is_left_alone(self):
        def echo(value: list[str] | str, many: set[str]) -> Any:
            return value, many

        assert await as_tool(echo)({"value": "[1]", "many": ["a"]}) == ("[1]", {"a"})


async def test_c1_surrogates_in_arguments():  # 80 C1
    def echo(text: str, data: dict[str, Any], items: Annotated[list[str], Field(min_length=1)]) -> Any:
        return text, data, items

    expected = ("cat 🐈 x \ufffd", {"🐈": ["\ufffd"]}, ["🐈"])
    arguments = {
        "text": "cat \ud83d\udc08 x \ud83d",
        "data": {"\ud83d\udc08": ["\ud83d"]},
        "items": ["\ud83d\udc08"],
    }
    assert await as_tool(echo)(arguments) == expected


class TestValidationErrors:
    async def failure(self, function: Callable[..., Any], arguments: dict[str, Any]) -> ValidationError:
        with pytest.raises(ValidationError) as caught:
            await as_tool(function)(arguments)
        return caught.value

    async def test_better_12_the_text_is_the_library_s_without_links(self):
        def echo(a: int, b: Literal["p", "q"], c: Annotated[int, Field(le=5)] = 1) -> Any: ...

        error = await self.failure(echo, {"a": "x", "b": "z", "c": 9, "d": 1})
        lines = [
            ("a", "a valid integer, unable to parse string as an integer [type=int_parsing, input_value='x'"),
            ("b", "'p' or 'q' [type=literal_error, input_value='z'"),
        ]
        expected = "4 validation errors for ToolInput\n" + "".join(
            f"{field}\n  Input should be {text}, input_type=str]\n" for field, text in lines
        )
        assert str(error) == (
            f"{expected}c\n  Input should be less than or equal to 5 "
            "[type=less_than_equal, input_value=9, input_type=int]\n"
            "d\n  Extra inputs are not permitted [type=extra_forbidden, input_value=1, input_type=int]"
        )
        assert error.error_count() == 4
        assert [item["type"] for item in error.errors()] == [
            "int_parsing",
            "literal_error",
            "less_than_equal",
            "extra_forbidden",
        ]
        assert error.errors()[2]["ctx"] == {"le": 5}
        assert error.__context__ is None

    async def test_better_12_equals_what_a_model_would_say(self):
        class ToolInput(BaseModel):
            model_config = ConfigDict(extra="forbid")
            a: int
            p: Point

        def echo(a: int, p: Point) -> Any: ...

        arguments = {"p": {"x": "{y}", "y": None}, "z": "long" * 50}
        with pytest.raises(ValidationError) as caught:
            ToolInput.model_validate(arguments)
        lines = [line for line in str(caught.value).splitlines() if "errors.pydantic.dev" not in line]
        assert str(await self.failure(echo, arguments)).splitlines() == lines

    @pytest.mark.parametrize(
        "arguments",
        [
            {"a": "x" * 1_000_000},
            {"a": 1, "x" * 1_000_000: 1},
            {"a": 1, "é" * 1_000_000: 1},
            {"a": 1, **{f"key{'🐈' * 30}{n}": n for n in range(10_000)}},
            {"a": 1, "b": ["x" * 100] * 10_000},
            {"a": 1, "c": "x"},
        ],
        ids=["value", "key", "wide key", "many keys", "many items", "many choices"],
    )
    async def test_better_12_the_text_stays_below_2_kib(self, arguments):
        choices = Literal[tuple(f"choice {n}" for n in range(1000))]  # pyright: ignore[reportInvalidTypeForm]

        def echo(a: int, b: list[int] = [], c: Any = None) -> Any: ...  # noqa: B006

        echo.__annotations__["c"] = choices
        error = await self.failure(echo, arguments)
        assert len(str(error).encode()) < 2048
        assert "ToolInput" in str(error)
        count = len(arguments) - 1 if "many keys" in str(arguments) else None
        assert count is None or f"{count - error.error_count() + 1} more errors" in str(error)

    async def test_better_12_says_how_many_more_there_are(self):
        def echo(a: list[int]) -> Any: ...

        error = await self.failure(echo, {"a": ["x"] * 100})
        shown = error.error_count() - 1
        assert 3 <= shown <= 16
        assert f"{100 - shown} more errors" in str(error)
        assert error.errors()[-1]["loc"] == ("…",)

    async def test_a_validator_of_the_author_s_own(self):
        def odd(value: int) -> int:
            if value % 2 == 0:
                raise ValueError("{error} must be odd")
            return value

        def echo(a: Annotated[int, AfterValidator(odd)]) -> Any: ...

        error = await self.failure(echo, {"a": 2})
        assert "Value error, {error} must be odd [type=value_error, input_value=2, input_type=int]" in str(
            error
        )


# The short way for plain annotations must be indistinguishable from the library's.

SCALARS = st.sampled_from([int, str, bool, float, None, Any])
LITERALS = st.lists(
    st.sampled_from(["a", "b", 1, 2, True, None]), min_size=1, max_size=3, unique_by=lambda item: (item,)
).map(lambda items: Literal[tuple(items)])
ANNOTATIONS = st.recursive(
    SCALARS | LITERALS | st.sampled_from([list, dict, object]),
    lambda inner: st.one_of(
        inner.map(lambda item: list[item]),
        inner.map(lambda item: dict[str, item]),
        st.lists(inner, min_size=2, max_size=3).map(lambda members: Union[tuple(members)]),  # noqa: UP007
    ),
    max_leaves=5,
)
VALUES = st.recursive(
    st.sampled_from([None, True, False, 0, 1, 2, -5, 2.0, 2.5, "a", "b", "", "1", "true", "é", 10**20]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2)
    ),
    max_leaves=4,
)
DEFAULTS = st.sampled_from([REQUIRED, None, 1, 2.5, "x", True])
NAMES = st.sampled_from(["a", "file_path", "camelCase", "HTTPPort", "x1a", "_hidden", "d__e_", "json", "é"])


@settings(max_examples=400, deadline=None)
@given(NAMES, ANNOTATIONS, DEFAULTS)
def test_plain_schemas_equal_the_library_s(name, annotation, default):
    parameters = [ToolParameter(name, annotation, default)]
    plain = plain_input(parameters)
    if plain is not None:
        schema = InputModel(parameters, __name__).json_schema()
        assert list(plain.properties.items()) == list(schema["properties"].items())
        assert json.dumps(plain.properties) == json.dumps(schema["properties"])


@settings(max_examples=400, deadline=None)
@given(ANNOTATIONS, VALUES)
def test_plain_values_equal_the_library_s(annotation, value):
    parameters = [ToolParameter("a", annotation)]
    plain = plain_input(parameters)
    accepted = None if plain is None else plain.accept({"a": value})
    if accepted is not None:
        # Types too: 1, 1.0 and True are equal.
        assert repr(accepted) == repr(InputModel(parameters, __name__).validate({"a": value}))


def test_plain_annotations_do_without_the_library():
    program = textwrap.dedent(
        """
        import asyncio, sys
        from typing import Any, Literal, Optional
        from zett_agent.tools import tool

        @tool(guidelines="g")
        def f(a: int, b: float = 1.5, c: Optional[str] = None, d: Literal["p", "q"] = "p", *,
              e: list[str], g: dict[str, Any], h: bool = False) -> dict[str, int]:
            "Do it."
            return {"a": a}

        arguments = {"a": 1, "b": 2, "c": "x", "e": ["y"], "g": {"z": None}}
        assert f.serialize_result(asyncio.run(f(arguments))) == '{"a": 1}'
        assert f.return_schema == {"additionalProperties": {"type": "integer"}, "type": "object"}
        assert not {"pydantic", "pydantic_core"} & set(sys.modules)
        """
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_first_validation_may_happen_in_two_threads_at_once():
    import asyncio
    import threading

    def echo(a: int) -> int:
        return a

    built = as_tool(echo)
    results: list[int] = []
    start = threading.Barrier(4)

    def call() -> None:
        start.wait()
        results.append(asyncio.run(built({"a": "5"})))

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [5, 5, 5, 5]


def test_partial_functions_hide_what_they_have_filled():
    def query(sql: str, limit: int = 5, *, connection: object) -> Any:
        """Do it.

        Args:
            sql: What to ask.
            connection: Not for the model.
        """

    built = as_tool(functools.partial(query, connection=object()))
    assert built.name == "query"
    assert list(built.parameters["properties"]) == ["sql", "limit"]


def test_the_tool_function_is_usable_alone():
    # Policies validate arguments before they let a call run.
    from zett_agent.tools._docstring import ToolDocumentation
    from zett_agent.tools._signature import read_signature

    def echo(a: int) -> int:
        return a

    runner = ToolFunction(echo, read_signature(echo, "echo", None), ToolDocumentation("d"), "echo")
    assert runner.validate({"a": "5"}) == {"a": 5}
