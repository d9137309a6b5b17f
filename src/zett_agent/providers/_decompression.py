"""Undoing `content-encoding` piece by piece, so that a small body cannot become a huge one at once."""

from __future__ import annotations

import zlib
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import httpx

__all__ = ["can_decompress", "decompressed"]

_PIECE = 64 * 1024
_ENCODINGS = frozenset({"gzip", "x-gzip", "deflate"})
_GZIP_OR_ZLIB = zlib.MAX_WBITS | 32


def can_decompress(encoding: str) -> bool:
    """Return whether `decompressed` knows an encoding; of several on top of each other it knows none."""
    return encoding.strip().lower() in _ENCODINGS


async def decompressed(pieces: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """Yield the plain bytes, at most 64 KiB at a time.

    Raises:
        httpx.DecodingError: The bytes are not what the encoding says.
    """
    decoder: Any = None
    async for data in pieces:
        while data:
            if decoder is None:
                # Some services send `deflate` without its header.
                headed = data[0] == 0x1F or (data[0] & 0x0F == 8 and data[0] >> 4 <= 7)
                decoder = zlib.decompressobj(_GZIP_OR_ZLIB if headed else -zlib.MAX_WBITS)
            try:
                plain = decoder.decompress(data, _PIECE)
            except zlib.error as cause:
                raise httpx.DecodingError(f"the compressed body is damaged: {cause}") from cause
            if plain:
                yield plain
            # What did not fit stays for the next turn, and so does a member that follows the first one.
            data = decoder.unused_data if decoder.eof else decoder.unconsumed_tail
            if decoder.eof:
                decoder = None
