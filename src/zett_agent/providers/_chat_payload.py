"""Writing a request for the Chat Completions wire."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from ..messages import (
    AgentMessage,
    AnyMessage,
    AssistantMessage,
    ImageContent,
    ImageDetail,
    ImageSource,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserContent,
    UserContentPart,
    UserMessage,
)
from ..model import ServerToolDefinition, ToolDefinition
from ._arguments_text import encode_arguments
from ._images import image_url
from ._names import wire_name
from .tool_images import expand_tool_images

__all__ = [
    "ChatMessagePayload",
    "chat_image",
    "chat_message",
    "chat_messages",
    "chat_server_tools",
    "chat_tool_choice",
    "chat_tools",
]

ChatMessagePayload = dict[str, Any]
"""One message as the wire has it."""


def chat_messages(
    messages: Sequence[AnyMessage],
    tool_names: Collection[str],
    finish_assistant: Callable[[AssistantMessage, ChatMessagePayload], None],
) -> list[ChatMessagePayload]:
    """Return the messages of a request in order.

    Args:
        messages: The conversation.
        tool_names: Names of the request's tools, which are sent as they are.
        finish_assistant: Adds what an adapter replays to an assistant message.
    """
    payloads: list[ChatMessagePayload] = []
    for message in expand_tool_images(messages):
        payload = chat_message(message, tool_names=tool_names)
        if isinstance(message, AssistantMessage):
            finish_assistant(message, payload)
        payloads.append(payload)
    return payloads


def chat_message(message: AnyMessage, *, tool_names: Collection[str] = ()) -> ChatMessagePayload:
    """Return one message, without anything that only its own service may get back.

    Args:
        message: The message.
        tool_names: Names of the request's tools; other names are made acceptable.
    """
    match message:
        case SystemMessage():
            return {"role": "system", "content": message.content}
        case UserMessage():
            return {"role": "user", "content": _content(message.content)}
        case AgentMessage():
            return {"role": "user", "content": message.content}
        case ToolMessage():
            return {"role": "tool", "tool_call_id": message.tool_call_id, "content": message.text}
        case AssistantMessage():
            return _assistant(message, tool_names)


def _assistant(message: AssistantMessage, tool_names: Collection[str]) -> ChatMessagePayload:
    if not message.tool_calls:
        return {"role": "assistant", "content": message.content}
    calls = [_tool_call(call, tool_names) for call in message.tool_calls]
    return {"role": "assistant", "content": message.content or None, "tool_calls": calls}


def _tool_call(call: ToolCall, tool_names: Collection[str]) -> dict[str, Any]:
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": wire_name(call.name, tool_names), "arguments": encode_arguments(call)},
    }


def _content(content: UserContent) -> str | list[dict[str, Any]]:
    if isinstance(content, str):
        return content
    return [_part(part) for part in content] or ""


def _part(part: UserContentPart) -> dict[str, Any]:
    if isinstance(part, ImageContent):
        return chat_image(part.source, part.detail)
    return {"type": "text", "text": part.text}


def chat_image(source: ImageSource, detail: ImageDetail = ImageDetail.AUTO) -> dict[str, Any]:
    """Return an image part; bytes become a data URL."""
    return {"type": "image_url", "image_url": {"url": image_url(source), "detail": detail.value}}


def chat_tools(tools: Sequence[ToolDefinition]) -> list[dict[str, Any]]:
    """Return the declarations of function tools; schemas are passed unchanged."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
            },
        }
        for tool in tools
    ]


def chat_server_tools(tools: Sequence[ServerToolDefinition]) -> list[dict[str, Any]]:
    """Return the declarations of hosted tools."""
    return [{"type": tool.type, **tool.configuration} for tool in tools]


def chat_tool_choice(name: str) -> dict[str, Any]:
    """Return the field that forces one tool."""
    return {"type": "function", "function": {"name": name}}
