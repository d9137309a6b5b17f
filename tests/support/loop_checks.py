"""What the tests of failures and cancellations ask for again and again."""

from __future__ import annotations

import asyncio
from typing import Any

from support.loop_models import RawModel, answer
from support.loop_probe import Probe
from zett_agent.agent import Agent, AgentRunConfig

__all__ = ["assert_free_and_usable", "named", "notes"]


def notes(error: BaseException) -> str:
    """Return the notes of an exception, also before Python 3.11."""
    return "\n".join(getattr(error, "__notes__", ()))


async def assert_free_and_usable(agent: Agent, *, settle: int = 0) -> None:
    """Check that session `s` is free, that no task is left, and that the session goes on."""
    assert not agent.pending and not agent.is_conflict("s")
    for _ in range(settle):
        await asyncio.sleep(0)
    assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    result = await agent.run("next", config=AgentRunConfig("s"), model=RawModel(answer("fine")))
    assert result.content == "fine"


def named(name: str, **actions: Any) -> Probe:
    """Return a probe under a name of its own, so that an agent can have several."""
    probe = Probe(**actions)
    probe.name = name
    return probe
