"""The dispatcher by itself; together with an agent it is tested in test_client.py."""

from __future__ import annotations

import inspect
import warnings

import pytest

from zett_agent.dispatcher import AgentEventDispatcher
from zett_agent.events import AgentEvent, AgentEventType


def event(event_type, **fields):
    if event_type == "custom":
        fields.setdefault("name", "progress")
    return AgentEvent(event_type, "s1", **fields)


def recording(names):
    """Return a dispatcher class whose callbacks of these names note what they get."""

    def callback(name):
        async def note(self, event):
            self.seen.append((name, event))

        return note

    return type("Recording", (AgentEventDispatcher,), {name: callback(name) for name in names})


def test_cl5_every_event_type_has_its_method():
    methods = {
        name
        for name, method in vars(AgentEventDispatcher).items()
        if name.startswith("on_") and inspect.iscoroutinefunction(method)
    }
    assert methods == {f"on_{event_type.value}_event" for event_type in AgentEventType}
    assert len(methods) == 30


@pytest.mark.parametrize("event_type", AgentEventType)
async def test_cl5_exactly_one_method_is_called(event_type):
    dispatcher = recording([f"on_{each.value}_event" for each in AgentEventType])()
    dispatcher.seen = []
    sent = event(event_type)
    await dispatcher.dispatch(sent)
    assert dispatcher.seen == [(f"on_{event_type.value}_event", sent)]
    assert dispatcher.seen[0][1] is sent


@pytest.mark.parametrize("event_type", AgentEventType)
async def test_the_methods_do_nothing_by_default(event_type):
    assert await AgentEventDispatcher().dispatch(event(event_type)) is None


async def test_cl5_plain_strings_work_and_unknown_types_do_not():
    dispatcher = recording(["on_text_delta_event", "on_custom_event"])()
    dispatcher.seen = []
    await dispatcher.dispatch(AgentEvent("text_delta", "s"))
    await dispatcher.dispatch(AgentEvent("custom", "s", name="text_delta"))  # never chosen by its name
    assert [name for name, _ in dispatcher.seen] == ["on_text_delta_event", "on_custom_event"]
    with pytest.raises(ValueError, match="nope"):
        await dispatcher.dispatch(AgentEvent("nope", "s"))


async def test_cl3_callbacks_may_be_plain_functions():
    class Mixed(AgentEventDispatcher):
        def __init__(self):
            self.seen = []

        def on_text_delta_event(self, event):
            self.seen.append(event.delta)

        def on_reasoning_delta_event(self, event):
            self.seen.append(event.delta)
            return "ignored"

        async def on_custom_event(self, event):
            self.seen.append(event.name)

    dispatcher = Mixed()
    await dispatcher.dispatch(event("text_delta", delta="a"))
    await dispatcher.dispatch(event("reasoning_delta", delta="b"))
    await dispatcher.dispatch(event("custom", name="c"))
    assert dispatcher.seen == ["a", "b", "c"]


async def test_cl3_a_plain_function_may_return_an_awaitable():
    seen = []

    class Delegating(AgentEventDispatcher):
        def on_text_delta_event(self, event):
            return self.later(event)

        async def later(self, event):
            seen.append(event.delta)

    await Delegating().dispatch(event("text_delta", delta="a"))
    assert seen == ["a"]


async def test_a_callback_may_be_assigned_to_an_instance():
    dispatcher, seen = AgentEventDispatcher(), []
    dispatcher.on_text_delta_event = lambda event: seen.append(event.delta)
    await dispatcher.dispatch(event("text_delta", delta="a"))
    assert seen == ["a"]


@pytest.mark.parametrize("error_type", [KeyError, BaseException])
async def test_exceptions_of_callbacks_propagate(error_type):
    error = error_type("k")

    class Failing(AgentEventDispatcher):
        async def on_text_delta_event(self, event):
            raise error

        def on_custom_event(self, event):
            raise error

    for event_type in ("text_delta", "custom"):
        with pytest.raises(error_type) as caught:
            await Failing().dispatch(event(event_type))
        assert caught.value is error


def test_bcl2_a_misspelt_callback_is_warned_about_when_the_class_is_made():
    with pytest.warns(UserWarning, match=r"Typo\.on_text_detla_event.*on_text_delta_event") as caught:

        class Typo(AgentEventDispatcher):
            async def on_text_detla_event(self, event):
                pass

    assert caught[0].filename == __file__


def test_bcl2_a_callback_that_resembles_nothing_is_warned_about_too():
    with pytest.warns(UserWarning, match=r"on_zzzz_event is never called: there is no such type of event$"):
        type("Odd", (AgentEventDispatcher,), {"on_zzzz_event": lambda self, event: None})


def test_bcl2_only_methods_of_that_form_are_looked_at():
    with warnings.catch_warnings():
        warnings.simplefilter("error")

        class Fine(AgentEventDispatcher):
            def on_text_delta_event(self, event):
                pass

            def on_start(self):
                pass

            def handle_event(self, event):
                pass

        class Further(Fine):
            def on_custom_event(self, event):
                pass

        assert issubclass(Further, AgentEventDispatcher)


def test_a_class_further_up_may_take_options_of_a_subclass():
    class Registered:
        def __init_subclass__(cls, label="", **options):
            super().__init_subclass__(**options)
            cls.label = label

    class Labelled(AgentEventDispatcher, Registered, label="mine"):
        pass

    assert Labelled.label == "mine"
