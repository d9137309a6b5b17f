"""Which extension overrides which hook, worked out once, and calling them in order."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..extensions.base import HOOK_NAMES, AgentExtension, hook_type_error, overrides, received_events
from .gone import loop_is_gone

if TYPE_CHECKING:
    from ..extensions.events import ExtensionEvent

__all__ = ["Hooks", "call_hook"]


class Hooks:
    """The hook table of a sequence of extensions. A hook that nobody overrides costs nothing."""

    __slots__ = ("_instance_overrides", "_subscribers", "_table", "extensions")

    def __init__(self, extensions: Sequence[AgentExtension]) -> None:
        self.extensions = tuple(extensions)
        self._instance_overrides = _instance_overrides(self.extensions)
        self._table = {
            hook: tuple(extension for extension in self.extensions if overrides(extension, hook))
            for hook in HOOK_NAMES
        }
        self._subscribers: dict[type, tuple[AgentExtension, ...]] = {}

    def current(self) -> Hooks:
        """Return this table, or a new one when hooks were assigned to or removed from an instance."""
        if self._instance_overrides == _instance_overrides(self.extensions):
            return self
        return Hooks(self.extensions)

    def of(self, hook: str) -> tuple[AgentExtension, ...]:
        """Return the extensions that override `hook`, in priority order."""
        return self._table[hook]

    def subscribers(self, event_type: type[ExtensionEvent]) -> tuple[AgentExtension, ...]:
        """Return the extensions that want a kind of notification, in priority order."""
        found = self._subscribers.get(event_type)
        if found is None:
            found = self._subscribers[event_type] = tuple(
                extension
                for extension in self._table["on_event"]
                if (wanted := received_events(extension)) is None or issubclass(event_type, wanted)
            )
        return found

    async def call(self, hook: str, *arguments: Any) -> None:
        """Await `hook` of every extension that overrides it; the first exception stops the group.

        Raises:
            TypeError: A hook was not written with `async def`.
        """
        extensions = self._table[hook]
        if extensions:
            for extension in extensions:
                await call_hook(extension, hook, *arguments)

    async def call_all(
        self, extensions: Sequence[AgentExtension], hook: str, *arguments: Any
    ) -> list[BaseException]:
        """Await `hook` of each of `extensions` whatever the others raise; return what they raised."""
        errors: list[BaseException] = []
        loop = asyncio.get_running_loop()
        for extension in extensions:
            try:
                await call_hook(extension, hook, *arguments)
            except BaseException as error:
                if loop_is_gone(loop):
                    raise
                errors.append(error)
        return errors


async def call_hook(extension: AgentExtension, hook: str, *arguments: Any) -> None:
    """Call and await one hook of one extension.

    Raises:
        TypeError: The hook was not written with `async def`.
    """
    awaitable = getattr(extension, hook)(*arguments)
    if not hasattr(awaitable, "__await__"):
        raise hook_type_error(extension, hook, f"an async function, but it returned {awaitable!r}")
    await awaitable


def _instance_overrides(extensions: Sequence[AgentExtension]) -> list[tuple[int, str]]:
    """Return which extension, by position, has which hook assigned on the instance; nearly always nothing."""
    return [
        (index, hook)
        for index, extension in enumerate(extensions)
        if not HOOK_NAMES.isdisjoint(values := getattr(extension, "__dict__", {}))
        for hook in sorted(HOOK_NAMES.intersection(values))
    ]
