"""DeepSeek."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from ..json_types import JsonValue
from ..model import (
    DEFAULT_RETRY_OPTIONS,
    DEFAULT_TIMEOUT_OPTIONS,
    ModelRequest,
    ReasoningEffort,
    RetryOptions,
    TimeoutOptions,
)
from .openai_compatible import OpenAICompatibleProvider

if TYPE_CHECKING:
    import httpx

__all__ = ["DeepSeekProvider"]

_CHAT_URL = "https://api.deepseek.com/v1"
_RESPONSES_URL = "https://api.deepseek.com"

_EFFORTS = {
    ReasoningEffort.MINIMAL: "low",
    ReasoningEffort.LOW: "low",
    ReasoningEffort.MEDIUM: "high",
    ReasoningEffort.HIGH: "high",
    ReasoningEffort.XHIGH: "max",
    ReasoningEffort.MAX: "max",
    ReasoningEffort.ULTRA: "max",
}


class DeepSeekProvider(OpenAICompatibleProvider):
    """Adapter for DeepSeek's API.

    Args are those of `OpenAICompatibleProvider`; model, key and transport may be given by position.

    Example:
        >>> DeepSeekProvider("deepseek-v4-flash", "key")
        DeepSeekProvider(model='deepseek-v4-flash', host='api.deepseek.com')
    """

    provider_name: ClassVar[str] = "deepseek"
    sends_prompt_cache_key: ClassVar[bool] = False
    # While it thinks, the service refuses assistant messages without reasoning, whoever wrote them.
    blank_reasoning: ClassVar[bool] = True

    def __init__(
        self,
        model: str,
        api_key: str,
        transport: httpx.AsyncBaseTransport | None = None,
        *,
        base_url: str | None = None,
        temperature: float | None = None,
        response: bool = False,
        retry: RetryOptions = DEFAULT_RETRY_OPTIONS,
        send_prompt_cache_key: bool = False,
        extra_headers: Mapping[str, str] | None = None,
        extra_query: Mapping[str, str] | None = None,
        extra_body: Mapping[str, JsonValue] | None = None,
        timeout: TimeoutOptions = DEFAULT_TIMEOUT_OPTIONS,
    ) -> None:
        super().__init__(
            model=model,
            api_key=api_key,
            base_url=base_url or (_RESPONSES_URL if response else _CHAT_URL),
            transport=transport,
            temperature=temperature,
            response=response,
            retry=retry,
            send_prompt_cache_key=send_prompt_cache_key,
            extra_headers=extra_headers,
            extra_query=extra_query,
            extra_body=extra_body,
            timeout=timeout,
        )

    def request_fields(self, request: ModelRequest) -> dict[str, Any]:
        """Return whether to think, and for models that take it, how much."""
        if request.reasoning_effort is ReasoningEffort.OFF:
            return {"thinking": {"type": "disabled"}}
        fields: dict[str, Any] = {"thinking": {"type": "enabled"}}
        if self.model.startswith("deepseek-v4"):
            fields["reasoning_effort"] = _EFFORTS[request.reasoning_effort]
        return fields

    def responses_fields(self, request: ModelRequest) -> dict[str, Any]:
        """Return the service's own reasoning object."""
        return {"reasoning": {"effort": _EFFORTS.get(request.reasoning_effort, "none")}}
