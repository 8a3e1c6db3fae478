"""Trains the SentencePiece model and writes the files that `M2M100Tokenizer` reads."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import sentencepiece

from contract import durable
from contract.languages import LANGUAGES as M2M100_LANGUAGES
from handlers.engine.translation.m2m100 import language_token
from models.phrasebook_recipe.corpus import Corpus
from models.phrasebook_recipe.items import LANGUAGES, clean

PIECES = 16000
_CONTROL = ("<s>", "<pad>", "</s>", "<unk>")
#: M2M100 appends its languages and eight unused rows to the vocabulary.
_UNUSED_ROWS = 8


class Vocabulary:
    """SentencePiece ids as M2M100 numbers them: control tokens, pieces, 100 languages."""

    pad, eos, unk = 1, 2, 3

    def __init__(self, folder: Path) -> None:
        self.pieces = sentencepiece.SentencePieceProcessor(
            model_file=str(folder / "sentencepiece.bpe.model")
        )
        self.ids: dict[str, int] = json.loads(
            (folder / "vocab.json").read_text("utf-8")
        )
        self.languages = {
            lang: len(self.ids) + i for i, lang in enumerate(M2M100_LANGUAGES)
        }
        self.size = len(self.ids) + len(M2M100_LANGUAGES) + _UNUSED_ROWS

    def encode(self, text: str, language: str) -> list[int]:
        """`[language] pieces [eos]`, the form of both encoder input and labels."""
        pieces = self.pieces.encode(clean(text), out_type=str)
        return [
            self.languages[language],
            *(self.ids.get(p, self.unk) for p in pieces),
            self.eos,
        ]


def train(corpus: Corpus, folder: Path, lines: int = 150_000) -> None:
    """Writes the tokenizer files into `folder`; `lines` drawn texts decide the pieces."""
    folder.mkdir(parents=True, exist_ok=True)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=_draw_texts(corpus, lines),
        model_prefix=str(folder / "spm"),
        vocab_size=PIECES,
        hard_vocab_limit=False,
        character_coverage=1.0,
        normalization_rule_name="identity",
        split_digits=True,
        minloglevel=1,
    )
    durable.rename(folder / "spm.model", folder / "sentencepiece.bpe.model")
    (folder / "spm.vocab").unlink()
    _write_vocabulary(folder)
    _write_settings(folder)


def _draw_texts(corpus: Corpus, lines: int) -> Iterator[str]:
    rng = random.Random(0)
    for pair in corpus.finite():
        yield pair.source
    for phrase in corpus.phrases:  # every value once, or its characters may be missing
        for item in phrase.all_items(rng, most=200):
            yield from (item.text(language) for language in LANGUAGES)
    for _ in range(lines):
        yield corpus.draw(rng).source
    alphabet = " ".join("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    yield from [alphabet] * len(LANGUAGES)


def _write_vocabulary(folder: Path) -> None:
    pieces = sentencepiece.SentencePieceProcessor(
        model_file=str(folder / "sentencepiece.bpe.model")
    )
    learned = [pieces.id_to_piece(i) for i in range(pieces.get_piece_size())]
    tokens = [*_CONTROL, *(piece for piece in learned if piece not in _CONTROL)]
    vocabulary = {token: i for i, token in enumerate(tokens)}
    (folder / "vocab.json").write_text(
        json.dumps(vocabulary, ensure_ascii=False), "utf-8"
    )


def _write_settings(folder: Path) -> None:
    """All 100 language tokens in their original order: with them Transformers decodes
    cleanly and CTranslate2's stock converter finds the ids."""
    settings = {
        "tokenizer_class": "M2M100Tokenizer",
        "language_codes": "m2m100",
        "model_max_length": 128,
        "additional_special_tokens": [
            language_token(language) for language in M2M100_LANGUAGES
        ],
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")
