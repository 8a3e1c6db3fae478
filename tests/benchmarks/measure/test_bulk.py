"""The arithmetic of bulk work's benchmark, and the texts that it is measured with."""

from __future__ import annotations

import pytest

from benchmarks.measure import bulk
from benchmarks.measure.bulk import BARE, BULK, describe, draw


def test_bulk_is_compared_with_the_bare_engine_round_by_round():
    rows = describe({BARE: [100.0, 50.0], BULK: [90.0, 50.0]}).table.rows
    assert [row[2] for row in rows] == ["1.00 (1.00–1.00)", "0.95 (0.90–1.00)"]


def test_texts_are_different_and_each_is_one_sentence(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bulk, "_DRAWN_BYTES", 5000)
    texts = [sentence.text for sentence in draw(100, 2)]
    assert len(set(texts)) == 100
    assert not any(mark in text for text in texts for mark in ".!?{}0123456789")
    assert draw(10, 2) == draw(10, 2)
