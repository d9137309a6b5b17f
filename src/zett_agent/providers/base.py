"""What all model adapters share: their errors, their base class, and helpers for subclasses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import Self

from ..model import (
    DEFAULT_RETRY_OPTIONS,
    DEFAULT_TIMEOUT_OPTIONS,
    ReasoningEffort,
    RetryOptions,
    TimeoutOptions,
    ToolDefinition,
    validate_retry,
    validate_timeout,
)
from ..sync_runtime import SyncMethodsMixin
from ._errors import (
    ProviderAuthError,
    ProviderConnectionError,
    ProviderError,
    ProviderHTTPError,
    ProviderRefusalError,
    ProviderResponseError,
    ProviderTimeoutError,
    mark_transient,
)
from ._retry import retry_model_stream
from .http_errors import HttpFailure, failure_message, read_failure

if TYPE_CHECKING:
    from ._client import StatusFailure

__all__ = [
    "ProviderAuthError",
    "ProviderConnectionError",
    "ProviderError",
    "ProviderHTTPError",
    "ProviderRefusalError",
    "ProviderResponseError",
    "ProviderTimeoutError",
    "RetryingProvider",
    "describe_status_error",
    "http_error",
    "mark_transient",
    "reasoning_effort_to_budget",
    "reject_local_tool_search",
    "retry_model_stream",
    "status_error",
    "validate_extra_body",
    "validate_extra_headers",
    "validate_extra_query",
    "with_status_details",
]


class RetryingProvider(SyncMethodsMixin):
    """Base of all model adapters: options, lifecycle, representation."""

    provider_name: ClassVar[str] = ""
    native_deferred_tools: bool = False
    response: bool = False

    def __init__(
        self,
        *,
        retry: RetryOptions = DEFAULT_RETRY_OPTIONS,
        timeout: TimeoutOptions = DEFAULT_TIMEOUT_OPTIONS,
    ) -> None:
        self.retry = validate_retry(retry)
        self.timeout = validate_timeout(timeout)

    async def aclose(self) -> None:
        """Release the connections; calling it again does nothing."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()


def describe_status_error(provider: str, error: StatusFailure) -> tuple[int, HttpFailure, str]:
    """Return status, parsed failure and readable message of an answer with an error status."""
    failure = read_failure(
        content_type=error.response.headers.get("content-type"),
        text=error.response.text,
        parsed=error.body,
    )
    return error.status_code, failure, failure_message(provider, error.status_code, failure)


def http_error(status: int, failure: HttpFailure, message: str) -> ProviderHTTPError:
    """Build the error for an answer with an error status."""
    return ProviderHTTPError(
        message,
        status_code=status,
        reason=failure.reason,
        preview=failure.preview,
        is_html=failure.is_html,
    )


def status_error(provider: str, error: StatusFailure, *, auth: Sequence[int] = (401,)) -> ProviderError:
    """Return the error for `error` that an adapter's `status_error` hook gives by default.

    Args:
        provider: Name of the service.
        error: The failed answer.
        auth: Statuses that mean a rejected credential.
    """
    status, failure, message = describe_status_error(provider, error)
    if status in auth:
        return ProviderAuthError(message, status_code=status)
    return http_error(status, failure, message)


def with_status_details(error: ProviderError, failure: StatusFailure) -> ProviderError:
    """Add what the answer's headers and body say to an error that a `status_error` hook returned.

    Adds `retry_after`, `request_id`, `error_code` and whether to try again, each unless the hook set it.
    """
    return error


def validate_extra_headers(value: object) -> dict[str, str]:
    """Return a copy of `extra_headers`, or raise `ValueError` saying what is wrong with it."""
    return _text_mapping(value, "extra_headers")


def validate_extra_query(value: object) -> dict[str, str]:
    """Return a copy of `extra_query`, or raise `ValueError` saying what is wrong with it."""
    return _text_mapping(value, "extra_query")


def validate_extra_body(value: object) -> dict[str, Any]:
    """Return a copy of `extra_body`, or raise `ValueError` saying what is wrong with it."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ValueError("extra_body must be a mapping")
    return dict(value)  # pyright: ignore[reportUnknownArgumentType,reportUnknownVariableType]


def _text_mapping(value: object, name: str) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ValueError(f"{name} must be a mapping of strings")
    return dict(value)  # pyright: ignore[reportUnknownArgumentType,reportUnknownVariableType]


_BUDGETS = {
    ReasoningEffort.OFF: 0,
    ReasoningEffort.MINIMAL: 2048,
    ReasoningEffort.LOW: 4096,
    ReasoningEffort.MEDIUM: 8192,
    ReasoningEffort.HIGH: 16384,
}


def reasoning_effort_to_budget(effort: ReasoningEffort) -> int:
    """Return the thinking budget in tokens that stands for `effort`."""
    return _BUDGETS.get(effort, 32768)


def reject_local_tool_search(protocol: str, tools: Sequence[ToolDefinition]) -> None:
    """Raise `ValueError` if a tool answers client-side tool search, which only some protocols have."""
    for tool in tools:
        if tool.local_tool_search:
            raise ValueError(
                f"The tool {tool.name!r} answers tool search, which {protocol} does not have; "
                "use the Responses API (response=True) of a service that offers it."
            )
