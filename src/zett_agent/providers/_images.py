"""Images as services want them: the right media type, as a URL or inline."""

from __future__ import annotations

import base64
import binascii
import contextlib

from ..messages import ImageSource, ImageUrlSource

__all__ = ["image_url", "wire_media_type"]

# What some programs write for JPEG.
_ALIASES = {"image/jpg": "image/jpeg", "image/pjpeg": "image/jpeg", "image/jfif": "image/jpeg"}
_SIGNED_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_SIGNATURE_BYTES = 12


def wire_media_type(media_type: str, beginning: bytes) -> str:
    """Return the media type to send for an image with that declared type and first bytes.

    The type of the bytes wins when both are among the four that services accept.
    """
    declared = media_type.strip().lower()
    declared = _ALIASES.get(declared, declared)
    actual = _signature_type(beginning)
    return actual if actual is not None and declared in _SIGNED_TYPES else declared


def image_url(source: ImageSource) -> str:
    """Return an image as a URL: its address, or a data URL with the bytes."""
    if isinstance(source, ImageUrlSource):
        return _with_wire_type(source.url) if source.url[:5].lower() == "data:" else source.url
    media_type = wire_media_type(source.media_type, source.data[:_SIGNATURE_BYTES])
    return f"data:{media_type};base64,{base64.b64encode(source.data).decode('ascii')}"


def _with_wire_type(url: str) -> str:
    """Correct the media type of a data URL and leave everything else of it alone."""
    head, comma, data = url[5:].partition(",")
    media_type, semicolon, parameters = head.partition(";")
    beginning = b""
    if parameters.lower().endswith("base64"):
        with contextlib.suppress(binascii.Error):
            beginning = base64.b64decode(data[:16], validate=True)
    return f"data:{wire_media_type(media_type, beginning)}{semicolon}{parameters}{comma}{data}"


def _signature_type(data: bytes) -> str | None:
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return None
