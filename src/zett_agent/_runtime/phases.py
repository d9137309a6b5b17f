"""The phase machine: one table of legal transitions, checked in one place."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from ..events import AgentPhase
from ..exceptions import AgentProtocolError
from ..extensions.events import PhaseTransitionEvent

if TYPE_CHECKING:
    from ..events import PhaseContext, PhaseState

__all__ = ["ACTIVE_PHASES", "enter_phase", "transition"]

ACTIVE_PHASES = frozenset(
    {
        AgentPhase.LOADING_CONTEXT,
        AgentPhase.READY,
        AgentPhase.COMPACTING,
        AgentPhase.GENERATING,
        AgentPhase.RUNNING_TOOL,
    }
)

_ENDS = (AgentPhase.FAILED, AgentPhase.CANCELLED)

_LEGAL: dict[AgentPhase, tuple[AgentPhase, ...]] = {
    AgentPhase.CREATED: (AgentPhase.LOADING_CONTEXT,),
    AgentPhase.LOADING_CONTEXT: (AgentPhase.READY, *_ENDS),
    AgentPhase.READY: (
        AgentPhase.GENERATING,
        AgentPhase.RUNNING_TOOL,
        AgentPhase.COMPACTING,
        AgentPhase.COMPLETED,
        *_ENDS,
    ),
    AgentPhase.COMPACTING: (AgentPhase.READY, *_ENDS),
    AgentPhase.GENERATING: (AgentPhase.READY, *_ENDS),
    AgentPhase.RUNNING_TOOL: (AgentPhase.READY, *_ENDS),
    AgentPhase.COMPLETED: (),
    AgentPhase.FAILED: (),
    AgentPhase.CANCELLED: (),
}


def enter_phase(state: PhaseState, phase: AgentPhase) -> PhaseTransitionEvent:
    """Change the phase and return the notification to publish.

    Raises:
        AgentProtocolError: The transition is not legal; nothing was changed.
    """
    previous = state.phase
    legal = _LEGAL[previous]
    if phase not in legal:
        allowed = ", ".join(legal) or "nothing, it is final"
        raise AgentProtocolError(f"Cannot go from phase {previous} to {phase}; allowed: {allowed}")
    state.phase = phase
    return PhaseTransitionEvent(previous, phase, datetime.now(timezone.utc), time.monotonic_ns())


async def transition(context: PhaseContext, phase: AgentPhase) -> PhaseTransitionEvent:
    """Change the phase of a context and publish it before anything else happens.

    Raises:
        AgentProtocolError: The transition is not legal; nothing was changed or published.
    """
    event = enter_phase(context.state, phase)
    await context.publish(event)
    return event
