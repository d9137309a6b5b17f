"""Worker threads for synchronous tools.

The event loop's default executor has a handful of threads and shares them with name look-ups and everything
else, so tools would queue behind each other, and tools that wait for other tools would deadlock. Here a
thread is created whenever none is idle: no call ever waits for another one to finish. Idle threads are
reused for a while and then end. All are daemons: a tool that never returns cannot keep the process alive.
"""

from __future__ import annotations

import atexit
import contextvars
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from ._running import ThreadCall, thread_call

if TYPE_CHECKING:
    import asyncio

__all__ = ["run_in_thread"]

IDLE_SECONDS = 10.0
"""How long a thread without work is kept."""

EXIT_GRACE_SECONDS = 1.0
"""How long the end of the interpreter waits for handlers that are still running."""

_Job = Callable[[], None]


async def run_in_thread(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """Run `function(**arguments)` in a worker thread and return its result.

    The function sees a copy of the caller's context variables. What it raises is raised here unchanged,
    except that `StopIteration`, which a coroutine cannot raise, becomes a `RuntimeError` naming it.

    Cancellation returns at once: the thread goes on, `tool_cancelled()` is true in it, and its result is
    dropped.
    """
    import asyncio

    loop = asyncio.get_running_loop()
    # Errors travel as values: one that arrives together with a cancellation must not be reported as lost.
    future: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
    call = ThreadCall(thread_call.get())
    context = contextvars.copy_context()
    context.run(thread_call.set, call)

    def job() -> None:
        result: Any = None
        error: BaseException | None = None
        try:
            result = context.run(function, **arguments)
        except StopIteration as stop:
            error = RuntimeError(f"the tool raised {stop!r}")
            error.__cause__ = stop
        except BaseException as failure:
            error = failure
        with suppress(RuntimeError):  # the loop is closed: nobody is left to tell
            loop.call_soon_threadsafe(_settle, future, result, error)

    _pool.submit(job, call)
    try:
        result, error = await future
    except BaseException:
        call.cancelled = True
        raise
    if error is None:
        return result
    try:
        raise error
    finally:
        del error  # it holds this frame


def _settle(
    future: asyncio.Future[tuple[Any, BaseException | None]], result: Any, error: BaseException | None
) -> None:
    if not future.done():  # cancelled meanwhile
        future.set_result((result, error))


class _Worker:
    """One thread and the way to give it its next job."""

    __slots__ = ("_jobs", "_pool")

    def __init__(self, pool: _ThreadPool) -> None:
        self._pool = pool
        self._jobs: SimpleQueue[_Job] = SimpleQueue()

    def give(self, job: _Job) -> None:
        self._jobs.put(job)

    def run(self) -> None:
        job: _Job | None = self._jobs.get()
        while job is not None:
            job()
            job = None  # not to keep its arguments and result alive while idle
            self._pool.rest(self)
            job = self._next_job()

    def _next_job(self) -> _Job | None:
        try:
            return self._jobs.get(timeout=IDLE_SECONDS)
        except Empty:
            # Either nobody can choose this worker any more, or somebody has and the job is coming.
            return None if self._pool.retire(self) else self._jobs.get()


class _ThreadPool:
    """Creates threads on demand, without a limit, and reuses the idle ones."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._running: set[ThreadCall] = set()
        self._started = 0

    def submit(self, job: _Job, call: ThreadCall) -> None:
        """Run `job` at once in a thread of its own.

        Raises:
            RuntimeError: The system allows no further thread, or the interpreter is ending.
        """

        def tracked() -> None:
            try:
                job()
            finally:
                with self._lock:
                    self._running.discard(call)

        with self._lock:
            worker = self._idle.pop() if self._idle else None
            self._running.add(call)
        if worker is not None:
            worker.give(tracked)
            return
        worker = _Worker(self)
        worker.give(tracked)
        try:
            threading.Thread(target=worker.run, name=self._next_name(), daemon=True).start()
        except BaseException:
            with self._lock:
                self._running.discard(call)
            raise

    def rest(self, worker: _Worker) -> None:
        """Take back a worker that has finished its job."""
        with self._lock:
            self._idle.append(worker)

    def retire(self, worker: _Worker) -> bool:
        """Forget an idle worker; return False when it was given a job at the last moment."""
        with self._lock:
            try:
                self._idle.remove(worker)
            except ValueError:
                return False
            return True

    def finish(self) -> None:
        """Tell the running handlers to stop and give them a moment, because the interpreter ends."""
        deadline = time.monotonic() + EXIT_GRACE_SECONDS
        with self._lock:
            for call in self._running:
                call.cancelled = True
        while time.monotonic() < deadline:
            with self._lock:
                if not self._running:
                    return
            time.sleep(0.005)

    def _next_name(self) -> str:
        with self._lock:
            self._started += 1
            return f"zett-agent-tool-{self._started}"


_pool = _ThreadPool()
atexit.register(lambda: _pool.finish())


def _forget_threads() -> None:
    # The threads of the parent do not exist in a forked child.
    global _pool
    _pool = _ThreadPool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)
