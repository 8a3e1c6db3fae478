"""The base of every family's tokenizer, its implementations with two libraries, and the output
vocabulary: the pieces allowed in translations into a language.
"""

import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from functools import cache
from pathlib import Path

import regex

from contract.languages import SCRIPTS
from handlers.engine.directories import ModelError
from handlers.engine.translation.engine import Sentence
from handlers.engine.translation.guard import UNSPACED

EOS = "</s>"
UNKNOWN = "<unk>"
WORD_START = "▁"
TOKENIZER_FILE = "tokenizer.json"
#: The output vocabulary, which CTranslate2 reads from the model's directory: fewer pieces cost
#: less. The first line, after a tab, is the list for all texts. Lists by source piece could
#: follow, but CTranslate2 4.8 gives wrong pieces if the allowed ones change between batches.
LIST_FILE = "vmap.txt"
#: The language tokens of all families, and unused rows.
_NO_PIECE = regex.compile(
    r"__\w+__|[a-z]{3}_[A-Z][a-z]{3}|>>\w+<<|<2\w+>|<extra_id_\d+>|madeupword\d+"
)
_LETTERS = regex.compile(r"[\p{L}\p{M}]")
#: A piece that begins a word.
_FIRST_PIECE = regex.compile(rf"{WORD_START}|[{UNSPACED}]")
#: Special spaces, and signs that set the direction or mark where a word may be divided. Models
#: have hardly seen any.
_SPACES = "\t\u00a0\u2002\u2003\u2009\u202f\u3000"
_INVISIBLE = (
    "\u00ad\u200e\u200f\u202a\u202b\u202c\u202d\u202e"
    "\u2060\u2066\u2067\u2068\u2069\ufeff"
)
_READ = str.maketrans(dict.fromkeys(_SPACES, " ") | dict.fromkeys(_INVISIBLE, ""))


class Tokenizer(ABC):
    """A converter between texts and tokens. It has no state, so rows may mix languages."""

    def __init__(self, ids: Mapping[str, int], control: Set[str]) -> None:
        self.ids = ids
        #: The tokens that do not represent text.
        self.control = control

    def tokenize(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """Return the sentences with their tokens. One call tokenizes all of them, because each
        call releases the GIL and may wait long to reacquire it."""
        texts = [_normalize(s.text) for s in sentences if not s.tokens]
        made = iter(self.split(texts))
        return [
            s
            if s.tokens
            else replace(s, tokens=(*self.list_first(s), *next(made), EOS))
            for s in sentences
        ]

    def encode(self, text: str, source: str, target: str = "") -> list[str]:
        """Tokenize one text in the form on which the encoder was trained."""
        (sentence,) = self.tokenize([Sentence(text, source, target or source)])
        return list(sentence.tokens)

    def decode(self, rows: Sequence[Sequence[str]]) -> list[str]:
        """Return each row's text, without control and language tokens."""
        pieces = [
            [token for token in row if token in self.ids and token not in self.control]
            for row in rows
        ]
        return self._join(pieces) if pieces else []

    @abstractmethod
    def list_first(self, sentence: Sentence) -> Sequence[str]:
        """The tokens before those of the text."""

    def list_prefix(self, sentence: Sentence) -> Sequence[str]:
        """The decoder's prefix: the given tokens with which a translation begins."""
        return ()

    @abstractmethod
    def split(self, texts: Sequence[str]) -> Sequence[Sequence[str]]:
        """Each text's pieces."""

    def split_answer(self, text: str) -> Sequence[str]:
        """Split a text into the pieces that the model would write for it."""
        return self.split([_normalize(text)])[0]

    @abstractmethod
    def _join(self, rows: Sequence[Sequence[str]]) -> list[str]: ...


class SentencePieceTokenizer(Tokenizer):
    """A tokenizer with one SentencePiece model, or with one each for texts and translations."""

    def __init__(
        self,
        ids: Mapping[str, int],
        control: Set[str],
        source: Path,
        target: Path | None = None,
    ) -> None:
        import sentencepiece  # the catalog uses families without it

        super().__init__(ids, control)
        self._source, self._target = (
            sentencepiece.SentencePieceProcessor(model_file=str(file))
            for file in (source, target or source)
        )

    def split(self, texts: Sequence[str]) -> list[list[str]]:
        if len(texts) == 1:  # a list starts a thread
            return [self._source.encode(texts[0], out_type=str)]
        return list(self._source.encode(texts, out_type=str, num_threads=1))

    def split_answer(self, text: str) -> list[str]:
        return list(self._target.encode(_normalize(text), out_type=str))

    def _join(self, rows: Sequence[Sequence[str]]) -> list[str]:
        if len(rows) == 1:
            return [self._target.decode(rows[0])]
        return list(self._target.decode(rows, num_threads=1))


class JsonTokenizer(Tokenizer):
    """A tokenizer with a `tokenizer.json`, which Transformers 5 requires for these models: it
    does not read the vocabulary of their SentencePiece files."""

    def __init__(self, directory: Path, control: regex.Pattern[str]) -> None:
        import tokenizers

        file = directory / TOKENIZER_FILE
        try:
            self._library = tokenizers.Tokenizer.from_file(str(file))
        except Exception as error:  # the library has no error class
            raise ModelError(f"{file} cannot be read: {error}") from error
        self._library.no_truncation()
        ids = self._library.get_vocab()
        super().__init__(ids, {token for token in ids if control.fullmatch(token)})

    def split(self, texts: Sequence[str]) -> list[list[str]]:
        # The name of a control token in a text must not act as one.
        return [
            [UNKNOWN if token in self.control else token for token in found.tokens]
            for found in self._library.encode_batch(texts, add_special_tokens=False)
        ]

    def _join(self, rows: Sequence[Sequence[str]]) -> list[str]:
        ids = [[self.ids[token] for token in row] for row in rows]
        return self._library.decode_batch(ids, skip_special_tokens=False)


def _normalize(text: str) -> str:
    """Return a text with composed letters, plain spaces and no invisible signs."""
    return unicodedata.normalize("NFC", text.translate(_READ))


def list_trigrams(pieces: Sequence[str]) -> set[tuple[str, ...]]:
    """Return the pieces of any three consecutive words except names. A translation without them
    has at most two of three words of its text, so it is no copy."""
    starts, ends = list[int](), list[int]()
    for place, piece in enumerate(pieces):
        if not _LETTERS.search(piece):
            continue
        if ends and ends[-1] == place and not _FIRST_PIECE.match(piece):
            ends[-1] += 1
        else:
            starts.append(place)
            ends.append(place + 1)
    are_names = [pieces[start].lstrip(WORD_START)[:1].isupper() for start in starts]
    spans = zip(starts, ends[2:] or ends[-1:], strict=False)
    return {
        tuple(pieces[start:end])
        for first, (start, end) in enumerate(spans)
        if not all(are_names[first : first + 3])
    }


def suits(listed: Set[str], pieces: Iterable[str], source: str) -> bool:
    """Whether a text with these pieces can be translated with the listed ones. The model must
    be able to copy pieces in a third script, such as a name."""
    own = _match((source,))
    return all(piece in listed or own.fullmatch(piece) for piece in pieces)


def list_pieces(vocabulary: Iterable[str], languages: Sequence[str]) -> list[str]:
    """The pieces of a model's vocabulary for translations into these languages: those in
    their scripts or ASCII, all single characters, and control tokens."""
    allowed = _match(tuple(languages))
    return [
        piece
        for piece in vocabulary
        if not _NO_PIECE.fullmatch(piece)
        and (len(piece.lstrip(WORD_START)) < 2 or allowed.fullmatch(piece))
    ]


def write_list(directory: Path, pieces: Sequence[str]) -> None:
    """Write the output vocabulary for CTranslate2."""
    (directory / LIST_FILE).write_text(f"\t{' '.join(pieces)}\n", "utf-8")


def read_list(directory: Path) -> frozenset[str] | None:
    """Read the output vocabulary of a model's directory; None if there is none."""
    path = directory / LIST_FILE
    if not path.exists():
        return None
    return frozenset(path.read_text("utf-8")[1:-1].split(" "))


@cache
def _match(languages: tuple[str, ...]) -> regex.Pattern[str]:
    """The pattern of pieces in these languages' scripts, in ASCII, or in no script."""
    scripts = sorted({script for language in languages for script in SCRIPTS[language]})
    own = "".join(rf"\p{{{script}}}" for script in scripts)
    return regex.compile(rf"[{own}\p{{Common}}\p{{Inherited}}A-Za-z]*")
