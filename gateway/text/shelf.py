"""Keeps the terms of the last dictionaries that were used: making them takes up to some
seconds, and they never change.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator

from gateway.glossaries.entries import Entry, read_stored
from gateway.glossaries.glossary import Choice
from gateway.text.terms import Terms

#: Bytes of entries whose terms are kept; the last are kept whatever their size. In memory
#: they take up to twenty times as much.
_MOST_BYTES = 16 << 20

_Key = tuple[str, tuple[str, ...], str, str]


class TermsUnavailable(Exception):
    """The database cannot be asked, or the dictionary was replaced a moment ago."""


class Shelf:
    """The terms of one process. `pause` is called now and then while terms are made."""

    def __init__(self, pause: Callable[[], None] = lambda: None) -> None:
        self._pause = pause
        self._kept: OrderedDict[_Key, tuple[Terms, int]] = OrderedDict()

    def has(self, choice: Choice, source: str, target: str) -> bool:
        """Whether `take` answers at once."""
        return _name(choice, source, target) in self._kept

    def take(self, choice: Choice, source: str, target: str) -> Terms | None:
        """The terms of the dictionaries from `source`, None if there are none. May block for
        seconds. Raises TermsUnavailable."""
        key = _name(choice, source, target)
        kept = self._kept.get(key)
        if kept is None:
            stored = list(_read(choice, source))
            if not stored:
                return None
            kept = (
                Terms(_list(stored), source, target, self._pause),
                sum(map(len, stored)),
            )
        self._kept[key] = kept
        self._kept.move_to_end(key)
        while len(self._kept) > 1 and self._weigh() > _MOST_BYTES:
            self._kept.popitem(last=False)
        return kept[0]

    def _weigh(self) -> int:
        return sum(size for _, size in self._kept.values())


def _name(choice: Choice, source: str, target: str) -> _Key:
    return choice.database, choice.by_source.get(source, ()), source, target


def _read(choice: Choice, source: str) -> Iterator[bytes]:
    from gateway.database.connections import StorageError
    from gateway.glossaries.storage import open_storage

    for dictionary_id in choice.by_source.get(source, ()):
        try:
            entries = open_storage(choice.database).read_entries(dictionary_id)
        except StorageError as error:
            raise TermsUnavailable from error
        if entries is None:
            raise TermsUnavailable
        yield entries


def _list(stored: list[bytes]) -> Iterator[Entry]:
    for entries in stored:
        yield from read_stored(entries)
