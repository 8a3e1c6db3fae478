"""Finds the text that ends its worker: keeps what was begun and never ended, and divides
that until the text at fault is alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeVar

from ray_backend.bulk.storage import Journal

#: How often a range may be begun in vain before it is divided, and an item alone before it is
#: given up. Workers also end by chance, with their machine or their run.
_MOST_DEATHS, _MOST_DEATHS_ALONE = 2, 5

Answer = TypeVar("Answer")
Span = tuple[int, int]


class Ledger:
    """The attempts at a list of items, of this process and of those that ended in them."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        #: By range: how often it was begun, without those that ended well.
        self._open: Counter[Span] = Counter()
        for line in journal.read():
            self._count(line.decode("ascii").split())

    def run(
        self, count: int, work: Callable[[int, int], Sequence[Answer]]
    ) -> list[Answer | None]:
        """The answers of `work(start, stop)` to all items, None for an item at which its
        process has ended each time."""
        answers = self._run((0, count), work) if count else []
        self._journal.remove()
        return answers

    def _run(
        self, span: Span, work: Callable[[int, int], Sequence[Answer]]
    ) -> list[Answer | None]:
        start, stop = span
        is_alone = stop - start == 1
        if self._open[span] < (_MOST_DEATHS_ALONE if is_alone else _MOST_DEATHS):
            self._note("begin", span)
            answers = list(work(start, stop))
            self._note("end", span)
            return [*answers]
        if is_alone:
            return [None]
        middle = (start + stop) // 2
        return [*self._run((start, middle), work), *self._run((middle, stop), work)]

    def _note(self, event: str, span: Span) -> None:
        """What a process has written stays when it is killed."""
        self._journal.append(f"{event} {span[0]} {span[1]}".encode("ascii"))

    def _count(self, words: Sequence[str]) -> None:
        match words:
            case ["begin", start, stop]:
                self._open[int(start), int(stop)] += 1
            case ["end", start, stop]:
                self._open[int(start), int(stop)] -= 1
