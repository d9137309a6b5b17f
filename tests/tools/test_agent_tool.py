"""`AgentTool` built by hand: fields, checks, calls, copies. 40 §3, 70 S2."""

from __future__ import annotations

import copy
import dataclasses
import importlib

import pytest

from zett_agent.model import ToolDefinition
from zett_agent.tools.base import AgentTool, ToolExecutionMode, ToolResult, copy_for_request, tool

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


async def shout(text: str) -> str:
    return text.upper()


def make(**changes) -> AgentTool:
    values = {
        "name": "shout",
        "description": "Return text in capitals.",
        "parameters": copy.deepcopy(SCHEMA),
        "handler": shout,
        "guidelines": (),
    }
    return AgentTool(**{**values, **changes})


@tool
def add(a: int, b: int = 2) -> int:
    """Add two numbers.

    Guidelines:
        - Use it for sums.
    """
    return a + b


class TestExecutionMode:
    def test_members_are_their_values(self):
        assert str(ToolExecutionMode.SERIAL) == "serial"
        assert f"{ToolExecutionMode.PARALLEL}" == "parallel"
        assert ToolExecutionMode("serial") is ToolExecutionMode.SERIAL


class TestFields:
    def test_order_and_defaults(self):
        built = AgentTool(
            "n", "d", SCHEMA, shout, ("g",), "s", {"type": "string"}, ToolExecutionMode.SERIAL, True
        )
        assert [field.name for field in dataclasses.fields(built)] == [
            "name",
            "description",
            "parameters",
            "handler",
            "guidelines",
            "snippet",
            "return_schema",
            "execution_mode",
            "deferred",
            "local_tool_search",
            "metadata",
        ]
        assert (built.return_schema, built.deferred) == ({"type": "string"}, True)
        bare = make()
        assert (bare.snippet, bare.return_schema, bare.execution_mode) == (
            "",
            None,
            ToolExecutionMode.PARALLEL,
        )
        assert (bare.deferred, bare.local_tool_search, bare.metadata) == (False, False, {})

    def test_is_mutable_but_only_in_its_fields(self):
        built = make()
        built.name = "other"
        with pytest.raises(AttributeError):
            built.nickname = "x"
        with pytest.raises(AttributeError, match="nickname"):
            _ = built.nickname

    def test_compares_by_field_and_is_not_hashable(self):
        assert make() == make()
        assert make() != make(name="other")
        assert make() != make(metadata={"tags": ["a"]})
        with pytest.raises(TypeError):
            hash(make())

    def test_the_name_is_not_validated(self):
        assert make(name="").name == ""
        assert make(name="a b/c").name == "a b/c"

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"description": " \n"}, "description cannot be empty"),
            ({"description": None}, "description cannot be empty"),
            ({"guidelines": ("a", " ")}, "guidelines cannot be blank"),
            ({"execution_mode": "serial"}, "execution_mode"),
            ({"deferred": 1}, "deferred"),
            ({"local_tool_search": 1}, "local_tool_search"),
            ({"return_schema": []}, "return_schema"),
            ({"local_tool_search": True, "deferred": True}, "local_tool_search"),
            ({"metadata": None}, "metadata"),
        ],
    )
    def test_bad_values_are_refused(self, changes, words):  # 40 §9.3
        with pytest.raises(ValueError, match=words):
            make(**changes)

    def test_better_18_guidelines_become_a_tuple(self):
        assert make(guidelines="abc").guidelines == ("abc",)
        assert make(guidelines=["a", "b"]).guidelines == ("a", "b")

    def test_metadata_is_the_last_field_and_invisible_by_default(self):  # 70 S2
        assert "metadata" not in repr(make())
        marked = tool(add.handler, name="add", guidelines="g", metadata={"timeout": 5})
        assert marked.metadata == {"timeout": 5}
        assert not hasattr(marked.definition, "metadata")
        assert "timeout" not in str(marked.parameters)


class TestDefinition:
    def test_is_fresh_and_shares_the_parameters(self):
        built = make(deferred=True)
        assert built.definition == ToolDefinition("shout", "Return text in capitals.", SCHEMA, deferred=True)
        assert built.definition is not built.definition
        assert built.definition.parameters is built.parameters


class TestCall:
    async def test_passes_the_mapping_as_keywords_and_returns_the_raw_result(self):
        assert await make()({"text": "hi"}) == "HI"

        async def echo(**arguments):
            return arguments

        assert await make(handler=echo)({"self": 1, "arguments": 2}) == {"self": 1, "arguments": 2}

    async def test_keywords_are_refused(self):
        with pytest.raises(TypeError):
            await make()(text="hi")

    async def test_errors_pass_unchanged(self):
        error = KeyError("mine")

        async def fail(**_):
            raise error

        with pytest.raises(KeyError) as caught:
            await make(handler=fail)({})
        assert caught.value is error

    async def test_nothing_is_validated(self):
        async def echo(text):
            return text

        assert await make(handler=echo)({"text": 5}) == 5


class TestCopies:
    def test_a_request_copy_leaves_the_original_alone(self):
        original = make(metadata={"tags": ["a"]})
        own = copy_for_request(original)
        assert own == original
        assert own.handler is original.handler
        own.parameters["properties"]["text"]["type"] = "integer"
        own.metadata["tags"].append("b")
        assert original.parameters == SCHEMA
        assert original.metadata == {"tags": ["a"]}

    def test_a_request_copy_keeps_a_subclass_with_its_data(self):
        class Named(AgentTool):
            nickname = "x"

        named = Named("n", "d", {"x": (1, [2])}, shout, ())
        named.nickname = "y"
        own = copy_for_request(named)
        assert type(own) is Named
        assert own.nickname == "y"
        own.parameters["x"][1].append(3)
        assert named.parameters == {"x": (1, [2])}

    @pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, copy_for_request, dataclasses.replace])
    def test_copies_of_a_decorated_tool_are_equal(self, duplicate):
        twin = duplicate(add)
        assert twin == add
        assert twin.return_schema == {"type": "integer"}

    def test_better_20_copying_does_not_work_out_the_return_schema(self):
        @tool
        def fresh(a: int) -> list[int]:
            """Do it.

            Guidelines:
                - g
            """
            return [a]

        own = copy_for_request(copy.copy(fresh))
        for one in (fresh, own):
            with pytest.raises(AttributeError):
                object.__getattribute__(one, "return_schema")
            assert one.return_schema == {"items": {"type": "integer"}, "type": "array"}
            assert one.return_schema is one.return_schema


def test_the_result_type_is_an_alias_object():
    assert not isinstance(ToolResult, type)
    assert ToolResult.__value__ is not None
    assert ToolResult.__name__ == "ToolResult"


@pytest.mark.parametrize("module", ["zett_agent.tools", "zett_agent.tools.base"])
@pytest.mark.parametrize(
    "name",
    [
        "AgentTool",
        "ToolExecutionMode",
        "ToolResult",
        "tool",
        "get_tool_guidelines",
        "get_tool_snippet",
        "render_tool_guidance",
        "render_tool_description",
        "render_tool_search_text",
        "current_tool_call_id",
    ],
)
def test_names_resolve_to_the_same_object(module, name):  # 40 §9.11
    assert getattr(importlib.import_module(module), name) is getattr(
        importlib.import_module("zett_agent.tools.base"), name
    )


def test_an_unknown_export_names_package_and_attribute():
    package = importlib.import_module("zett_agent.tools")
    assert "AgentTool" in dir(package)
    with pytest.raises(AttributeError, match=r"zett_agent\.tools.*nonsense"):
        _ = package.nonsense
