"""What all model adapters share: their errors, their base class, and helpers for subclasses.

An adapter of your own derives from `RetryingProvider` and decorates its `stream` with `retry_model_stream`.
It raises the errors below, and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar

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
    timeout_error,
)
from ._options import (
    require_api_key,
    require_base_url,
    validate_extra_body,
    validate_extra_headers,
    validate_extra_query,
)
from ._retry import TRANSIENT_CODES, retry_model_stream
from ._sdk import SDKStream, empty_stream_message, guard_idle, httpx_timeout, require_event_stream
from ._status import (
    auth_error,
    describe_status_error,
    http_error,
    status_error,
    with_status_details,
)
from ._tool_calls import ToolCallAccumulator, parse_tool_calls
from ._usage import consistent_usage, usage_from_mapping

if TYPE_CHECKING:
    from typing_extensions import Self

    from ._client import ProviderClient

__all__ = [
    "TRANSIENT_CODES",
    "ProviderAuthError",
    "ProviderConnectionError",
    "ProviderError",
    "ProviderHTTPError",
    "ProviderRefusalError",
    "ProviderResponseError",
    "ProviderTimeoutError",
    "RetryingProvider",
    "SDKStream",
    "ToolCallAccumulator",
    "auth_error",
    "consistent_usage",
    "describe_status_error",
    "empty_stream_message",
    "guard_idle",
    "http_error",
    "httpx_timeout",
    "mark_transient",
    "parse_tool_calls",
    "reasoning_effort_to_budget",
    "reject_local_tool_search",
    "require_api_key",
    "require_base_url",
    "require_event_stream",
    "retry_model_stream",
    "status_error",
    "timeout_error",
    "usage_from_mapping",
    "validate_extra_body",
    "validate_extra_headers",
    "validate_extra_query",
    "with_status_details",
]


class RetryingProvider(SyncMethodsMixin):
    """Base of all model adapters: options, lifecycle, representation.

    A subclass sets `model` and, when it speaks HTTP, `_client`. One instance serves any number of streams at
    once, under one event loop or several.

    Args:
        retry: How failed requests are repeated.
        timeout: Time limits of a request.

    Attributes:
        provider_name: Stored on the messages that the adapter produces, and compared before replay.
        native_deferred_tools: Whether the service loads deferred tool definitions on demand.
        response: Whether the Responses API is used.
        retry: Read afresh for every request, so assigning another value takes effect.
        timeout: The same.

    Raises:
        ValueError: `retry` or `timeout` is of another type.

    Example:
        >>> async with DeepSeekProvider("deepseek-chat", api_key) as model:
        ...     agent = Agent(model)  # doctest: +SKIP
    """

    provider_name: ClassVar[str] = ""
    native_deferred_tools: bool = False
    response: bool = False
    model: str = ""

    _client: ProviderClient | None = None

    def __init__(
        self,
        *,
        retry: RetryOptions = DEFAULT_RETRY_OPTIONS,
        timeout: TimeoutOptions = DEFAULT_TIMEOUT_OPTIONS,
    ) -> None:
        self.retry = validate_retry(retry)
        self.timeout = validate_timeout(timeout)

    async def aclose(self) -> None:
        """Close the connections and the transport; calling it again does nothing.

        Streams that are still open fail, and later ones raise `ProviderError`.
        """
        if self._client is not None:
            await self._client.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        host = f", host={self._client.host!r}" if self._client is not None else ""
        return f"{type(self).__name__}(model={self.model!r}{host})"


_BUDGETS = {
    ReasoningEffort.OFF: 0,
    ReasoningEffort.MINIMAL: 2048,
    ReasoningEffort.LOW: 4096,
    ReasoningEffort.MEDIUM: 8192,
    ReasoningEffort.HIGH: 16384,
    ReasoningEffort.XHIGH: 32768,
    ReasoningEffort.MAX: 32768,
    ReasoningEffort.ULTRA: 32768,
}


def reasoning_effort_to_budget(effort: ReasoningEffort) -> int:
    """Return the thinking budget in tokens that stands for `effort`.

    Example:
        >>> reasoning_effort_to_budget(ReasoningEffort.MEDIUM)
        8192
    """
    return _BUDGETS[effort]


def reject_local_tool_search(protocol: str, tools: Sequence[ToolDefinition]) -> None:
    """Refuse a tool that answers client-side tool search, for a protocol that does not have it.

    Raises:
        ValueError: There is such a tool; the message names it and the Responses API.
    """
    for tool in tools:
        if tool.local_tool_search:
            raise ValueError(
                f"The tool {tool.name!r} answers tool search, which {protocol} does not have; "
                "use the Responses API (response=True) of a service that offers it."
            )
