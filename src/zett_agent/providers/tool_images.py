"""Moving images out of tool results, for the wires that take only text there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..messages import AnyMessage, ImageContent, TextContent, ToolMessage, UserContentPart, UserMessage

__all__ = ["expand_tool_images"]

_IMAGE_FOLLOWS = "The result is an image; it follows in the next user message."


def expand_tool_images(messages: Sequence[AnyMessage]) -> Sequence[AnyMessage]:
    """Return the messages with images of tool results in a user message behind the run of results.

    Messages without such images are the same objects, and without any at all so is the sequence.

    Example:
        >>> result = ToolMessage(tool_call_id="c", name="shot", content=[ImageContent(source)])
        >>> [type(message).__name__ for message in expand_tool_images([result])]  # doctest: +SKIP
        ['ToolMessage', 'UserMessage']
    """
    if not any(
        isinstance(message, ToolMessage) and not isinstance(message.content, str) for message in messages
    ):
        return messages
    expanded: list[AnyMessage] = []
    images: list[UserContentPart] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            expanded.append(_text_only(message))
            images.extend(_labelled_images(message))
            continue
        if images:
            expanded.append(UserMessage(content=images))
            images = []
        expanded.append(message)
    if images:
        expanded.append(UserMessage(content=images))
    return expanded


def _text_only(message: ToolMessage) -> ToolMessage:
    if isinstance(message.content, str):
        return message
    has_text = any(isinstance(part, TextContent) for part in message.content)
    text = message.text if has_text or not message.content else _IMAGE_FOLLOWS
    return replace(message, content=text)


def _labelled_images(message: ToolMessage) -> list[UserContentPart]:
    if isinstance(message.content, str):
        return []
    images = [part for part in message.content if isinstance(part, ImageContent)]
    if not images:
        return []
    label = TextContent(f"Image in the result of tool {message.name}, call {message.tool_call_id}:")
    return [label, *images]
