"""An agent that adds two numbers with a tool. Runs offline: a function stands in for the model."""

from __future__ import annotations

import asyncio

from zett_agent import ModelRequest, ToolMessage, create_agent, tool
from zett_agent.testing import FunctionModel, Step, StepInfo, call


@tool
def add(a: int, b: int) -> int:
    """Add two whole numbers.

    Guidelines:
        - Use this for every sum instead of adding yourself.
    """
    return a + b


def answer(request: ModelRequest, info: StepInfo) -> Step:
    """Ask for the sum first, then repeat what the tool said."""
    last = request.messages[-1]
    return last.text if isinstance(last, ToolMessage) else call("add", a=2, b=3)


async def main() -> None:
    agent = await create_agent(FunctionModel(answer), tools=[add])
    message = await agent.run("What is 2 + 3?")
    print(message.content)


if __name__ == "__main__":
    asyncio.run(main())
