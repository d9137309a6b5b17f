"""Every exception that the library raises on its own behalf.

```
Exception
└─ AgentError
   ├─ AgentProtocolError         a rule of the loop, of a model stream or of a session was broken
   ├─ AgentIterationLimitError   a budget of the request is used up
   ├─ AgentStopError             raised only by AssistantMessage.raise_for_stop()
   ├─ AgentResumeError           the history has nothing that could be resumed
   ├─ ExternalEventTimeout       (extensions.external) nobody answered in time; also a TimeoutError
   ├─ ProviderError              (providers.base) anything that a model adapter reports
   └─ ScriptExhausted, ScriptUnfinished   (testing) a scripted model and its test disagree
```
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from .messages import AssistantMessage
    from .stop import StopInfo

__all__ = [
    "AgentError",
    "AgentIterationLimitError",
    "AgentProtocolError",
    "AgentResumeError",
    "AgentStopError",
]


_E = TypeVar("_E", bound=BaseException)


class AgentError(Exception):
    """Base class of every error of this library. All of them survive `pickle` and `copy` unchanged."""

    def __reduce__(self) -> tuple[Any, ...]:
        # The default calls the constructor with `args`, which hold the rendered text and not what the
        # constructors here (or those of an application's subclass) take.
        return _rebuild, (type(self), self.args), self.__dict__


def _rebuild(error_type: type[_E], args: tuple[Any, ...]) -> _E:
    error = error_type.__new__(error_type)
    error.args = args
    return error


class AgentProtocolError(AgentError):
    """A contract was broken: agent not initialized, session busy, malformed model stream, illegal phase."""


class AgentIterationLimitError(AgentError):
    """A request needs more model calls or more internal messages than its budget allows."""


class AgentStopError(AgentError):
    """An answer did not end normally.

    Raised by `AssistantMessage.raise_for_stop()` only; the loop itself returns such answers.

    Attributes:
        stop: Why the model stopped.
        message: The answer as far as it was written, or `None` when it is not known.
    """

    def __init__(self, stop: StopInfo, message: AssistantMessage | None = None) -> None:
        super().__init__(f"The model stopped without finishing its answer: {stop.describe()}")
        self.stop = stop
        self.message = message


class AgentResumeError(AgentError):
    """The history cannot be resumed.

    Attributes:
        reason: One of `"empty"`, `"completed"`, `"refused"`, `"context_full"`, `"unknown_stop"`,
            `"malformed"`.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
