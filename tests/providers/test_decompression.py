"""Compressed answers are undone piece by piece (chapter 20, §18 and §19.5)."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import AsyncIterator

import httpx
import pytest

from zett_agent.model import ModelRequest, RetryOptions
from zett_agent.providers import OpenAICompatibleProvider, ProviderHTTPError
from zett_agent.providers._decompression import decompressed

TEXT = b"data: {}\n\n" * 50


def raw_deflate(data: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return compressor.compress(data) + compressor.flush()


async def pieces(data: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


@pytest.mark.parametrize("size", [1, 7, 100_000])
@pytest.mark.parametrize(
    "body",
    [
        gzip.compress(TEXT),
        zlib.compress(TEXT),
        raw_deflate(TEXT),
        gzip.compress(TEXT[:200]) + gzip.compress(TEXT[200:]),
    ],
    ids=["gzip", "zlib", "raw deflate", "two members"],
)
async def test_any_cut_gives_the_text(body: bytes, size: int) -> None:
    assert b"".join([piece async for piece in decompressed(pieces(body, size))]) == TEXT


async def test_no_piece_is_large_however_well_it_was_compressed() -> None:
    body = gzip.compress(b"0" * 10_000_000)
    sizes = [len(piece) async for piece in decompressed(pieces(body, len(body)))]
    assert sum(sizes) == 10_000_000
    assert max(sizes) <= 64 * 1024


async def test_damaged_bytes_are_an_error_of_the_http_client() -> None:
    with pytest.raises(httpx.DecodingError):
        _ = [piece async for piece in decompressed(pieces(b"\x1f\x8bnot gzip at all", 100))]


@pytest.mark.parametrize("encoding", ["gzip", "gzip, gzip"])
async def test_of_a_compressed_error_page_only_the_beginning_is_expanded(encoding: str) -> None:
    page = gzip.compress(b"<html>" + b"0" * 50_000_000)
    body = page if encoding == "gzip" else gzip.compress(page)
    transport = httpx.MockTransport(
        lambda request: httpx.Response(
            500,
            headers={"content-type": "text/html", "content-encoding": encoding},
            stream=httpx.ByteStream(body),
        )
    )
    provider = OpenAICompatibleProvider(
        model="m", api_key="k", base_url="http://h.example", transport=transport, retry=RetryOptions(0, 0, 0)
    )
    with pytest.raises(ProviderHTTPError) as caught:
        _ = [event async for event in provider.stream(ModelRequest([]))]
    assert caught.value.status_code == 500
    assert len(caught.value.preview) <= 300
