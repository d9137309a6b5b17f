"""Packages whose exports are imported on first use (PEP 562)."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["lazy_exports", "load_export"]


def load_export(package: str, table: Mapping[str, str], name: str) -> Any:
    """Return the export `name` of `package`, importing the module that `table` gives for it.

    The value becomes an ordinary attribute of the package, so later look-ups cost nothing.

    Raises:
        AttributeError: The table has no such name.
    """
    module = table.get(name)
    if module is None:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(module, package), name)
    setattr(sys.modules[package], name, value)
    return value


def lazy_exports(
    package: str, table: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return the `__getattr__`, `__dir__` and `__all__` of a package that loads its exports lazily.

    Args:
        package: The package's own `__name__`.
        table: Exported name to the module that defines it; a module that begins with a dot is relative to
            `package`.

    Example:
        >>> __getattr__, __dir__, __all__ = lazy_exports(__name__, {"Agent": ".agent"})  # doctest: +SKIP
    """

    def getattribute(name: str) -> Any:
        return load_export(package, table, name)

    def directory() -> list[str]:
        return sorted({*vars(sys.modules[package]), *table})

    return getattribute, directory, sorted(table)
