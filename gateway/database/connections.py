"""Connections to the database: SQLite or PostgreSQL, by its URL. Every use may block for some
seconds, and raises StorageError if the database cannot be used.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, OperationalError, SQLAlchemyError

from contract import durable
from gateway.settings import name_variable
from gateway.shared_memory import Lock

_MIGRATIONS = Path(__file__).parent / "migrations"
#: The timeout of a connection, a statement and a lock, in seconds.
_LIMIT_S = 3
#: The PostgreSQL lock for changing tables: any number that no other program uses.
_LOCK_NUMBER = 7777
_VARIABLE = name_variable("database_url")
_EXPECTED = "expected sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DATABASE"


class StorageError(Exception):
    """The database cannot be used. The message contains the reason, but no password."""


class Database:
    """A database with our tables, which are created or migrated before the first use."""

    def __init__(self, url: str) -> None:
        """Prepare the connections. Raises StorageError for an unsupported URL."""
        self._url = read_url(url)
        self._engine = _make_engine(self._url)
        self._reading = self._engine.execution_options(is_reading=True)
        self._is_migrated = False

    @property
    def dialect(self) -> str:
        """`sqlite` or `postgresql`."""
        return self._engine.dialect.name

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """Open a transaction that may write."""
        with self._connect(self._engine) as connection:
            yield connection
            durable.commit(connection)

    def look(self) -> AbstractContextManager[Connection]:
        """Open a transaction that only reads, which in SQLite never waits."""
        return self._connect(self._reading)

    @contextmanager
    def _connect(self, engine: Engine) -> Iterator[Connection]:
        place = self._url.render_as_string(hide_password=True)
        try:
            if not self._is_migrated:
                _migrate(self._engine)
                self._is_migrated = True
            with engine.connect() as connection:
                yield connection
        except SQLAlchemyError as error:
            reason = str(getattr(error, "orig", None) or error).strip()
            raise StorageError(f"{place} cannot be used: {reason}") from error
        except OSError as error:  # from its folder or the lock
            reason = error.strerror or str(error)
            raise StorageError(f"{place} cannot be used: {reason}") from error


def read_url(given: str) -> URL:
    """Return the URL of a supported database, with its driver. Raises StorageError."""
    try:
        url = make_url(given)
    except (ArgumentError, ValueError) as error:  # the latter for a port
        raise StorageError(f"{_VARIABLE}: not a URL; {_EXPECTED}") from error
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
    options = " ".join(f"-c {name}={_LIMIT_S}s" for name in limits)
    options += f" {url.query.get('options', '')}"
    # A restart of the server ends idle connections; a ping opens another one.
    engine = create_engine(url, connect_args={"options": options}, pool_pre_ping=True)
    _limit_waits(engine, _LIMIT_S + 1)  # a hanging server ignores its options
    return engine


def _limit_waits(target: Engine, limit_s: int) -> None:
    """Close a connection to PostgreSQL that gets no answer for `limit_s` seconds because the
    server hangs or its host is down."""
    import psycopg

    class LimitedConnection(psycopg.Connection[Any]):
        def wait(
            self, gen: Any, interval: float = 0.1, timeout: float | None = None
        ) -> Any:
            try:
                return super().wait(gen, interval, timeout or limit_s)
            except psycopg.errors._WaitTimeout as error:
                self.pgconn.finish()  # a late answer could be mistaken for the next one
                raise psycopg.OperationalError(f"no answer for {limit_s} s") from error

    def connect(_: object, __: object, given: list[Any], named: Any) -> Any:
        limits = {
            "connect_timeout": limit_s,
            "tcp_user_timeout": 1000 * limit_s,
            "keepalives_idle": 3,
            "keepalives_interval": 1,
            "keepalives_count": 3,
        }
        return LimitedConnection.connect(*given, **(limits | named))

    event.listen(target, "do_connect", connect)


def _prepare_sqlite(connection: Any, _: object) -> None:
    """Stop readers from waiting for writers, and leave transactions to `_begin_sqlite`."""
    connection.isolation_level = None
    connection.execute("PRAGMA journal_mode=WAL").close()


def _begin_sqlite(connection: Connection) -> None:
    """Begin with a lock: a transaction that begins by reading cannot write once another process
    has. Python itself would begin no transaction before changes to tables."""
    is_reading = connection.get_execution_options().get("is_reading")
    connection.exec_driver_sql("BEGIN" if is_reading else "BEGIN IMMEDIATE")


def _migrate(engine: Engine) -> None:
    """Migrate the tables to this version, if needed, in one process at a time. If they are up
    to date, hundreds of processes that start together do not wait for each other."""
    from alembic import command
    from alembic.config import Config
    from alembic.migration import MigrationContext
    from alembic.script import ScriptDirectory
    from alembic.util import CommandError

    config = Config()
    # Alembic expands percent signs.
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    newest = ScriptDirectory.from_config(config).get_current_head()

    def is_newest(connection: Connection) -> bool:
        return MigrationContext.configure(connection).get_current_revision() == newest

    # An SQLite file that does not exist yet, or is being created, cannot be read.
    errors = [OperationalError] if engine.dialect.name == "sqlite" else []
    reading = engine.execution_options(is_reading=True)
    with suppress(*errors), reading.connect() as connection:
        if is_newest(connection):
            return
    with _lock(engine) as connection:
        if is_newest(connection):
            return
        config.attributes["connection"] = connection
        try:
            command.upgrade(config, "head")
        except CommandError as error:
            raise StorageError(
                "A newer version of Babelgate made this database: use that version."
            ) from error
        durable.commit(connection)


@contextmanager
def _lock(engine: Engine) -> Iterator[Connection]:
    """Open a connection that alone may change the tables."""
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
