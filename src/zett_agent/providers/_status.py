"""An answer with an error status: what it says, and whether to try again."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from ._errors import (
    ProviderAuthError,
    ProviderError,
    ProviderHTTPError,
    ProviderResponseError,
    mark_transient,
)
from .http_errors import HttpFailure, failure_message, read_failure

if TYPE_CHECKING:
    import httpx

__all__ = [
    "StatusFailure",
    "auth_error",
    "describe_status_error",
    "empty_stream",
    "http_error",
    "is_not_a_stream",
    "not_a_stream",
    "parse_body",
    "request_id",
    "status_error",
    "with_status_details",
]

_REQUEST_ID_HEADERS = ("x-request-id", "request-id", "x-goog-request-id", "x-amzn-requestid")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)s", re.ASCII)


class StatusFailure(Exception):
    """An answer with an error status, as a `status_error` hook receives it; never leaves the adapter.

    Credentials are already removed from everything here.

    Attributes:
        status_code: HTTP status.
        body: The parsed `error` object when the body has one, else the parsed body, else its text or `None`.
        message: One line for logs.
        headers: The answer's headers, names in lower case.
        text: The body's text, as far as it was read (64 KiB).
        failure: The body, read.
        url: Where the request went.
    """

    def __init__(
        self, status_code: int, *, headers: Mapping[str, str], text: str, url: str, provider: str = ""
    ) -> None:
        self.status_code = status_code
        self.headers = headers
        self.text = text
        self.url = url
        parsed: Any = parse_body(text)
        said: Any = parsed if parsed is not None else text.strip() or None
        self.body: Any = as_object(as_object(parsed).get("error")) or said
        self.failure = read_failure(content_type=headers.get("content-type"), text=text, parsed=said)
        self.message = failure_message(provider or "The service", status_code, self.failure)
        super().__init__(self.message)

    @property
    def response(self) -> httpx.Response:
        """The answer in the HTTP client's form, with headers, text and the address of its request."""
        import httpx

        headers = {k: v for k, v in self.headers.items() if k not in ("content-encoding", "content-length")}
        request = httpx.Request("POST", self.url)
        return httpx.Response(self.status_code, headers=headers, text=self.text, request=request)


def as_object(value: Any) -> dict[str, Any]:
    """Return `value` if it is a JSON object, else an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def parse_body(text: str) -> Any:
    """Return the JSON that `text` is, or `None` when it is none."""
    import json

    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def describe_status_error(provider: str, error: Any) -> tuple[int, HttpFailure, str]:
    """Return status, parsed failure and readable message of an answer with an error status.

    Args:
        provider: Name of the service, as it shall appear in the message.
        error: What a `status_error` hook received.

    Example:
        >>> status, failure, message = describe_status_error("acme", error)  # doctest: +SKIP
    """
    if isinstance(error, StatusFailure):
        failure = error.failure
    else:  # the error of a vendor's SDK
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


def status_error(provider: str, error: Any, *, auth: Sequence[int] = (401,)) -> ProviderError:
    """Return the error that an adapter's `status_error` hook gives by default.

    Args:
        provider: Name of the service.
        error: The failed answer.
        auth: Statuses that mean a rejected credential.
    """
    status, failure, message = describe_status_error(provider, error)
    if status in auth:
        return auth_error(provider, status, failure)
    return http_error(status, failure, message)


def is_not_a_stream(content_type: str | None) -> bool:
    """Return whether a successful answer is a web page or a single JSON document."""
    kind = (content_type or "").partition(";")[0].strip().lower()
    return "html" in kind or kind == "application/json" or kind.endswith("+json")


def not_a_stream(provider: str, status: int, content_type: str | None, text: str) -> ProviderHTTPError:
    """Build the error for a successful answer that is a web page or a single JSON document."""
    failure = read_failure(content_type=content_type, text=text, parsed=parse_body(text))
    if failure.is_html:
        return http_error(status, failure, failure_message(provider, status, failure))
    said = f": {failure.reason}" if failure.reason else "."
    message = f"{provider}: HTTP {status} with {content_type} instead of an event stream{said}"
    return http_error(status, failure, message)


def empty_stream(provider: str, status: int, content_type: str | None) -> ProviderResponseError:
    """Build the error for a stream that ended without any event."""
    what = f"HTTP {status}, content type {content_type or 'not given'}"
    return ProviderResponseError(f"{provider}: the response stream was empty ({what}).")


def auth_error(provider: str, status: int, failure: HttpFailure) -> ProviderAuthError:
    """Build the error for a rejected credential."""
    said = failure.reason or failure.title or failure.preview
    message = f"{provider}: the service rejected the credential (HTTP {status})"
    return ProviderAuthError(f"{message}: {said}" if said else f"{message}.", status_code=status)


def with_status_details(error: ProviderError, failure: StatusFailure) -> ProviderError:
    """Add what the answer's headers and body say to an error that a `status_error` hook returned.

    Sets `retry_after`, `request_id`, `error_code` and whether to try again, each unless the hook set it.
    """
    details = as_object(failure.body)
    if error.retry_after is None:
        error.retry_after = _retry_after(failure.headers, details)
    if error.request_id is None:
        error.request_id = request_id(failure.headers)
    if error.error_code is None:
        error.error_code = _error_code(details)
    out_of_credit = failure.status_code == 429 and "insufficient_quota" in (
        details.get("code"),
        details.get("type"),
    )
    told_not_to = failure.headers.get("x-should-retry", "").strip().lower() == "false"
    if error._transient is None and (out_of_credit or told_not_to):
        mark_transient(error, transient=False)
    return error


def request_id(headers: Mapping[str, str]) -> str | None:
    """Return the service's name for a request, bounded, or `None`."""
    for name in _REQUEST_ID_HEADERS:
        if value := headers.get(name, "").strip():
            return value[:200]
    return None


def _error_code(details: Mapping[str, Any]) -> str | None:
    # Google has a number as `code` and the word in `status`.
    for name in ("code", "type", "status"):
        value = details.get(name)
        if isinstance(value, str) and value.strip():
            return value.strip()[:200]
    return None


def _retry_after(headers: Mapping[str, str], details: Mapping[str, Any]) -> float | None:
    """Return the seconds that the service asks to wait, from the most to the least exact source."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is None and value:
        seconds = _until(value, headers.get("date"))
    return seconds if seconds is not None else _retry_delay(details)


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _until(date: str, now: str | None) -> float | None:
    from datetime import datetime, timezone
    from email.utils import parsedate_to_datetime

    try:
        then = parsedate_to_datetime(date)
        # The service's own clock, if it tells: ours may be wrong.
        base = parsedate_to_datetime(now) if now else datetime.now(timezone.utc)
        seconds = (then - base).total_seconds()
    except (TypeError, ValueError, OverflowError):
        return None
    return seconds if seconds >= 0 else None


def _retry_delay(details: Mapping[str, Any]) -> float | None:
    """Read google's `RetryInfo`."""
    entries = details.get("details")
    for entry in cast("list[Any]", entries) if isinstance(entries, list) else []:
        delay = as_object(entry).get("retryDelay")
        match = _DURATION.fullmatch(delay.strip()) if isinstance(delay, str) else None
        if match is not None:
            return _number(match[1])
    return None
