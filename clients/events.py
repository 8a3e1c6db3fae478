"""The events of a run: the answer to each request, and the end of a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Event:
    """Something that a journal keeps."""

    #: The file's place among the files of the run.
    source: int

    @property
    def size(self) -> int:
        """The number of frames, texts or documents that are done with it."""
        return 0


@dataclass(frozen=True)
class Tick(Event):
    """Only moves the bar: no journal keeps it."""


@dataclass(frozen=True)
class AnswerEvent(Event):
    """The answer to one request."""


@dataclass(frozen=True)
class End(Event):
    """The end of a file, or the place where it is broken."""

    error: str | None = None


@dataclass(frozen=True)
class Done:
    """The work of an earlier run."""

    #: Frames or texts by file.
    answered: Mapping[int, int] = field(default_factory=dict)
    ended: frozenset[int] = frozenset()


#: Told of each answer and end, with the share of all files' bytes that is done.
Report = Callable[[Event, float], None]
