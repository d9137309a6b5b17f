"""Putting an HTTP failure into words: what the service said, or what came instead of an answer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from .._text import encodable

__all__ = ["HttpFailure", "failure_message", "read_failure"]

_MAX_INPUT = 64 * 1024
_MAX_TEXT = 300
_MAX_TITLE = 120

_PAGE_STARTS = ("<!doctype html", "<html", "<head", "<body")
_REASON_KEYS = ("message", "detail", "msg", "error_description")
# Everything that moves a cursor or a colour, and the C1 block; blanks are collapsed by `split` anyway.
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f\u200b\u2028-\u202e\u2066-\u2069\ufeff]")
# Elements without readable text; their content is not HTML.
_SILENT = {"script", "style", "noscript", "template"}
_HEADINGS = {"h1", "h2", "h3"}
_TAG_NAME = re.compile(r"/?([a-zA-Z][a-zA-Z0-9]*)")


@dataclass(frozen=True, slots=True)
class HttpFailure:
    """What the body of a failed answer says.

    Attributes:
        reason: The service's own words, or `None` when the body has none.
        is_html: Whether the body is a web page.
        title: The page's title or first heading, at most 120 characters.
        preview: The body's text, at most 300 characters.
    """

    reason: str | None
    is_html: bool
    title: str | None
    preview: str


def read_failure(*, content_type: str | None, text: str, parsed: Any = None) -> HttpFailure:
    """Read the body of a failed answer.

    The work is linear in the length of `text`, of which at most 64 Ki characters are looked at.

    Args:
        content_type: The answer's `content-type`.
        text: Its body.
        parsed: The body, or the `error` object in it, as parsed JSON; `None` when it is no JSON.

    Example:
        >>> read_failure(content_type=None, text='{"error": "busy"}', parsed={"error": "busy"}).reason
        'busy'
    """
    text = text[:_MAX_INPUT]
    if _is_page(content_type, text):
        title, words = _read_page(text)
        return HttpFailure(None, True, _shorten(title, _MAX_TITLE) or None, _shorten(words, _MAX_TEXT))
    return HttpFailure(_reason(parsed), False, None, _shorten(text, _MAX_TEXT))


def failure_message(provider: str, status_code: int, failure: HttpFailure) -> str:
    """Say in one sentence what went wrong.

    Example:
        >>> failure_message("acme", 503, HttpFailure("busy", False, None, "busy"))
        'acme: HTTP 503: busy'
    """
    start = f"{provider}: HTTP {status_code}"
    if failure.is_html:
        title = f" ({failure.title})" if failure.title else ""
        return (
            f"{start}: a web page{title} came instead of an API answer; "
            "check base_url, and any proxy or gateway on the way."
        )
    said = failure.reason or failure.preview
    return f"{start}: {said}" if said else f"{start}: {_phrase(status_code)}"


def _phrase(status_code: int) -> str:
    from http import HTTPStatus

    try:
        return f"{HTTPStatus(status_code).phrase} (the body was empty)"
    except ValueError:
        return "the body was empty"


def _is_page(content_type: str | None, text: str) -> bool:
    if "html" in (content_type or "").lower():
        return True
    return text.lstrip("\ufeff \t\r\n")[:16].lower().startswith(_PAGE_STARTS)


def _reason(parsed: Any) -> str | None:
    """Return the first text that says why: of the error, then of the body."""
    if isinstance(parsed, str):
        return _shorten(parsed, _MAX_TEXT) or None
    if not isinstance(parsed, dict):
        return None
    body = cast("dict[str, Any]", parsed)
    error = body.get("error")
    if isinstance(error, str) and error.strip():
        return _shorten(error, _MAX_TEXT) or None
    sources = [cast("dict[str, Any]", error)] if isinstance(error, dict) else []
    for source in (*sources, body):
        for key in _REASON_KEYS:
            value = source.get(key)
            if isinstance(value, str) and (reason := _shorten(value, _MAX_TEXT)):
                return reason
    return None


def _shorten(text: str, limit: int) -> str:
    """Return `text` on one line without control characters, cut to `limit` with an ellipsis."""
    # Collapsing only ever shortens, so far more than the limit need not be looked at, unless it is blank.
    text = " ".join(_CONTROLS.sub("", encodable(text)).split())
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def _read_page(page: str) -> tuple[str, str]:
    """Return title (else first heading) and readable text of a web page."""
    from html import unescape

    titles: dict[str, list[str]] = {}
    words: list[str] = []
    inside: str | None = None
    for tag, text in _pieces(page):
        if tag is None:
            words.append(text)
            if inside is not None:
                titles[inside].append(text)
            continue
        words.append(" ")
        kind = "h" if tag.lstrip("/") in _HEADINGS else tag.lstrip("/")
        if kind in ("title", "h"):
            if tag.startswith("/"):
                inside = None
            elif kind not in titles:
                inside = kind
                titles[kind] = []
    title = "".join(titles.get("title", ())) or "".join(titles.get("h", ()))
    return unescape(title), unescape("".join(words))


def _pieces(page: str) -> Iterator[tuple[str | None, str]]:
    """Yield the page's tags as `(name, "")` and the text between them as `(None, text)`.

    Each character is passed once: a search that finds nothing ends the page, so none is ever repeated.
    """
    position = 0
    while position < len(page):
        opening = page.find("<", position)
        if opening < 0:
            opening = len(page)
        if opening > position:
            yield None, page[position:opening]
        if page.startswith("<!--", opening):
            end = page.find("-->", opening + 4)
            position = end + 3 if end >= 0 else len(page)
            continue
        name = _TAG_NAME.match(page, opening + 1)
        if name is None and page[opening + 1 : opening + 2] not in ("!", "?"):
            if opening < len(page):
                yield None, "<"
            position = opening + 1
            continue
        end = page.find(">", opening)
        if end < 0:
            return  # a tag that never ends
        position = end + 1
        if name is None:
            continue
        tag = page[opening + 1 : name.end()].lower()
        yield tag, ""
        if tag in _SILENT:
            closing = re.compile(f"</{tag}", re.IGNORECASE).search(page, position)
            position = closing.start() if closing is not None else len(page)
