"""The vocabulary of the models with random weights."""

from __future__ import annotations

import json

import pytest

from benchmarks.instruments.random_model import invent_vocabulary
from handlers.engine.translation.vocabulary import list_pieces
from models.phrasebook_recipe import phrasebook

#: Pieces of M2M100.
SIZE = 128_004


@pytest.fixture(scope="module")
def vocabulary() -> dict[str, int]:
    return invent_vocabulary(SIZE)


def test_every_id_has_a_piece_and_the_phrasebooks_come_first(
    vocabulary: dict[str, int],
):
    assert sorted(vocabulary.values()) == list(range(SIZE))
    own = json.loads((phrasebook.MODEL / "vocab.json").read_text("utf-8"))
    assert own.items() <= vocabulary.items()


def test_a_language_uses_a_part_of_the_vocabulary(vocabulary: dict[str, int]):
    french, japanese = (
        len(list_pieces(vocabulary, [language])) / SIZE for language in ("fr", "ja")
    )
    assert 0.35 < japanese < french < 0.6


def test_a_vocabulary_without_the_phrasebooks_pieces_is_refused():
    with pytest.raises(ValueError, match="alone has 16001 tokens, not 9"):
        invent_vocabulary(9)
