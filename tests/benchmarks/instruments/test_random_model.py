"""The vocabulary of the models with random weights, and the layouts of their families."""

from __future__ import annotations

import json
import math
from itertools import chain
from pathlib import Path

import pytest

from benchmarks.instruments.random_model import (
    SIZES,
    build,
    invent_vocabulary,
    make_config,
)
from handlers.engine.translation.conversion import convert
from handlers.engine.translation.ctranslate2 import CTranslate2Engine
from handlers.engine.translation.engine import Sentence
from handlers.engine.translation.families import list_languages
from handlers.engine.translation.tokenizer import list_pieces
from models.phrasebook_recipe import phrasebook
from tests.random_m2m100 import SMALL

#: A T5's insides are as small by these names.
T5 = {"d_model": 32, "d_kv": 16, "d_ff": 32, "num_layers": 1, "num_heads": 2}

#: Pieces of M2M100.
SIZE = 128_004


def test_the_phrasebooks_pieces_come_first_and_a_language_uses_a_part():
    vocabulary = invent_vocabulary(SIZE)
    assert sorted(vocabulary.values()) == list(range(SIZE))
    own = json.loads((phrasebook.MODEL / "vocab.json").read_text("utf-8"))
    assert own.items() <= vocabulary.items()
    french, japanese = (
        len(list_pieces(vocabulary, [language])) / SIZE for language in ("fr", "ja")
    )
    assert 0.35 < japanese < french < 0.6


@pytest.mark.slow
@pytest.mark.parametrize("name", SIZES)
def test_each_size_has_a_layout_that_is_served(name: str, tmp_path: Path):
    config = make_config(**{**SIZES[name], **(T5 if "madlad" in name else SMALL)})
    directory = build(tmp_path / name, config)
    assert {"en", "fr"} <= {*chain(*list_languages(directory))}
    engine = CTranslate2Engine(convert(directory, tmp_path / "cache", "int8"))
    (made,) = engine.translate([Sentence("Good morning", "en", "fr")])
    assert math.isfinite(made.score)
