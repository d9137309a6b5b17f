"""JSON values and the check that a mapping holds nothing else."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from datetime import datetime, timezone
from enum import IntEnum
from types import MappingProxyType

import pytest
from pydantic import TypeAdapter, ValidationError

from zett_agent.json_types import JsonValue, json_object


def nested(levels):
    """Return a value of `levels` containers, one in the other."""
    value = 1
    for _ in range(levels):
        value = [value]
    return value


def test_j1_none_becomes_a_new_empty_dictionary():
    first, second = json_object(None, field_name="metadata"), json_object(None, field_name="metadata")
    assert first == {}
    assert first is not second


def test_j1_only_the_top_level_is_copied():
    source = {"a": [1]}
    result = json_object(source, field_name="metadata")
    assert result == source
    assert result is not source
    assert result["a"] is source["a"]


def test_j2_a_key_that_is_no_string_is_refused():
    with pytest.raises(ValueError, match="metadata keys must be string"):
        json_object({1: 1}, field_name="metadata")


@pytest.mark.parametrize(
    "value",
    [
        {"a": (1,)},
        {"a": float("nan")},
        {"a": float("inf")},
        {"a": {1: 1}},
        {"a": b"x"},
        {"a": {1}},
        {"a": datetime.now(timezone.utc)},
        {"a": object()},
        {"a": MappingProxyType({"b": 1})},
        {"a": [{"b": [b"x"]}]},
    ],
)
def test_j2_values_outside_json_are_refused_with_their_cause(value):
    with pytest.raises(ValueError, match=r"metadata.*JSON serializable") as caught:
        json_object(value, field_name="metadata")
    assert isinstance(caught.value.__cause__, ValueError)


def test_j3_blank_keys_are_refused_only_on_request_and_only_at_the_top():
    assert json_object({" ": 1, "": 2}, field_name="metadata") == {" ": 1, "": 2}
    assert json_object({"a": {" ": 1}}, field_name="tags", nonempty_keys=True) == {"a": {" ": 1}}
    for key in (" ", "", "\t"):
        with pytest.raises(ValueError, match=r"tags.*non-empty string"):
            json_object({key: 1}, field_name="tags", nonempty_keys=True)


def test_j4_big_integers_and_any_top_level_mapping_are_accepted():
    assert json_object({"a": 10**400}, field_name="metadata") == {"a": 10**400}
    assert json_object(MappingProxyType({"a": 1}), field_name="metadata") == {"a": 1}

    class Custom(Mapping):
        def __getitem__(self, key):
            return {"a": 1}[key]

        def __iter__(self):
            return iter(("a",))

        def __len__(self):
            return 1

    assert json_object(Custom(), field_name="metadata") == {"a": 1}


def test_subclasses_of_json_types_are_accepted():
    class Level(IntEnum):
        HIGH = 3

    value = {"level": Level.HIGH, "ordered": OrderedDict(a=[None, True, 1.5, "x"])}
    assert json_object(value, field_name="metadata") == {"level": 3, "ordered": {"a": [None, True, 1.5, "x"]}}


def test_bj1_a_cycle_is_an_ordinary_value_error():
    cyclic = []
    cyclic.append({"again": cyclic})
    with pytest.raises(ValueError, match="JSON serializable") as caught:
        json_object({"a": cyclic}, field_name="metadata")
    assert "cyclic" in str(caught.value.__cause__)


def test_bj1_a_value_that_appears_twice_is_no_cycle():
    shared = [1]
    assert json_object({"a": shared, "b": [shared, shared]}, field_name="m")["b"] == [[1], [1]]


def test_bj1_depth_is_limited_to_500_levels():
    deepest = json_object({"a": nested(499)}, field_name="metadata")
    assert deepest["a"] == nested(499)
    for levels in (500, 1_000, 100_000):
        with pytest.raises(ValueError, match="JSON serializable") as caught:
            json_object({"a": nested(levels)}, field_name="metadata")
        assert "too deep" in str(caught.value.__cause__)


def test_bj2_the_error_names_path_and_type():
    value = {"items": [0, 1, 2, {"when": datetime.now(timezone.utc)}]}
    with pytest.raises(ValueError) as caught:
        json_object(value, field_name="metadata")
    assert "metadata.items[3].when is a datetime" in str(caught.value)
    assert "metadata.items[3].when is a datetime" in str(caught.value.__cause__)


def test_the_alias_is_a_pydantic_field_type():
    adapter = TypeAdapter(JsonValue)
    value = {"a": [1, 2.5, None, True, "x", {"b": []}]}
    assert adapter.validate_python(value) == value
    assert type(adapter.validate_python(True)) is bool
    assert type(adapter.validate_python(1)) is int
    with pytest.raises(ValidationError):
        adapter.validate_python({"a": [object()]})
    assert JsonValue.__value__ is not None
