"""The engine without a model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from handlers.engine.directories import SETTINGS_FILE, TOKENIZER_FILES
from handlers.engine.translation.loading import load_engine
from handlers.engine.translation.m2m100 import Engine, Sentence
from tests.random_m2m100 import PHRASEBOOK

SENTENCES = [Sentence("Guten Morgen", "de", "en"), Sentence("", "de", "ko")]


def load(directory: Path) -> Engine:
    return load_engine("echo", directory, device="cpu", compute_type="auto")


@pytest.fixture
def slow(tmp_path: Path) -> Engine:
    """20 ms a batch, 10 ms a row and 5 ms a word."""
    for name in TOKENIZER_FILES:
        (tmp_path / name).symlink_to(PHRASEBOOK / name)
    cost = {"echo": {"batch_ms": 20, "row_ms": 10, "word_ms": 5}}
    (tmp_path / SETTINGS_FILE).write_text(json.dumps(cost))
    return load(tmp_path)


def test_every_text_is_its_own_translation():
    answers = load(PHRASEBOOK).translate(SENTENCES)
    assert [answer.text for answer in answers] == ["Guten Morgen", ""]


def test_a_batch_takes_the_time_that_the_model_directory_says(
    slow: Engine, monkeypatch: pytest.MonkeyPatch
):
    slept: list[float] = []
    monkeypatch.setattr("handlers.engine.translation.loading.time.sleep", slept.append)
    slow.translate(SENTENCES)
    assert slept == [pytest.approx(0.05)]
