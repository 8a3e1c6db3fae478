"""The values that an engine takes and gives: sentences, how to search, and translations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from contract.options import ALTERNATIVES, BEAM_SIZE
from handlers.engine.translation.guard import Fault


@dataclass(frozen=True)
class Decoding:
    """The options of the search for a translation."""

    #: Hypotheses that are followed at the same time. 1 always takes the likeliest token.
    beam_size: int = BEAM_SIZE.default
    #: Translations that are wanted besides the best.
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
        """Options for a second attempt: a wider beam, no repetition and nothing `forbidden`.
        Trigrams are blocked as by Paulus et al. (arXiv:1705.04304); the penalty is that of
        Keskar et al. (arXiv:1909.05858), who use 1.2, and a little more."""
        return replace(
            self,
            beam_size=min(BEAM_SIZE.most, max(4, 2 * self.beam_size)),
            no_repeat_ngram_size=3,
            repetition_penalty=1.3,
            forbidden=tuple(sorted(forbidden)),
        )


@dataclass(frozen=True)
class Sentence:
    """A text to translate, its direction in BCP 47 tags, and how to search."""

    text: str
    source: str
    target: str
    decoding: Decoding = Decoding()
    #: The text as the encoder reads it, once `Tokenizer.tokenize` has made that.
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
    #: How much better its score is than the second hypothesis'; None if there was none.
    margin: float | None = None
