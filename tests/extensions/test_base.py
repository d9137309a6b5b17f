"""The extension contract: defaults, names, the hook table's questions. The loop's use of it is elsewhere."""

from __future__ import annotations

import dataclasses
import inspect
import threading

import pytest

from zett_agent.extensions.base import (
    HOOK_NAMES,
    AgentEventHooksMixin,
    AgentExtension,
    AgentMaintenanceHooksMixin,
    AgentModelHooksMixin,
    AgentRunHooksMixin,
    AgentSetupHooksMixin,
    AgentToolHooksMixin,
    AgentTurnHooksMixin,
    MiddlewareHook,
    hook_type_error,
    mark_active,
    overrides,
)
from zett_agent.messages import AssistantMessage, ToolCall, ToolMessage
from zett_agent.model import ModelEvent, ModelRequest, ModelResponse

MIXINS = [
    (MiddlewareHook, {"on_model_request", "on_tool_call"}),
    (AgentSetupHooksMixin, {"on_tool", "on_state", "on_message"}),
    (AgentRunHooksMixin, {"before_run", "after_run", "on_success", "on_error"}),
    (AgentTurnHooksMixin, {"before_turn", "after_turn"}),
    (AgentModelHooksMixin, {"before_model", "after_model"}),
    (AgentToolHooksMixin, {"before_tool", "after_tool"}),
    (AgentEventHooksMixin, {"on_event", "accept"}),
    (AgentMaintenanceHooksMixin, {"on_compact"}),
]


@pytest.mark.parametrize(("mixin", "hooks"), MIXINS, ids=lambda value: getattr(value, "__name__", ""))
def test_each_mixin_has_its_hooks(mixin, hooks):
    assert issubclass(AgentExtension, mixin)
    assert {name for name in vars(mixin) if not name.startswith("_")} == hooks
    assert hooks <= HOOK_NAMES


def test_all_hooks_are_known():
    assert frozenset().union(*(hooks for _, hooks in MIXINS)) == HOOK_NAMES


def test_kinds_of_hooks():
    for name in HOOK_NAMES:
        hook = getattr(AgentExtension, name)
        if name == "on_model_request":
            assert inspect.isasyncgenfunction(hook)
        else:
            assert inspect.iscoroutinefunction(hook) is (name != "accept")


async def test_defaults_do_nothing():
    extension, call = AgentExtension(), ToolCall("c", "n")
    answer, result = AssistantMessage(), ToolMessage(tool_call_id="c", name="n", content="")
    for hook, arguments in {
        "on_tool": (),
        "on_state": (),
        "on_message": (),
        "before_run": (),
        "after_run": (answer,),
        "on_success": (answer,),
        "on_error": (KeyError(),),
        "before_turn": (),
        "after_turn": (answer,),
        "before_model": (ModelRequest(()),),
        "after_model": (ModelResponse(answer),),
        "before_tool": (call,),
        "after_tool": (call, result, None),
        "on_event": (None,),
        "on_compact": (),
    }.items():
        assert await getattr(extension, hook)(None, *arguments) is None
    assert extension.accept(None, None) is False


async def test_default_tool_middleware_passes_the_result_through():
    async def handler():
        return {"a": 1}

    assert await AgentExtension().on_tool_call(None, ToolCall("c", "n"), handler) == {"a": 1}


async def test_default_model_middleware_relays_and_closes():
    closed = []

    async def stream(request):
        try:
            for text in "abc":
                yield ModelEvent.text(text)
        finally:
            closed.append(request)

    request = ModelRequest(())
    layer = AgentExtension().on_model_request(None, request, stream)
    assert [event.delta async for event in layer] == ["a", "b", "c"]
    assert closed == [request]

    layer = AgentExtension().on_model_request(None, request, stream)
    assert (await layer.__anext__()).delta == "a"
    await layer.aclose()
    assert closed == [request, request]


async def test_default_model_middleware_takes_any_async_iterator():
    class Iterator:
        def __init__(self):
            self.left = ["a", "b"]

        def __aiter__(self):
            return self

        async def __anext__(self):
            if not self.left:
                raise StopAsyncIteration
            return ModelEvent.text(self.left.pop(0))

    layer = AgentExtension().on_model_request(None, ModelRequest(()), lambda request: Iterator())
    assert [event.delta async for event in layer] == ["a", "b"]


class Named(AgentExtension):
    priority = 10

    def __init__(self):  # deliberately without super().__init__()
        self.value = 1


def test_the_name_is_the_class_name_unless_assigned():
    assert AgentExtension().name == "AgentExtension"
    first, second = Named(), Named()
    first.name = "first"
    assert (first.name, second.name) == ("first", "Named")
    assert (Named.priority, AgentExtension.priority) == (10, 100)


def test_a_class_may_define_name_and_pending_itself():
    class Own(AgentExtension):
        name = "own"

        @property
        def pending(self):
            return "mine"

    extension = Own()
    mark_active([extension], +1)
    assert (extension.name, extension.pending) == ("own", "mine")
    mark_active([extension], -1)


def test_a_frozen_dataclass_may_be_an_extension():
    @dataclasses.dataclass(frozen=True)
    class Frozen(AgentExtension):
        values: list = dataclasses.field(default_factory=list)

    extension = Frozen([1])  # neither hashable nor assignable
    mark_active([extension], +1)
    assert extension.pending
    mark_active([extension], -1)
    assert not extension.pending
    assert extension.name == "Frozen"


def test_pending_counts_requests_of_all_threads():
    extension = Named()
    assert extension.pending is False

    def use():
        for _ in range(2_000):
            mark_active([extension], +1)
            mark_active([extension], -1)

    threads = [threading.Thread(target=use) for _ in range(4)]
    mark_active([extension], +1)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert extension.pending is True
    mark_active([extension], -1)
    assert extension.pending is False


def test_overrides_sees_classes_mixins_and_instances():
    class Mixin:
        async def before_run(self, context):
            pass

    class Derived(Mixin, AgentExtension):
        async def on_state(self, context):
            pass

    class Further(Derived):
        pass

    for extension in (Derived(), Further()):
        assert {hook for hook in HOOK_NAMES if overrides(extension, hook)} == {"before_run", "on_state"}
    assert not any(overrides(AgentExtension(), hook) for hook in HOOK_NAMES)

    extension = AgentExtension()

    async def on_event(context, event):
        pass

    extension.on_event = on_event
    assert overrides(extension, "on_event")
    assert not overrides(AgentExtension(), "on_event")


def test_the_error_for_a_wrong_kind_of_hook_names_extension_and_hook():
    error = hook_type_error(Named(), "before_run", "an async function")
    assert isinstance(error, TypeError)
    assert str(error) == "before_run of extension Named must be an async function"
