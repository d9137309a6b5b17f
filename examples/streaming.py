"""The events of one request while they happen. Runs offline: a script stands in for the model."""

from __future__ import annotations

import asyncio

from zett_agent import AgentEvent, AgentEventType, create_agent, tool
from zett_agent.testing import ScriptedModel, call, say


@tool
async def temperature(city: str) -> float:
    """Measure the air temperature of a city, in degrees Celsius.

    Guidelines:
        - Give the city's English name.
    """
    await asyncio.sleep(0.1)
    return {"Oslo": 4.5, "Rome": 19.0}[city]


SCRIPT = ScriptedModel(
    call("temperature", city="Rome"),
    say("It is mild in Rome: 19 degrees.", reasoning="19 is mild.", delay=0.05),
)


def show(event: AgentEvent) -> None:
    match event.type:
        case AgentEventType.TOOL_STARTED:
            for item in event.tool_calls:
                print(f"[calls {item.name} with {item.arguments}]")
        case AgentEventType.TOOL_COMPLETED if event.message is not None:
            print(f"[result: {event.message.content}]")
        case AgentEventType.REASONING_STARTED:
            print("(", end="")
        case AgentEventType.REASONING_COMPLETED:
            print(")")
        case AgentEventType.TEXT_DELTA | AgentEventType.REASONING_DELTA:
            print(event.delta, end="", flush=True)
        case AgentEventType.RUN_COMPLETED:
            print()
        case _:
            pass


async def main() -> None:
    agent = await create_agent(SCRIPT, tools=[temperature])
    async for event in agent.stream("How warm is it in Rome?"):
        show(event)


if __name__ == "__main__":
    asyncio.run(main())
