"""Keeps the terms of the last dictionaries that were used: making them takes up to some
seconds, and they never change.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from text.entries import read_stored
from text.terms import Terms

#: Bytes of entries whose terms are kept, beside those that a request needs. In memory they
#: take about five times as much.
_MOST_BYTES = 16 << 20

_Key = tuple[str, str]
ReadEntries = Callable[[str, str], bytes]


@dataclass(frozen=True)
class Choice:
    """The dictionaries for a request into one language: by the language of a text, the ids of
    those in `database` that apply. An entry of an earlier one wins."""

    database: str
    by_source: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class TermCache:
    """The terms of one process. `read_entries` returns the stored entries of a dictionary by
    its database and id, or raises TermsUnavailable. `pause` is called now and then while
    terms are made."""

    def __init__(
        self, read_entries: ReadEntries, pause: Callable[[], None] = lambda: None
    ) -> None:
        self._read_entries = read_entries
        self._pause = pause
        self._kept: OrderedDict[_Key, tuple[Terms, int]] = OrderedDict()

    def has(self, choice: Choice, source: str) -> bool:
        """Whether `take` answers at once."""
        return all(key in self._kept for key in _list_keys(choice, source))

    def take(self, choice: Choice, source: str, target: str) -> tuple[Terms, ...]:
        """The terms of the dictionaries from `source`. May block for seconds. Raises
        TermsUnavailable."""
        keys = _list_keys(choice, source)
        for key in keys:
            if key not in self._kept:
                stored = self._read_entries(*key)
                self._make_room(len(stored), keys)
                terms = Terms(read_stored(stored), source, target, self._pause)
                self._kept[key] = terms, len(stored)
            self._kept.move_to_end(key)
        return tuple(self._kept[key][0] for key in keys)

    def _make_room(self, size: int, needed: list[_Key]) -> None:
        """A request's own dictionaries have a limit of their own."""
        used = size + sum(size for _, size in list(self._kept.values()))
        for key in list(self._kept):
            if used > _MOST_BYTES and key not in needed:
                used -= self._kept.pop(key)[1]


def _list_keys(choice: Choice, source: str) -> list[_Key]:
    return [(choice.database, each) for each in choice.by_source.get(source, ())]
