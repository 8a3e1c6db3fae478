"""The database of keys and usage: SQLite or PostgreSQL, by its URL. Every call may block for
some seconds, and raises StorageError if the database cannot be used.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    Row,
    Select,
    create_engine,
    event,
    func,
    select,
    text,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, IntegrityError, SQLAlchemyError

from gateway.access.keys import Grant, Key, hash_token, make_token
from gateway.access.tables import KEYS, USAGE
from gateway.access.usage import Count, find_month
from gateway.settings import name_variable
from gateway.sharing import Lock

_MIGRATIONS = Path(__file__).parent / "migrations"
#: Seconds for a connection, a statement, a lock.
_LIMIT_S = 3
#: PostgreSQL's number for the lock under which tables are made; any that nobody else has.
_LOCK_NUMBER = 7777
_VARIABLE = name_variable("database_url")
_EXPECTED = "expected sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DATABASE"


class StorageError(Exception):
    """The database cannot be used; the message says why, without its password."""


@dataclass(frozen=True)
class Listed:
    """A key, and the characters that it has used this month."""

    key: Key
    characters: int


@dataclass(frozen=True)
class Seen:
    """What the database says. Another `version` means that keys have changed."""

    version: tuple[int, int]
    #: The keys that are not revoked, by id; None where none has changed.
    keys: Mapping[str, Key] | None
    #: What other ledgers have counted this month, by key and month.
    elsewhere: Mapping[tuple[str, int], int]


class Storage:
    """A database."""

    def __init__(self, url: str) -> None:
        """Raises StorageError if the URL is none of ours."""
        self._url = read_url(url)
        self._engine = _make_engine(self._url)
        self._is_migrated = False

    def add(self, name: str, grant: Grant) -> str:
        """Makes a key and returns its token, which nobody can find out later. Raises
        StorageError also if the name is taken."""
        token, key_id = make_token()
        row = {"id": key_id, "name": name, "digest": hash_token(token), **asdict(grant)}
        with self._begin() as connection:
            try:
                connection.execute(
                    KEYS.insert(), row | {"created_at": int(time.time())}
                )
            except IntegrityError as error:
                raise StorageError(
                    f"There is a key {name!r} already; revoke it first."
                ) from error
        return token

    def revoke(self, wanted: str) -> Key:
        """Revokes the key of this name or id. Raises StorageError also if there is none."""
        is_wanted = (KEYS.c.name == wanted) | (KEYS.c.id == wanted)
        change = (
            update(KEYS)
            .where(is_wanted, KEYS.c.revoked_at.is_(None))
            .values(revoked_at=int(time.time()))
            .returning(*KEYS.c)
        )
        with self._begin() as connection:
            found = connection.execute(change).first()
        if found is None:
            raise StorageError(f"There is no key {wanted!r} that is not revoked.")
        return _read_key(found)

    def list_all(self) -> list[Listed]:
        """All keys, the revoked ones too, from the oldest on."""
        month = find_month(time.time())
        used = _collect(self._read(_sum_usage(month)))
        rows = self._read(select(KEYS).order_by(KEYS.c.created_at, KEYS.c.name))
        return [Listed(key, used.get(key.id, 0)) for key in map(_read_key, rows)]

    def sync(
        self, counts: Sequence[Count], ledger: str, known: tuple[int, int] | None
    ) -> Seen:
        """Saves what a ledger has counted, and returns what it cannot know."""
        month = find_month(time.time())
        with self._begin() as connection:
            if counts:
                rows = [asdict(count) | {"ledger": ledger} for count in counts]
                connection.execute(self._write_usage(), rows)
            total, revoked = connection.execute(
                select(func.count(), func.count(KEYS.c.revoked_at)).select_from(KEYS)
            ).one()
            version, keys = (total, revoked), None
            if version != known:
                valid = select(KEYS).where(KEYS.c.revoked_at.is_(None))
                found = map(_read_key, connection.execute(valid))
                keys = {key.id: key for key in found}
            others = _sum_usage(month).where(USAGE.c.ledger != ledger)
            elsewhere = _collect(connection.execute(others))
        return Seen(version, keys, {(k, month): n for k, n in elsewhere.items()})

    def close(self) -> None:
        """Closes all connections."""
        self._engine.dispose()

    def _write_usage(self) -> Any:
        """What another process has written later is not overwritten."""
        dialect = sqlite if self._engine.dialect.name == "sqlite" else postgresql
        row = dialect.insert(USAGE)
        return row.on_conflict_do_update(
            index_elements=list(USAGE.primary_key),
            set_={"characters": row.excluded.characters},
            where=USAGE.c.characters < row.excluded.characters,
        )

    def _read(self, query: Select[Any]) -> Sequence[Row[Any]]:
        with self._begin() as connection:
            return connection.execute(query).all()

    @contextmanager
    def _begin(self) -> Iterator[Connection]:
        """A transaction, in a database that has our tables."""
        with self._explained():
            if not self._is_migrated:
                _migrate(self._engine)
                self._is_migrated = True
            with self._engine.begin() as connection:
                yield connection

    @contextmanager
    def _explained(self) -> Iterator[None]:
        place = self._url.render_as_string(hide_password=True)
        try:
            yield
        except SQLAlchemyError as error:
            reason = str(getattr(error, "orig", None) or error).strip()
            raise StorageError(f"{place} cannot be used: {reason}") from error
        except OSError as error:  # of its folder, or of the lock
            reason = error.strerror or str(error)
            raise StorageError(f"{place} cannot be used: {reason}") from error


def read_url(given: str) -> URL:
    """The URL of a database that we know, with its driver. Raises StorageError."""
    try:
        url = make_url(given)
    except ArgumentError as error:
        raise StorageError(f"{_VARIABLE}: no URL; {_EXPECTED}") from error
    match url.get_backend_name():
        case "sqlite" if url.database:
            return url.set(drivername="sqlite")
        case "postgresql" | "postgres" if url.database:
            return url.set(drivername="postgresql+psycopg")
    place = url.render_as_string(hide_password=True)
    raise StorageError(f"{_VARIABLE}: {_EXPECTED}, found {place}")


def _make_engine(url: URL) -> Engine:
    if url.drivername == "sqlite":
        engine = create_engine(url, connect_args={"timeout": _LIMIT_S})
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine
    limits = "statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"
    arguments = {
        "connect_timeout": _LIMIT_S,
        "tcp_user_timeout": _LIMIT_S * 1000,
        "options": " ".join(f"-c {name}={_LIMIT_S}s" for name in limits),
    }
    return create_engine(url, connect_args=arguments)


def _prepare_sqlite(connection: Any, _: object) -> None:
    """Readers do not wait for writers, and `_begin_sqlite` alone begins transactions."""
    connection.isolation_level = None
    connection.execute("PRAGMA journal_mode=WAL").close()


def _begin_sqlite(connection: Connection) -> None:
    """What begins by reading could not write after another process did. By itself, Python
    would begin no transaction for tables."""
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _migrate(engine: Engine) -> None:
    """Brings the tables to this version. Only one process at a time does so."""
    from alembic import command
    from alembic.config import Config
    from alembic.migration import MigrationContext
    from alembic.script import ScriptDirectory
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    newest = ScriptDirectory.from_config(config).get_current_head()
    with _lock(engine) as connection:
        if MigrationContext.configure(connection).get_current_revision() == newest:
            return
        config.attributes["connection"] = connection
        try:
            command.upgrade(config, "head")
        except CommandError as error:
            raise StorageError(
                "The database is of a newer version of Babelgate: use that one."
            ) from error
        connection.commit()


@contextmanager
def _lock(engine: Engine) -> Iterator[Connection]:
    """A connection whose owner alone changes the tables."""
    if engine.dialect.name == "postgresql":
        with engine.connect() as connection:
            number = {"number": _LOCK_NUMBER}
            connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), number)
            yield connection
        return
    path = Path(engine.url.database or "")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (
        closing(Lock(path.with_name(path.name + ".lock"))) as lock,
        lock.hold(_LIMIT_S),
        engine.connect() as connection,
    ):
        yield connection


def _sum_usage(month: int) -> Select[Any]:
    """Each key's characters in a month."""
    return (
        select(USAGE.c.key_id, func.sum(USAGE.c.characters).label("characters"))
        .where(USAGE.c.month == month)
        .group_by(USAGE.c.key_id)
    )


def _collect(sums: Iterable[Row[Any]]) -> dict[str, int]:
    """Characters by key; PostgreSQL adds integers up to decimals."""
    return {row.key_id: int(row.characters) for row in sums}


def _read_key(row: Row[Any]) -> Key:
    return Key(
        row.id,
        row.name,
        row.digest,
        Grant(row.characters_per_month, row.requests_per_minute, tuple(row.routes)),
        row.created_at,
        row.revoked_at,
    )
