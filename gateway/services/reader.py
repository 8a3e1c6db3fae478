"""Reads texts in a process of its own, `python -m gateway.services.reader`, with jobs and
answers as lines of JSON.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Iterator

from pydantic import TypeAdapter

from gateway.glossaries.glossary import read_entries
from text.document import Piece, ReadingJob, Segment, scan
from text.errors import TermsUnavailable, TextError, TooManySentences
from text.terms import TermCache

#: The usual length of a part in characters. Parsing a part blocks the gateway.
_PART_CHARACTERS = 32 << 10
_PLACEHOLDER_CHARACTERS = 32
#: Below the gateway's own priority: reading a text must not delay other requests.
_NICENESS = 10

#: A job, and the seconds that it may take.
JOBS: TypeAdapter[tuple[ReadingJob, float]] = TypeAdapter(tuple[ReadingJob, float])
#: A part of the answer to a job, or the name of the error that ended it.
PARTS: TypeAdapter[list[Piece | int] | str] = TypeAdapter(list[Piece | int] | str)
ERRORS: dict[str, type[TextError]] = {
    error.__name__: error for error in (TooManySentences, TermsUnavailable)
}


def main() -> None:
    """Answers job after job until the gateway closes the connection. A job that takes too
    long ends the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(_NICENESS)
    cache = TermCache(read_entries)
    for line in sys.stdin.buffer:
        job, limit_s = JOBS.validate_json(line)
        signal.setitimer(signal.ITIMER_REAL, limit_s)
        for part in _answer(job, cache):
            sys.stdout.buffer.write(PARTS.dump_json(part) + b"\n")
        sys.stdout.buffer.flush()
        signal.setitimer(signal.ITIMER_REAL, 0)


def _answer(job: ReadingJob, cache: TermCache) -> Iterator[list[Piece | int] | str]:
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
        pass  # the gateway has gone
    except Exception as error:  # its message may quote a text
        where = "".join(traceback.format_tb(error.__traceback__))
        sys.exit(f"a text could not be read: {type(error).__name__}\n{where}")
