"""Telling the model how the tools of a request are meant to be used."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .._strenum import StrEnum
from ..messages import SystemMessage
from ..model import ModelEvent, ModelRequest, ToolDefinition
from ..tools._registry import peek_tools
from ..tools.base import render_tool_description, render_tool_guidance
from .base import AgentExtension, ModelRequestNext

if TYPE_CHECKING:
    from ..agent import AgentRunContext
    from ..tools.base import AgentTool

__all__ = ["ToolGuidancePlacement", "ToolGuidelinesExtension"]

_ATTRIBUTES = {"tool_guidelines": True}


class ToolGuidancePlacement(StrEnum):
    """Where the guidance goes."""

    SYSTEM_PROMPT = "system_prompt"
    DESCRIPTION = "description"


class ToolGuidelinesExtension(AgentExtension):
    """Shows the model the snippets and guidelines of the registered tools; deferred ones are left out.

    In the system prompt, the guidance of all tools becomes one system message after the existing ones. In
    the descriptions, each tool's guidance is appended to its own definition, in the request only.

    Args:
        placement: Where the guidance goes; fixed once constructed.
        snippets: Whether call examples are shown.
        guidelines: Whether usage rules are shown.
        returns: Whether return schemas are shown.

    Raises:
        ValueError: `placement` is not one of `ToolGuidancePlacement`.

    Example:
        >>> ToolGuidelinesExtension(placement="description").in_system_prompt
        False
    """

    def __init__(
        self,
        *,
        placement: ToolGuidancePlacement | str = ToolGuidancePlacement.SYSTEM_PROMPT,
        snippets: bool = True,
        guidelines: bool = True,
        returns: bool = False,
    ) -> None:
        self._placement = ToolGuidancePlacement(placement)
        self.snippets = snippets
        self.guidelines = guidelines
        self.returns = returns
        self._last: tuple[object, str] = (None, "")
        if not self.in_system_prompt:
            # Only then: middleware that overrides nothing costs nothing, and this extension is in every
            # default agent.
            self.on_model_request = self._extend_descriptions

    @property
    def placement(self) -> ToolGuidancePlacement:
        """Where the guidance goes."""
        return self._placement

    @property
    def in_system_prompt(self) -> bool:
        """Whether the guidance is a system message."""
        return self._placement is ToolGuidancePlacement.SYSTEM_PROMPT

    async def on_state(self, context: AgentRunContext) -> None:
        """Insert the guidance after the leading system messages, unless an equal message is there."""
        if not self.in_system_prompt:
            return
        text = self._render([tool for tool in peek_tools(context.tools) if not tool.deferred])
        if not text:
            return
        guidance = SystemMessage(content=text, attributes=dict(_ATTRIBUTES))
        messages = context.state.messages
        if guidance in messages:
            return
        leading = next(
            (index for index, message in enumerate(messages) if not isinstance(message, SystemMessage)),
            len(messages),
        )
        context.add_message(guidance, index=leading)

    def _render(self, tools: Sequence[AgentTool]) -> str:
        """Render the guidance, or take what the previous request rendered from the same texts."""
        key: Any = (
            self.snippets,
            self.guidelines,
            # Schemas can be changed in place, so they are never taken as known.
            object() if self.returns else None,
            [(tool.name, tool.snippet, tool.guidelines) for tool in tools],
        )
        known, text = self._last
        if key != known:
            text = render_tool_guidance(
                tools, snippets=self.snippets, guidelines=self.guidelines, returns=self.returns
            )
            self._last = (key, text)
        return text

    def _extend_descriptions(
        self, context: AgentRunContext, request: ModelRequest, call_next: ModelRequestNext
    ) -> AsyncIterator[ModelEvent]:
        tools = {tool.name: tool for tool in peek_tools(context.tools) if not tool.deferred}
        definitions = tuple(
            self._extend(definition, tools.get(definition.name)) for definition in request.tools
        )
        # The default middleware passes the stream on and closes it.
        return super().on_model_request(context, replace(request, tools=definitions), call_next)

    def _extend(self, definition: ToolDefinition, tool: AgentTool | None) -> ToolDefinition:
        if tool is None:
            return definition
        description = render_tool_description(
            tool,
            snippet=self.snippets,
            guidelines=self.guidelines,
            returns=self.returns,
            base=definition.description,
        )
        return replace(definition, description=description)
