"""Failures that a service reports inside an answer that began with status 200."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .base import (
    TRANSIENT_CODES,
    ProviderError,
    ProviderResponseError,
    auth_error,
    http_error,
    mark_transient,
)
from .http_errors import HttpFailure
from .wire import JsonObject, read_str

if TYPE_CHECKING:
    from .base import RetryingProvider

__all__ = ["stream_failure"]

_MAX_MESSAGE = 300
_CODE_FIELDS = ("code", "type", "status")


def stream_failure(provider: RetryingProvider, error: JsonObject) -> ProviderError:
    """Return the error for a failure that came before anything was said.

    An integer code from 400 to 599 counts as that HTTP status; a string code decides whether the request is
    sent again.
    """
    said = _clean(provider, read_str(error.get("message"))) or "the service reported a failure"
    codes = [error[name] for name in _CODE_FIELDS if isinstance(error.get(name), str) and error[name]]
    named = f" ({codes[0]})" if codes else ""
    message = f"{provider.provider_name}: {said}{named}"
    status = error.get("code")
    if isinstance(status, int) and not isinstance(status, bool) and 400 <= status <= 599:
        failure = HttpFailure(reason=said, is_html=False, title=None, preview=said)
        if status == 401:
            return auth_error(provider.provider_name, status, failure)
        result: ProviderError = http_error(status, failure, f"{message} (HTTP {status} within the stream)")
    else:
        result = ProviderResponseError(message)
        mark_transient(result, transient=any(code in TRANSIENT_CODES for code in codes))
    result.error_code = codes[0] if codes else None
    return result


def _clean(provider: RetryingProvider, text: str) -> str:
    shown = "".join(character if character.isprintable() else " " for character in text).strip()
    client = provider._client
    shown = client.redact(shown) if client is not None else shown
    return shown if len(shown) <= _MAX_MESSAGE else shown[:_MAX_MESSAGE] + "…"
