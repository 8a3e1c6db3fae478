"""Turns a request's texts into documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby

from text.document import (
    Document,
    Piece,
    Segment,
    TextFormat,
    find_format,
    parse,
    scan_tagged,
    scan_text,
)
from text.errors import TooManySentences
from text.html_runs import Run
from text.options import Splitting, Tags
from text.spacing import compare
from text.term_cache import Choice, TermCache
from text.terms import Terms

#: More formats than a stack is asked for in turn.
_FORMATS = 1024


@dataclass(frozen=True)
class ReadingJob:
    """Texts with their languages, and how to read them. Together they may have `max_rows`
    sentences. A text without a language is only counted. Without a `target` the separators of
    sentences stay."""

    texts: tuple[tuple[str, str], ...]
    tags: Tags | None
    is_protected: bool
    max_rows: int
    splitting: Splitting = "lines"
    target: str | None = None
    dictionaries: Choice | None = None

    def find_terms(self, language: str, terms: TermCache | None) -> Sequence[Terms]:
        """The terms of the dictionaries from `language`. Raises TermsUnavailable."""
        if terms is None or self.dictionaries is None or self.target is None:
            return ()
        return terms.take(self.dictionaries, language, self.target)

    def scan_one(
        self, runs: Sequence[Run], language: str, cache: TermCache | None
    ) -> Iterator[Piece]:
        """The pieces of the runs of one of the texts."""
        terms = self.find_terms(language, cache)
        if self.tags is None:
            return scan_text(
                runs[0].text,
                language,
                self.is_protected,
                splitting=self.splitting,
                format=self.choose_format(language),
                terms=terms,
            )
        return scan_tagged(
            runs,
            language,
            self.is_protected,
            tags=self.tags,
            splitting=self.splitting,
            format=self.choose_format(language),
            terms=terms,
        )

    def choose_format(self, language: str) -> TextFormat:
        """The format of a text in `language`."""
        usual = find_format(self.tags, self.splitting)
        return _choose_format(usual, language, self.target or language)


@lru_cache(_FORMATS)
def _choose_format(usual: TextFormat, source: str, target: str) -> TextFormat:
    return replace(usual, spacing=compare(source, target))


def scan(job: ReadingJob, cache: TermCache | None = None) -> Iterator[Piece | int]:
    """The pieces of all texts, and the number of its characters after each text. Raises
    TooManySentences at the first sentence too many, and TermsUnavailable."""
    rows = 0
    for text, language in job.texts:
        runs = parse(text, job.tags)
        pieces = job.scan_one(runs, language, cache) if language else ()
        for piece in _join_kept(pieces):
            rows += isinstance(piece, Segment)
            if rows > job.max_rows:
                raise TooManySentences
            yield piece
        yield sum(len(run.text) for run in runs if not run.is_markup)


def _join_kept(pieces: Iterable[Piece]) -> Iterator[Piece]:
    for is_kept, group in groupby(pieces, lambda piece: isinstance(piece, str)):
        if is_kept:
            yield "".join(map(str, group))
        else:
            yield from group


def collect(job: ReadingJob, pieces: Iterable[Piece | int]) -> Iterator[Document]:
    """The documents that these pieces make up."""
    languages = (language for _, language in job.texts)
    own: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, int):
            yield Document(tuple(own), job.choose_format(next(languages)), piece)
            own = []
        else:
            own.append(piece)
