"""Putting an HTTP failure into words: what the service said, or what came instead of an answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["HttpFailure", "failure_message", "read_failure"]


@dataclass(frozen=True, slots=True)
class HttpFailure:
    """What the body of a failed answer says.

    Attributes:
        reason: The service's own words, or `None` when the body has none.
        is_html: Whether the body is a web page.
        title: The page's title, if it is one.
        preview: The body's text, at most 300 characters.
    """

    reason: str | None
    is_html: bool
    title: str | None
    preview: str


def read_failure(*, content_type: str | None, text: str, parsed: Any = None) -> HttpFailure:
    """Read the body of a failed answer."""
    reason = None
    if isinstance(parsed, dict):
        error = parsed.get("error", parsed)
        reason = error if isinstance(error, str) else error.get("message")
    return HttpFailure(reason=reason, is_html=False, title=None, preview=text[:300])


def failure_message(provider: str, status_code: int, failure: HttpFailure) -> str:
    """Say in one sentence what went wrong."""
    return f"{provider}: HTTP {status_code}: {failure.reason or failure.preview}"
