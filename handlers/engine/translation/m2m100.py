"""What all M2M100 engines share: their inputs and outputs, the files of a model
directory, and the tokenizer.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Protocol

import sentencepiece

from handlers.engine.translation.guard import Fault

#: An answer may be this many times as long as the longest text of its batch, plus some:
#: a few Chinese tokens become many Hindi ones, but nothing runs on for ever.
_LENGTH_RATIO = 3
_LENGTH_MARGIN = 16

EOS = "</s>"
UNKNOWN = "<unk>"


@dataclass(frozen=True)
class Decoding:
    """How a translation is searched for."""

    #: Candidates that are followed at the same time; 1 takes the likeliest token each time.
    beam_size: int = 2
    #: Other translations that are wanted beside the best.
    alternatives: int = 0
    #: No so many tokens in a row stand twice in an answer; 0 is no rule.
    no_repeat_ngram_size: int = 0
    #: By how much a token that has been used becomes less likely; 1 is no rule.
    repetition_penalty: float = 1.0

    @property
    def beams(self) -> int:
        """The beam, as wide as the alternatives need it."""
        return max(self.beam_size, self.alternatives + 1)

    def careful(self) -> Decoding:
        """For a second attempt: a wider beam and no repetition. Trigrams are blocked as by
        Paulus et al. (arXiv:1705.04304); the penalty is that of Keskar et al.
        (arXiv:1909.05858), who use 1.2, and a little more."""
        return replace(
            self,
            beam_size=min(8, max(4, 2 * self.beam_size)),
            no_repeat_ngram_size=3,
            repetition_penalty=1.3,
        )


@dataclass(frozen=True)
class Sentence:
    """A text to translate, its direction in ISO 639-1 codes, and how to search."""

    text: str
    source: str
    target: str
    decoding: Decoding = Decoding()


@dataclass(frozen=True)
class Translation:
    """A translated text and its mean log-probability per token (0 is certain)."""

    text: str
    score: float
    #: Other texts, the best first.
    alternatives: tuple[Translation, ...] = ()
    #: What the guard found wrong with it.
    fault: Fault | None = None


class Engine(Protocol):
    """Translates batches; source and target are each row's own."""

    tokenizer: Tokenizer
    max_tokens: int
    #: How many batches it translates at the same time, from as many threads.
    translators: int

    def translate(self, sentences: Sequence[Sentence]) -> list[Translation]:
        """One translation per sentence, in order. All have the same decoding.

        Raises OutOfMemory or DeviceFault.
        """


def read_beam(
    hypotheses: Iterable[tuple[Sequence[str], float]],
    tokenizer: Tokenizer,
    decoding: Decoding,
) -> Translation:
    """The best of a beam's hypotheses (tokens and score) and the alternatives that are
    wanted, as far as the beam holds enough different texts."""
    ranked = sorted(hypotheses, key=itemgetter(1), reverse=True)
    scores: dict[str, float] = {}
    for tokens, score in ranked[: decoding.beams if decoding.alternatives else 1]:
        scores.setdefault(tokenizer.decode(tokens), score)
    best, *others = (Translation(text, score) for text, score in scores.items())
    others = [other for other in others if other.text][: decoding.alternatives]
    return replace(best, alternatives=tuple(others))


def common_decoding(sentences: Sequence[Sentence]) -> Decoding:
    """The decoding that all of a batch have. Raises ValueError where they differ."""
    (decoding,) = {sentence.decoding for sentence in sentences}
    return decoding


def language_token(language: str) -> str:
    """The token by which M2M100 names a language."""
    return f"__{language}__"


def longest_answer(tokens: int, limit: int) -> int:
    """How long the answer to a text of `tokens` may become, in tokens, for a model
    that knows `limit` positions."""
    return min(limit, _LENGTH_RATIO * tokens + _LENGTH_MARGIN)


class Tokenizer:
    """Text to M2M100 tokens and back; without state, so rows may mix languages."""

    def __init__(self, directory: Path) -> None:
        #: The vocabulary: control tokens and pieces, in id order.
        self.ids: dict[str, int] = json.loads(
            (directory / "vocab.json").read_text("utf-8")
        )
        self._pieces = sentencepiece.SentencePieceProcessor(
            model_file=str(directory / "sentencepiece.bpe.model")
        )

    def encode(self, text: str, language: str) -> list[str]:
        """`__en__ ▁piece … </s>`, the form that the encoder was trained on."""
        pieces = self._pieces.encode(unicodedata.normalize("NFC", text), out_type=str)
        return [language_token(language), *pieces, EOS]

    def decode(self, tokens: Sequence[str]) -> str:
        """The text of the pieces; control and language tokens are dropped."""
        pieces = [
            token for token in tokens if token in self.ids and not _is_control(token)
        ]
        return str(self._pieces.decode(pieces))


def _is_control(token: str) -> bool:
    return token.startswith("<") and token.endswith(">")
