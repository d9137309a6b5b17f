"""Failures that a service reports inside an answer that began with status 200."""

from __future__ import annotations

from .base import (
    TRANSIENT_CODES,
    ProviderError,
    ProviderResponseError,
    auth_error,
    http_error,
    mark_transient,
)
from .http_errors import read_failure
from .wire import JsonObject, read_int, read_str

__all__ = ["stream_failure"]


def stream_failure(provider_name: str, error: JsonObject) -> ProviderError:
    """Return the error for a failure that came before anything was said.

    An integer code from 400 to 599 counts as that HTTP status. It, or a string code, decides whether the
    request is sent again. Credentials are removed where the error leaves the exchange.
    """
    failure = read_failure(content_type=None, text="", parsed={"error": error})
    codes = [code for name in ("code", "type", "status") if (code := read_str(error.get(name)).strip())]
    said = failure.reason or "the service reported a failure"
    message = f"{provider_name}: {said}{f' ({codes[0][:200]})' if codes else ''}"
    status = read_int(error.get("code"))
    if status == 401:
        result: ProviderError = auth_error(provider_name, status, failure)
    elif 400 <= status <= 599:
        result = http_error(status, failure, f"{message} (HTTP {status} within the stream)")
    else:
        result = ProviderResponseError(message)
    if "insufficient_quota" in codes:
        mark_transient(result, transient=False)
    elif any(code in TRANSIENT_CODES for code in codes):
        mark_transient(result, transient=True)
    result.error_code = codes[0][:200] if codes else None
    return result
