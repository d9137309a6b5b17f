"""The models of `zett_agent.testing`: used directly first, then by an agent."""

from __future__ import annotations

import asyncio
import threading
from contextlib import aclosing

import pytest

from zett_agent.agent import Agent, AgentRunConfig
from zett_agent.events import AgentEventType, AgentPhase
from zett_agent.exceptions import AgentError
from zett_agent.messages import (
    AssistantMessage,
    ImageContent,
    ImageUrlSource,
    TextContent,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from zett_agent.model import (
    AgentModel,
    ModelEvent,
    ModelEventType,
    ModelRequest,
    ModelResponse,
    ModelUsage,
    ToolCallDelta,
    ToolDefinition,
)
from zett_agent.stop import StopInfo, StopReason
from zett_agent.testing import (
    FunctionModel,
    ScriptedModel,
    ScriptExhausted,
    ScriptUnfinished,
    call,
    calls,
    fail,
    hang,
    say,
)
from zett_agent.tools import tool


def ask(text="hi", *, session=None):
    return ModelRequest((UserMessage(content=text),), cache_key=session)


async def events(model, request=None):
    async with aclosing(model.stream(request or ask())) as stream:
        return [event async for event in stream]


async def answer(model, request=None):
    return (await events(model, request))[-1].response


def deltas(stream, kind=ModelEventType.TEXT_DELTA):
    return [event.delta for event in stream if event.type is kind]


@pytest.mark.parametrize("model", [ScriptedModel(), FunctionModel(lambda request, info: "x")])
def test_they_are_models_that_never_retry(model):
    assert isinstance(model, AgentModel)
    assert model.retry.max_retries == 0
    assert model.profile is None


# --- Steps ------------------------------------------------------------------------------------------


async def test_a_text_is_streamed_word_by_word():
    stream = await events(ScriptedModel("The sum\nis 5. "))
    assert deltas(stream) == ["The", " sum", "\nis", " 5.", " "]
    response = stream[-1].response
    assert response.message == AssistantMessage(
        content="The sum\nis 5. ", provider="scripted", model="scripted"
    )
    assert (response.finish_reason, response.stop.reason) == ("stop", StopReason.END_TURN)


@pytest.mark.parametrize(
    ("text", "chunks", "expected"),
    [
        ("hello world", 3, ["hel", "lo w", "orld"]),
        ("hello world", 1, ["hello world"]),
        ("héé", 3, ["h", "é", "é"]),
        ("ab", 5, ["a", "b"]),
        ("", 3, []),
    ],
)
async def test_say_splits_a_text_into_chunks(text, chunks, expected):
    stream = await events(ScriptedModel(say(text, chunks=chunks)))
    assert deltas(stream) == expected
    assert stream[-1].response.message.content == text


async def test_say_streams_reasoning_first():
    stream = await events(ScriptedModel(say("yes", reasoning="let me think")))
    assert [event.type for event in stream] == ["reasoning_delta"] * 3 + ["text_delta", "response"]
    assert "".join(deltas(stream, ModelEventType.REASONING_DELTA)) == "let me think"
    assert stream[-1].response.message.reasoning == "let me think"


@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        ("length", StopInfo(StopReason.MAX_OUTPUT, raw="length")),
        (StopReason.MAX_OUTPUT, StopInfo(StopReason.MAX_OUTPUT, raw="max_output")),
        (StopInfo(StopReason.REFUSAL, message="no"), StopInfo(StopReason.REFUSAL, message="no")),
    ],
)
async def test_say_can_stop_for_any_reason(stop, expected):
    response = await answer(ScriptedModel(say("par", stop=stop)))
    assert response.stop == expected
    assert response.finish_reason == expected.raw


async def test_default_usage_counts_messages_and_characters():
    model = ScriptedModel("12345678", "", say("abcd" * 3, reasoning="efgh"), say("x", usage=ModelUsage(7, 9)))
    two_messages = ModelRequest((UserMessage(content="a"), UserMessage(content="b")))
    assert (await answer(model, two_messages)).usage == ModelUsage(20, 2)
    assert (await answer(model)).usage == ModelUsage(10, 1)
    assert (await answer(model)).usage == ModelUsage(10, 4)
    assert (await answer(model)).usage == ModelUsage(7, 9)


async def test_delay_waits_before_each_event():
    loop = asyncio.get_running_loop()
    started = loop.time()
    await events(ScriptedModel(say("a b", delay=0.01)))
    assert loop.time() - started >= 0.03  # two words and the response


async def test_calls_are_numbered_for_each_model():
    model = ScriptedModel(
        call("add", a=1, b=2), calls(call("look"), call("add", id="mine", a=3), call("look"), text="Both.")
    )
    stream = await events(model)
    assert [event.type for event in stream] == ["tool_call_delta", "response"]
    assert stream[0].tool_call_delta == ToolCallDelta(0, "call_1", "add", '{"a": 1, "b": 2}')
    assert stream[-1].response.message.tool_calls == (ToolCall("call_1", "add", {"a": 1, "b": 2}),)
    assert stream[-1].response.stop.reason is StopReason.TOOL_USE

    stream = await events(model)
    message = stream[-1].response.message
    assert [item.id for item in message.tool_calls] == ["call_2", "mine", "call_3"]
    assert message.content == "Both."
    assert [event.tool_call_delta.index for event in stream if event.tool_call_delta] == [0, 1, 2]
    assert (await answer(ScriptedModel(call("add")))).message.tool_calls[0].id == "call_1"


async def test_messages_responses_and_events_are_given_as_they_are():
    message = AssistantMessage(content="a b", provider="p", model="m", tool_calls=(ToolCall("t", "add"),))
    response = ModelResponse(AssistantMessage(content="x"), "length", ModelUsage(3, 4))
    raw = [ModelEvent.text("a"), ModelEvent.completed(response)]
    refused = AssistantMessage(content="", stop=StopInfo(StopReason.REFUSAL, raw="safety"))
    model = ScriptedModel(message, response, raw, (), refused)
    first = await answer(model)
    assert first.message == message
    assert first.finish_reason == "tool_calls"
    assert await answer(model) == response
    assert await events(model) == raw
    assert await events(model) == []
    assert (await answer(model)).stop == refused.stop


async def test_a_step_is_not_changed_by_what_happens_to_its_answer():
    message = AssistantMessage(content="x", tool_calls=(ToolCall("t", "add", {"a": [1]}),))
    model = ScriptedModel(message, message, call("add", a=[1]))
    for _ in range(3):
        given = (await answer(model)).message
        given.tool_calls[0].arguments["a"].append(2)
    model.reset()
    for _ in range(3):
        assert (await answer(model)).message.tool_calls[0].arguments == {"a": [1]}


async def test_fail_raises_after_some_deltas():
    error = ConnectionError("reset")
    model = ScriptedModel(fail(error, after="par"), fail(error, after=[ModelEvent.reasoning("r")]), error)
    for expected in (["text_delta"], ["reasoning_delta"], []):
        seen = []
        with pytest.raises(ConnectionError) as caught:
            async for event in model.stream(ask()):
                seen.append(event.type)
        assert seen == expected
        assert caught.value is error
    model.assert_finished()


async def test_hang_ends_with_its_task():
    model = ScriptedModel(hang())
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(events(model), 0.05)
    model.assert_finished()


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: say("x", chunks=0), "chunks must be at least 1, got 0"),
        (lambda: say("x", delay=-1), "delay cannot be negative, got -1"),
        (lambda: calls(), "needs at least one call"),
    ],
)
def test_builders_refuse_bad_values(make, text):
    with pytest.raises(ValueError, match=text):
        make()


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (5, "Step 1 of the script is a int; a step is a str"),
        (["a", "b"], "Step 1 of the script is a sequence with a str; .*separate arguments"),
        (None, "Step 1 of the script is a NoneType"),
    ],
)
def test_a_script_refuses_what_is_no_step(step, text):
    with pytest.raises(TypeError, match=text):
        ScriptedModel("fine", step)


def test_calls_refuses_what_is_no_call():
    with pytest.raises(TypeError, match=r"what call\(\.\.\.\) returns, got str"):
        calls("add")


# --- ScriptedModel ----------------------------------------------------------------------------------


async def test_one_request_too_many_and_one_too_few():
    model = ScriptedModel(call("add", a=1, b=2), "3")
    assert model.remaining == 2
    with pytest.raises(ScriptUnfinished, match=r"2 steps, but only 0 were used; the next one is Call\("):
        model.assert_finished()
    await events(model)
    assert model.remaining == 1
    with pytest.raises(ScriptUnfinished, match="only 1 were used; the next one is '3'"):
        model.assert_finished()
    await events(model)
    model.assert_finished()
    assert (model.remaining, len(model.requests)) == (0, 2)

    request = ModelRequest([UserMessage(content="hi"), ToolMessage(tool_call_id="c", name="n", content="3")])
    with pytest.raises(
        ScriptExhausted, match=r"asked for step 2, .*last message is ToolMessage '3'"
    ) as caught:
        await events(model, request)
    assert isinstance(caught.value, AgentError)
    assert isinstance(caught.value, AssertionError)
    with pytest.raises(ScriptExhausted, match=r"asked for step 3, .*the request has no messages"):
        await events(model, ModelRequest([]))
    assert model.remaining == 0


async def test_a_long_message_is_shortened_in_the_error():
    with pytest.raises(ScriptExhausted) as caught:
        await events(ScriptedModel(), ask("x" * 10_000))
    assert len(str(caught.value)) < 400


async def test_inspect_sees_each_request_and_may_object():
    error = AssertionError("x")

    def inspect(request, index):
        seen.append((index, request.messages[-1].text))
        if index == 1:
            raise error

    seen = []
    model = ScriptedModel("a", "b", inspect=inspect)
    await events(model, ask("one"))
    with pytest.raises(AssertionError) as caught:
        await events(model, ask("two"))
    assert caught.value is error
    assert seen == [(0, "one"), (1, "two")]


async def test_requests_are_snapshots():
    user = UserMessage(content=[TextContent("look")], attributes={"seen": False})
    assistant = AssistantMessage(tool_calls=(ToolCall("c", "look", {"at": ["x"]}),))
    result = ToolMessage(tool_call_id="c", name="look", content="long")
    tools = (ToolDefinition("look", "", {}),)
    model = ScriptedModel("ok")
    await events(model, ModelRequest([user, assistant, result], tools))

    user.content.append(ImageContent(ImageUrlSource("https://example.com/a.png")))
    user.attributes["seen"] = True
    assistant.tool_calls[0].arguments["at"].append("y")
    result.content = "short"

    (request,) = model.requests
    assert request.tools == tools
    assert request.messages == (
        UserMessage(content=[TextContent("look")], attributes={"seen": False}),
        AssistantMessage(tool_calls=(ToolCall("c", "look", {"at": ["x"]}),)),
        ToolMessage(tool_call_id="c", name="look", content="long"),
    )


async def test_reset_starts_again():
    model = ScriptedModel(call("add"))
    first = await events(model)
    model.reset()
    assert (model.requests, model.remaining) == ([], 1)
    assert await events(model) == first


async def test_each_session_can_have_the_whole_script():
    model = ScriptedModel(call("add"), "done", per_session=True)
    sessions = [f"s{number}" for number in range(100)]

    async def converse(session):
        return [(await answer(model, ask(session=session))).message.content for _ in range(2)]

    assert await asyncio.gather(*map(converse, sessions)) == [["", "done"]] * 100
    assert model.remaining == 0
    model.assert_finished()
    await events(model, ask(session="late"))
    assert model.remaining == 1
    with pytest.raises(ScriptUnfinished, match="only 1 were used in session 'late'"):
        model.assert_finished()


def test_a_session_script_that_nobody_began_is_unfinished():
    model = ScriptedModel("a", per_session=True)
    assert model.remaining == 1
    with pytest.raises(ScriptUnfinished, match="only 0 were used; the next one is 'a'"):
        model.assert_finished()
    ScriptedModel(per_session=True).assert_finished()


def test_threads_share_one_script_without_losing_a_step():
    model = ScriptedModel(*(call("add", n=number) for number in range(400)))
    taken = []

    def work():
        for _ in range(50):
            taken.append(asyncio.run(answer(model)).message.tool_calls[0])

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(item.arguments["n"] for item in taken) == list(range(400))
    assert len({item.id for item in taken}) == 400
    model.assert_finished()


def test_models_say_what_they_are():
    assert repr(ScriptedModel("a", model="small")) == "ScriptedModel(model='small')"


async def test_names_go_into_the_answers():
    message = (await answer(ScriptedModel("a", provider="p", model="m"))).message
    assert (message.provider, message.model) == ("p", "m")


# --- FunctionModel ----------------------------------------------------------------------------------


async def test_a_function_answers_each_request():
    infos = []

    def respond(request, info):
        infos.append(info)
        return call("shout") if info.index == 0 else request.messages[-1].text.upper()

    model = FunctionModel(respond, model="mine")
    tools = (ToolDefinition("shout", "", {}),)
    first = await answer(model, ModelRequest([UserMessage(content="hi")], tools, cache_key="s"))
    assert first.message.tool_calls == (ToolCall("call_1", "shout", {}),)
    assert (first.message.provider, first.message.model) == ("function", "mine")
    assert (await answer(model)).message.content == "HI"
    assert (infos[0].index, infos[0].tools, infos[0].session_id) == (0, tools, "s")
    assert (infos[1].index, infos[1].tools, infos[1].session_id) == (1, (), None)
    assert infos[0].output_format is None
    assert infos[0].settings is None


async def test_an_async_function_answers_too():
    async def respond(request, info):
        await asyncio.sleep(0)
        return say("later", chunks=2)

    assert deltas(await events(FunctionModel(respond))) == ["la", "ter"]


async def test_an_async_generator_yields_its_own_events_and_is_closed():
    closed = []

    async def respond(request, info):
        try:
            yield ModelEvent.text("a")
            yield ModelEvent.text("b")
        finally:
            closed.append(info.index)

    model = FunctionModel(respond)
    assert deltas(await events(model)) == ["a", "b"]
    async with aclosing(model.stream(ask())) as stream:
        assert (await anext(stream)).delta == "a"
    assert closed == [0, 1]


async def test_a_plain_iterator_of_events_is_fine():
    class Once:
        def __init__(self):
            self.left = [ModelEvent.text("a")]

        def __aiter__(self):
            return self

        async def __anext__(self):
            if not self.left:
                raise StopAsyncIteration
            return self.left.pop()

    assert deltas(await events(FunctionModel(lambda request, info: Once()))) == ["a"]


async def test_a_function_that_answers_nonsense_is_told_so():
    with pytest.raises(TypeError, match="What the model function returned for request 0 is a NoneType"):
        await events(FunctionModel(lambda request, info: None))


# --- In a loop --------------------------------------------------------------------------------------


@tool
def add(a: int, b: int) -> int:
    """Add two numbers.

    Guidelines:
        - Use this for sums.
    """
    return a + b


async def test_a_run_plays_the_script():  # 77 A.2 §1
    model = ScriptedModel(call("add", a=1, b=2), "3")
    agent = await Agent.create(model, tools=[add])
    result = await agent.run("1 + 2?")

    assert len(model.requests) == 2
    model.assert_finished()
    history = agent.state.messages
    assert [message.role for message in history[-4:]] == ["user", "assistant", "tool", "assistant"]
    assert history[-3].tool_calls == (ToolCall("call_1", "add", {"a": 1, "b": 2}),)
    assert history[-2] == ToolMessage(tool_call_id="call_1", name="add", content="3")
    assert history[-1] is result
    assert result.content == "3"
    assert model.requests[1].messages[-3:] == history[-4:-1]
    assert [tool.name for tool in model.requests[0].tools] == ["add"]

    with pytest.raises(ScriptExhausted, match=r"step 2, .*last message is UserMessage 'again'"):
        await agent.run("again")


async def test_an_assertion_of_inspect_reaches_the_caller():  # 77 A.2 §2
    error = AssertionError("x")
    asked = []

    def inspect(request, index):
        asked.append(index)
        raise error

    agent = await Agent.create(ScriptedModel("never", inspect=inspect))
    with pytest.raises(AssertionError) as caught:
        await agent.run("hi")
    assert caught.value is error
    assert error.__cause__ is None
    assert asked == [0]


async def test_a_failing_step_gives_its_deltas_first_and_is_not_retried():  # 77 A.2 §3
    error = ConnectionError()
    model = ScriptedModel(fail(error, after="par"), "never")
    agent = await Agent.create(model)
    seen = []
    with pytest.raises(ConnectionError) as caught:
        async for event in agent.stream("hi"):
            seen.append(event)
    assert caught.value is error
    assert [event.delta for event in seen if event.type is AgentEventType.TEXT_DELTA] == ["par"]
    assert len(model.requests) == 1


async def test_a_hanging_step_ends_with_its_run():  # 77 A.2 §4
    closed = []

    async def hanging(request, info):
        async with aclosing(ScriptedModel(hang()).stream(request)) as stream:
            try:
                async for event in stream:
                    yield event
            finally:
                closed.append(info.index)

    agent = await Agent.create(FunctionModel(hanging))
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(agent.run("hi"), timeout=0.1)
    assert closed == [0]
    assert agent.state.phase is AgentPhase.CANCELLED
    assert not agent.pending


async def test_many_sessions_get_the_whole_script_each():  # 77 A.2 §7
    model = ScriptedModel(call("add", a=1, b=2), "3", per_session=True)
    agent = await Agent.create(model, tools=[add])
    answers = await asyncio.gather(
        *(agent.run("1 + 2?", config=AgentRunConfig(f"session {number}")) for number in range(100))
    )
    assert [answer.content for answer in answers] == ["3"] * 100
    assert len(model.requests) == 200
    model.assert_finished()


async def test_a_function_learns_the_session_and_the_tools():
    infos = []

    def respond(request, info):
        infos.append(info)
        return "ok"

    agent = await Agent.create(FunctionModel(respond), tools=[add])
    await agent.run("hi", config=AgentRunConfig("mine"))
    await agent.run("hi", config=AgentRunConfig("mine", cache_key="shared"))
    assert [info.session_id for info in infos] == ["mine", "shared"]
    assert [tool.name for tool in infos[0].tools] == ["add"]
