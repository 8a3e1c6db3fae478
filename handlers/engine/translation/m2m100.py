"""The common base of all M2M100 engines: sentences, translations, tokens and vocabularies."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Protocol

import regex
import sentencepiece

from contract.languages import SCRIPTS
from contract.options import ALTERNATIVES, BEAM_SIZE
from handlers.engine.translation.guard import UNSPACED, Fault

#: An answer may be this many times as long as the longest text of its batch, plus some. A few
#: Chinese tokens become many Hindi ones, but no answer runs on forever.
_LENGTH_RATIO = 3
_LENGTH_MARGIN = 16

EOS = "</s>"
UNKNOWN = "<unk>"
_CONTROL = re.compile(r"<.*>\Z", re.DOTALL)
#: The pieces that translations into a language may consist of: fewer cost less. CTranslate2
#: reads them from the model's directory. The first line, behind a tab, is the list for all
#: texts. Lists by source piece would follow, but CTranslate2 4.8 goes wrong when the allowed
#: pieces change from one batch to the next.
LIST_FILE = "vmap.txt"
_NO_PIECE = regex.compile(r"__\w+__|madeupword\d+")
_WORD_START = "▁"
_LETTERS = regex.compile(r"[\p{L}\p{M}]")
#: A piece that begins a word.
_FIRST_PIECE = regex.compile(rf"{_WORD_START}|[{UNSPACED}]")


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
    """A text to translate, its direction in ISO 639-1 codes, and how to search."""

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


def language_token(language: str) -> str:
    """The token by which M2M100 names a language."""
    return f"__{language}__"


def longest_answer(tokens: int, limit: int) -> int:
    """The most tokens of an answer to `tokens` tokens, for a model with `limit` positions."""
    return min(limit, _LENGTH_RATIO * tokens + _LENGTH_MARGIN)


class Tokenizer:
    """Turns text into M2M100 tokens and back. It has no state, so rows may mix languages."""

    def __init__(self, directory: Path) -> None:
        #: The vocabulary in id order: control tokens and pieces.
        self.ids: dict[str, int] = json.loads(
            (directory / "vocab.json").read_text("utf-8")
        )
        self._pieces = sentencepiece.SentencePieceProcessor(
            model_file=str(directory / "sentencepiece.bpe.model")
        )

    def encode(self, text: str, language: str) -> list[str]:
        """`__en__ ▁piece … </s>`, the form that the encoder was trained on."""
        (sentence,) = self.tokenize([Sentence(text, language, language)])
        return list(sentence.tokens)

    def tokenize(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """The sentences with their tokens. One call makes all of them, because each gives up
        Python's lock and may wait long until it gets that back."""
        texts = [
            unicodedata.normalize("NFC", s.text) for s in sentences if not s.tokens
        ]
        made = iter(self._pieces.encode(texts, out_type=str, num_threads=1))
        return [
            s
            if s.tokens
            else replace(s, tokens=(language_token(s.source), *next(made), EOS))
            for s in sentences
        ]

    def decode(self, rows: Sequence[Sequence[str]]) -> list[str]:
        """Each row's text, without control and language tokens."""
        pieces = [
            [token for token in row if token in self.ids and not _CONTROL.match(token)]
            for row in rows
        ]
        return list(self._pieces.decode(pieces, num_threads=1)) if pieces else []


def list_trigrams(sentence: Sentence) -> set[tuple[str, ...]]:
    """The tokens of any three words in a row but names. A translation without them has at
    most two of three words of its text, so it is no copy."""
    pieces = sentence.tokens[1:-1]
    starts, ends = list[int](), list[int]()
    for place, piece in enumerate(pieces):
        if not _LETTERS.search(piece):
            continue
        if ends and ends[-1] == place and not _FIRST_PIECE.match(piece):
            ends[-1] += 1
        else:
            starts.append(place)
            ends.append(place + 1)
    are_names = [pieces[start].lstrip(_WORD_START)[:1].isupper() for start in starts]
    return {
        pieces[start:end]
        for first, (start, end) in enumerate(
            zip(starts, ends[2:] or ends[-1:], strict=False)
        )
        if not all(are_names[first : first + 3])
    }


def suits(listed: Set[str], pieces: Iterable[str], source: str) -> bool:
    """Whether a text can be translated with a list of pieces. If the text has pieces in a
    third script, such as a name, the model must be able to copy them."""
    own = _match((source,))
    return all(piece in listed or own.fullmatch(piece) for piece in pieces)


def list_pieces(vocabulary: Iterable[str], languages: Sequence[str]) -> list[str]:
    """The pieces of a model's vocabulary for translations into these languages: those in
    their scripts or ASCII, all single characters, control tokens, and the language tokens."""
    allowed = _match(tuple(languages))
    pieces = [
        piece
        for piece in vocabulary
        if not _NO_PIECE.fullmatch(piece)
        and (len(piece.lstrip(_WORD_START)) < 2 or allowed.fullmatch(piece))
    ]
    return [*pieces, *map(language_token, languages)]


def write_list(directory: Path, pieces: Sequence[str]) -> None:
    """Writes the list for CTranslate2."""
    (directory / LIST_FILE).write_text(f"\t{' '.join(pieces)}\n", "utf-8")


def read_list(directory: Path) -> frozenset[str] | None:
    """The list in a model's directory; None if there is none."""
    path = directory / LIST_FILE
    if not path.exists():
        return None
    return frozenset(path.read_text("utf-8")[1:-1].split(" "))


@cache
def _match(languages: tuple[str, ...]) -> regex.Pattern[str]:
    """Match pieces in these languages' scripts, in ASCII, or in no script."""
    scripts = sorted({script for language in languages for script in SCRIPTS[language]})
    own = "".join(rf"\p{{{script}}}" for script in scripts)
    return regex.compile(rf"[{own}\p{{Common}}\p{{Inherited}}A-Za-z]*")
