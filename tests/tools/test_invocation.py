"""One call through middleware and handler, and what code inside it can ask. 40 §8, §4, 11 §4."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import pytest

from zett_agent.agent import AgentRunConfig, AgentState
from zett_agent.agent import AgentRunContext as RunContext
from zett_agent.extensions.base import AgentExtension
from zett_agent.messages import ToolCall
from zett_agent.tools.base import AgentTool, current_tool_call_id, tool
from zett_agent.tools.invocation import internal_cancellation, invocation_scope, invoke_tool, tool_error_text

if TYPE_CHECKING:
    import zett_agent.agent
    from zett_agent.agent import AgentRunContext


def context_with(*extensions: AgentExtension, tools: dict[str, AgentTool] | None = None) -> RunContext:
    return RunContext(AgentRunConfig("s1"), AgentState(), tools or {}, tuple(extensions))


def hand_built(handler: Any, name: str = "t") -> AgentTool:
    return AgentTool(name, "Do it.", {}, handler, ())


async def echo(**arguments: Any) -> Any:
    return arguments


class Layer(AgentExtension):
    """Notes when it is entered and left."""

    def __init__(self, letter: str, log: list[str]) -> None:
        self.name = letter
        self.log = log

    async def on_tool_call(self, context: Any, call: ToolCall, call_next: Any) -> Any:
        self.log.append(f"{self.name} in")
        try:
            return await call_next()
        finally:
            self.log.append(f"{self.name} out")


class TestMiddleware:
    async def test_the_first_extension_is_the_outermost(self):
        log: list[str] = []

        async def handler() -> str:
            log.append("handler")
            return "done"

        context = context_with(Layer("A", log), AgentExtension(), Layer("B", log))
        assert await invoke_tool(context, ToolCall("c1", "t"), hand_built(handler)) == "done"
        assert log == ["A in", "B in", "handler", "B out", "A out"]

    async def test_it_may_change_arguments_transform_skip_repeat_and_raise(self):  # also 11 A-14
        runs: list[Any] = []

        async def handler(**arguments: Any) -> Any:
            runs.append(arguments)
            return len(runs)

        class Middleware(AgentExtension):
            async def on_tool_call(self, context: Any, call: ToolCall, call_next: Any) -> Any:
                return await self.act(call, call_next)

        middleware = Middleware()
        context, registered = context_with(middleware), hand_built(handler)

        async def change(call: ToolCall, call_next: Any) -> Any:
            call.arguments = {"x": 2}
            return [await call_next()]

        async def skip(call: ToolCall, call_next: Any) -> Any:
            return "skipped"

        async def repeat(call: ToolCall, call_next: Any) -> Any:
            return await asyncio.gather(call_next(), call_next())

        async def fail(call: ToolCall, call_next: Any) -> Any:
            raise KeyError("no")

        middleware.act = change
        assert await invoke_tool(context, ToolCall("c1", "t", {"x": 1}), registered) == [1]
        assert runs == [{"x": 2}]
        middleware.act = skip
        assert await invoke_tool(context, ToolCall("c1", "t"), registered) == "skipped"
        assert len(runs) == 1
        middleware.act = repeat
        assert sorted(await invoke_tool(context, ToolCall("c1", "t"), registered)) == [2, 3]
        middleware.act = fail
        with pytest.raises(KeyError):
            await invoke_tool(context, ToolCall("c1", "t"), registered)
        assert len(runs) == 3

    async def test_extensions_without_it_are_skipped(self):  # 11 B-A22
        class Quiet(AgentExtension):
            async def before_tool(self, context: Any, call: ToolCall) -> None: ...

        async def depth() -> int:
            frame, count = sys._getframe(), 0
            while frame is not None:
                count += 1
                frame = frame.f_back
            return count

        registered, call = hand_built(depth), ToolCall("c1", "t")
        alone = await invoke_tool(context_with(), call, registered)
        assert await invoke_tool(context_with(*[Quiet() for _ in range(50)]), call, registered) == alone

    async def test_an_instance_may_override_it(self):
        async def on_tool_call(context: Any, call: ToolCall, call_next: Any) -> Any:
            return "mine"

        extension = AgentExtension()
        extension.on_tool_call = on_tool_call  # type: ignore[method-assign]
        assert await invoke_tool(context_with(extension), ToolCall("c1", "t"), hand_built(echo)) == "mine"

    async def test_a_plain_function_is_named(self):  # 11 B-A19
        class Wrong(AgentExtension):
            def on_tool_call(self, context: Any, call: ToolCall, call_next: Any) -> Any:
                return None

        with pytest.raises(TypeError, match=r"on_tool_call.*Wrong"):
            await invoke_tool(context_with(Wrong()), ToolCall("c1", "t"), hand_built(echo))

    async def test_nothing_is_serialized_or_caught(self):
        value = object()

        async def give() -> Any:
            return value

        async def fail() -> Any:
            raise asyncio.CancelledError

        assert await invoke_tool(context_with(), ToolCall("c1", "t"), hand_built(give)) is value
        with pytest.raises(asyncio.CancelledError):
            await invoke_tool(context_with(), ToolCall("c1", "t"), hand_built(fail))


class TestRegistration:
    async def replaced(self, *, remove: bool = False, **options: Any) -> Any:
        async def old() -> str:
            return "old"

        async def new() -> str:
            return "new"

        class Replace(AgentExtension):
            async def on_tool_call(self, context: Any, call: ToolCall, call_next: Any) -> Any:
                del context.tools["t"]
                if not remove:
                    context.tools["t"] = hand_built(new)
                return await call_next()

        registered = hand_built(old)
        context = context_with(Replace(), tools={"t": registered})
        return await invoke_tool(context, ToolCall("c1", "t"), registered, **options)

    async def test_the_handler_is_looked_up_when_it_runs(self):
        assert await self.replaced() == "new"

    async def test_unless_told_not_to(self):
        assert await self.replaced(refresh_registration=False) == "old"

    async def test_a_removed_tool_still_runs(self):
        assert await self.replaced(remove=True) == "old"


class TestCallId:
    async def test_in_handlers_tasks_and_middleware(self):  # 40 §9.8
        seen: dict[str, str | None] = {}

        async def asynchronous() -> None:
            seen["async"] = current_tool_call_id()

            async def child() -> None:
                seen["task"] = current_tool_call_id()

            await asyncio.create_task(child())

        def synchronous() -> None:
            """Do it."""
            seen["sync"] = current_tool_call_id()

        class Middleware(AgentExtension):
            async def on_tool_call(self, context: Any, call: ToolCall, call_next: Any) -> Any:
                seen["middleware"] = current_tool_call_id()
                return await call_next()

        context = context_with(Middleware())
        await invoke_tool(context, ToolCall("c1", "t"), hand_built(asynchronous))
        assert seen == {"middleware": "c1", "async": "c1", "task": "c1"}
        await invoke_tool(context, ToolCall("c2", "t"), tool(synchronous, guidelines="g"))
        assert (seen["sync"], seen["middleware"]) == ("c2", "c2")
        assert current_tool_call_id() is None

    async def test_a_call_within_a_call_has_its_own(self):
        seen: list[str | None] = []
        context = context_with()

        async def note() -> None:
            seen.append(current_tool_call_id())

        async def outer() -> None:
            await note()
            await invoke_tool(context, ToolCall("inner", "t"), hand_built(note))
            await note()

        await invoke_tool(context, ToolCall("outer", "t"), hand_built(outer))
        assert seen == ["outer", "inner", "outer"]

    async def test_parallel_calls_do_not_mix(self):
        async def wait() -> str | None:
            await asyncio.sleep(0.005)
            return current_tool_call_id()

        ids = [f"c{n}" for n in range(20)]
        calls = (invoke_tool(context_with(), ToolCall(id_, "t"), hand_built(wait)) for id_ in ids)
        assert await asyncio.gather(*calls) == ids

    def test_a_scope_can_be_opened_by_hand_and_left_by_an_error(self):
        with pytest.raises(KeyError), invocation_scope(context_with(), ToolCall("c1", "t")):
            assert current_tool_call_id() == "c1"
            raise KeyError
        assert current_tool_call_id() is None


class TestBetter19:
    async def test_the_running_context_is_filled_in(self):
        @tool(guidelines="g")
        async def resolved(run: RunContext, a: int) -> Any:
            """Do it.

            Args:
                run: Where it happens.
                a: A number.
            """
            return run, a

        def as_text(a: int, context: AgentRunContext) -> Any:
            """Do it."""
            return context, a

        def dotted(context: zett_agent.agent.AgentRunContext, a: int) -> Any:
            """Do it."""
            return context, a

        context = context_with()
        for built in (resolved, tool(as_text, guidelines="g"), tool(dotted, guidelines="g")):
            assert list(built.parameters["properties"]) == ["a"]
            assert built.parameters["required"] == ["a"]
            assert await invoke_tool(context, ToolCall("c1", "t", {"a": 5}), built) == (context, 5)

    async def test_the_model_cannot_fill_it(self):
        def work(context: AgentRunContext) -> Any:
            """Do it."""

        with pytest.raises(ValueError, match="Extra inputs"):
            await invoke_tool(context_with(), ToolCall("c1", "t", {"context": 1}), tool(work, guidelines="g"))

    async def test_outside_a_run_it_is_an_error(self):
        def work(context: AgentRunContext) -> Any:
            """Do it."""

        with pytest.raises(RuntimeError, match="'context'"):
            await tool(work, guidelines="g")({})

    def test_only_exactly_that_annotation(self):
        def work(context: AgentRunContext | None) -> Any:
            """Do it."""

        with pytest.raises(NameError, match="AgentRunContext"):
            tool(work, guidelines="g")

    def test_another_class_of_that_name_is_an_ordinary_one(self):
        from pydantic import BaseModel

        namespace: dict[str, Any] = {}
        exec("from pydantic import BaseModel\nclass AgentRunContext(BaseModel): x: int", namespace)

        def work(context: Any) -> Any:
            """Do it."""

        work.__annotations__["context"] = namespace["AgentRunContext"]
        built = tool(work, guidelines="g")
        assert issubclass(namespace["AgentRunContext"], BaseModel)
        assert "x" in built.parameters["properties"]["context"]["properties"]

    def test_recognising_it_does_not_load_the_loop(self):
        program = """
            from __future__ import annotations
            import sys
            from typing import TYPE_CHECKING
            from zett_agent.tools import tool
            if TYPE_CHECKING:
                from zett_agent.agent import AgentRunContext

            @tool(guidelines="g")
            def work(context: AgentRunContext) -> None:
                "Do it."
            assert work.parameters["properties"] == {}
            assert "zett_agent.agent" not in sys.modules
        """
        subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True)


def test_better_13_an_internal_cancellation_reads_as_one():
    cause = asyncio.CancelledError()
    failure = internal_cancellation(ToolCall("c1", "fetch"), cause)
    assert failure.__cause__ is cause
    assert "'fetch' was cancelled internally" in tool_error_text(failure)
