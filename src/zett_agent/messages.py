"""The conversation: content parts, tool calls and the five kinds of message.

Messages are plain mutable dataclasses that every other part of the library passes around by reference.
Nothing here does I/O or knows a provider.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ._strenum import StrEnum
from .exceptions import AgentStopError
from .stop import StopInfo

if sys.version_info >= (3, 12):
    from typing import TypeAliasType
else:
    from typing_extensions import TypeAliasType

__all__ = [
    "AgentMessage",
    "AnyMessage",
    "AssistantMessage",
    "ImageBytesSource",
    "ImageContent",
    "ImageDetail",
    "ImageSource",
    "ImageUrlSource",
    "Message",
    "MessageRole",
    "SystemMessage",
    "TextContent",
    "ToolCall",
    "ToolMessage",
    "UserContent",
    "UserContentPart",
    "UserMessage",
]


class MessageRole(StrEnum):
    """Who speaks in a message."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    AGENT = "agent"


class ImageDetail(StrEnum):
    """How closely a model should look at an image."""

    AUTO = "auto"
    LOW = "low"
    HIGH = "high"


@dataclass(frozen=True, slots=True)
class TextContent:
    """A piece of text within a message."""

    text: str


@dataclass(frozen=True, slots=True)
class ImageUrlSource:
    """An image that the provider fetches: an HTTP(S) address or an inline `data:image/…` URL.

    Raises:
        ValueError: The URL is blank or of another scheme.
    """

    url: str

    def __post_init__(self) -> None:
        url = self.url.strip()
        if not url:
            raise ValueError("Image URL cannot be empty")
        if not url[:11].lower().startswith(("https://", "http://", "data:image/")):
            raise ValueError("Image URL must be an HTTP or HTTPS address or an image data URL (data:image/…)")
        object.__setattr__(self, "url", url)


@dataclass(frozen=True, slots=True)
class ImageBytesSource:
    """An image as the bytes of an encoded file (PNG, JPEG, …), not pixels and not base64.

    Raises:
        ValueError: `data` is empty, or `media_type` is not an image type.
    """

    data: bytes
    media_type: str

    def __post_init__(self) -> None:
        if not self.data:
            raise ValueError("Image data cannot be empty")
        if not self.media_type.strip().lower().startswith("image/"):
            raise ValueError(f"Image media type must start with image/, not {self.media_type!r}")


ImageSource = TypeAliasType("ImageSource", ImageUrlSource | ImageBytesSource)


@dataclass(frozen=True, slots=True)
class ImageContent:
    """An image within a message. `alt_text` is for people and is never sent to a provider."""

    source: ImageSource
    detail: ImageDetail = ImageDetail.AUTO
    alt_text: str | None = None


UserContentPart = TypeAliasType("UserContentPart", TextContent | ImageContent)
UserContent = TypeAliasType("UserContent", str | list[UserContentPart])


@dataclass(slots=True)
class ToolCall:
    """A complete request of the model to run one tool.

    Attributes:
        id: Pairs the call with its `ToolMessage`.
        name: The tool's name as the model wrote it.
        arguments: Decoded keyword arguments.
        error: Set by an adapter that could not decode the arguments. Such a call is never run; this
            text becomes its failed result.
    """

    id: str
    name: str
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    error: str | None = None


@dataclass(slots=True, kw_only=True)
class Message:
    """What all messages share. All fields are keyword-only.

    Attributes:
        attributes: Application data of this message; never sent to a provider.
        persist: Whether storage keeps it.
        include_in_messages: Whether restored history puts it back before the model.
    """

    role: ClassVar[MessageRole]

    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
    persist: bool = True
    include_in_messages: bool = True


@dataclass(slots=True, kw_only=True)
class SystemMessage(Message):
    """An instruction to the model. Rebuilt for each request, so it is not restored by default."""

    role: ClassVar[MessageRole] = MessageRole.SYSTEM

    include_in_messages: bool = False
    content: str


@dataclass(slots=True, kw_only=True)
class UserMessage(Message):
    """Input of the user: a string, or a list of text and image parts."""

    role: ClassVar[MessageRole] = MessageRole.USER

    content: UserContent

    @property
    def parts(self) -> list[UserContentPart]:
        """The content as parts; the very list when the content is one."""
        return [TextContent(self.content)] if isinstance(self.content, str) else self.content

    @property
    def text(self) -> str:
        """The text parts, one per line; images contribute nothing."""
        return content_text(self.content)


@dataclass(slots=True, kw_only=True)
class AssistantMessage(Message):
    """What the model answered.

    Attributes:
        content: The visible text.
        reasoning: Readable reasoning, or `None`.
        tool_calls: The tools the model asks for, in its order.
        provider: Name of the adapter that produced the message.
        model: Name of the model that produced it.
        replay_blocks: Opaque blocks that must go back unchanged, to the same provider and model only.
        stop: Set by the loop when the step did not end normally; `None` for a normal message.
    """

    role: ClassVar[MessageRole] = MessageRole.ASSISTANT

    content: str = ""
    reasoning: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    provider: str | None = None
    model: str | None = None
    replay_blocks: tuple[Mapping[str, Any], ...] = ()
    stop: StopInfo | None = None

    def raise_for_stop(self) -> AssistantMessage:
        """Return this message, or raise when the model did not finish it.

        Raises:
            AgentStopError: `stop` is set and not ok.

        Example:
            >>> AssistantMessage(content="4").raise_for_stop().content
            '4'
        """
        if self.stop is not None and not self.stop.ok:
            raise AgentStopError(self.stop, self)
        return self


@dataclass(slots=True, kw_only=True)
class ToolMessage(Message):
    """The result of one tool call.

    `success` is false for failed, skipped, cancelled and unknown-outcome calls.
    """

    role: ClassVar[MessageRole] = MessageRole.TOOL

    tool_call_id: str
    name: str
    content: UserContent
    success: bool = True

    @property
    def text(self) -> str:
        """The text parts, one per line; images contribute nothing."""
        return content_text(self.content)


@dataclass(slots=True, kw_only=True)
class AgentMessage(Message):
    """An instruction from an extension to the running agent; providers receive it as a user turn."""

    role: ClassVar[MessageRole] = MessageRole.AGENT

    content: str


AnyMessage = TypeAliasType(
    "AnyMessage", SystemMessage | UserMessage | AssistantMessage | ToolMessage | AgentMessage
)


def content_text(content: UserContent) -> str:
    """Return the text of message content, parts joined by line breaks."""
    if isinstance(content, str):
        return content
    return "\n".join(part.text for part in content if isinstance(part, TextContent))
