"""The interface of every engine, and the steps that all of them share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from operator import itemgetter
from typing import Protocol

from handlers.engine.translation.sentences import Decoding, Sentence, Translation
from handlers.engine.translation.tokenizer import Tokenizer

#: An answer may be this many times as long as the longest text of its batch, plus some. A few
#: Chinese tokens become many Hindi ones, but no answer runs on forever.
_LENGTH_RATIO = 3
_LENGTH_MARGIN = 16


class Engine(Protocol):
    """Translates batches. Each row has its own source and target."""

    tokenizer: Tokenizer
    max_tokens: int
    #: The number of batches that it translates at the same time, each in its own thread.
    translators: int

    def translate(self, sentences: Sequence[Sentence]) -> list[Translation]:
        """One translation per sentence, in order. All have the same decoding.

        Raises OutOfMemory or DeviceFault.
        """


def read_beams(
    beams: Iterable[Iterable[tuple[Sequence[str], float]]],
    tokenizer: Tokenizer,
    decoding: Decoding,
) -> list[Translation]:
    """The best of each beam's hypotheses (tokens and score), with as many of the wanted
    alternatives as the beam holds different texts."""
    kept = decoding.beams if decoding.alternatives else 1
    found = [sorted(beam, key=itemgetter(1), reverse=True) for beam in beams]
    margins = [b[0][1] - b[1][1] if len(b) > 1 else None for b in found]
    ranked = [beam[:kept] for beam in found]
    texts = iter(tokenizer.decode([tokens for beam in ranked for tokens, _ in beam]))
    answers = []
    for beam, margin in zip(ranked, margins, strict=True):
        scores: dict[str, float] = {}
        for text, (_, score) in zip(islice(texts, len(beam)), beam, strict=True):
            scores.setdefault(text, score)
        best, *rest = scores.items()
        others = [Translation(*other) for other in rest if other[0]]
        chosen = tuple(others[: decoding.alternatives])
        answers.append(Translation(*best, alternatives=chosen, margin=margin))
    return answers


def common_decoding(sentences: Sequence[Sentence]) -> Decoding:
    """The decoding that all sentences share. Raises ValueError if they differ."""
    (decoding,) = {sentence.decoding for sentence in sentences}
    return decoding


def longest_answer(tokens: int, limit: int) -> int:
    """The most tokens of an answer to `tokens` tokens, for a model with `limit` positions."""
    return min(limit, _LENGTH_RATIO * tokens + _LENGTH_MARGIN)
