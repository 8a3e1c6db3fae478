"""The interface of translation engines: their input, their output and the steps they share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Protocol

from contract.options import ALTERNATIVES, BEAM_SIZE
from handlers.engine.translation.guard import Fault

if TYPE_CHECKING:
    from handlers.engine.translation.tokenizer import Tokenizer

#: An answer may be this many times as long as the longest text of its batch, plus a margin: a
#: few Chinese tokens become many Hindi ones, but no answer may run on forever.
_LENGTH_RATIO = 3
_LENGTH_MARGIN = 16


@dataclass(frozen=True)
class Decoding:
    """The options of the search for a translation."""

    #: The number of hypotheses searched in parallel. 1 always chooses the likeliest token.
    beam_size: int = BEAM_SIZE.default
    #: The number of translations to return besides the best.
    alternatives: int = ALTERNATIVES.default
    #: No n-gram of this many tokens may occur twice in an answer; 0 allows all.
    no_repeat_ngram_size: int = 0
    #: The factor by which a used token becomes less likely; 1 changes nothing.
    repetition_penalty: float = 1.0
    #: Sequences of tokens that no answer may contain.
    forbidden: tuple[tuple[str, ...], ...] = ()

    @property
    def beams(self) -> int:
        """The beam size, at least as large as the alternatives need."""
        return max(self.beam_size, self.alternatives + 1)

    @property
    def is_careful(self) -> bool:
        """Whether these are the options of a second attempt."""
        return self.no_repeat_ngram_size > 0

    def careful(self, forbidden: Iterable[tuple[str, ...]] = ()) -> Decoding:
        """Return the options of a second attempt: a wider beam, no repetition, no `forbidden`
        sequences. Trigrams are blocked as in Paulus et al. (arXiv:1705.04304); the penalty is
        from Keskar et al. (arXiv:1909.05858), but slightly higher than their 1.2."""
        return replace(
            self,
            beam_size=min(BEAM_SIZE.most, max(4, 2 * self.beam_size)),
            no_repeat_ngram_size=3,
            repetition_penalty=1.3,
            forbidden=tuple(sorted(forbidden)),
        )


@dataclass(frozen=True)
class Sentence:
    """A text to translate, its direction in BCP 47 tags, and the options of the search."""

    text: str
    source: str
    target: str
    decoding: Decoding = Decoding()
    #: The encoder's input, once `Tokenizer.tokenize` has set it.
    tokens: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class Translation:
    """A translated text and its mean log-probability per token (0 is certain)."""

    text: str
    score: float
    #: Other translations, best first.
    alternatives: tuple[Translation, ...] = ()
    #: The fault that the guard found.
    fault: Fault | None = None
    #: The score's lead over that of the second hypothesis; None if there was none.
    margin: float | None = None


class Engine(Protocol):
    """The interface of engines, which translate batches. Each row has its own languages."""

    tokenizer: Tokenizer
    max_tokens: int
    #: The number of batches that it translates at the same time, each in its own thread.
    translators: int

    def translate(self, sentences: Sequence[Sentence]) -> list[Translation]:
        """Return one translation per sentence, in order. All sentences have the same decoding.
        Raises OutOfMemory or DeviceFault."""


def read_beams(
    beams: Iterable[Iterable[tuple[Sequence[str], float]]],
    tokenizer: Tokenizer,
    decoding: Decoding,
) -> list[Translation]:
    """Return the best of each beam's hypotheses (tokens and score), with up to the requested
    number of alternatives, as far as the beam has different texts."""
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


def longest_answer(tokens: int, limit: int) -> int:
    """The most tokens of an answer to `tokens` tokens, for a model with `limit` positions."""
    return min(limit, _LENGTH_RATIO * tokens + _LENGTH_MARGIN)
