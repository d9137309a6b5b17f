"""Events from outside and the base class that waits for them, without an agent around them."""

from __future__ import annotations

import asyncio
import gc
import math
import pickle
import threading
import time
from datetime import datetime, timedelta, timezone

import pytest

from support.external import S1, Question, answer, left_in
from zett_agent.agent import AgentRunConfig, AgentRunContext, AgentState
from zett_agent.events import AgentEvent, AgentPhase
from zett_agent.exceptions import AgentError
from zett_agent.extensions.base import AgentExtension, note_emission
from zett_agent.extensions.events import MessageAppendedEvent, MessageTiming, RunCancelledEvent
from zett_agent.extensions.external import (
    ExternalEvent,
    ExternalEventExtension,
    ExternalEventTimeout,
    PendingExternalRequest,
)
from zett_agent.messages import ToolCall, ToolMessage
from zett_agent.tools._running import invocation_scope

# The event.


@pytest.mark.parametrize("name", ["", " ", "\n", None, 5, b"x"])
def test_ex1_blank_names(name):
    with pytest.raises(ValueError, match="name cannot be empty"):
        ExternalEvent(name, {})


@pytest.mark.parametrize("payload", [[], None, {1: 2}, {"a": 1, None: 2}, "x", (("a", 1),)])
def test_ex1_payloads_that_are_no_dictionaries_with_string_keys(payload):
    with pytest.raises(TypeError, match="dictionary with string keys"):
        ExternalEvent("n", payload)


def test_ex1_the_event_is_a_value_around_the_very_payload():
    payload = {"a": [1]}
    event = ExternalEvent("n", payload)
    assert event.payload is payload
    assert event == ExternalEvent(name="n", payload={"a": [1]})
    assert event != ExternalEvent("m", {"a": [1]})
    assert ExternalEvent("n", {}).payload == {}
    with pytest.raises(TypeError):
        hash(event)
    with pytest.raises(AttributeError):
        event.name = "m"
    assert pickle.loads(pickle.dumps(event)) == event


# The constructor.


@pytest.mark.parametrize("names", ["", " ", (), [], set(), ("a", " "), (1,), ("a", None), None, 5])
def test_ex2_names(names):
    with pytest.raises(ValueError, match="response_event_name cannot be empty"):
        ExternalEventExtension(response_event_name=names, correlation_field="id")


@pytest.mark.parametrize("correlation_field", ["", " ", None, 5])
def test_ex2_the_correlation_field(correlation_field):
    with pytest.raises(ValueError, match="correlation_field cannot be empty"):
        ExternalEventExtension(response_event_name="a", correlation_field=correlation_field)


@pytest.mark.parametrize("names", ["a", ["a", "b"], {"a", "b"}, ("a",), frozenset({"a"}), {"a": 1}.keys()])
def test_ex2_collections_of_names(names):
    extension = ExternalEventExtension(response_event_name=names, correlation_field="id")
    assert extension.pending_requests() == ()
    assert isinstance(extension, AgentExtension)


@pytest.mark.parametrize("seconds", [0, -1, True, math.nan, "1"])
def test_bx2_bad_timeouts(seconds):
    with pytest.raises(ValueError, match="response_timeout"):
        Question(response_timeout=seconds)


# Waiting by hand, without an agent.


def context_of(session="s1", request="r1", extensions=()):
    config = AgentRunConfig(session, request_id=request)
    return AgentRunContext(config, AgentState(), {}, tuple(extensions))


async def asked(extension, context, correlation_id="c1", **options):
    """Start a wait and return its task once the wait is registered and its body left."""
    left = asyncio.Event()

    async def wait():
        async with extension._wait_for_external_event(context, correlation_id, **options):
            left.set()

    task = asyncio.ensure_future(wait())
    await asyncio.wait_for(asyncio.gather(left.wait()), 5)
    await asyncio.sleep(0)
    assert not task.done()
    return task


def take(extension, context, call_id="c1"):
    with invocation_scope(context, ToolCall(call_id, "ask")):
        return extension._take_external_event(context)


async def finished(*tasks):
    return await asyncio.wait_for(asyncio.gather(*tasks), 5)


async def test_a_response_is_taken_once_by_the_running_call():
    extension, context = Question(), context_of()
    task = await asked(extension, context)
    event = answer("c1")
    assert extension.accept(S1, event) is True
    assert extension.accept(S1, event) is False
    await finished(task)
    with pytest.raises(RuntimeError, match="without an accepted external response"):
        extension._take_external_event(context)  # no call is running
    with pytest.raises(RuntimeError, match="without an accepted external response"):
        take(extension, context, "c2")
    with pytest.raises(RuntimeError, match="without an accepted external response"):
        take(extension, context_of())  # another request
    assert take(extension, context) is event
    with pytest.raises(RuntimeError, match="without an accepted external response"):
        take(extension, context)
    assert left_in(extension) == (0, 0)


REFUSED = [
    (S1, answer("c2")),
    (S1, answer(" c1 ")),
    (S1, answer("C1")),
    (AgentRunConfig("s2"), answer("c1")),
    (AgentRunConfig("s1", request_id="r2"), answer("c1")),
    (AgentRunConfig(), answer("c1")),
    (None, answer("c1")),
    (S1, answer("c1", name="other")),
    (S1, answer(1)),
    (S1, answer("")),
    (S1, answer(" ")),
    (S1, answer(None)),
    (S1, ExternalEvent("answer", {"text": "x"})),
    (S1, ExternalEvent("answer", {"id": ["c1"]})),
    (S1, ExternalEvent("answer", {"session_id": "s1", "ID": "c1"})),
]


@pytest.mark.parametrize(("config", "event"), REFUSED)
async def test_ex3_what_is_no_response_changes_nothing(config, event):
    extension, context = Question(), context_of()
    task = await asked(extension, context)
    assert extension.accept(config, event) is False
    assert len(extension.pending_requests()) == 1
    assert extension.accept(AgentRunConfig("s1", request_id="r1"), answer("c1")) is True
    await finished(task)


async def test_the_request_id_may_be_left_out_but_not_made_up():
    extension = Question()
    context = AgentRunContext(S1, AgentState(), {})  # a request without an id
    task = await asked(extension, context)
    assert extension.accept(AgentRunConfig("s1", request_id="r1"), answer("c1")) is False
    assert extension.accept(S1, answer("c1")) is True
    await finished(task)


async def test_several_names_and_a_wait_for_one_of_them():
    extension = Question(["yes", "no"])
    wide, narrow = context_of(), context_of()
    first = await asked(extension, wide, "c1")
    second = await asked(extension, narrow, "c2", response_event_name="no")
    assert extension.accept(S1, answer("c1", name="answer")) is False
    assert extension.accept(S1, answer("c2", name="yes")) is False
    assert extension.accept(S1, answer("c2", name="no")) is True
    assert extension.accept(S1, answer("c1", name="yes")) is True
    await finished(first, second)


@pytest.mark.parametrize("correlation_id", ["", " ", None, 5])
async def test_blank_correlation_ids(correlation_id):
    extension = Question()
    with pytest.raises(ValueError, match="correlation_id cannot be empty"):
        async with extension._wait_for_external_event(context_of(), correlation_id):
            pytest.fail("the body must not run")
    assert left_in(extension) == (0, 0)


async def test_a_name_that_was_not_configured():
    with pytest.raises(ValueError, match="Unsupported response event name 'other'"):
        async with Question()._wait_for_external_event(context_of(), "c1", response_event_name="other"):
            pytest.fail("the body must not run")


@pytest.mark.parametrize("seconds", [0, -1, True, math.nan, "1"])
async def test_bx2_a_bad_timeout_of_one_wait(seconds):
    with pytest.raises(ValueError, match="timeout"):
        async with Question()._wait_for_external_event(context_of(), "c1", timeout=seconds):
            pytest.fail("the body must not run")


async def test_a_second_wait_for_the_same_session_and_id():
    extension, context = Question(), context_of()
    task = await asked(extension, context)
    for other in (context, context_of(request="r2")):
        with pytest.raises(RuntimeError, match="already pending"):
            async with extension._wait_for_external_event(other, "c1"):
                pytest.fail("the body must not run")
    elsewhere = await asked(extension, context_of("s2"))  # another session is another matter
    assert extension.accept(S1, answer("c1"))  # the first wait is untouched
    assert extension.accept(AgentRunConfig("s2"), answer("c1"))
    await finished(task, elsewhere)


async def test_an_answer_given_while_the_question_is_asked_is_taken():
    extension, context = Question(), context_of()
    async with extension._wait_for_external_event(context, "c1"):
        assert extension.accept(S1, answer("c1", "early"))
        assert extension.pending_requests() == ()
    assert take(extension, context).payload["text"] == "early"


async def test_a_body_that_raises_ends_the_wait():
    extension, context = Question(), context_of()
    error = KeyError("k")
    with pytest.raises(KeyError) as caught:
        async with extension._wait_for_external_event(context, "c1"):
            raise error
    assert caught.value is error
    assert extension.accept(S1, answer("c1")) is False
    assert left_in(extension) == (0, 0)


async def test_a_body_that_raises_drops_a_response_given_already():
    extension, context = Question(), context_of()
    with pytest.raises(KeyError):
        async with extension._wait_for_external_event(context, "c1"):
            assert extension.accept(S1, answer("c1"))
            raise KeyError
    with pytest.raises(RuntimeError):
        take(extension, context)
    assert left_in(extension) == (0, 0)


async def test_a_wait_that_is_cancelled_leaves_nothing():
    extension, context = Question(), context_of()
    task = await asked(extension, context)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert extension.accept(S1, answer("c1")) is False
    assert left_in(extension) == (0, 0)


async def test_a_wait_inside_a_tool_call_is_for_that_call_whatever_its_id():
    extension, context = Question(), context_of()
    with invocation_scope(context, ToolCall("c1", "deploy")):
        async with extension._wait_for_external_event(context, "question-7"):
            assert extension.accept(S1, answer("question-7", "inside"))
        assert extension._take_external_event(context).payload["text"] == "inside"
    assert left_in(extension) == (0, 0)


async def test_a_wait_before_the_tool_of_a_child_is_not_for_the_call_of_its_parent():
    """A sub-agent runs inside a tool call of its parent, whose id its hooks inherit."""
    extension, parent, child = Question(), context_of("parent"), context_of("child")
    with invocation_scope(parent, ToolCall("delegate", "agent")):
        async with extension._wait_for_external_event(child, "c1"):
            assert extension.accept(AgentRunConfig("child"), answer("c1", "for the child"))
        assert take(extension, child, "c1").payload["text"] == "for the child"


async def test_a_response_left_over_answers_no_later_call_of_that_id():
    """Services number calls per message (80 B10), so an id comes again in the next turn."""
    extension, context = Question(), context_of()
    for text in ("first", "second"):
        async with extension._wait_for_external_event(context, "look:0"):
            assert extension.accept(S1, answer("look:0", text))
    assert take(extension, context, "look:0").payload["text"] == "second"

    async with extension._wait_for_external_event(context, "look:0"):
        assert extension.accept(S1, answer("look:0"))
    result = ToolMessage(tool_call_id="look:0", name="look", content="not run")
    await extension.on_event(context, MessageAppendedEvent(result, MessageTiming.instant()))
    with pytest.raises(RuntimeError):
        take(extension, context, "look:0")
    assert left_in(extension) == (0, 0)


# Threads and loops.


def test_ex8_a_wait_whose_loop_is_closed_is_dropped():
    extension, context = Question(), context_of()
    loop = asyncio.new_event_loop()
    task = loop.run_until_complete(asked(extension, context))
    loop.close()  # somebody left without cleaning up
    accepted = []
    thread = threading.Thread(target=lambda: accepted.append(extension.accept(S1, answer("c1"))))
    assert extension.pending_requests() == ()
    thread.start()
    thread.join()
    assert accepted == [False]
    assert len(extension._external_waits) == 0

    async def again():
        waiting = await asked(extension, context_of())
        assert extension.accept(S1, answer("c1"))
        await finished(waiting)

    asyncio.run(again())
    task._log_destroy_pending = False
    with pytest.raises(RuntimeError):  # let the abandoned coroutine go without a complaint of the collector
        task.get_coro().throw(RuntimeError("abandoned"))


def test_a_wait_of_a_closed_loop_does_not_block_its_id():
    extension = Question()
    loop = asyncio.new_event_loop()
    task = loop.run_until_complete(asked(extension, context_of()))
    loop.close()

    async def again():
        waiting = await asked(extension, context_of())
        assert extension.accept(S1, answer("c1"))
        await finished(waiting)

    asyncio.run(again())
    task._log_destroy_pending = False
    with pytest.raises(RuntimeError):
        task.get_coro().throw(RuntimeError("abandoned"))
    assert left_in(extension)[0] == 0


async def test_an_answer_from_another_thread_wakes_the_waiting_loop():
    extension, context = Question(), context_of()
    task = await asked(extension, context)
    thread = threading.Thread(target=lambda: time.sleep(0.01) or extension.accept(S1, answer("c1", "far")))
    thread.start()
    await finished(task)
    thread.join()
    assert take(extension, context).payload["text"] == "far"


# Time limits.


def test_bx2_the_timeout_error():
    error = ExternalEventTimeout("c1", 2.5)
    assert isinstance(error, AgentError)
    assert isinstance(error, TimeoutError)
    assert "'c1'" in str(error)
    assert "2.5 seconds" in str(error)
    copied = pickle.loads(pickle.dumps(error))
    assert (copied.correlation_id, copied.seconds, str(copied)) == ("c1", 2.5, str(error))


async def test_bx2_a_timeout_of_one_wait_goes_before_the_default():
    extension, context = Question(response_timeout=0.001), context_of()
    async with extension._wait_for_external_event(context, "c1"):
        pass
    with pytest.raises(ExternalEventTimeout, match=r"0\.001 seconds"):
        take(extension, context)

    patient = await asked(extension, context, timeout=math.inf)
    await asyncio.sleep(0.01)
    assert not patient.done()
    assert extension.accept(S1, answer("c1"))
    await finished(patient)
    assert take(extension, context).payload["text"] == "yes"


async def test_bx2_an_answer_in_time_stops_the_clock():
    extension, context = Question(response_timeout=0.02), context_of()
    async with extension._wait_for_external_event(context, "c1"):
        assert extension.accept(S1, answer("c1"))
    await asyncio.sleep(0.04)
    assert take(extension, context).payload["text"] == "yes"


async def test_bx2_the_clock_starts_when_the_question_was_asked():
    extension, context = Question(response_timeout=0.02), context_of()
    async with extension._wait_for_external_event(context, "c1"):
        await asyncio.sleep(0.05)  # the consumer is slow to take the question
        assert extension.accept(S1, answer("c1"))
    assert take(extension, context).payload["text"] == "yes"


async def test_bx2_an_accepted_answer_counts_even_if_time_is_up_at_that_moment():
    extension, context = Question(), context_of()
    left = asyncio.Event()

    async def wait():
        async with extension._wait_for_external_event(context, "c1", timeout=0.005):
            left.set()

    task = asyncio.ensure_future(wait())
    await left.wait()
    await asyncio.sleep(0)
    time.sleep(0.02)  # the timer is due, but the loop could not run it yet
    assert extension.accept(S1, answer("c1", "just in time"))
    await finished(task)
    assert take(extension, context).payload["text"] == "just in time"


# Open questions.


class EmittingContext(AgentRunContext):
    """A context outside of a run: its events go nowhere."""

    async def emit(self, event):
        note_emission(self, event)


async def test_pending_requests_lists_what_is_open():
    extension = Question(["yes", "no"])
    before = datetime.now(timezone.utc)
    contexts = [
        EmittingContext(AgentRunConfig(session, request_id="r" + session), AgentState(), {})
        for session in ("s2", "s1", "s2")
    ]
    questions = [
        AgentEvent("custom", context.session_id, name="question", payload={"n": n})
        for n, context in enumerate(contexts)
    ]
    tasks = []
    for n, context in enumerate(contexts):
        left = asyncio.Event()

        async def wait(n=n, context=context, left=left):
            narrowed = "no" if n == 1 else None
            async with extension._wait_for_external_event(context, f"c{n}", response_event_name=narrowed):
                if n != 2:
                    await context.emit(questions[n])
                    await context.emit(AgentEvent("custom", context.session_id, name="later"))
                left.set()

        tasks.append(asyncio.ensure_future(wait()))
        await left.wait()

    pending = extension.pending_requests()
    assert [entry.correlation_id for entry in pending] == ["c0", "c1", "c2"]
    assert pending[1] == PendingExternalRequest(
        "s1", "rs1", "c1", frozenset({"no"}), questions[1], pending[1].created_at
    )
    assert pending[0].response_event_names == {"yes", "no"}
    assert pending[0].event is questions[0]
    assert pending[2].event is None
    assert all(before <= entry.created_at <= datetime.now(timezone.utc) for entry in pending)
    assert pending[0].created_at.utcoffset() == timedelta(0)
    assert [entry.correlation_id for entry in extension.pending_requests("s2")] == ["c0", "c2"]
    assert extension.pending_requests("nobody") == ()

    assert extension.accept(AgentRunConfig("s2"), answer("c0", name="yes"))
    assert [entry.correlation_id for entry in extension.pending_requests()] == ["c1", "c2"]
    assert extension.accept(S1, answer("c1", name="no"))
    assert extension.accept(AgentRunConfig("s2"), answer("c2", name="no"))
    await finished(*tasks)
    assert extension.pending_requests() == ()


async def test_pending_requests_notes_only_the_question_of_its_own_body():
    extension = Question()
    contexts = [EmittingContext(AgentRunConfig("s1", request_id="r1"), AgentState(), {}) for _ in range(2)]
    async with extension._wait_for_external_event(contexts[0], "outer"):
        await contexts[1].emit(AgentEvent("custom", "s1", name="of another request"))
        async with extension._wait_for_external_event(contexts[0], "inner"):
            await contexts[0].emit(AgentEvent("custom", "s1", name="inner"))
            inner_event = extension.pending_requests()[1].event
            extension.accept(S1, answer("inner"))
        assert extension.pending_requests()[0].event is None
        await contexts[0].emit(AgentEvent("custom", "s1", name="outer"))
        outer_event = extension.pending_requests()[0].event
        extension.accept(S1, answer("outer"))
    await contexts[0].emit(AgentEvent("custom", "s1", name="afterwards"))
    assert (inner_event.name, outer_event.name) == ("inner", "outer")


# The end of a request.


async def test_a_failing_request_ends_its_waits_with_its_error():
    extension, context, other = Question(), context_of(), context_of("s2")
    task, unrelated = await asked(extension, context), await asked(extension, other)
    error = KeyError("k")
    await extension.on_error(context, error)
    with pytest.raises(KeyError) as caught:
        await asyncio.wait_for(task, 5)
    assert caught.value is error
    assert extension.accept(S1, answer("c1")) is False
    assert extension.accept(AgentRunConfig("s2"), answer("c1")) is True
    await finished(unrelated)


async def test_a_cancelled_request_cancels_its_waits_and_drops_its_responses():
    extension, context = Question(), context_of()
    async with extension._wait_for_external_event(context, "c1"):
        assert extension.accept(S1, answer("c1"))
    task = await asked(extension, context, "c2")
    cancelled = RunCancelledEvent(AgentPhase.READY, datetime.now(timezone.utc), 0)
    await extension.on_event(context, cancelled)
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 5)
    with pytest.raises(RuntimeError):
        take(extension, context)
    assert left_in(extension) == (0, 0)


# Cost.


async def waiting_sessions(count):
    extension = Question()
    contexts = [context_of(f"s{number}") for number in range(count)]
    tasks = []
    for context in contexts:

        async def wait(context=context):
            async with extension._wait_for_external_event(context, "c1"):
                pass

        tasks.append(asyncio.ensure_future(wait()))
    await asyncio.sleep(0)
    assert len(extension.pending_requests()) == count
    return extension, contexts, tasks


async def test_ex7_cleaning_up_one_request_costs_the_same_whoever_else_waits():
    async def cost(count):
        extension, _, tasks = await waiting_sessions(count)
        best = math.inf
        for _ in range(5):
            started = time.thread_time()
            for _ in range(200):
                await extension.on_error(context_of("failing"), KeyError("k"))
            best = min(best, time.thread_time() - started)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return best

    few, many = await cost(10), await cost(4000)
    assert many <= few * 3, f"{few / 200 * 1e6:.1f} µs with 10 waiting, {many / 200 * 1e6:.1f} µs with 4,000"


async def test_ex7_cancelling_all_requests_grows_linearly():
    async def cost(count):
        best = math.inf
        for _ in range(3):
            extension, contexts, tasks = await waiting_sessions(count)
            event = RunCancelledEvent(AgentPhase.READY, datetime.now(timezone.utc), 0)
            gc.collect()
            gc.disable()  # collections grow with everything the process holds, not with this
            try:
                started = time.thread_time()
                for context in contexts:
                    await extension.on_event(context, event)
                await asyncio.gather(*tasks, return_exceptions=True)
                best = min(best, time.thread_time() - started)
            finally:
                gc.enable()
            assert left_in(extension) == (0, 0)
        return best

    half, full = await cost(2000), await cost(4000)
    assert full <= half * 2.5, f"2,000: {half:.3f} s, 4,000: {full:.3f} s"
