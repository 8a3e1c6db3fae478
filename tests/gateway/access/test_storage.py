"""Keys and usage in real databases of SQLite and PostgreSQL."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress

import pytest
import sqlalchemy
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext

from gateway.access.keys import Grant, read_id
from gateway.access.storage import KeyStorage
from gateway.access.usage import find_month
from gateway.database import connections
from gateway.database.connections import StorageError, read_url
from gateway.database.tables import METADATA
from gateway.shared_memory import Lock

GRANT = Grant(1000, 60, ("/translate", "/v2/*"), 20)


@contextmanager
def connect(database: str) -> Iterator[sqlalchemy.Connection]:
    """Open a connection that bypasses our code."""
    engine = sqlalchemy.create_engine(read_url(database))
    with engine.begin() as connection:
        yield connection
    engine.dispose()


def test_a_key_is_found_as_it_was_made_and_its_token_is_not_stored(storage, database):
    token = storage.add("cat", GRANT)
    (key,) = storage.sync({}, "a", None).keys.values()
    assert (key.name, key.grant, key.id) == ("cat", GRANT, read_id(token))
    assert key.matches(token)
    assert not key.matches(token[:-1] + "_")
    with connect(database) as connection:
        rows = connection.exec_driver_sql("SELECT * FROM keys").all()
    assert token[-20:] not in str(rows)


def test_a_name_is_free_again_when_its_key_is_revoked(storage):
    storage.add("cat", GRANT)
    with pytest.raises(StorageError, match="'cat' already exists"):
        storage.add("cat", GRANT)
    storage.revoke("cat")
    storage.add("cat", GRANT)
    assert [key.revoked_at is None for key in storage.list_all()] == [False, True]


@pytest.mark.parametrize("by", ["name", "id"])
def test_a_key_is_revoked_once(storage, by):
    key_id = read_id(storage.add("cat", GRANT)) or ""
    wanted = "cat" if by == "name" else key_id
    assert storage.revoke(wanted).id == key_id
    assert storage.sync({}, "a", None).keys == {}
    with pytest.raises(StorageError, match="no active key"):
        storage.revoke(wanted)


def test_a_key_named_as_anothers_id_stays(storage):
    key_id = read_id(storage.add("cat", GRANT)) or ""
    storage.add(key_id, GRANT)
    assert [storage.revoke(key_id).name for _ in "12"] == ["cat", key_id]


def test_keys_are_read_again_only_where_they_have_changed(storage):
    storage.add("cat", GRANT)
    seen = storage.sync({}, "a", None)
    assert storage.sync({}, "a", seen.version).keys is None
    storage.revoke("cat")
    changed = storage.sync({}, "a", seen.version)
    assert (changed.keys, changed.version == seen.version) == ({}, False)


def test_each_ledger_writes_its_own_count_and_reads_those_of_others(storage):
    key_id, month = read_id(storage.add("cat", GRANT)) or "", find_month(time.time())
    storage.sync({(key_id, month): 5}, "a", None)
    storage.sync({(key_id, month): 5}, "a", None)  # again, after a kill
    storage.sync({(key_id, month): 3}, "a", None)  # late, by another process
    counts = {(key_id, month): 20, (key_id, month - 1): 9}
    seen = storage.sync(counts, "b", None)
    assert seen.elsewhere == {(key_id, month): 5}
    assert [*storage.list_all().values()] == [25]


def test_processes_that_begin_at_once_make_tables_and_keys_of_one_name_once(database):
    together, made = threading.Barrier(8), []

    def begin(number: int) -> None:
        together.wait(60)
        with closing(KeyStorage(database)) as storage:
            storage.add(str(number), GRANT)
            with suppress(StorageError):
                made.append(storage.add("cat", GRANT))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(begin, range(8)))
    with closing(KeyStorage(database)) as storage:
        assert (len(storage.list_all()), len(made)) == (9, 1)


def test_processes_that_begin_together_wait_for_nobody(tmp_path, monkeypatch):
    """At a reload, hundreds start together, and then each polls twice a second."""
    monkeypatch.setattr(connections, "_LIMIT_S", 0.01)
    url = f"sqlite:///{tmp_path}/keys.db"
    first, second = KeyStorage(url), KeyStorage(url)
    first.add("cat", GRANT)
    lock = Lock(tmp_path / "keys.db.lock")
    with lock.hold(), first.begin() as connection:
        connection.execute(sqlalchemy.select(1))
        assert len(second.sync({}, "a", None).keys or ()) == 1
        with pytest.raises(StorageError, match="locked"):
            second.sync({("b", find_month(time.time())): 5}, "a", None)
    for each in (first, second, lock):
        each.close()


@pytest.mark.slow
def test_a_restart_of_the_server_between_two_questions_is_not_noticed(postgresql):
    url = postgresql()
    with closing(KeyStorage(url)) as storage:
        storage.add("cat", GRANT)
        with connect(url) as other:
            ends = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {}"
            mine = "pid <> pg_backend_pid() AND datname = current_database()"
            other.exec_driver_sql(ends.format(mine))
        assert len(storage.list_all()) == 1


@pytest.mark.slow
def test_the_options_of_a_url_apply_besides_ours(postgresql):
    url = postgresql()
    with connect(url) as other:
        other.exec_driver_sql("CREATE SCHEMA ours")
    with closing(KeyStorage(f"{url}?options=-csearch_path%3Dours")) as storage:
        storage.add("cat", GRANT)
        with storage.look() as connection:
            shown = connection.exec_driver_sql("SHOW statement_timeout").scalar_one()
    with connect(url) as other:
        assert other.exec_driver_sql("SELECT count(*) FROM ours.keys").scalar_one() == 1
    assert shown == "3s"


def test_the_steps_lead_to_the_tables_that_the_code_uses(storage, database):
    storage.list_all()
    with connect(database) as connection:
        context = MigrationContext.configure(connection)
        assert compare_metadata(context, METADATA) == []


def test_keys_of_an_earlier_version_go_on(database):
    with connect(database) as connection:
        config = Config()
        config.set_main_option("script_location", str(connections._MIGRATIONS))
        config.attributes["connection"] = connection
        command.upgrade(config, "0002")
        connection.exec_driver_sql(
            "INSERT INTO keys VALUES "
            "('0123456789ab', 'cat', 'digest', NULL, 60, '[]', 1, NULL)"
        )
    with closing(KeyStorage(database)) as later:
        (key,) = later.list_all()
    assert key.grant == Grant(None, 60, (), burst=None)


def test_tables_are_made_where_the_path_of_our_code_has_a_percent_sign(
    database, tmp_path, monkeypatch
):
    linked = tmp_path / "100% ours"
    linked.symlink_to(connections._MIGRATIONS)
    monkeypatch.setattr(connections, "_MIGRATIONS", linked)
    with closing(KeyStorage(database)) as storage:
        assert storage.list_all() == {}


def test_a_database_of_a_newer_version_is_refused(storage, database):
    storage.list_all()
    with connect(database) as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num='9'")
    again = KeyStorage(database)
    with closing(again), pytest.raises(StorageError, match="newer version"):
        again.list_all()


@pytest.mark.parametrize(
    ("given", "driver"),
    [
        ("sqlite:////a/b.db", "sqlite"),
        ("postgresql://a@b/c", "postgresql+psycopg"),
        ("postgres://a@b/c", "postgresql+psycopg"),
        ("postgresql+psycopg://a@b/c", "postgresql+psycopg"),
    ],
)
def test_a_url_says_which_database(given, driver):
    assert read_url(given).drivername == driver


@pytest.mark.parametrize(
    "given",
    [
        "mysql://a:secret@b/c", "postgresql://a:secret@b", "sqlite://", "secret",
        "postgresql://a:secret@b:c/d", "postgresql://a:secret@b:1,c:2/d",
    ],
)  # fmt: skip
def test_a_wrong_url_is_refused_without_its_password(given):
    with pytest.raises(StorageError, match="expected sqlite:///FILE or") as refused:
        read_url(given)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["postgresql://a:secret@127.0.0.1:1/b", "sqlite:////proc/none/keys.db"]
)
def test_a_database_that_is_not_there_is_named_without_its_password(url):
    storage = KeyStorage(url)
    with pytest.raises(StorageError, match="cannot be used") as refused:
        storage.list_all()
    assert "secret" not in str(refused.value)
