"""A model of M2M100-418M's exact size: it is converted, loaded and asked. With random
weights it answers nonsense, and would go on for ever.
"""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from safetensors.torch import load_file

from handlers.engine.directories import SETTINGS_FILE, check_directory
from handlers.engine.translation.conversion import convert
from handlers.engine.translation.ctranslate2 import CTranslate2Engine
from handlers.engine.translation.m2m100 import Sentence
from tests.random_m2m100 import build

TEXTS = (
    "Hello|Good morning|Thank you|Where is it?|Yes|No|Please|See you tomorrow".split(
        "|"
    )
)
TARGETS = "de fr ko ja zh hi ar pt".split()
LIMIT = 12


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """For 1.4 GB that must not stay."""
    folder = tmp_path_factory.mktemp("real-size")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def model(folder: Path) -> Path:
    """As the hub would give it, with an answer's length bounded."""
    directory = build(folder / "m2m100_418M")
    (directory / SETTINGS_FILE).write_text(json.dumps({"max_tokens": LIMIT}))
    return directory


def test_the_model_is_as_large_as_the_real_one(model: Path):
    check_directory(model, "translation")
    weights = load_file(model / "model.safetensors")
    config = json.loads((model / "config.json").read_text())
    assert sum(tensor.numel() for tensor in weights.values()) == 483_905_536
    assert config["max_position_embeddings"] == 1024
    assert len(json.loads((model / "vocab.json").read_text("utf-8"))) == 128_004


def test_it_is_converted_to_int8_and_answers_a_batch(model: Path, folder: Path):
    converted = convert(model, folder / "cache", "int8")
    assert (converted / "model.bin").stat().st_size < 500_000_000
    engine = CTranslate2Engine(converted)
    rows = [Sentence(t, "en", target) for t, target in zip(TEXTS, TARGETS, strict=True)]
    answers = engine.translate(rows)
    assert len(answers) == len(TEXTS)
    for answer in answers:
        # The language token is the first of the answer's tokens.
        assert 1 <= len(re.findall(r"▁made\d+up", answer.text)) <= LIMIT - 1
        assert math.isfinite(answer.score)
