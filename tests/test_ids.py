"""Identifiers sort in the order in which they were made, whatever threads and clocks do."""

from __future__ import annotations

import threading
import uuid

import pytest

from zett_agent import ids
from zett_agent.ids import new_uuid7


def test_i1_identifiers_of_one_thread():
    made = [new_uuid7() for _ in range(20_000)]
    assert len(set(made)) == 20_000
    assert made == sorted(made)
    for text in made[:100] + made[-100:]:
        parsed = uuid.UUID(text)
        assert parsed.version == 7
        assert parsed.variant == uuid.RFC_4122
        assert str(parsed) == text
        assert len(text) == 36


def test_i2_eight_threads():
    made = [[] for _ in range(8)]

    def make(target):
        for _ in range(20_000):
            target.append(new_uuid7())

    threads = [threading.Thread(target=make, args=(target,)) for target in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({text for target in made for text in target}) == 160_000
    assert all(target == sorted(target) for target in made)


def uuid7(milliseconds, middle, low):
    return uuid.UUID(int=(milliseconds << 80) | (7 << 76) | (middle << 64) | (1 << 63) | low)


@pytest.mark.parametrize(
    "source",
    [
        [uuid7(1000, 5, 9), uuid7(999, 0, 0), uuid7(1, 0, 0), uuid7(1001, 0, 0)],  # the clock steps back
        [uuid7(1000, 5, 9)] * 4,  # the source repeats itself
        [uuid7(1000, 5, (1 << 62) - 1)] * 4,  # the low bits are used up
        [uuid7(1000, 0xFFF, (1 << 62) - 1)] * 4,  # and those in the middle too
    ],
)
def test_bi1_identifiers_ascend_whatever_the_source_does(monkeypatch, source):
    monkeypatch.setattr(ids, "_source", iter(source).__next__)
    monkeypatch.setattr(ids, "_last", 0)
    made = [new_uuid7() for _ in source]
    assert made == sorted(set(made))
    assert made[0] == str(source[0])
    assert {uuid.UUID(text).version for text in made} == {7}
    assert {uuid.UUID(text).variant for text in made} == {uuid.RFC_4122}
