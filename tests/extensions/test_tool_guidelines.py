"""`ToolGuidelinesExtension` in both placements. 40 §7, 32 §7 and acceptance 17."""

from __future__ import annotations

from typing import Any

import pytest

from zett_agent.agent import Agent, AgentRunConfig, AgentRunContext, AgentState
from zett_agent.extensions.base import AgentExtension, overrides
from zett_agent.extensions.tool_guidelines import ToolGuidancePlacement, ToolGuidelinesExtension
from zett_agent.messages import SystemMessage, UserMessage
from zett_agent.testing import ScriptedModel, call
from zett_agent.tools.base import AgentTool, render_tool_guidance


async def nothing(**_: Any) -> str:
    return "ok"


def make(name: str, **options: Any) -> AgentTool:
    return AgentTool(name, f"Do {name}.", {}, nothing, (f"Rule of {name}.",), f"{name}()", **options)


class TestConstruction:
    def test_defaults(self):
        extension = ToolGuidelinesExtension()
        assert extension.placement is ToolGuidancePlacement.SYSTEM_PROMPT
        assert (extension.snippets, extension.guidelines, extension.returns) == (True, True, False)
        assert extension.in_system_prompt is True
        assert [placement.value for placement in ToolGuidancePlacement] == ["system_prompt", "description"]

    def test_a_string_is_accepted_and_an_unknown_one_refused(self):
        extension = ToolGuidelinesExtension(placement="description")
        assert extension.placement is ToolGuidancePlacement.DESCRIPTION
        assert extension.in_system_prompt is False
        with pytest.raises(ValueError, match="bogus"):
            ToolGuidelinesExtension(placement="bogus")

    def test_only_the_description_placement_is_middleware(self):
        assert not overrides(ToolGuidelinesExtension(), "on_model_request")
        assert overrides(ToolGuidelinesExtension(placement="description"), "on_model_request")


class Later(AgentExtension):
    """Registers a tool for the request, and adds a word to one description."""

    async def on_tool(self, context: AgentRunContext) -> None:
        context.register_tool(make("later"))


async def requests_of(*extensions: AgentExtension, tools: list[AgentTool]) -> Any:
    model = ScriptedModel(call("now"), "done")
    agent = await Agent.create(model, tools=tools, extensions=extensions)
    await agent.run("go")
    return agent, model.requests


class TestSystemPrompt:
    async def test_one_message_after_the_system_messages(self):
        tools = [make("now"), make("hidden", deferred=True)]
        agent, requests = await requests_of(ToolGuidelinesExtension(), Later(), tools=tools)
        system, guidance, user = requests[0].messages
        assert isinstance(system, SystemMessage)
        assert isinstance(user, UserMessage)
        assert guidance == SystemMessage(
            content=render_tool_guidance([make("now"), make("later")]), attributes={"tool_guidelines": True}
        )
        assert [item.description for item in requests[0].tools if item.name == "now"] == ["Do now."]
        assert agent.tools["now"].description == "Do now."

    async def test_inserted_once(self):
        twin = ToolGuidelinesExtension()
        twin.name = "Twin"
        _, requests = await requests_of(ToolGuidelinesExtension(), twin, tools=[make("now")])
        assert [type(message) for message in requests[0].messages] == [
            SystemMessage,
            SystemMessage,
            UserMessage,
        ]

    async def test_nothing_to_say(self):
        context = AgentRunContext(AgentRunConfig("s"), AgentState(), {"d": make("d", deferred=True)})
        await ToolGuidelinesExtension().on_state(context)
        await ToolGuidelinesExtension(snippets=False, guidelines=False).on_state(context)
        await ToolGuidelinesExtension(placement="description").on_state(context)
        assert context.state.messages == ()

    async def test_before_the_dialogue(self):
        context = AgentRunContext(AgentRunConfig("s"), AgentState(), {"now": make("now")})
        for message in (
            SystemMessage(content="a"),
            SystemMessage(content="b"),
            UserMessage(content="c"),
            SystemMessage(content="d"),
        ):
            context.add_message(message)
        await ToolGuidelinesExtension().on_state(context)
        contents = [message.content for message in context.state.messages]
        assert contents == ["a", "b", render_tool_guidance([make("now")]), "c", "d"]

    async def test_changes_between_requests_are_seen(self):
        extension = ToolGuidelinesExtension(returns=True)
        registered = make("now", return_schema={"type": "null"})
        texts: list[str] = []
        for change in (lambda: None, lambda: registered.return_schema.update(type="string")):  # type: ignore[union-attr]
            change()
            context = AgentRunContext(AgentRunConfig("s"), AgentState(), {"now": registered})
            await extension.on_state(context)
            texts.append(context.state.messages[0].content)
        assert ['"null"' in texts[0], '"string"' in texts[1]] == [True, True]
        extension.returns = False
        registered.guidelines = ("Changed.",)
        context = AgentRunContext(AgentRunConfig("s"), AgentState(), {"now": registered})
        await extension.on_state(context)
        assert context.state.messages[0].content == render_tool_guidance([registered])
        assert "Changed." in context.state.messages[0].content

    async def test_a_known_text_is_not_rendered_again(self, monkeypatch):
        import zett_agent.extensions.tool_guidelines as module

        extension, tools = ToolGuidelinesExtension(), {"now": make("now")}
        first = AgentRunContext(AgentRunConfig("s"), AgentState(), tools)
        await extension.on_state(first)
        monkeypatch.setattr(module, "render_tool_guidance", None)
        second = AgentRunContext(AgentRunConfig("t"), AgentState(), tools)
        await extension.on_state(second)
        assert second.state.messages == first.state.messages
        assert second.state.messages[0] is not first.state.messages[0]


class TestDescription:
    async def test_extends_what_the_request_carries(self):
        from dataclasses import replace

        class Prefix(AgentExtension):
            priority = 50

            async def on_model_request(self, context: Any, request: Any, call_next: Any) -> Any:
                tools = tuple(
                    replace(item, description=f"Mine: {item.description}") for item in request.tools
                )
                async for event in call_next(replace(request, tools=tools)):
                    yield event

        tools = [make("now"), make("hidden", deferred=True)]
        guidance = ToolGuidelinesExtension(placement="description", snippets=False)
        agent, requests = await requests_of(guidance, Prefix(), Later(), tools=tools)
        texts = {item.name: item.description for item in requests[0].tools}
        assert texts["now"] == "Mine: Do now.\n\nGuidelines:\n- Rule of now."
        assert texts["later"] == "Mine: Do later.\n\nGuidelines:\n- Rule of later."
        assert texts.get("hidden", "Mine: Do hidden.") == "Mine: Do hidden."
        assert [type(message) for message in requests[0].messages] == [SystemMessage, UserMessage]
        assert agent.tools["now"].description == "Do now."
        assert len(requests) == 2
        assert requests[1].tools == requests[0].tools

    async def test_a_definition_without_a_tool_is_left_alone(self):
        class Foreign(AgentExtension):
            priority = 50

            async def on_model_request(self, context: Any, request: Any, call_next: Any) -> Any:
                from dataclasses import replace

                tools = (*request.tools, make("foreign").definition)
                async for event in call_next(replace(request, tools=tools)):
                    yield event

        guidance = ToolGuidelinesExtension(placement="description")
        _, requests = await requests_of(Foreign(), guidance, tools=[make("now")])
        assert {item.name: item.description for item in requests[0].tools}["foreign"] == "Do foreign."
