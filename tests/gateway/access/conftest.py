"""Empty databases of SQLite and PostgreSQL, and a Redis."""

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from gateway.access.storage import KeyStorage
from gateway.database import find_database
from gateway.settings import Settings
from tests.gateway.access.servers import make_postgresql, run_redis
from tests.leaks import SHARED

MakeUrl = Callable[[], str]
#: The stores that count requests per minute.
LIMITS = ["memory", pytest.param("redis", marks=pytest.mark.slow)]
_numbers = count()


@pytest.fixture(scope="session")
def postgresql(pytestconfig: pytest.Config) -> MakeUrl:
    """A function that creates an empty database and returns its URL."""
    shared = pytestconfig.stash[SHARED]
    server = shared.enter_context(make_postgresql())
    shared.enter_context(server.run())

    def make() -> str:
        name = f"test{next(_numbers)}"
        with server.connect(autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return f"{server.url}/{name}"

    return make


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a new, empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'keys.db'}"
    make: MakeUrl = request.getfixturevalue("postgresql")
    return make()


@pytest.fixture
def storage(database: str) -> Iterator[KeyStorage]:
    found = KeyStorage(database)
    yield found
    found.close()


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory, pytestconfig: pytest.Config) -> str:
    redis = run_redis(tmp_path_factory.mktemp("redis"))
    url, _ = pytestconfig.stash[SHARED].enter_context(redis)
    return url


@pytest.fixture
def keys(run: Path) -> Iterator[KeyStorage]:
    """The keys of a gateway that requires them, as the command line opens them."""
    found = KeyStorage(find_database(Settings()))
    yield found
    found.close()
