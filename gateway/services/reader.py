"""`python -m gateway.services.reader` reads texts: jobs and answers are lines of JSON."""

import json
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from dataclasses import fields
from enum import Enum
from typing import Any

from gateway.glossaries.glossary import read_entries
from text.document import Piece, ReadingJob, Segment, scan
from text.errors import TermsUnavailable, TextError, TooManySentences
from text.options import Tags
from text.terms import Choice, TermCache

#: The usual length of an answer's part in characters. Parsing a part blocks the gateway.
_PART_CHARACTERS = 32 << 10
_PLACEHOLDER_CHARACTERS = 32
#: Below the gateway's own priority: reading a text must not delay other requests.
_NICENESS = 10

#: The errors that end a job, by their names in answers.
ERRORS: dict[str, type[TextError]] = {
    error.__name__: error for error in (TooManySentences, TermsUnavailable)
}


def main() -> None:
    """Answer jobs until the gateway closes the connection. A late job ends the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(_NICENESS)
    cache = TermCache(read_entries)
    for line in sys.stdin.buffer:
        content, limit_s = json.loads(line)
        signal.setitimer(signal.ITIMER_REAL, limit_s)
        for part in _answer_job(_read_job(content), cache):
            text = json.dumps(part, default=_write_piece, ensure_ascii=False)
            sys.stdout.buffer.write(text.encode() + b"\n")
        sys.stdout.buffer.flush()
        signal.setitimer(signal.ITIMER_REAL, 0)


def _read_job(content: dict[str, Any]) -> ReadingJob:
    """Parse a job without pydantic, which would use 14 MB in each reader."""
    tags, choice = content.pop("tags"), content.pop("dictionaries")
    if tags:
        lists = {name: tuple(tags[name]) for name in ("ignored", "splitting", "inline")}
        tags = Tags(**tags | lists)
    if choice:
        ids = {source: tuple(found) for source, found in choice["by_source"].items()}
        choice = Choice(choice["database"], ids)
    return ReadingJob(tags=tags, dictionaries=choice, **content)


def _write_piece(value: Any) -> Any:
    """Convert a piece, or the role of a placeholder, for JSON."""
    if isinstance(value, Enum):
        return value.value
    return {field.name: getattr(value, field.name) for field in fields(value)}


def _answer_job(job: ReadingJob, cache: TermCache) -> Iterator[list[Piece | int] | str]:
    items: list[Piece | int] = []
    characters = 0
    try:
        for piece in scan(job, cache):
            items.append(piece)
            characters += _measure(piece)
            if characters > _PART_CHARACTERS:
                yield items
                items, characters = [], 0
        yield items
    except tuple(ERRORS.values()) as error:
        yield type(error).__name__


def _measure(piece: Piece | int) -> int:
    if isinstance(piece, Segment):
        return len(piece.text) + _PLACEHOLDER_CHARACTERS * (1 + len(piece.placeholders))
    return len(piece) if isinstance(piece, str) else _PLACEHOLDER_CHARACTERS


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        pass  # the gateway has ended
    except Exception as error:  # its message may quote a text
        where = "".join(traceback.format_tb(error.__traceback__))
        sys.exit(f"a text could not be read: {type(error).__name__}\n{where}")
