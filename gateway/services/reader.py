"""Reads texts in a process of its own, `python -m gateway.services.reader`, with jobs and
answers as lines of JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from gateway.glossaries.terms import read_entries
from text.document import Piece, ReadingJob, Segment, scan
from text.errors import TermsUnavailable, TooManySentences
from text.options import Tags
from text.placeholders import Placeholder, Role
from text.spacing import Separator
from text.terms import Choice, TermCache

#: The usual length of a line in characters. Parsing a line blocks the gateway.
_LINE_CHARACTERS = 32 << 10
_PLACEHOLDER_CHARACTERS = 32
#: Below the gateway's own priority: reading a text must not delay other requests.
_NICENESS = 10
_SEPARATOR_FIELDS = 3
#: The fields of `Tags` that JSON has as lists.
_NAMES = ("ignored", "splitting", "inline")
_ROLES = {role.value: role for role in Role}


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
    cache = TermCache(read_entries)
    for line in sys.stdin.buffer:
        content = json.loads(line)
        signal.setitimer(signal.ITIMER_REAL, content.pop("limit_s"))
        for answer in _answer(_read_job(content), cache):
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


def _answer(job: ReadingJob, cache: TermCache) -> Iterator[bytes]:
    items: list[Any] = []
    characters = 0
    try:
        for piece in scan(job, cache):
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
