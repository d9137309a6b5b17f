"""Optional behaviour for agents: one class for each extension, loaded when it is first named."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazy_exports

if TYPE_CHECKING:
    from .base import AgentExtension as AgentExtension

_MODULES = {
    "AgentExtension": ".base",
}

__getattr__, __dir__, __all__ = lazy_exports(__name__, _MODULES)  # pyright: ignore[reportUnsupportedDunderAll]
