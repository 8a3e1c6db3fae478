"""The arithmetic of bulk work's benchmark, and the texts that it is measured with."""

from __future__ import annotations

import pytest

from benchmarks.measure import bulk
from benchmarks.measure.bulk import Turn, compare, draw, tabulate

TURNS = [
    *(Turn("bare", 0, 100), Turn("bulk", 0, 90)),
    *(Turn("bare", 1, 50), Turn("bulk", 1, 50)),
]


def test_bulk_is_compared_with_the_bare_engine_round_by_round():
    ratio = compare(TURNS)
    assert (ratio.median, ratio.low, ratio.high) == (0.95, 0.9, 1.0)
    assert [row[0] for row in tabulate(TURNS).rows] == [
        *("the bare engine", "files in bulk")
    ]


def test_texts_are_different_and_each_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(bulk, "_DRAWN_BYTES", 5000)
    texts = [sentence.text for sentence in draw(100, 2)]
    assert len(set(texts)) == 100
    assert not any(mark in text for text in texts for mark in ".!?{}0123456789")
    assert draw(10, 2) == draw(10, 2)
