"""Glossaries in the database. Every call may block for some seconds, and raises StorageError if
the database cannot be used. Owners see only their own glossaries.
"""

from __future__ import annotations

import math
import shutil
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import cache
from itertools import groupby
from pathlib import Path

from sqlalchemy import (
    ColumnElement,
    Connection,
    and_,
    delete,
    func,
    insert,
    select,
    text,
    true,
    update,
)

from gateway.database.connections import Database
from gateway.database.tables import DICTIONARIES, GLOSSARIES
from gateway.errors import (
    BodyTooLarge,
    DiskFull,
    GlossariesUnavailable,
    TooManyGlossaries,
    UnknownGlossary,
)
from gateway.glossaries.glossary import (
    NO_DICTIONARY,
    Dictionary,
    DictionaryDraft,
    Glossary,
    GlossaryContent,
)
from gateway.settings import Settings
from text.entries import read_stored, write_tsv

#: The most attempts to merge entries that other clients keep changing.
_TRIES = 5
_NO_ROOM = "The server has no room for more glossaries."


def make_id() -> str:
    """Return an id for a new glossary or dictionary."""
    return str(uuid.uuid4())


@cache
def open_storage(url: str) -> GlossaryStorage:
    """Return this process's connections to a database."""
    return GlossaryStorage(url)


class GlossaryStorage(Database):
    """The tables of glossaries."""

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """Open a transaction that alone may write, so that several at once stay within the
        limits and leave no dictionary of a deleted glossary."""
        with super().begin() as connection:
            if self.dialect == "postgresql":  # SQLite has only one
                connection.execute(text("LOCK TABLE glossaries IN EXCLUSIVE MODE"))
            yield connection

    def create(
        self, owner: str, content: GlossaryContent, limits: Settings
    ) -> Glossary:
        """Create a glossary. Raises TooManyGlossaries, BodyTooLarge and DiskFull."""
        with self.begin() as connection:
            mine = select(func.count()).where(GLOSSARIES.c.owner == owner)
            most = limits.max_glossaries
            if connection.execute(mine).scalar_one() >= most:
                said = f"At most {most} glossaries are allowed; delete one first."
                raise TooManyGlossaries(said, limit=most)
            made = Glossary(make_id(), content.name or "", time.time_ns() // 10**6, ())
            row = made.id, owner, made.name, made.created_at_ms
            connection.execute(insert(GLOSSARIES).values(row))
            self._put(connection, made, content.drafts, limits)
            return _find(connection, owner, made.id)

    def list_all(self, owner: str) -> list[Glossary]:
        """Return all glossaries of an owner, oldest first."""
        with self.look() as connection:
            return _list(connection, GLOSSARIES.c.owner == owner)

    def find(self, owner: str, wanted: str) -> Glossary:
        """Return the glossary with this id, or else the only one with this name. All methods
        find a glossary in this way. Raises UnknownGlossary."""
        with self.look() as connection:
            return _find(connection, owner, wanted)

    def read_pair(self, glossary: Glossary, pair: Sequence[str]) -> bytes:
        """Return a pair's entries as TSV. Raises UnknownGlossary."""
        found = glossary.find(*pair)
        entries = self.read_entries(found.id) if found else None
        if entries is None:
            raise UnknownGlossary(NO_DICTIONARY.format(*pair))
        return entries

    def read_entries(self, dictionary_id: str) -> bytes | None:
        """Return the entries of a dictionary as TSV; None if it was replaced or deleted."""
        with self.look() as connection:
            return _read_entries(connection, dictionary_id)

    def change(
        self,
        owner: str,
        wanted: str,
        content: GlossaryContent,
        limits: Settings,
        *,
        is_merged: bool = False,
    ) -> Glossary:
        """Rename a glossary, and replace its dictionaries of the drafts' languages or, if
        `is_merged`, add to them. Raises UnknownGlossary, BodyTooLarge, DiskFull, and
        GlossariesUnavailable if other clients keep changing it."""
        name, given = content.name, content.drafts
        for _ in range(_TRIES):
            # Merging is slow, so it does not lock the database.
            with self.look() as connection:
                before = _find(connection, owner, wanted)
                ready = _merge(connection, before, given) if is_merged else given
            with self.begin() as connection:
                glossary = _find(connection, owner, wanted)
                if is_merged and glossary.dictionaries != before.dictionaries:
                    continue
                if name is not None:
                    this = GLOSSARIES.c.id == glossary.id
                    connection.execute(update(GLOSSARIES).where(this).values(name=name))
                self._put(connection, glossary, ready, limits)
                return _find(connection, owner, glossary.id)
        raise GlossariesUnavailable("Others keep changing this glossary; try again.")

    def delete_dictionary(self, owner: str, wanted: str, pair: Sequence[str]) -> None:
        """Delete a dictionary. Raises UnknownGlossary."""
        with self.begin() as connection:
            found = _find(connection, owner, wanted).find(*pair)
            if found is None:
                raise UnknownGlossary(NO_DICTIONARY.format(*pair))
            _delete(connection, DICTIONARIES.c.id == found.id)

    def delete(self, owner: str, wanted: str) -> None:
        """Delete a glossary with its dictionaries. Raises UnknownGlossary."""
        with self.begin() as connection:
            found = _find(connection, owner, wanted)
            _delete(connection, DICTIONARIES.c.glossary_id == found.id)
            connection.execute(delete(GLOSSARIES).where(GLOSSARIES.c.id == found.id))

    def _put(
        self,
        connection: Connection,
        glossary: Glossary,
        drafts: Iterable[DictionaryDraft],
        limits: Settings,
    ) -> None:
        """Add or replace dictionaries, if the limits allow it."""
        for draft in drafts:
            old = glossary.find(draft.source, draft.target)
            if old:
                _delete(connection, DICTIONARIES.c.id == old.id)
            size = len(draft.entries)
            _check_room(connection, glossary.id, size, limits)
            if size > self._count_free() - limits.disk_reserve_bytes:
                raise DiskFull(_NO_ROOM)
            row = {"id": make_id(), "glossary_id": glossary.id}
            connection.execute(insert(DICTIONARIES).values(row | asdict(draft)))

    def _count_free(self) -> float:
        """Return the free bytes on the database's disk, or infinity if that is not local."""
        if self.dialect != "sqlite":
            return math.inf
        return shutil.disk_usage(Path(self._url.database or "").absolute().parent).free


def _check_room(
    connection: Connection, glossary_id: str, size: int, limits: Settings
) -> None:
    """Raise BodyTooLarge or DiskFull if entries of this size exceed a limit."""
    known = GLOSSARIES.c
    is_this = GLOSSARIES.c.id == glossary_id
    owner = select(known.owner).where(is_this).scalar_subquery()
    total = func.sum(func.length(DICTIONARIES.c.entries))
    counted = is_this, known.owner == owner, true()
    sums = select(*(total.filter(condition) for condition in counted))
    found = connection.execute(sums.where(known.id == DICTIONARIES.c.glossary_id)).one()
    own, of_owner, of_all = (int(each or 0) + size for each in found)
    for whose, used, most in (
        ("A glossary", own, limits.max_glossary_bytes),
        ("Your glossaries", of_owner, limits.glossaries_kept_bytes_of_one),
    ):
        if used > most:
            raise BodyTooLarge(
                f"{whose} may have {most} bytes of entries, all dictionaries together; "
                f"these {size} bytes are too many."
            )
    if of_all > limits.glossaries_kept_bytes:
        raise DiskFull(_NO_ROOM)


def _find(connection: Connection, owner: str, wanted: str) -> Glossary:
    wanted = wanted.replace("\0", "\ufffd")  # PostgreSQL rejects null characters
    is_wanted = (GLOSSARIES.c.id == wanted) | (GLOSSARIES.c.name == wanted)
    found = _list(connection, and_(GLOSSARIES.c.owner == owner, is_wanted))
    by_id = [glossary for glossary in found if glossary.id == wanted]
    if not found:
        raise UnknownGlossary(f"There is no glossary {wanted[:40]!r}.")
    if not by_id and len(found) > 1:
        raise UnknownGlossary(
            f"{len(found)} glossaries have the name {wanted[:40]!r}; use an id."
        )
    return (by_id or found)[0]


def _list(connection: Connection, is_wanted: ColumnElement[bool]) -> list[Glossary]:
    one, each = GLOSSARIES.c, DICTIONARIES.c
    columns = (
        one.id, one.name, one.created_at_ms,
        each.id, each.source, each.target, each.entry_count,
        func.length(each.entries),
    )  # fmt: skip
    query = (
        select(*columns)
        .outerjoin_from(GLOSSARIES, DICTIONARIES, each.glossary_id == one.id)
        .where(is_wanted)
        .order_by(one.created_at_ms, one.id, each.source, each.target)
    )
    rows = map(tuple, connection.execute(query))
    return [
        Glossary(
            id, name, at_ms, tuple(Dictionary(*row[3:]) for row in found if row[3])
        )
        for (id, name, at_ms), found in groupby(rows, lambda row: row[:3])
    ]


def _merge(
    connection: Connection, glossary: Glossary, drafts: Iterable[DictionaryDraft]
) -> list[DictionaryDraft]:
    """Merge the drafts into the stored entries."""
    merged: dict[tuple[str, str], DictionaryDraft] = {}
    for draft in drafts:
        pair = draft.source, draft.target
        old = glossary.find(*pair)
        known = merged.get(pair)
        entries = known.entries if known else b""
        if old and not known:
            # Entries that were just replaced are missing; then the merged ones are not used.
            entries = _read_entries(connection, old.id) or b""
        both = dict(read_stored(entries)) | dict(read_stored(draft.entries))
        merged[pair] = DictionaryDraft(*pair, write_tsv(both.items()), len(both))
    return list(merged.values())


def _read_entries(connection: Connection, dictionary_id: str) -> bytes | None:
    query = select(DICTIONARIES.c.entries).where(DICTIONARIES.c.id == dictionary_id)
    return connection.execute(query).scalar_one_or_none()


def _delete(connection: Connection, is_wanted: ColumnElement[bool]) -> None:
    connection.execute(delete(DICTIONARIES).where(is_wanted))
