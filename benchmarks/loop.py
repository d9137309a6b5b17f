"""What the loop costs on top of the model and the tools, as ratios against floors of the same process.

Run with `python benchmarks/loop.py`. Needs no network. See benchmarks/README.md for what is printed.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from statistics import median

from zett_agent.agent import Agent, AgentRunConfig, AgentRunContext
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.memory import InMemoryMessageAccumulator
from zett_agent.messages import AnyMessage, AssistantMessage, ToolCall, ToolMessage, UserMessage
from zett_agent.model import ModelEvent, ModelRequest, ModelResponse, RetryOptions
from zett_agent.tools import AgentTool, tool

REPETITIONS = 7


class Script:
    """Answers request number n of a run with `rounds - n` tool calls still to come."""

    retry = RetryOptions(max_retries=0)

    def __init__(self, rounds: int = 0, deltas: int = 0) -> None:
        self.rounds = rounds
        self.deltas = deltas
        self.step = 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        for _ in range(self.deltas):
            yield ModelEvent.text("word ")
        if self.step < self.rounds:
            self.step += 1
            call = ToolCall(f"c{self.step}", "add", {"left": 2, "right": 3})
            message = AssistantMessage(tool_calls=(call,))
        else:
            self.step = 0
            message = AssistantMessage(content="word " * self.deltas or "done")
        yield ModelEvent.completed(ModelResponse(message))


def add(left: int, right: int) -> int:
    return left + right


async def add_async(left: int, right: int) -> int:
    """Add two integers.

    Guidelines:
        - Use it for sums.
    """
    return left + right


add_tool = tool(add_async, name="add")


async def cpu(work: Callable[[], Awaitable[object]]) -> float:
    """Return the CPU seconds that awaiting `work()` takes."""
    gc.collect()
    started = time.process_time()
    await work()
    return time.process_time() - started


async def compare(
    *works: Callable[[], Awaitable[object]], repetitions: int = REPETITIONS
) -> list[list[float]]:
    """Measure several pieces of work in turn, so that drift of the machine hits all alike."""
    for work in works:
        await work()  # warm up
    samples: list[list[float]] = [[] for _ in works]
    for _ in range(repetitions):
        for index, work in enumerate(works):
            samples[index].append(await cpu(work))
    return samples


def spread(samples: list[float]) -> str:
    return f"{min(samples):.4g}..{max(samples):.4g}"


async def text_deltas(count: int = 20_000) -> None:
    """(a) Per text delta: `Agent.stream` with the default extensions against the bare generator."""
    model = Script(deltas=count)
    agent = await Agent.create(model)

    async def bare() -> None:
        async for _ in model.stream(ModelRequest(())):
            pass

    async def ours() -> None:
        async for _ in agent.stream("go", config=AgentRunConfig()):
            pass

    floor, mine = await compare(bare, ours)
    ratios = [m / f for m, f in zip(mine, floor, strict=True)]
    print(
        f"(a) text delta: {median(mine) / count * 1e6:.2f} us against {median(floor) / count * 1e6:.2f} us, "
        f"ratio {median(ratios):.2f} ({spread(ratios)}), aim at most 5"
    )


async def tool_rounds() -> None:
    """(b) Per tool round: a run against a loop that calls the same model and function."""

    async def bare(model: Script) -> None:
        messages: list[AnyMessage] = [UserMessage(content="go")]
        while True:
            async for event in model.stream(ModelRequest(tuple(messages))):
                if event.response is not None:
                    answer = event.response.message
            messages.append(answer)
            if not answer.tool_calls:
                return
            for call in answer.tool_calls:
                result = str(add(**call.arguments))
                messages.append(ToolMessage(tool_call_id=call.id, name=call.name, content=result))

    per_round: dict[int, float] = {}
    for rounds in (1, 10, 50):
        model = Script(rounds=rounds)
        agent = await Agent.create(model, tools=[add_tool], max_iterations=100)
        times = max(1, 60 // rounds)

        async def floor(model: Script = model, times: int = times) -> None:
            for _ in range(times):
                await bare(model)

        async def ours(agent: Agent = agent, times: int = times) -> None:
            for _ in range(times):
                await agent.run("go", config=AgentRunConfig())

        floors, mine = await compare(floor, ours)
        over = [(m - f) / times / rounds * 1e3 for m, f in zip(mine, floors, strict=True)]
        per_round[rounds] = median(over)
        print(
            f"(b) {rounds:2} tool rounds: {median(over):.3f} ms ({spread(over)}) above the bare loop "
            f"per round, aim at most 0.30; ratio to it {median(mine) / median(floors):.1f}"
        )
    print(f"    round cost at 50 against 10 rounds: {per_round[50] / per_round[10]:.2f}, linear is 1.00")


async def long_history() -> None:
    """(c) A step with 100 against 20,000 restored messages."""
    costs: dict[int, list[float]] = {}
    steps = 20
    for size in (100, 20_000):
        history: list[AnyMessage] = []
        for index in range(size // 2):
            history += [UserMessage(content=f"question {index}"), AssistantMessage(content=f"answer {index}")]
        model = Script(rounds=steps)
        memory = InMemoryMessageAccumulator()
        agent = await Agent.create(
            model, tools=[add_tool], extensions=[Restore(history), memory], max_iterations=100
        )
        single = await Agent.create(Script(), tools=[add_tool], extensions=[Restore(history), memory])

        async def run(agent: Agent, memory: InMemoryMessageAccumulator = memory) -> None:
            memory.clear("s")
            await agent.run("go", config=AgentRunConfig("s"))

        many, one = await compare(partial(run, agent), partial(run, single))
        costs[size] = [(m - o) / steps * 1e3 for m, o in zip(many, one, strict=True)]
    difference = median(costs[20_000]) - median(costs[100])
    print(
        f"(c) step: {median(costs[100]):.3f} ms with 100 messages, {median(costs[20_000]):.3f} ms with "
        f"20,000; difference {difference:.3f} ms, aim at most 1 (one tuple)"
    )


class Restore(AgentExtension):
    """Puts a history into the state, as a program with a storage of its own would."""

    def __init__(self, messages: list[AnyMessage]) -> None:
        self.messages = messages

    async def on_state(self, context: AgentRunContext) -> None:
        context.state.messages.extend(self.messages)


async def many_tools() -> None:
    """(d) A run with 200 tools against a run with one."""

    def numbered(index: int) -> AgentTool:
        return tool(add_async, name=f"add_{index}")

    one = await Agent.create(Script(), tools=[numbered(0)])
    many = await Agent.create(Script(), tools=[numbered(index) for index in range(200)])

    async def runs(agent: Agent) -> None:
        for _ in range(50):
            await agent.run("go", config=AgentRunConfig())

    single, all_of_them = await compare(lambda: runs(one), lambda: runs(many))
    ratios = [a / s for a, s in zip(all_of_them, single, strict=True)]
    print(
        f"(d) run with 200 tools: {median(all_of_them) / 50 * 1e3:.3f} ms, with one "
        f"{median(single) / 50 * 1e3:.3f} ms, ratio {median(ratios):.2f} ({spread(ratios)}), aim at most 2"
    )


async def main() -> None:
    await text_deltas()
    await tool_rounds()
    await long_history()
    await many_tools()


if __name__ == "__main__":
    asyncio.run(main())
