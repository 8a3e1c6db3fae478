"""Glossaries in the database. Every call may block for some seconds, and raises StorageError
if the database cannot be used. Each owner sees its own only.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Sequence
from functools import cache

from sqlalchemy import (
    ColumnElement,
    Connection,
    and_,
    delete,
    func,
    insert,
    select,
    update,
)

from gateway.database.connections import Database
from gateway.database.tables import DICTIONARIES, GLOSSARIES
from gateway.errors import (
    BodyTooLarge,
    TooManyGlossaries,
    UnknownGlossary,
)
from gateway.glossaries.entries import read_stored, write_tsv
from gateway.glossaries.glossary import Dictionary, Draft, Glossary, Limits


def make_id() -> str:
    """The id of a new glossary or dictionary."""
    return str(uuid.uuid4())


@cache
def open_storage(url: str) -> GlossaryStorage:
    """This process' connections to a database."""
    return GlossaryStorage(url)


class GlossaryStorage(Database):
    """The tables of glossaries."""

    def create(
        self, owner: str, name: str, drafts: Sequence[Draft], limits: Limits
    ) -> Glossary:
        """A new glossary. Raises TooManyGlossaries and BodyTooLarge."""
        row = {"id": make_id(), "owner": owner, "name": name}
        with self.begin() as connection:
            mine = select(func.count()).where(GLOSSARIES.c.owner == owner)
            if connection.execute(mine).scalar_one() >= limits.glossaries:
                raise TooManyGlossaries(limits.glossaries)
            values = row | {"created_at_ms": time.time_ns() // 10**6}
            connection.execute(insert(GLOSSARIES).values(values))
            for draft in drafts:
                _write(connection, row["id"], draft, limits)
            return _find(connection, owner, row["id"])

    def list_all(self, owner: str) -> list[Glossary]:
        """All glossaries of an owner, from the oldest on."""
        with self.look() as connection:
            return _list(connection, GLOSSARIES.c.owner == owner)

    def find(self, owner: str, wanted: str) -> list[Glossary]:
        """The glossaries of this id or name."""
        wanted = _clean(wanted)
        is_wanted = (GLOSSARIES.c.id == wanted) | (GLOSSARIES.c.name == wanted)
        with self.look() as connection:
            return _list(connection, and_(GLOSSARIES.c.owner == owner, is_wanted))

    def read_entries(self, dictionary_id: str) -> bytes | None:
        """The entries of a dictionary as TSV; None where it has been replaced or deleted."""
        query = select(DICTIONARIES.c.entries).where(DICTIONARIES.c.id == dictionary_id)
        with self.look() as connection:
            return connection.execute(query).scalar_one_or_none()

    def change(
        self,
        owner: str,
        glossary_id: str,
        *,
        name: str | None = None,
        drafts: Iterable[Draft] = (),
        is_merged: bool = False,
        limits: Limits,
    ) -> Glossary:
        """Renames a glossary, and replaces its dictionaries of the drafts' languages or, if
        `is_merged`, adds to them. Raises UnknownGlossary and BodyTooLarge."""
        with self.begin() as connection:
            glossary = _find(connection, owner, glossary_id)
            if name is not None:
                this = GLOSSARIES.c.id == glossary.id
                connection.execute(update(GLOSSARIES).where(this).values(name=name))
            for draft in drafts:
                old = glossary.find(draft.source, draft.target)
                if old and is_merged:
                    draft = _merge(connection, old, draft)
                if old:
                    _delete(connection, DICTIONARIES.c.id == old.id)
                _write(connection, glossary.id, draft, limits)
            return _find(connection, owner, glossary.id)

    def delete_dictionary(
        self, owner: str, glossary_id: str, pair: Sequence[str]
    ) -> None:
        """Raises UnknownGlossary."""
        with self.begin() as connection:
            found = _find(connection, owner, glossary_id).find(*pair)
            if found is None:
                raise UnknownGlossary(
                    f"This glossary has no dictionary from {pair[0]} to {pair[1]}."
                )
            _delete(connection, DICTIONARIES.c.id == found.id)

    def delete(self, owner: str, glossary_id: str) -> None:
        """Deletes a glossary with its dictionaries. Raises UnknownGlossary."""
        with self.begin() as connection:
            found = _find(connection, owner, glossary_id)
            _delete(connection, DICTIONARIES.c.glossary_id == found.id)
            connection.execute(delete(GLOSSARIES).where(GLOSSARIES.c.id == found.id))


def _clean(text: str) -> str:
    """PostgreSQL refuses a question with a null character."""
    return text.replace("\0", "\ufffd")


def _find(connection: Connection, owner: str, glossary_id: str) -> Glossary:
    is_id = GLOSSARIES.c.id == _clean(glossary_id)
    is_wanted = and_(GLOSSARIES.c.owner == owner, is_id)
    found = _list(connection, is_wanted)
    if not found:
        raise UnknownGlossary("There is no such glossary.")
    return found[0]


def _list(connection: Connection, is_wanted: ColumnElement[bool]) -> list[Glossary]:
    columns = DICTIONARIES.c
    pairs = (
        select(
            *(columns.glossary_id, columns.id, columns.source, columns.target),
            columns.entry_count,
        )
        .join(GLOSSARIES, GLOSSARIES.c.id == columns.glossary_id)
        .where(is_wanted)
        .order_by(columns.source, columns.target)
    )
    dictionaries: dict[str, list[Dictionary]] = {}
    for glossary_id, *row in connection.execute(pairs):
        dictionaries.setdefault(glossary_id, []).append(Dictionary(*row))
    query = select(GLOSSARIES).where(is_wanted)
    rows = connection.execute(
        query.order_by(GLOSSARIES.c.created_at_ms, GLOSSARIES.c.id)
    )
    return [
        Glossary(
            row.id, row.name, row.created_at_ms, tuple(dictionaries.get(row.id, ()))
        )
        for row in rows
    ]


def _write(
    connection: Connection, glossary_id: str, draft: Draft, limits: Limits
) -> None:
    """Adds a dictionary. All of a glossary's together have a limit."""
    size = func.coalesce(func.sum(func.length(DICTIONARIES.c.entries)), 0)
    query = select(size).where(DICTIONARIES.c.glossary_id == glossary_id)
    rest = limits.glossary_bytes - int(connection.execute(query).scalar_one())
    if len(draft.entries) > rest:
        raise BodyTooLarge(
            f"A glossary may have {limits.glossary_bytes} bytes of entries, all its "
            f"dictionaries together; these {len(draft.entries)} bytes are too many."
        )
    row = {"id": make_id(), "glossary_id": glossary_id}
    values = {
        "source": draft.source,
        "target": draft.target,
        "entry_count": draft.entry_count,
        "entries": draft.entries,
    }
    connection.execute(insert(DICTIONARIES).values(row | values))


def _merge(connection: Connection, old: Dictionary, draft: Draft) -> Draft:
    """What a dictionary has after its entries were changed by these."""
    query = select(DICTIONARIES.c.entries).where(DICTIONARIES.c.id == old.id)
    before = read_stored(connection.execute(query).scalar_one())
    entries = dict(before) | dict(read_stored(draft.entries))
    return Draft(old.source, old.target, write_tsv(entries.items()), len(entries))


def _delete(connection: Connection, is_wanted: ColumnElement[bool]) -> None:
    connection.execute(delete(DICTIONARIES).where(is_wanted))
