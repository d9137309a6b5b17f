"""The Responses decoder at the end of a real answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
        super().__init__(
            provider_name=provider.provider_name,
            model=provider.model,
            search_tool=local_tool_search_name(request.tools),
        )

    def end(self, response: StreamResponse) -> list[ModelEvent]:
        """Return what remains to be said when the body has ended."""
        return [] if self.finished else self.finish()
