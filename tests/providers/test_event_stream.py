"""Event streams and JSON lines, however the network cuts them."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zett_agent.providers._event_stream import EventStreamDecoder, JsonLinesDecoder

TRICKY = (
    '\ufeffdata: {"n": 1}\n\n'
    ": keep-alive\n\n"
    'event: message\nid: 7\nretry: 10\ndata: {"n":\ndata:  2}\n\n'
    'data:{"n": 3}\r\n\r\n'
    'data: {"n": 4}\r\r'
    "unknown: field\ndata\n\n"
    'data: {"t": "a\u2028b\u00e9\U0001f408"}\n\n'
    "data: [1, 2]\n\n"
    "data: 5\n\n"
    'data: {"n": 6}\n\n'
    "data: [DONE]\n\n"
    "data: not json, and never looked at\n\n"
).encode()
TRICKY_OBJECTS = [{"n": 1}, {"n": 2}, {"n": 3}, {"n": 4}, {"t": "a\u2028b\u00e9\U0001f408"}, {"n": 6}]


def decode(decoder: EventStreamDecoder | JsonLinesDecoder, pieces: list[bytes]) -> list[object]:
    objects: list[object] = []
    for piece in pieces:
        objects += decoder.feed(piece)
    objects += decoder.finish()
    if decoder.error is not None:
        raise decoder.error
    return objects


@pytest.mark.parametrize("size", [1, 2, 3, 7, len(TRICKY)])
def test_the_stream_reads_the_same_at_every_cut(size: int) -> None:
    decoder = EventStreamDecoder()
    assert decode(decoder, [TRICKY[i : i + size] for i in range(0, len(TRICKY), size)]) == TRICKY_OBJECTS
    assert decoder.done


def test_the_stream_reads_the_same_line_by_line() -> None:
    assert decode(EventStreamDecoder(), TRICKY.splitlines(keepends=True)) == TRICKY_OBJECTS


@given(st.data())
def test_random_objects_survive_random_cuts_and_line_ends(data: st.DataObject) -> None:
    values = data.draw(
        st.lists(
            st.dictionaries(
                st.text(max_size=5),
                st.none() | st.integers(-(10**9), 10**9) | st.text(max_size=12),
                max_size=3,
            ),
            max_size=6,
        )
    )
    newline = data.draw(st.sampled_from(["\n", "\r\n", "\r"]))
    indent = data.draw(st.sampled_from([None, 1]))
    text = ""
    for value in values:
        for line in (
            json.dumps(value, ensure_ascii=False, indent=indent)
            .encode("utf-8", "replace")
            .decode()
            .split("\n")
        ):
            text += f"data: {line}{newline}"
        text += newline
    body = text.encode()
    expected = [
        json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")) for value in values
    ]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=12)))
    pieces = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]
    assert decode(EventStreamDecoder(), pieces) == expected


@given(st.lists(st.binary(max_size=30), max_size=8))
def test_garbage_never_raises_anything_but_the_kept_error(pieces: list[bytes]) -> None:
    for decoder in (EventStreamDecoder(), JsonLinesDecoder()):
        for piece in pieces:
            assert all(isinstance(item, dict) for item in decoder.feed(piece))
        decoder.finish()


def test_an_event_still_open_at_the_end_is_delivered() -> None:
    assert decode(EventStreamDecoder(), [b'data: {"n": 1}\n\ndata: {"n"', b": 2}"]) == [{"n": 1}, {"n": 2}]
    assert decode(EventStreamDecoder(), [b'data: {"n": 1}\n']) == [{"n": 1}]


def test_invalid_utf8_is_replaced() -> None:
    assert decode(EventStreamDecoder(), [b'data: {"t": "a\xff\xc3"}\n\n']) == [{"t": "a\ufffd\ufffd"}]


def test_what_came_before_a_fault_is_delivered_first() -> None:
    decoder = EventStreamDecoder()
    assert decoder.feed(b'data: {"n": 1}\n\ndata: {"n": \n\ndata: {"n": 3}\n\n') == [{"n": 1}]
    assert decoder.error is not None
    assert "malformed" in str(decoder.error)
    assert '{"n":' in str(decoder.error)
    assert decoder.feed(b'data: {"n": 4}\n\n') == []


def test_a_fault_is_quoted_with_at_most_200_characters() -> None:
    decoder = EventStreamDecoder()
    decoder.feed(b"data: " + b"x" * 5000 + b"\n\n")
    assert str(decoder.error).count("x") == 199


@pytest.mark.parametrize(
    "text", ["[" * 100_000 + "]" * 100_000, '{"a":' * 100_000, "1" * 5000, "nul", "{'a': 1}"]
)
def test_unreadable_json_becomes_the_error(text: str) -> None:
    decoder = EventStreamDecoder()
    assert decoder.feed(f"data: {text}\n\n".encode()) == []
    assert decoder.error is not None


def test_numbers_that_are_no_json_become_null() -> None:
    decoder = EventStreamDecoder()
    assert decoder.feed(b'data: {"a": NaN, "b": -Infinity, "c": 1e999, "d": 1.5}\n\n') == [
        {"a": None, "b": None, "c": None, "d": 1.5}
    ]


def test_blank_data_is_ignored() -> None:
    assert decode(EventStreamDecoder(), [b'data:\n\ndata: \n\ndata: {"n": 1}\n\n']) == [{"n": 1}]


def test_blanks_around_a_value_are_allowed() -> None:
    assert decode(EventStreamDecoder(), [b'data:   {"n": 1}  \n\n']) == [{"n": 1}]


@pytest.mark.parametrize(
    "pieces",
    [
        [b'data: "', b"x" * 600, b"x" * 600],  # a line without end
        [b"data: x\n" * 300],  # an event without end
        [b": " + b"c" * 1200],  # a comment without end
    ],
)
def test_an_event_over_the_limit_is_the_error(pieces: list[bytes]) -> None:
    decoder = EventStreamDecoder(limit=1000 if len(pieces) > 1 else 200)
    for piece in pieces:
        decoder.feed(piece)
    assert decoder.error is not None
    assert "more than" in str(decoder.error)


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_json_lines_at_every_cut(size: int) -> None:
    body = '{"n": 1}\n\n  \r\n{"t": "\u00e9"}\r\n[1]\n{"n": 3}'.encode()
    pieces = [body[i : i + size] for i in range(0, len(body), size)]
    assert decode(JsonLinesDecoder(), pieces) == [{"n": 1}, {"t": "\u00e9"}, {"n": 3}]


def test_a_long_event_in_small_pieces_costs_linear_time() -> None:
    def cost(size: int) -> float:
        decoder = EventStreamDecoder()
        body = b'data: {"t": "' + b"x" * size + b'"}\n\n'
        began = time.process_time()
        for start in range(0, len(body), 16):
            decoder.feed(body[start : start + 16])
        return time.process_time() - began

    cost(1000)
    small = min(cost(250_000) for _ in range(3))
    large = min(cost(1_000_000) for _ in range(3))
    assert large < small * 8  # a search from the beginning of the event each time would give 16
