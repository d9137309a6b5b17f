"""The same agent as in basic.py with a real model. Needs an API key of DeepSeek in DEEPSEEK_API.

DEEPSEEK_BASE_URL, if set, names another server that speaks the same protocol.
"""

from __future__ import annotations

import asyncio
import os
import sys

from zett_agent import AgentEventType, DeepSeekProvider, ProviderError, create_agent, tool


@tool
def add(a: int, b: int) -> int:
    """Add two whole numbers.

    Guidelines:
        - Use this for every sum instead of adding yourself.
    """
    return a + b


async def ask(key: str, question: str) -> None:
    address = os.environ.get("DEEPSEEK_BASE_URL")
    async with DeepSeekProvider("deepseek-v4-flash", key, base_url=address) as model:
        agent = await create_agent(model, tools=[add])
        async for event in agent.stream(question):
            if event.type is AgentEventType.TEXT_DELTA:
                print(event.delta, end="", flush=True)
    print()


def main() -> None:
    key = os.environ.get("DEEPSEEK_API", "").strip()
    if not key:
        sys.exit("Set the environment variable DEEPSEEK_API to your DeepSeek API key, then run this again.")
    try:
        asyncio.run(ask(key, "What is 20394 + 58872?"))
    except ProviderError as error:
        sys.exit(f"DeepSeek did not answer: {error}")


if __name__ == "__main__":
    main()
