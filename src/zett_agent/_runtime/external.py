"""Delivering an event from outside to every extension."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from .hooks import Hooks
from .notes import add_note

if TYPE_CHECKING:
    from ..extensions.external import ExternalEvent
    from .context import AgentRunConfig

__all__ = ["deliver"]

logger = logging.getLogger("zett_agent")

_SLOW_SECONDS = 0.1


def deliver(hooks: Hooks, config: AgentRunConfig | None, event: ExternalEvent) -> list[str]:
    """Offer `event` to every extension in priority order and return the names of those that took it.

    An `accept` that raises does not keep the event from the others; its error is raised afterwards.
    """
    accepted: list[str] = []
    first_error: BaseException | None = None
    for extension in hooks.of("accept"):
        started = time.monotonic()
        try:
            if extension.accept(config, event):
                accepted.append(extension.name)
        except Exception as error:
            if first_error is None:
                first_error = error
            else:
                logger.error("accept of extension %s failed: %r", extension.name, error, exc_info=error)
        elapsed = time.monotonic() - started
        if elapsed > _SLOW_SECONDS:
            logger.warning(
                "accept of extension %s took %.0f ms; it runs on the caller's thread and must not wait",
                extension.name,
                elapsed * 1000,
            )
    if first_error is not None:
        add_note(
            first_error, f"External event {event.name!r} was accepted by: {', '.join(accepted) or 'nobody'}"
        )
        raise first_error
    return accepted
