"""Turns a request's texts into documents. As `python -m gateway.text.reading` it runs in its
own process, with jobs and answers as lines of JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from itertools import groupby
from typing import Any

from gateway.glossaries.glossary import Choice
from gateway.schemas import Splitting, Tags
from gateway.text.documents import (
    Document,
    Format,
    Piece,
    Segment,
    find_format,
    parse,
    scan_tagged,
    scan_text,
)
from gateway.text.markup import Run
from gateway.text.placeholders import Placeholder, Role
from gateway.text.shelf import Shelf, TermsUnavailable
from gateway.text.spacing import Separator, compare
from gateway.text.terms import Terms

#: The usual length of a line in characters. Parsing a line blocks the gateway.
_LINE_CHARACTERS = 32 << 10
_PLACEHOLDER_CHARACTERS = 32
#: Below the gateway's own priority: reading a text must not delay other requests.
_NICENESS = 10
_SEPARATOR_FIELDS = 3
#: As many as a stack may be asked for in turn.
_FORMATS = 1024
#: The fields of `Tags` that JSON has as lists.
_NAMES = ("ignored", "splitting", "inline")
_ROLES = {role.value: role for role in Role}


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

    def find_terms(self, language: str, shelf: Shelf) -> Sequence[Terms]:
        """The terms of the dictionaries from `language`. Raises TermsUnavailable."""
        if self.dictionaries is None or self.target is None:
            return ()
        return shelf.take(self.dictionaries, language, self.target)

    def scan_one(
        self, runs: Sequence[Run], language: str, shelf: Shelf
    ) -> Iterator[Piece]:
        """The pieces of the runs of one of the texts."""
        terms = self.find_terms(language, shelf)
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

    def choose_format(self, language: str) -> Format:
        """The format of a text in `language`."""
        usual = find_format(self.tags, self.splitting)
        return _choose_format(usual, language, self.target or language)


@lru_cache(_FORMATS)
def _choose_format(usual: Format, source: str, target: str) -> Format:
    return replace(usual, spacing=compare(source, target))


class TooManySentences(Exception):
    """The texts of a job have more sentences than they may."""


def scan(job: ReadingJob, shelf: Shelf) -> Iterator[Piece | int]:
    """The pieces of all texts, and the number of its characters after each text. Raises
    TooManySentences at the first sentence too many, and TermsUnavailable."""
    rows = 0
    for text, language in job.texts:
        runs = parse(text, job.tags)
        pieces = job.scan_one(runs, language, shelf) if language else ()
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


def write_job(job: ReadingJob, limit_s: float) -> bytes:
    """The line that gives a reader its job and `limit_s` seconds for it."""
    return _write_line(asdict(job) | {"limit_s": limit_s})


def read_pieces(line: bytes) -> list[Piece | int]:
    """The pieces in a line of a reader's answer. Raises TooManySentences and
    TermsUnavailable."""
    content = json.loads(line)
    if content is None:
        raise TooManySentences
    if content is False:
        raise TermsUnavailable
    return [_read_piece(item) if isinstance(item, list) else item for item in content]


def main() -> None:
    """Answers job after job until the gateway closes the connection. A job that takes too
    long ends the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(_NICENESS)
    shelf = Shelf()
    for line in sys.stdin.buffer:
        content = json.loads(line)
        signal.setitimer(signal.ITIMER_REAL, content.pop("limit_s"))
        for answer in _answer(_read_job(content), shelf):
            sys.stdout.buffer.write(answer)
        sys.stdout.buffer.flush()
        signal.setitimer(signal.ITIMER_REAL, 0)


def _read_job(content: dict[str, Any]) -> ReadingJob:
    tags = content.pop("tags")
    if tags is not None:
        tags = Tags(**tags | {name: tuple(tags[name]) for name in _NAMES})
    texts = tuple(map(tuple, content.pop("texts")))
    choice = content["dictionaries"]
    if choice is not None:
        ids = {source: tuple(found) for source, found in choice["by_source"].items()}
        content["dictionaries"] = Choice(choice["database"], ids)
    return ReadingJob(texts, tags, **content)


def _answer(job: ReadingJob, shelf: Shelf) -> Iterator[bytes]:
    items: list[Any] = []
    characters = 0
    try:
        for piece in scan(job, shelf):
            items.append(piece if isinstance(piece, str | int) else _write_piece(piece))
            characters += _measure(piece)
            if characters > _LINE_CHARACTERS:
                yield _write_line(items)
                items, characters = [], 0
        yield _write_line(items)
    except TooManySentences:
        yield _write_line(None)
    except TermsUnavailable:
        yield _write_line(False)


def _measure(piece: Piece | int) -> int:
    if isinstance(piece, Segment):
        return len(piece.text) + _PLACEHOLDER_CHARACTERS * (1 + len(piece.placeholders))
    return len(piece) if isinstance(piece, str) else _PLACEHOLDER_CHARACTERS


def _write_line(content: Any) -> bytes:
    return json.dumps(content, ensure_ascii=False).encode() + b"\n"


def _write_piece(piece: Segment | Separator) -> list[Any]:
    if isinstance(piece, Separator):
        return [piece.text, piece.before, piece.after]
    placeholders = [(p.start, p.end, p.shown, p.role.value) for p in piece.placeholders]
    flags = [piece.is_torn, piece.is_in_capitals]
    return [piece.text, piece.start, placeholders, *flags]


def _read_piece(item: list[Any]) -> Segment | Separator:
    if len(item) == _SEPARATOR_FIELDS:
        return Separator(*item)
    text, start, placeholders, *flags = item
    found = (
        Placeholder(start, end, shown, _ROLES[role])
        for start, end, shown, role in placeholders
    )
    return Segment(text, start, tuple(found), *flags)


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        pass  # the gateway has gone
    except Exception as error:  # its message may quote a text
        where = "".join(traceback.format_tb(error.__traceback__))
        sys.exit(f"a text could not be read: {type(error).__name__}\n{where}")
