"""Saying what went wrong on the network, in words and as an error of ours."""

from __future__ import annotations

import errno
import os
import socket
import ssl
from collections.abc import Iterator
from typing import Any

import httpx

from ..model import TimeoutOptions
from ._errors import (
    ProviderConnectionError,
    ProviderError,
    ProviderResponseError,
    mark_transient,
    timeout_error,
)

__all__ = ["network_error"]


def network_error(
    cause: Exception, *, provider: str, host: str, phase: str, timeout: TimeoutOptions
) -> ProviderError | None:
    """Return our error for a failure of the HTTP client, or `None` when `cause` is something else.

    Args:
        cause: What a transport raised.
        provider: Name of the service.
        host: Host of its address.
        phase: What was going on: `"connect"`, `"first_byte"` or `"idle"`.
        timeout: The limits in force.
    """
    match cause:
        case ProviderError():
            return cause
        case httpx.ConnectTimeout() | httpx.PoolTimeout():
            return timeout_error("connect", timeout.connect)
        case httpx.WriteTimeout():
            return timeout_error("first_byte", timeout.first_byte)
        case httpx.TimeoutException():
            return timeout_error(phase, getattr(timeout, phase))
        case httpx.DecodingError():
            return ProviderResponseError(f"{provider}: the body from {host} cannot be decoded: {cause}")
        case httpx.LocalProtocolError() | httpx.UnsupportedProtocol() | httpx.InvalidURL():
            error = ProviderConnectionError(f"{provider}: the request to {host} cannot be sent: {cause}")
            return mark_transient(error, transient=False)
        case httpx.HTTPError() | httpx.StreamError() | OSError() | EOFError():
            pass
        case _:
            return None
    words, permanent = _words(cause)
    what = "the connection broke" if phase == "idle" else "the request failed"
    if isinstance(cause, httpx.ConnectError):
        what = "could not connect"
    elif isinstance(cause, httpx.ProxyError):
        what = "the proxy did not let the request through"
    error = ProviderConnectionError(f"{provider}: {what} ({host}): {words}")
    return mark_transient(error, transient=False) if permanent else error


# The HTTP client's own phrases, where ours say more.
_PHRASES = {
    "Server disconnected": "the service closed the connection without an answer",
    "peer closed connection": "the connection was closed in the middle of the answer",
}


def _words(cause: BaseException) -> tuple[str, bool]:
    """Return the root cause in words, and whether it will be the same next time."""
    chain = list(_chain(cause))
    for link in chain:
        if isinstance(link, ssl.SSLCertVerificationError):
            return f"its TLS certificate was not accepted: {link.verify_message or link}", True
    for link in reversed(chain):
        match link:
            case ssl.SSLError():
                return f"TLS failed: {link.reason or link}", False
            case socket.gaierror():
                return f"the name could not be resolved: {link.strerror or link}", False
            case OSError(errno=int(number)):
                return os.strerror(number).lower(), False
            case OSError() if f"[Errno {errno.ECONNREFUSED}]" in str(link):
                # asyncio tried several addresses and quotes them all.
                return os.strerror(errno.ECONNREFUSED).lower(), False
            case _:
                pass
    for link in chain:
        text = str(link)
        if text:
            known = (ours for phrase, ours in _PHRASES.items() if text.startswith(phrase))
            return next(known, text), False
    return type(cause).__name__, False


def _chain(cause: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and all that led to it."""
    seen: set[int] = set()
    pending: list[Any] = [cause]
    while pending:
        link = pending.pop()
        if link is None or id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        pending += (link.__context__, link.__cause__, *getattr(link, "exceptions", ()))
