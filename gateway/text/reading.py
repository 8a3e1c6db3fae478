"""Turns a request's texts into documents. As `python -m gateway.text.reading` it runs in its
own process, with jobs and answers as lines of JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from gateway.schemas import Splitting, Tags
from gateway.text.documents import (
    Document,
    Piece,
    Segment,
    find_format,
    scan_tagged,
    scan_text,
)
from gateway.text.placeholders import Placeholder, Role

#: The usual length of a line in characters. Parsing a line blocks the gateway.
_LINE_CHARACTERS = 32 << 10
_PLACEHOLDER_CHARACTERS = 32
#: Below the gateway's own priority: reading a text must not delay other requests.
_NICENESS = 10
#: The fields of `Tags` that JSON has as lists.
_NAMES = ("ignored", "splitting", "inline")
_ROLES = {role.value: role for role in Role}


@dataclass(frozen=True)
class ReadingJob:
    """Texts with their languages, and how to read them. Together they may have `max_rows`
    sentences."""

    texts: tuple[tuple[str, str], ...]
    tags: Tags | None
    is_protected: bool
    max_rows: int
    splitting: Splitting = "lines"

    def scan_one(self, text: str, language: str) -> Iterator[Piece]:
        """The pieces of one of the texts."""
        if self.tags is None:
            return scan_text(text, language, self.is_protected, self.splitting)
        return scan_tagged(
            text,
            language,
            self.is_protected,
            tags=self.tags,
            splitting=self.splitting,
        )


class TooManySentences(Exception):
    """The texts of a job have more sentences than they may."""


def scan(job: ReadingJob) -> Iterator[Piece | None]:
    """The pieces of all texts, and None after each text. Raises TooManySentences at the first
    sentence too many."""
    rows = 0
    for text, language in job.texts:
        for piece in _join_kept(job.scan_one(text, language)):
            rows += isinstance(piece, Segment)
            if rows > job.max_rows:
                raise TooManySentences
            yield piece
        yield None


def _join_kept(pieces: Iterable[Piece]) -> Iterator[Piece]:
    for is_kept, group in groupby(pieces, lambda piece: isinstance(piece, str)):
        if is_kept:
            yield "".join(map(str, group))
        else:
            yield from group


def collect(job: ReadingJob, pieces: Iterable[Piece | None]) -> Iterator[Document]:
    """The documents that these pieces make up."""
    format = find_format(job.tags, job.splitting)
    own: list[Piece] = []
    for piece in pieces:
        if piece is None:
            yield Document(tuple(own), format)
            own = []
        else:
            own.append(piece)


def write_job(job: ReadingJob, limit_s: float) -> bytes:
    """The line that gives a reader its job and `limit_s` seconds for it."""
    return _write_line(asdict(job) | {"limit_s": limit_s})


def read_pieces(line: bytes) -> list[Piece | None]:
    """The pieces in a line of a reader's answer. Raises TooManySentences."""
    content = json.loads(line)
    if content is None:
        raise TooManySentences
    return [_read_piece(item) if isinstance(item, list) else item for item in content]


def main() -> None:
    """Answers job after job until the gateway closes the connection. A job that takes too
    long ends the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(_NICENESS)
    for line in sys.stdin.buffer:
        content = json.loads(line)
        signal.setitimer(signal.ITIMER_REAL, content.pop("limit_s"))
        for answer in _answer(_read_job(content)):
            sys.stdout.buffer.write(answer)
        sys.stdout.buffer.flush()
        signal.setitimer(signal.ITIMER_REAL, 0)


def _read_job(content: dict[str, Any]) -> ReadingJob:
    tags = content.pop("tags")
    if tags is not None:
        tags = Tags(**tags | {name: tuple(tags[name]) for name in _NAMES})
    texts = tuple(map(tuple, content.pop("texts")))
    return ReadingJob(texts, tags, **content)


def _answer(job: ReadingJob) -> Iterator[bytes]:
    items: list[Any] = []
    characters = 0
    try:
        for piece in scan(job):
            items.append(_write_piece(piece) if isinstance(piece, Segment) else piece)
            characters += _measure(piece)
            if characters > _LINE_CHARACTERS:
                yield _write_line(items)
                items, characters = [], 0
        yield _write_line(items)
    except TooManySentences:
        yield _write_line(None)


def _measure(piece: Piece | None) -> int:
    if isinstance(piece, Segment):
        return len(piece.text) + _PLACEHOLDER_CHARACTERS * (1 + len(piece.placeholders))
    return len(piece or "")


def _write_line(content: Any) -> bytes:
    return json.dumps(content, ensure_ascii=False).encode() + b"\n"


def _write_piece(segment: Segment) -> list[Any]:
    placeholders = [
        (p.start, p.end, p.shown, p.role.value) for p in segment.placeholders
    ]
    return [segment.text, segment.start, placeholders, segment.is_torn]


def _read_piece(item: list[Any]) -> Segment:
    text, start, placeholders, is_torn = item
    found = (
        Placeholder(start, end, shown, _ROLES[role])
        for start, end, shown, role in placeholders
    )
    return Segment(text, start, tuple(found), is_torn)


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        pass  # the gateway has gone
    except Exception as error:  # its message may quote a text
        where = "".join(traceback.format_tb(error.__traceback__))
        sys.exit(f"a text could not be read: {type(error).__name__}\n{where}")
