"""The errors of model adapters; `zett_agent.providers.base` is their public home.

```
AgentError
└─ ProviderError                   also: the provider was used after aclose()
   ├─ ProviderAuthError            the service rejected the credential
   ├─ ProviderTimeoutError         a limit of TimeoutOptions ran out
   └─ ProviderResponseError        an answer that cannot be used
      ├─ ProviderHTTPError         an error status, or a 200 that is not a stream
      ├─ ProviderConnectionError   refused, reset, DNS, TLS, proxy, protocol, cut
      └─ ProviderRefusalError      only returned by a status_error hook; never leaves stream()
```
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..exceptions import AgentError

if TYPE_CHECKING:
    from ..stop import StopInfo

__all__ = [
    "ProviderAuthError",
    "ProviderConnectionError",
    "ProviderError",
    "ProviderHTTPError",
    "ProviderRefusalError",
    "ProviderResponseError",
    "ProviderTimeoutError",
    "mark_transient",
    "timeout_error",
]


def _rebuild(error_type: type[ProviderError], args: tuple[Any, ...], state: dict[str, Any]) -> ProviderError:
    error = error_type.__new__(error_type, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class ProviderError(AgentError):
    """A model adapter failed; the base class of every failure that `stream` reports.

    Attributes:
        retry_after: Seconds the service asked to wait before the next request, if it did.
        request_id: The service's name for the failed request, for its support.
        error_code: The service's string code or type of the error.
        rate_limit: What the service said about its rate limits.
    """

    retry_after: float | None = None
    request_id: str | None = None
    error_code: str | None = None
    rate_limit: Any = None

    # Whether the same request may succeed if it is sent again. `None` leaves it to the class and status.
    _transient: bool | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # Constructors of subclasses take other arguments than `args` holds, so none of them is called.
        return _rebuild, (type(self), self.args, dict(self.__dict__))


class ProviderAuthError(ProviderError):
    """The service rejected the credential.

    Attributes:
        status_code: HTTP status of the answer, if it was an HTTP answer.
    """

    def __init__(self, message: str, *, status_code: int | None = None) -> None:
        super().__init__(message)
        self.status_code = status_code


class ProviderTimeoutError(ProviderError):
    """The service was too slow.

    Attributes:
        phase: `"connect"`, `"first_byte"` or `"idle"`; see `TimeoutOptions`.
        seconds: The limit that ran out.
    """

    def __init__(self, message: str, *, phase: str, seconds: float | None = None) -> None:
        super().__init__(message)
        self.phase = phase
        self.seconds = seconds


class ProviderResponseError(ProviderError):
    """The service answered with something that cannot be used."""


class ProviderHTTPError(ProviderResponseError):
    """The service answered with an error status, or with something other than a stream.

    Attributes:
        status_code: HTTP status of the answer.
        reason: What the service itself says was wrong, if it does.
        preview: Beginning of the answer's text, at most 300 characters.
        is_html: Whether a web page came instead of an API answer.
    """

    def __init__(
        self,
        message: str,
        *,
        status_code: int,
        reason: str | None = None,
        preview: str = "",
        is_html: bool = False,
    ) -> None:
        super().__init__(message)
        self.status_code = status_code
        self.reason = reason
        self.preview = preview
        self.is_html = is_html


class ProviderConnectionError(ProviderResponseError):
    """The connection could not be made, or broke; the network's own error is the `__cause__`."""


class ProviderRefusalError(ProviderResponseError):
    """An error status that means the model declined.

    A `status_error` hook returns it to turn the failure into a normal answer with this stop.

    Attributes:
        stop: The stop of that answer.
    """

    def __init__(self, stop: StopInfo) -> None:
        super().__init__(f"The request was refused: {stop.describe()}")
        self.stop = stop


# Programs catch these by the names of the public module, and pickles name it too.
for _error in (
    ProviderError,
    ProviderAuthError,
    ProviderTimeoutError,
    ProviderResponseError,
    ProviderHTTPError,
    ProviderConnectionError,
    ProviderRefusalError,
):
    _error.__module__ = "zett_agent.providers.base"


def mark_transient(error: ProviderError, *, transient: bool) -> ProviderError:
    """Return `error` after saying whether sending the request again may help."""
    error._transient = transient
    return error


_TIMEOUTS = {
    "connect": "The service could not be connected to within {seconds:g} seconds.",
    "first_byte": "The service did not respond within {seconds:g} seconds of the request.",
    "idle": "The service stopped sending for {seconds:g} seconds; its response is incomplete.",
}


def timeout_error(phase: str, seconds: float | None) -> ProviderTimeoutError:
    """Build the error for a limit of `TimeoutOptions` that ran out.

    Args:
        phase: `"connect"`, `"first_byte"` or `"idle"`.
        seconds: The limit.
    """
    text = _TIMEOUTS[phase] if seconds is not None else "The service was too slow."
    return ProviderTimeoutError(text.format(seconds=seconds), phase=phase, seconds=seconds)
