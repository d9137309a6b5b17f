"""String enumerations that behave alike on every supported Python version."""

from enum import Enum


class StrEnum(str, Enum):
    """An enumeration whose members are, format as, and serialize as their string value.

    `enum.StrEnum` exists from Python 3.11 on; this one gives 3.10 the same behaviour.
    """

    def __str__(self) -> str:
        return str(self.value)

    def __format__(self, format_spec: str) -> str:
        return format(str(self.value), format_spec)
