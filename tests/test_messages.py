"""Messages and their parts as values. How they are stored is in test_message_codec.py."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle

import pytest
from pydantic import BaseModel, TypeAdapter

from zett_agent import messages
from zett_agent.exceptions import AgentStopError
from zett_agent.messages import (
    AgentMessage,
    AnyMessage,
    AssistantMessage,
    ImageBytesSource,
    ImageContent,
    ImageDetail,
    ImageSource,
    ImageUrlSource,
    Message,
    MessageRole,
    SystemMessage,
    TextContent,
    ToolCall,
    ToolMessage,
    UserContent,
    UserContentPart,
    UserMessage,
)
from zett_agent.stop import StopInfo, StopReason

PNG = ImageContent(ImageBytesSource(b"\x89PNG", "image/png"), ImageDetail.LOW, "a chart")

ONE_OF_EACH = [
    SystemMessage(content="s"),
    UserMessage(content=[TextContent("t"), PNG], attributes={"a": {"b": [1]}}, persist=False),
    AssistantMessage(
        content="c",
        reasoning="r",
        tool_calls=(ToolCall("i", "n", {"x": 1}, "bad"),),
        provider="p",
        model="m",
        replay_blocks=({"type": "thinking"},),
        stop=StopInfo(StopReason.MAX_OUTPUT),
    ),
    ToolMessage(tool_call_id="i", name="n", content="5", success=False),
    AgentMessage(content="go"),
]

BASE_FIELDS = ["attributes", "persist", "include_in_messages"]


def test_enumerations():
    assert [role.value for role in MessageRole] == ["system", "user", "assistant", "tool", "agent"]
    assert [detail.value for detail in ImageDetail] == ["auto", "low", "high"]


def test_m1_messages_are_keyword_only_and_have_slots():
    with pytest.raises(TypeError):
        UserMessage("a")
    with pytest.raises(AttributeError):
        UserMessage(content="a").foo = 1
    for message in ONE_OF_EACH:
        assert not hasattr(message, "__dict__")


def test_m2_parts_and_text():
    image = ImageContent(ImageUrlSource("https://x/y.png"))
    message = UserMessage(content=[TextContent("a"), image, TextContent("b")])
    assert message.text == "a\nb"
    assert message.parts is message.content
    assert UserMessage(content="x").parts == [TextContent("x")]
    assert UserMessage(content="").parts == [TextContent("")]
    assert UserMessage(content=[image]).text == ""
    assert ToolMessage(tool_call_id="i", name="n", content=message.content).text == "a\nb"
    assert ToolMessage(tool_call_id="i", name="n", content="plain").text == "plain"


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: ImageUrlSource("  "), "cannot be empty"),
        (lambda: ImageUrlSource(""), "cannot be empty"),
        (lambda: ImageUrlSource("ftp://x"), "HTTP.*HTTPS.*data URL"),
        (lambda: ImageUrlSource("data:text/plain,x"), "HTTP.*HTTPS.*data URL"),
        (lambda: ImageBytesSource(b"", "image/png"), "cannot be empty"),
        (lambda: ImageBytesSource(b"x", "text/plain"), "image/"),
        (lambda: ImageBytesSource(b"x", ""), "image/"),
    ],
)
def test_m3_bad_image_sources(make, text):
    with pytest.raises(ValueError, match=text):
        make()


def test_m3_good_image_sources():
    assert ImageUrlSource("data:image/png;base64,xx").url == "data:image/png;base64,xx"
    assert ImageBytesSource(b"x", " IMAGE/PNG") == ImageBytesSource(data=b"x", media_type=" IMAGE/PNG")
    image = ImageContent(ImageUrlSource("http://x/y.png"))
    assert (image.detail, image.alt_text) == (ImageDetail.AUTO, None)


def test_m4_parts_are_hashable_and_messages_are_not():
    assert hash(TextContent("a")) == hash(TextContent("a"))
    assert {PNG, copy.copy(PNG)} == {PNG}
    for value in [*ONE_OF_EACH, ToolCall("a", "b")]:
        with pytest.raises(TypeError):
            hash(value)


def test_m5_only_system_messages_stay_out_of_restored_history():
    assert SystemMessage(content="x").include_in_messages is False
    for message in ONE_OF_EACH[1:]:
        assert message.include_in_messages is True
    assert SystemMessage(content="x", include_in_messages=True).include_in_messages is True


@pytest.mark.parametrize(
    ("message_type", "role", "own_fields"),
    [
        (SystemMessage, "system", ["content"]),
        (UserMessage, "user", ["content"]),
        (
            AssistantMessage,
            "assistant",
            ["content", "reasoning", "tool_calls", "provider", "model", "replay_blocks", "stop"],
        ),
        (ToolMessage, "tool", ["tool_call_id", "name", "content", "success"]),
        (AgentMessage, "agent", ["content"]),
    ],
)
def test_fields_and_roles(message_type, role, own_fields):
    assert [field.name for field in dataclasses.fields(message_type)] == BASE_FIELDS + own_fields
    assert message_type.role is MessageRole(role)
    assert issubclass(message_type, Message)
    with pytest.raises(TypeError):
        message_type(role="user", content="x")


def test_required_and_default_fields():
    answer = AssistantMessage()
    assert (answer.content, answer.reasoning, answer.tool_calls, answer.replay_blocks) == ("", None, (), ())
    assert (answer.provider, answer.model, answer.stop) == (None, None, None)
    assert (answer.attributes, answer.persist) == ({}, True)
    assert answer.attributes is not AssistantMessage().attributes
    assert ToolMessage(tool_call_id="i", name="n", content="").success is True
    for message_type in (SystemMessage, UserMessage, AgentMessage):
        with pytest.raises(TypeError):
            message_type()
    with pytest.raises(TypeError):
        ToolMessage(name="n", content="")


def test_tool_calls():
    call = ToolCall("c", "n")
    assert (call.arguments, call.error) == ({}, None)
    assert call.arguments is not ToolCall("c", "n").arguments
    assert ToolCall("c", "n", {"x": 1}, "bad") == ToolCall(id="c", name="n", arguments={"x": 1}, error="bad")
    ToolCall("", "")  # not checked here: the loop repairs what a model invents


def test_equality_is_per_class():
    assert UserMessage(content="a") == UserMessage(content="a")
    assert SystemMessage(content="a") != AgentMessage(content="a")

    @dataclasses.dataclass(slots=True, kw_only=True, eq=False)
    class Note(UserMessage):
        pass

    assert Note(content="a") != UserMessage(content="a")
    assert UserMessage(content="a") != Note(content="a")


def test_m8_raise_for_stop():
    message = AssistantMessage(content="x")
    assert message.raise_for_stop() is message
    message.stop = StopInfo(StopReason.TOOL_USE)
    assert message.raise_for_stop() is message
    message.stop = StopInfo(StopReason.REFUSAL)
    with pytest.raises(AgentStopError) as caught:
        message.raise_for_stop()
    assert caught.value.message is message
    assert caught.value.stop is message.stop


def test_bm4_the_scheme_may_have_any_case_and_blanks_are_stripped():
    assert ImageUrlSource(" HTTPS://x/y.png\n").url == "HTTPS://x/y.png"
    assert ImageUrlSource("Data:Image/PNG;base64,xx").url == "Data:Image/PNG;base64,xx"
    assert ImageUrlSource(" https://x ") == ImageUrlSource("https://x")


@pytest.mark.parametrize("value", [*ONE_OF_EACH, ToolCall("i", "n", {"x": [1]}), TextContent("a"), PNG])
def test_values_survive_pickle_and_copies(value):
    for other in (pickle.loads(pickle.dumps(value)), copy.deepcopy(value), copy.copy(value)):
        assert type(other) is type(value)
        assert other == value
        assert other is not value


def test_deep_copies_share_nothing_mutable():
    message = ONE_OF_EACH[1]
    other = copy.deepcopy(message)
    other.attributes["a"]["b"].append(2)
    other.content.clear()
    assert message.attributes == {"a": {"b": [1]}}
    assert len(message.content) == 2


def test_replace_works_on_messages():
    message = ONE_OF_EACH[2]
    changed = dataclasses.replace(message, attributes={"k": 1}, include_in_messages=False)
    assert (changed.attributes, changed.include_in_messages) == ({"k": 1}, False)
    assert changed.tool_calls is message.tool_calls


@pytest.mark.parametrize(
    ("alias", "members"),
    [
        (ImageSource, {ImageUrlSource, ImageBytesSource}),
        (UserContentPart, {TextContent, ImageContent}),
        (AnyMessage, {SystemMessage, UserMessage, AssistantMessage, ToolMessage, AgentMessage}),
    ],
)
def test_aliases_show_their_union(alias, members):
    assert set(alias.__value__.__args__) == members


def test_isinstance_with_an_alias_is_a_type_error():
    for alias in (AnyMessage, ImageSource, UserContent):
        with pytest.raises(TypeError):
            isinstance(UserMessage(content="a"), alias)


def test_aliases_and_messages_are_pydantic_field_types():
    class Turn(BaseModel):
        content: UserContent
        part: UserContentPart
        source: ImageSource
        message: AnyMessage
        answer: AssistantMessage

    url = ImageUrlSource("https://x/y.png")
    turn = Turn(
        content=[TextContent("a"), ImageContent(url)],
        part=TextContent("b"),
        source=url,
        message=ONE_OF_EACH[3],
        answer=ONE_OF_EACH[2],
    )
    # pydantic keeps instances as they are; a host that stores messages relies on the identity.
    assert turn.message is ONE_OF_EACH[3]
    assert turn.answer is ONE_OF_EACH[2]
    assert turn.content == [TextContent("a"), ImageContent(url)]

    dumped = json.loads(turn.model_dump_json())
    assert dumped["content"][1] == {
        "source": {"url": "https://x/y.png"},
        "detail": "auto",
        "alt_text": None,
    }
    again = Turn.model_validate(dumped)
    assert again.answer == turn.answer
    assert type(again.content[1]) is ImageContent


def test_the_user_content_alias_validates_by_itself():
    adapter = TypeAdapter(UserContent)
    assert adapter.validate_python("a") == "a"
    assert adapter.validate_python([{"text": "a"}]) == [TextContent("a")]


def test_all_names_exist():
    for name in messages.__all__:
        assert hasattr(messages, name)
