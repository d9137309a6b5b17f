"""How a decorated function runs: on the loop, in a thread, cancelled, nested, at exit. 40 §4.4, §10."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from zett_agent.tools import _threads
from zett_agent.tools.base import AgentTool, tool, tool_cancelled

variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


def as_tool(function: Callable[..., Any], **options: Any) -> AgentTool:
    if function.__doc__ is None:
        function.__doc__ = "Do it."
    return tool(function, guidelines="Any.", **options)


def thread_names() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("zett-agent-tool-")}


async def wait_until(condition: Callable[[], object], seconds: float = 5.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.002)


class TestWhere:
    async def test_an_asynchronous_function_runs_on_the_loop(self):
        async def where() -> tuple[Any, str]:
            return asyncio.get_running_loop(), threading.current_thread().name

        loop, thread = await as_tool(where)({})
        assert loop is asyncio.get_running_loop()
        assert thread == threading.current_thread().name

    async def test_a_plain_function_runs_in_a_worker_thread_with_the_caller_s_context(self):
        def where() -> tuple[str, str]:
            seen = variable.get()
            variable.set("inner")
            return threading.current_thread().name, seen

        variable.set("outer")
        thread, seen = await as_tool(where)({})
        assert thread.startswith("zett-agent-tool-")
        assert seen == "outer"
        assert variable.get() == "outer"

    async def test_it_never_blocks_the_loop(self):
        def slow() -> None:
            time.sleep(0.2)

        ticks = 0
        task = asyncio.ensure_future(as_tool(slow)({}))
        while not task.done():
            await asyncio.sleep(0.01)
            ticks += 1
        assert ticks >= 5

    async def test_a_generator_runs_in_the_thread_too(self):
        def count(n: int) -> Any:
            for number in range(n):
                yield number, threading.current_thread() is threading.main_thread()

        assert await as_tool(count)({"n": 2}) == [(0, False), (1, False)]

    async def test_errors_keep_their_identity_and_traceback(self):
        error = KeyError("mine")

        def fail() -> None:
            raise error

        with pytest.raises(KeyError) as caught:
            await as_tool(fail)({})
        assert caught.value is error
        assert any(entry.name == "fail" for entry in caught.traceback)

    async def test_idle_threads_are_used_again(self):
        def name() -> str:
            return threading.current_thread().name

        named = as_tool(name)
        first = await named({})
        before = thread_names()
        for _ in range(20):
            await asyncio.sleep(0.002)  # lets the thread become idle
            await named({})
        assert len(thread_names() - before) <= 2
        assert first in thread_names()

    async def test_idle_threads_end(self, monkeypatch):
        monkeypatch.setattr(_threads, "IDLE_SECONDS", 0.01)

        def name() -> str:
            return threading.current_thread().name

        used = await as_tool(name)({})
        await wait_until(lambda: used not in thread_names())


class TestBetter7:
    async def test_a_plain_function_that_returns_a_coroutine(self):
        async def inner(a: int) -> int:
            await asyncio.sleep(0)
            return a

        @functools.wraps(inner)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return inner(*args, **kwargs)

        assert await as_tool(wrapper)({"a": "5"}) == 5

        def lonely(a: int):
            return inner(a)

        assert await as_tool(lonely)({"a": 5}) == 5

    async def test_a_partial_of_an_asynchronous_function(self):
        async def scaled(a: int, factor: int) -> tuple[int, str]:
            """Scale."""
            return a * factor, threading.current_thread().name

        built = as_tool(functools.partial(scaled, factor=3))
        assert built.name == "scaled"
        assert built.description == "Scale."
        assert built.handler.__module__ == __name__
        assert await built({"a": 2}) == (6, threading.current_thread().name)

    async def test_an_object_with_an_asynchronous_call(self):
        class Scale:
            def __init__(self, factor: int) -> None:
                self.factor = factor

            async def __call__(self, a: int) -> tuple[int, str]:
                """Scale."""
                return a * self.factor, threading.current_thread().name

        built = as_tool(Scale(3))
        assert built.name == "Scale"
        assert await built({"a": 2}) == (6, threading.current_thread().name)

    def test_an_asynchronous_generator_is_refused(self):
        async def many(a: int):
            yield a

        with pytest.raises(ValueError, match="one value"):
            as_tool(many)
        with pytest.raises(ValueError, match="one value"):
            as_tool(functools.partial(many), name="many")


class TestBetter1:
    @pytest.mark.timeout(5)
    async def test_stop_iteration_in_a_thread(self):
        def empty() -> Any:
            return next(iter([]))

        with pytest.raises(RuntimeError, match="StopIteration") as caught:
            await asyncio.wait_for(as_tool(empty)({}), 1)
        assert isinstance(caught.value.__cause__, StopIteration)

    async def test_stop_iteration_on_the_loop(self):
        async def empty() -> Any:
            return next(iter([]))

        with pytest.raises(RuntimeError, match="StopIteration"):
            await as_tool(empty)({})

    async def test_stop_async_iteration_in_a_thread(self):
        def empty() -> Any:
            raise StopAsyncIteration("over")

        with pytest.raises(StopAsyncIteration):
            await as_tool(empty)({})


class TestBetter9:
    async def test_sixteen_tools_at_once(self):
        def wait() -> None:
            time.sleep(0.3)

        waiting = as_tool(wait)
        started = time.monotonic()
        await asyncio.gather(*(waiting({}) for _ in range(16)))
        assert time.monotonic() - started < 0.6

    async def test_sixty_four_tools_really_run_at_once(self):
        barrier = threading.Barrier(64, timeout=20)

        def meet() -> int:
            return barrier.wait()

        meeting = as_tool(meet)
        assert sorted(await asyncio.gather(*(meeting({}) for _ in range(64)))) == list(range(64))

    async def test_sixty_four_parents_each_waiting_for_a_child(self):
        loop = asyncio.get_running_loop()
        together = threading.Barrier(64, timeout=20)

        def child(n: int) -> int:
            return n

        nested = as_tool(child)

        def parent(n: int) -> int:
            together.wait()
            return asyncio.run_coroutine_threadsafe(nested({"n": n}), loop).result(20)

        parents = as_tool(parent)
        assert await asyncio.gather(*(parents({"n": n}) for n in range(64))) == list(range(64))


class TestCancellation:
    async def test_the_waiting_task_returns_at_once_and_the_thread_goes_on(self):
        started, release, finished = threading.Event(), threading.Event(), threading.Event()

        def slow() -> None:
            started.set()
            release.wait(10)
            finished.set()

        task = asyncio.ensure_future(as_tool(slow)({}))
        await wait_until(started.is_set)
        task.cancel()
        before = time.monotonic()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.monotonic() - before < 0.2
        assert not finished.is_set()
        release.set()
        await wait_until(finished.is_set)
        await asyncio.sleep(0.01)  # its result is dropped without a trace

    async def test_an_error_that_arrives_with_the_cancellation_is_not_reported_as_lost(self):
        reported: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
        release, done = threading.Event(), threading.Event()

        def fail() -> None:
            release.wait(10)
            done.set()
            raise ValueError("late")

        task = asyncio.ensure_future(as_tool(fail)({}))
        await asyncio.sleep(0.01)
        release.set()
        done.wait(10)
        time.sleep(0.02)  # the result is now waiting in the loop's queue, behind nothing
        task.cancel()
        with pytest.raises((asyncio.CancelledError, ValueError)):
            await task
        del task
        await asyncio.sleep(0.02)
        assert reported == []

    async def test_better_14_the_worker_can_ask(self):
        started, stopped = threading.Event(), threading.Event()
        seen: list[bool] = []

        def loop() -> None:
            seen.append(tool_cancelled())
            started.set()
            while not tool_cancelled():
                time.sleep(0.001)
            stopped.set()

        task = asyncio.ensure_future(as_tool(loop)({}))
        await wait_until(started.is_set)
        assert not stopped.is_set()
        task.cancel()
        await wait_until(stopped.is_set)
        assert seen == [False]
        assert tool_cancelled() is False

    async def test_better_14_a_timeout_counts(self):
        stopped = threading.Event()

        def loop() -> None:
            while not tool_cancelled():
                time.sleep(0.001)
            stopped.set()

        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(as_tool(loop)({}), 0.02)
        await wait_until(stopped.is_set)

    async def test_better_14_a_tool_within_a_tool_can_ask_too(self):
        event_loop = asyncio.get_running_loop()
        started, stopped = threading.Event(), threading.Event()

        def inner() -> None:
            started.set()
            while not tool_cancelled():
                time.sleep(0.001)
            stopped.set()

        nested = as_tool(inner)

        def outer() -> None:
            asyncio.run_coroutine_threadsafe(nested({}), event_loop).result(10)

        task = asyncio.ensure_future(as_tool(outer)({}))
        await wait_until(started.is_set)
        assert not stopped.is_set()
        task.cancel()
        await wait_until(stopped.is_set)

    async def test_a_finished_tool_is_not_cancelled(self):
        later: list[Callable[[], bool]] = []

        def keep() -> None:
            later.append(functools.partial(contextvars.copy_context().run, tool_cancelled))

        await as_tool(keep)({})
        assert later[0]() is False

    async def test_an_asynchronous_tool_is_cancelled_in_the_usual_way(self):
        cleaned: list[bool] = []

        async def wait() -> None:
            try:
                await asyncio.sleep(60)
            finally:
                cleaned.append(True)

        task = asyncio.ensure_future(as_tool(wait)({}))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert cleaned == [True]


class TestEndOfTheInterpreter:
    def run(self, program: str) -> tuple[float, str]:
        head = """
            import asyncio, os, sys, threading, time
            from zett_agent.tools.base import tool, tool_cancelled
        """
        source = textwrap.dedent(head) + textwrap.dedent(program)
        started = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-c", source], check=False, capture_output=True, text=True, timeout=30
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        return time.monotonic() - started, done.stdout

    def test_a_stuck_tool_does_not_keep_the_process(self):
        seconds, _ = self.run(
            """
            @tool(guidelines="g")
            def stuck() -> None:
                "Wait for ever."
                threading.Event().wait()

            async def main():
                task = asyncio.ensure_future(stuck({}))
                await asyncio.sleep(0.05)
                task.cancel()

            asyncio.run(main())
            """
        )
        assert seconds < 8

    def test_a_tool_that_asks_can_finish(self):
        _, output = self.run(
            """
            @tool(guidelines="g")
            def work() -> None:
                "Work until told to stop."
                while not tool_cancelled():
                    time.sleep(0.001)
                os.write(1, b"cleaned up")

            loop = asyncio.new_event_loop()
            task = loop.create_task(work({}))
            loop.run_until_complete(asyncio.sleep(0.05))
            task.cancel()
            loop.run_until_complete(asyncio.wait([task]))
            loop.close()
            """
        )
        assert output == "cleaned up"

    @pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
    def test_a_forked_child_starts_threads_of_its_own(self):
        _, output = self.run(
            """
            import warnings
            warnings.simplefilter("ignore")

            @tool(guidelines="g")
            def name() -> str:
                "Name the thread."
                return threading.current_thread().name

            asyncio.run(name({}))
            pid = os.fork()
            if pid == 0:
                asyncio.run(asyncio.wait_for(name({}), 5))
                os.write(1, b"child done")
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
            """
        )
        assert output == "child done"


async def test_lazy_results_of_a_plain_function_are_made_in_its_thread():
    """However long it takes, the event loop goes on (40 §4.4)."""

    def slowly(item: int) -> int:
        time.sleep(0.05)
        return item

    @tool
    def numbers(count: int) -> list[int]:
        """Count.

        Guidelines:
            - Count.
        """
        return map(slowly, range(count))

    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0.005)
            turns += 1

    counting = asyncio.create_task(count_turns())
    assert list(await numbers({"count": 4})) == [0, 1, 2, 3]
    counting.cancel()
    assert turns >= 5
