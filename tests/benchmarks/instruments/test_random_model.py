"""The vocabulary of the models with random weights."""

import json

from benchmarks.instruments.random_model import invent_vocabulary
from handlers.engine.translation.tokenizer import list_pieces
from models.phrasebook_recipe import phrasebook

#: The number of pieces in M2M100's vocabulary.
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
