"""The Responses decoder at the end of a real answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..model import ModelEvent, ModelRequest
from ._responses_decoder import ResponsesDecoder
from .responses import local_tool_search_name

if TYPE_CHECKING:
    from ._client import StreamResponse
    from .openai_compatible import OpenAICompatibleProvider

__all__ = ["ResponsesStream"]


class ResponsesStream(ResponsesDecoder):
    """Reads the answer to one Responses request of a provider."""

    def __init__(self, provider: OpenAICompatibleProvider, request: ModelRequest) -> None:
        self._provider = provider
        super().__init__(
            provider_name=provider.provider_name,
            model=provider.model,
            search_tool=local_tool_search_name(request.tools),
        )

    def feed(self, data: Mapping[str, Any]) -> list[ModelEvent]:
        """See `ResponsesDecoder.feed`; what the service says of a failure is shown without credentials."""
        events = super().feed(data)
        if self.finished and events:
            events[-1] = self._without_credentials(events[-1])
        return events

    def _without_credentials(self, event: ModelEvent) -> ModelEvent:
        stop = event.response.stop if event.response is not None else None
        if event.response is None or stop is None or stop.ok:
            return event
        redact = self._provider._http.redact
        detail = dict(stop.detail)
        if isinstance(detail.get("error"), dict):
            detail["error"] = self._provider._redacted(detail["error"])
        message = redact(stop.message) if stop.message is not None else None
        return replace(
            event, response=replace(event.response, stop=replace(stop, message=message, detail=detail))
        )

    def end(self, response: StreamResponse) -> list[ModelEvent]:
        """Return what remains to be said when the body has ended."""
        return [] if self.finished else self.finish()
