"""Which extension overrides which hook, worked out once, and calling them in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..extensions.base import HOOK_NAMES, AgentExtension, hook_type_error, overrides

__all__ = ["Hooks"]


class Hooks:
    """The hook table of a sequence of extensions. A hook that nobody overrides costs nothing."""

    __slots__ = ("_instance_overrides", "_table", "extensions")

    def __init__(self, extensions: Sequence[AgentExtension]) -> None:
        self.extensions = tuple(extensions)
        self._instance_overrides = _any_instance_overrides(self.extensions)
        self._table = {
            hook: tuple(extension for extension in self.extensions if overrides(extension, hook))
            for hook in HOOK_NAMES
        }

    def current(self) -> Hooks:
        """Return this table, or a new one when hooks are assigned to instances, which may change."""
        if self._instance_overrides or _any_instance_overrides(self.extensions):
            return Hooks(self.extensions)
        return self

    def of(self, hook: str) -> tuple[AgentExtension, ...]:
        """Return the extensions that override `hook`, in priority order."""
        return self._table[hook]

    async def call(self, hook: str, *arguments: Any) -> None:
        """Await `hook` of every extension that overrides it; the first exception stops the group.

        Raises:
            TypeError: A hook was not written with `async def`.
        """
        extensions = self._table[hook]
        if extensions:
            for extension in extensions:
                await call_hook(extension, hook, *arguments)

    async def call_all(self, hook: str, *arguments: Any) -> list[BaseException]:
        """Like `call`, but every extension gets its turn; return what they raised."""
        errors: list[BaseException] = []
        for extension in self._table[hook]:
            try:
                await call_hook(extension, hook, *arguments)
            except GeneratorExit:
                raise
            except BaseException as error:
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


def _any_instance_overrides(extensions: Sequence[AgentExtension]) -> bool:
    return any(not HOOK_NAMES.isdisjoint(getattr(extension, "__dict__", ())) for extension in extensions)
