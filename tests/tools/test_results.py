"""What a raw result, and an error, become for the model. 40 §4.3, §5, §6."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import enum
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    RootModel,
    SecretStr,
    TypeAdapter,
    ValidationError,
    field_serializer,
)
from pydantic.dataclasses import dataclass as pydantic_dataclass
from pydantic_core import PydanticSerializationError, to_jsonable_python

from zett_agent.messages import ImageBytesSource, ImageContent, ImageUrlSource, TextContent
from zett_agent.tools.base import AgentTool, tool
from zett_agent.tools.invocation import tool_error_text, tool_result_content

if sys.version_info < (3, 11):
    from exceptiongroup import BaseExceptionGroup, ExceptionGroup

IMAGE = ImageContent(ImageBytesSource(b"\x89PNG\xff", "image/png"), alt_text="dot")


async def nothing(**_: Any) -> None: ...


TOOL = AgentTool("t", "d", {}, nothing, ())


@dataclasses.dataclass
class Plain:
    a: Any


@pydantic_dataclass
class Checked:
    a: set[str]


class Colour(enum.Enum):
    RED = "red"


class Word(str, enum.Enum):
    YES = "yes"


class Model(BaseModel):
    model_config = ConfigDict(populate_by_name=True)

    number: float = 1.5
    renamed: int = Field(1, alias="Renamed")
    tags: set[str] = set()
    data: bytes = b""
    more: list[set[int]] = []
    by_name: dict[str, frozenset[str]] = {}
    child: Model | None = None


class Pair(NamedTuple):
    left: int
    right: int


class TestSerialize:
    @pytest.mark.parametrize(
        ("value", "text"),
        [
            ({(1, 2): float("nan")}, '{"1,2": null}'),
            (timedelta(seconds=3), '"PT3S"'),
            ({1}, "[1]"),
            ("é", "é"),
            (Plain("é"), '{"a": "é"}'),
            # 11 A-12
            (None, "null"),
            ("s", "s"),
            (5, "5"),
            ({"a": 1}, '{"a": 1}'),
            ([1, 2], "[1, 2]"),
            ([TextContent("a"), "x"], '[{"text": "a"}, "x"]'),
            ((TextContent("a"), 1), '[{"text": "a"}, 1]'),
            ([], "[]"),
            (float("nan"), "null"),
            (b"by", '"by"'),
            # 40 §6
            (-math.inf, "null"),
            (True, "true"),
            ((1, Pair(2, 3)), "[1, [2, 3]]"),
            (Colour.RED, '"red"'),
            ([Colour.RED, Word.YES], '["red", "yes"]'),
            (Word.YES, "yes"),
            (date(2020, 1, 2), '"2020-01-02"'),
            (datetime(2020, 1, 2, tzinfo=timezone.utc), '"2020-01-02T00:00:00Z"'),
            (UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
            (Path("/a"), '"/a"'),
            (Decimal("1.10"), '"1.10"'),
            (iter([1]), "[1]"),
            ((n for n in (1, 2)), "[1, 2]"),
            (map(str, [1]), '["1"]'),
            (collections.deque([1]), "[1]"),
            (collections.Counter("aa"), '{"a": 2}'),
            (
                {2: "a", None: "b", True: "c", 1e16: "d", b"k": "e"},
                '{"2": "a", "None": "b", "true": "c", "1e+16": "d", "k": "e"}',
            ),
            ([1e16, 1e-7, 1.0, -0.0], "[1e+16, 1e-07, 1.0, -0.0]"),
            (10**400, str(10**400)),
            ([TypeAdapter(int)], None),
            (SecretStr("x"), '"**********"'),
            (RootModel[list[int]]([1]), "[1]"),
        ],
        # No addresses in the names: parallel workers must collect the same tests.
        ids=lambda value: re.sub(r" at 0x[0-9a-f]+", "", repr(value)),
    )
    def test_values(self, value, text):  # 40 §9.5
        if text is None:
            with pytest.raises(PydanticSerializationError):
                TOOL.serialize_result(value)
        else:
            assert TOOL.serialize_result(value) == text

    def test_models_by_alias_and_without_nan(self):
        assert json.loads(TOOL.serialize_result([Model(number=float("inf"))]))[0] == {
            "number": None,
            "Renamed": 1,
            "tags": [],
            "data": "",
            "more": [],
            "by_name": {},
            "child": None,
        }

    def test_strings_are_unchanged(self):
        class Text(str):
            __slots__ = ()

        for value in ("\ud800", '"quoted"', Text("x")):
            assert TOOL.serialize_result(value) is value

    @pytest.mark.parametrize("value", [object(), [object()], Plain(object()), ValueError("x"), int])
    def test_unsupported_types_raise_the_library_s_error(self, value):
        with pytest.raises(PydanticSerializationError):
            TOOL.serialize_result(value)

    def test_circular_data(self):
        loop: list[Any] = []
        loop.append(loop)
        for value in (loop, {"a": loop}, dict.fromkeys(("x",), loop), Plain(loop)):
            with pytest.raises(ValueError):
                TOOL.serialize_result(value)

    def test_data_nested_too_deeply(self):
        deep: Any = 1
        for _ in range(100_000):
            deep = [deep]
        with pytest.raises(ValueError):
            TOOL.serialize_result(deep)

    def test_b_a23_plain_values_load_no_library(self):
        program = (
            "import sys; from zett_agent.tools.base import AgentTool\n"
            "tool = AgentTool('t', 'd', {}, print, ())\n"
            "print(tool.serialize_result([None, True, 1, 2.5, 'é', (1,), {'a': float('nan')}]))\n"
            "assert not {'pydantic', 'pydantic_core'} & set(sys.modules)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", program],
            check=True,
            capture_output=True,
            encoding="utf-8",
            env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        )
        assert done.stdout == '[null, true, 1, 2.5, "é", [1], {"a": null}]\n'

    @given(
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers()
            | st.floats()
            | st.text(st.characters(exclude_categories=["Cs"])),
            lambda inner: (
                st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner)
            ),
            max_leaves=10,
        )
    )
    def test_b_a23_plain_values_read_as_the_library_writes_them(self, value):
        expected = to_jsonable_python(value, inf_nan_mode="null")
        if not isinstance(value, str):
            assert TOOL.serialize_result(value) == json.dumps(expected, ensure_ascii=False)


class TestBytes:
    def test_better_17_bytes_that_are_not_text_become_base64(self):
        assert TOOL.serialize_result(b"\xff\xfe") == '"//4="'
        assert TOOL.serialize_result([b"\xff", bytearray(b"ab"), {b"\xff": "é".encode()}]) == (
            '["/w==", "ab", {"/w==": "é"}]'
        )
        assert TOOL.serialize_result(Plain(b"\xff")) == '{"a": "/w=="}'

    def test_better_17_in_models(self):
        data = json.loads(TOOL.serialize_result(Model(data=b"\xff", tags={"b", "a"}, number=math.nan)))
        assert (data["data"], data["tags"], data["Renamed"], data["number"]) == ("/w==", ["a", "b"], 1, None)


class TestSets:
    WORDS = frozenset(f"word{n:02}" for n in range(30))

    def test_better_17_sets_are_sorted(self):
        ordered = sorted(self.WORDS)
        assert json.loads(TOOL.serialize_result(self.WORDS)) == ordered
        assert json.loads(TOOL.serialize_result({"a": [self.WORDS], "b": Plain(self.WORDS)})) == {
            "a": [ordered],
            "b": {"a": ordered},
        }
        assert TOOL.serialize_result({date(2020, 1, 2), date(2020, 1, 1)}) == '["2020-01-01", "2020-01-02"]'

    def test_better_17_sets_in_models_are_sorted(self):
        ordered = sorted(self.WORDS)
        model = Model(
            tags=set(self.WORDS),
            more=[{30, 1, 2}],
            by_name={"x": self.WORDS},
            child=Model(tags=set(self.WORDS)),
        )
        data = json.loads(TOOL.serialize_result([model]))[0]
        assert data["tags"] == data["by_name"]["x"] == data["child"]["tags"] == ordered
        assert data["more"] == [[1, 2, 30]]
        assert json.loads(TOOL.serialize_result(Checked(set(self.WORDS)))) == {"a": ordered}

    def test_better_17_items_that_cannot_be_compared_keep_their_order(self):
        value = {1, "a"}
        assert json.loads(TOOL.serialize_result(value)) == list(value)

    def test_an_order_that_the_author_chose_stays(self):
        class Backwards(BaseModel):
            tags: set[str]

            @field_serializer("tags")
            def order(self, tags: set[str]) -> list[str]:
                return sorted(tags, reverse=True)

        assert json.loads(TOOL.serialize_result(Backwards(tags=set(self.WORDS)))) == {
            "tags": sorted(self.WORDS, reverse=True)
        }


class TestContent:
    @pytest.mark.parametrize("part", [TextContent("a"), IMAGE])
    def test_a_part_becomes_a_list(self, part):
        assert tool_result_content(TOOL, part) == [part]

    def test_a_list_of_parts_is_that_list(self):
        parts = [TextContent("a"), IMAGE]
        assert tool_result_content(TOOL, parts) is parts

    def test_better_15_a_tuple_of_parts(self):
        assert tool_result_content(TOOL, (TextContent("a"), IMAGE)) == [TextContent("a"), IMAGE]
        assert tool_result_content(TOOL, (TextContent("a"),)) == [TextContent("a")]

    def test_better_15_strings_beside_an_image(self):
        expected = [TextContent("a"), IMAGE, TextContent("b")]
        assert tool_result_content(TOOL, ["a", IMAGE, TextContent("b")]) == expected
        assert tool_result_content(TOOL, ("a", IMAGE, "b")) == expected

    def test_other_values_are_json(self):
        assert tool_result_content(TOOL, None) == "null"
        assert tool_result_content(TOOL, []) == "[]"
        assert tool_result_content(TOOL, ()) == "[]"
        assert tool_result_content(TOOL, ["a", "b"]) == '["a", "b"]'
        assert tool_result_content(TOOL, [TextContent("a"), "x"]) == '[{"text": "a"}, "x"]'
        assert json.loads(tool_result_content(TOOL, [IMAGE, 5]))[1] == 5  # type: ignore[arg-type]

    def test_a_serializer_of_a_subclass_is_used(self):
        class Loud(AgentTool):
            def serialize_result(self, value: Any) -> str:
                return f"<{value}>"

        assert tool_result_content(Loud("t", "d", {}, nothing, ()), 5) == "<5>"

    def test_better_10_and_c1_text_is_encodable(self):
        poisoned, clean = "cat \ud83d\udc08 x \ud83d", "cat 🐈 x \ufffd"
        assert tool_result_content(TOOL, poisoned) == clean
        assert tool_result_content(TOOL, [poisoned]) == f'["{clean}"]'
        assert (
            tool_result_content(TOOL, Plain({poisoned: {poisoned}})) == f'{{"a": {{"{clean}": ["{clean}"]}}}}'
        )
        assert json.loads(tool_result_content(TOOL, Model.model_construct(tags={poisoned})))["tags"] == [
            clean
        ]  # type: ignore[arg-type]
        assert tool_result_content(TOOL, TextContent(poisoned)) == [TextContent(clean)]
        image = ImageContent(ImageUrlSource("https://x/\ud83d\udc08"), alt_text=poisoned)
        assert tool_result_content(TOOL, [image, poisoned]) == [
            ImageContent(ImageUrlSource("https://x/🐈"), alt_text=clean),
            TextContent(clean),
        ]
        assert tool_error_text(ValueError(poisoned)) == clean


class Tree(BaseModel):
    children: list[Tree] = []


class Titled(BaseModel):
    title: str
    discriminator: int
    definitions: Plain


class TestReturnSchema:
    @pytest.mark.parametrize(
        ("annotation", "schema"),
        [
            (None, {"type": "null"}),
            (Any, None),
            (object, None),
            (Tree, None),
            (asyncio.Event, None),
            (str, {"type": "string"}),
            (list[int], {"items": {"type": "integer"}, "type": "array"}),
            (Iterable[int], {"items": {"type": "integer"}, "type": "array"}),
            (Decimal, None),
        ],
        ids=repr,
    )
    def test_annotations(self, annotation, schema):  # 40 §9.4
        def work() -> Any:
            """Do it."""

        work.__annotations__["return"] = annotation
        built = tool(work, guidelines="g")
        if annotation is Decimal:
            assert built.return_schema is not None
            assert built.return_schema["type"] == "string"
        else:
            assert built.return_schema == schema

    def test_without_an_annotation(self):  # 40 §9.4
        def work():
            """Do it."""

        assert tool(work, guidelines="g").return_schema is None

    def test_better_4_property_names_are_not_keywords(self):
        def work() -> Titled:  # type: ignore[empty-body]
            """Do it."""

        assert tool(work, guidelines="g").return_schema == {
            "properties": {
                "title": {"type": "string"},
                "discriminator": {"type": "integer"},
                "definitions": {"properties": {"a": {}}, "required": ["a"], "type": "object"},
            },
            "required": ["title", "discriminator", "definitions"],
            "type": "object",
        }


class TestErrorText:
    def test_is_the_text_of_the_error(self):
        assert tool_error_text(RuntimeError("x")) == "x"
        assert tool_error_text(KeyError("x")) == "'x'"
        assert tool_error_text(ValueError(" padded ")) == " padded "

    @pytest.mark.parametrize(
        "error", [RuntimeError(), ValueError(""), OSError(" \n"), asyncio.TimeoutError()]
    )
    def test_better_11_a_blank_text_gives_way_to_the_class(self, error):  # also 11 B-A17
        assert tool_error_text(error) == type(error).__name__

    def test_better_11_an_error_that_cannot_describe_itself(self):
        class Mute(Exception):
            def __str__(self) -> str:
                raise RuntimeError

        assert tool_error_text(Mute()) == "Mute"

    def test_better_11_groups_are_unwrapped(self):
        assert tool_error_text(ExceptionGroup("unhandled errors", [ValueError("only")])) == "only"
        nested = ExceptionGroup(
            "outer", [ValueError("one"), ExceptionGroup("inner", [KeyError("two"), OSError()])]
        )
        text = tool_error_text(nested)
        assert text == "3 errors:\n- ValueError: one\n- KeyError: 'two'\n- OSError: OSError"
        assert "sub-exception" not in text
        base = BaseExceptionGroup("b", [asyncio.CancelledError()])
        assert tool_error_text(base) == "CancelledError"

    def test_better_11_large_groups_are_bounded(self):
        lines = tool_error_text(ExceptionGroup("g", [ValueError(str(n)) for n in range(1000)])).splitlines()
        assert len(lines) == 22
        assert lines[-1] == "- and 980 more errors"

    def test_better_12_links_never_reach_the_model(self):
        with pytest.raises(ValidationError) as caught:
            TypeAdapter(int).validate_python("x")
        for error in (caught.value, RuntimeError(f"bad config: {caught.value}")):
            assert "errors.pydantic.dev" in str(error)
            text = tool_error_text(error)
            assert "errors.pydantic.dev" not in text
            assert "Input should be a valid integer" in text
            assert "input_type=str]" in text

    async def test_better_12_validation_text_and_error_are_equal(self):
        @tool(guidelines="g")
        def echo(a: int) -> None:
            """Do it."""

        for arguments in ({"a": "x"}, {"a": "\ud800" * 100}, {"\ud83d": 1}, {"a": b"\xff" * 1000}):
            with pytest.raises(ValidationError) as caught:
                await echo(arguments)
            assert tool_error_text(caught.value) == str(caught.value)
