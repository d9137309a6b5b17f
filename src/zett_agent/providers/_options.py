"""Checking what a provider's constructor is given."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from ..json_types import json_object  # pyright: ignore[reportUnknownVariableType]

__all__ = [
    "require_api_key",
    "require_base_url",
    "validate_extra_body",
    "validate_extra_headers",
    "validate_extra_query",
    "validate_header",
]

_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_BAD_IN_VALUE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


def require_api_key(api_key: object) -> str:
    """Return a usable API key.

    Raises:
        ValueError: It is missing, or holds what no HTTP header may hold. The key is not quoted.
    """
    if not api_key:
        raise ValueError("api_key is required")
    if not isinstance(api_key, str):
        raise ValueError(f"api_key must be a string, not {type(api_key).__name__}")
    if api_key != api_key.strip():
        raise ValueError("api_key begins or ends with a blank or a line break; remove it")
    if _CONTROLS.search(api_key):
        raise ValueError("api_key holds a control character, such as a line break; check how it is read")
    if not _latin1(api_key):
        raise ValueError("api_key holds characters that an HTTP header cannot carry; check how it is read")
    return api_key


def require_base_url(base_url: str | None, default: str | None) -> str:
    """Return `base_url`, or the default when it is `None` or empty.

    Raises:
        ValueError: There is neither.
    """
    url = base_url or default
    if not url:
        raise ValueError("base_url is required")
    return url


def validate_extra_headers(value: object) -> dict[str, str]:
    """Return a copy of `extra_headers`; `None` gives an empty one.

    Raises:
        ValueError: It is no mapping of strings, or a name or value cannot be sent in a header.
    """
    headers = _text_mapping(value, "extra_headers")
    for name, text in headers.items():
        validate_header(name, text, "extra_headers")
    return headers


def validate_header(name: str, value: str, source: str) -> None:
    """Raise `ValueError` if a header cannot be sent; the value, perhaps a credential, is not quoted."""
    if not _HEADER_NAME.fullmatch(name):
        raise ValueError(f"{source} has the name {name!r}, which is not a valid HTTP header name")
    if _BAD_IN_VALUE.search(value):
        raise ValueError(f"{source} has a line break or another control character in {name!r}")
    if not _latin1(value):
        raise ValueError(
            f"{source} has characters in {name!r} that an HTTP header cannot carry (not Latin-1)"
        )


def validate_extra_query(value: object) -> dict[str, str]:
    """Return a copy of `extra_query`; `None` gives an empty one.

    Raises:
        ValueError: It is no mapping of strings, or has an empty name.
    """
    return _text_mapping(value, "extra_query")


def validate_extra_body(value: object) -> dict[str, Any]:
    """Return a copy of `extra_body`; `None` gives an empty one.

    Raises:
        ValueError: It is no mapping, has an empty or other name than a string, or a value that is not JSON
            (NaN and infinity are not).
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ValueError(f"extra_body must be a mapping of JSON fields, not {type(value).__name__}")
    mapping = cast("Mapping[str, Any]", value)
    return cast("dict[str, Any]", json_object(mapping, field_name="extra_body", nonempty_keys=True))


def _text_mapping(value: object, source: str) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ValueError(f"{source} must be a mapping of strings, not {type(value).__name__}")
    copy: dict[str, str] = {}
    for name, text in cast("Mapping[object, object]", value).items():
        if not isinstance(name, str) or not name.strip():
            raise ValueError(f"{source} names must be non-empty strings, got {name!r}")
        if not isinstance(text, str):
            raise ValueError(f"{source} values must be strings; {name!r} has a {type(text).__name__}")
        copy[name] = text
    return copy


def _latin1(text: str) -> bool:
    try:
        text.encode("latin-1")
    except UnicodeEncodeError:
        return False
    return True
