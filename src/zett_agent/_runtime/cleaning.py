"""Making a message encodable before it enters the conversation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from .._text import encodable, encodable_json
from ..messages import (
    AgentMessage,
    AnyMessage,
    AssistantMessage,
    SystemMessage,
    TextContent,
    ToolMessage,
    UserContent,
    UserMessage,
)

__all__ = ["clean_message"]


def clean_message(message: AnyMessage) -> None:
    """Replace lone surrogates in the text of `message`, in place.

    They come from terminals, models and files, and would make every later request, database write and
    log of the session fail. A message without any, which is nearly every message, is not touched.
    """
    clean = _CLEANERS.get(type(message)) or _inherited_cleaner(message)
    clean(message)


def _inherited_cleaner(message: object) -> Callable[[Any], None]:
    for base, cleaner in _CLEANERS.items():
        if isinstance(message, base):
            return cleaner
    kind = type(message).__name__
    raise TypeError(f"A conversation holds messages, not {kind}; use UserMessage(content=...)")


def _clean_text(message: SystemMessage | AgentMessage) -> None:
    if not message.content.isascii():
        message.content = encodable(message.content)


def _clean_parts(message: UserMessage | ToolMessage) -> None:
    message.content = _clean_content(message.content)


def _clean_content(content: UserContent) -> UserContent:
    if isinstance(content, str):
        return content if content.isascii() else encodable(content)
    for index, part in enumerate(content):
        if isinstance(part, TextContent) and not part.text.isascii():
            text = encodable(part.text)
            if text is not part.text:
                content[index] = replace(part, text=text)
    return content


def _clean_answer(message: AssistantMessage) -> None:
    if not message.content.isascii():
        message.content = encodable(message.content)
    if message.reasoning is not None and not message.reasoning.isascii():
        message.reasoning = encodable(message.reasoning)
    for name in ("provider", "model"):
        text = getattr(message, name)
        if text is not None and not text.isascii():
            setattr(message, name, encodable(text))
    for call in message.tool_calls:
        call.id = encodable(call.id)
        call.name = encodable(call.name)
        call.arguments = encodable_json(call.arguments)


_CLEANERS: dict[type, Callable[[Any], None]] = {
    SystemMessage: _clean_text,
    UserMessage: _clean_parts,
    AssistantMessage: _clean_answer,
    ToolMessage: _clean_parts,
    AgentMessage: _clean_text,
}
