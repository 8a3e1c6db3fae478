"""The tables of keys and usage in the database. Every call may block for some seconds, and
raises StorageError if the database cannot be used.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from sqlalchemy import Row, Select, func, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError

from gateway.access.keys import ApiKey, Grant, hash_token, make_token
from gateway.access.usage import Counts, find_month
from gateway.database.connections import Database, StorageError
from gateway.database.tables import KEYS, USAGE


@dataclass(frozen=True)
class Seen:
    """The state of the database. A different `version` means that keys have changed."""

    version: tuple[int, int]
    #: The keys that are not revoked, by id; None if no key has changed.
    keys: Mapping[str, ApiKey] | None
    #: The counts of other ledgers this month.
    elsewhere: Counts


class KeyStorage(Database):
    """The tables of keys and usage."""

    def add(self, name: str, grant: Grant) -> str:
        """Make a key and return its token, which cannot be recovered later. Also raises
        StorageError if the name is in use."""
        token, key_id = make_token()
        row = {"id": key_id, "name": name, "digest": hash_token(token), **asdict(grant)}
        with self.begin() as connection:
            try:
                connection.execute(
                    KEYS.insert(), row | {"created_at": int(time.time())}
                )
            except IntegrityError as error:
                raise StorageError(
                    f"A key named {name!r} already exists; revoke it first."
                ) from error
        return token

    def revoke(self, wanted: str) -> ApiKey:
        """Revoke the key with this id, else this name. Also raises StorageError without one."""
        is_id = KEYS.c.id == wanted
        is_active = KEYS.c.revoked_at.is_(None)
        found = select(KEYS.c.id).where(is_active, is_id | (KEYS.c.name == wanted))
        first = found.order_by(is_id.desc()).limit(1).scalar_subquery()
        change = (
            update(KEYS)
            .where(is_active, KEYS.c.id == first)
            .values(revoked_at=int(time.time()))
            .returning(*KEYS.c)
        )
        with self.begin() as connection:
            gone = connection.execute(change).first() if wanted.isprintable() else None
        if gone is None:
            raise StorageError(f"There is no active key {wanted!r}.")
        return _read_key(gone)

    def list_all(self) -> dict[ApiKey, int]:
        """Return all keys, even revoked ones, oldest first, with this month's characters."""
        query = select(KEYS).order_by(KEYS.c.created_at, KEYS.c.name)
        with self.look() as connection:
            used = _collect(connection.execute(_sum_usage(find_month(time.time()))))
            keys = map(_read_key, connection.execute(query).all())
        return {key: used.get(key.id, 0) for key in keys}

    def sync(self, counts: Counts, ledger: str, known: tuple[int, int] | None) -> Seen:
        """Save the counts of a ledger. Return changed keys and the counts of other ledgers."""
        month = find_month(time.time())
        # Hundreds of processes without counts to save do not wait for each other.
        with self.begin() if counts else self.look() as connection:
            if counts:
                rows = [
                    {"key_id": k, "month": m, "ledger": ledger, "characters": n}
                    for (k, m), n in counts.items()
                ]
                connection.execute(self._write_usage(), rows)
            total, revoked = connection.execute(
                select(func.count(), func.count(KEYS.c.revoked_at)).select_from(KEYS)
            ).one()
            version = (total, revoked)
            keys = None
            if version != known:
                valid = select(KEYS).where(KEYS.c.revoked_at.is_(None))
                found = map(_read_key, connection.execute(valid))
                keys = {key.id: key for key in found}
            others = _sum_usage(month).where(USAGE.c.ledger != ledger)
            elsewhere = _collect(connection.execute(others))
        return Seen(version, keys, {(k, month): n for k, n in elsewhere.items()})

    def _write_usage(self) -> Any:
        """Make an upsert that never overwrites a later count of another process."""
        dialect = sqlite if self.dialect == "sqlite" else postgresql
        row = dialect.insert(USAGE)
        return row.on_conflict_do_update(
            index_elements=list(USAGE.primary_key),
            set_={"characters": row.excluded.characters},
            where=USAGE.c.characters < row.excluded.characters,
        )


def _sum_usage(month: int) -> Select[Any]:
    return (
        select(USAGE.c.key_id, func.sum(USAGE.c.characters).label("characters"))
        .where(USAGE.c.month == month)
        .group_by(USAGE.c.key_id)
    )


def _collect(sums: Iterable[Row[Any]]) -> dict[str, int]:
    """Return the characters by key. PostgreSQL returns sums of integers as decimals."""
    return {row.key_id: int(row.characters) for row in sums}


def _read_key(row: Row[Any]) -> ApiKey:
    rights = {each.name: row._mapping[each.name] for each in fields(Grant)}
    grant = Grant(**rights | {"routes": tuple(row.routes)})
    return ApiKey(row.id, row.name, row.digest, grant, row.created_at, row.revoked_at)
