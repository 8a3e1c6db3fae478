"""64 clients of two gateway processes: nothing is counted twice, and no count is lost."""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Barrier

import pytest
import requests

from contract import variables
from gateway.access.keys import Grant
from gateway.access.storage import KeyStorage
from gateway.shared_memory import Lock, lock_file
from tests.e2e.real_stack import wait_until
from tests.gateway.test_gunicorn import Running, serve_before_fake
from tests.scripted_server import LIMIT_S

pytestmark = pytest.mark.slow

CLIENTS = 64
#: Requests that are being translated when a process is killed.
HELD = 16
TEXT = "Hello 😀"
WANTED = {"src_lang": "en", "src_text": TEXT, "tgt_lang": "ko"}
Send = Callable[..., "Counter[int]"]


@dataclass(frozen=True)
class Site:
    """A gateway that requires keys, and its database."""

    folder: Path
    running: Running
    storage: KeyStorage
    #: Sends requests from 64 clients at once, each on a new connection, and counts the
    #: statuses; 0 means no response.
    send: Send


@contextmanager
def open_site(
    folder: Path, database: str, limits: str | None = None, workers: int = 2
) -> Iterator[Site]:
    """Start a gateway with some processes and wait until all of them count."""
    given = {
        "WEB_CONCURRENCY": str(workers),
        "BABELGATE_KEYS": "required",
        "BABELGATE_CACHE_BYTES": "0",  # all requests have the same text
        "BABELGATE_DATABASE_URL": database,
        variables.RUN_DIR.name: str(folder / "run"),
        **({"BABELGATE_LIMITS_URL": limits} if limits else {}),
    }
    with (
        serve_before_fake(folder, **given) as running,
        closing(KeyStorage(database)) as storage,
        ThreadPoolExecutor(CLIENTS) as pool,
    ):
        wait_until(lambda: count_alive(folder) == workers)
        url, _, fake = running
        fake.keeps_bodies = False

        def ask(token: str) -> int:
            try:
                return requests.post(
                    url, json=WANTED, headers={"X-API-Key": token}, timeout=LIMIT_S
                ).status_code
            except requests.RequestException:
                return 0

        def send(token: str, times: int) -> Counter[int]:
            return Counter(pool.map(ask, [token] * times))

        yield Site(folder, running, storage, send)


@pytest.fixture(scope="module", params=["SQLite and memory", "PostgreSQL and Redis"])
def site(request, tmp_path_factory) -> Iterator[Site]:
    """One site for all tests that leave it unchanged."""
    folder = tmp_path_factory.mktemp("site")
    if request.param == "SQLite and memory":
        database, limits = f"sqlite:///{folder / 'keys.db'}", None
    else:
        database = request.getfixturevalue("postgresql")()
        limits = request.getfixturevalue("redis_url")
    with open_site(folder, database, limits) as found:
        yield found


def used(storage: KeyStorage, name: str) -> int:
    """Return the saved characters of a key."""
    (used,) = [n for key, n in storage.list_all().items() if key.name == name]
    return used


def count_alive(folder: Path) -> int:
    """Count the processes that count. The lock keeps a starting process from finding a dead
    one's file locked by this check, and mistaking its owner for a live process."""
    accounts = folder / "run/access/accounts"
    if not accounts.exists():
        return 0
    with closing(Lock(accounts / "lock")) as lock, lock.hold():
        locks = [lock_file(path) for path in accounts.glob("*.reserved")]
        for dead in filter(None, locks):
            os.close(dead)
        return locks.count(None)


def test_quotas_are_exact_and_saved(site: Site):
    token = site.storage.add("quota", Grant(characters_per_month=40 * len(TEXT)))
    assert site.send(token, 100) == {200: 40, 403: 60}
    wait_until(lambda: used(site.storage, "quota") == 40 * len(TEXT))


def test_limits_are_exact(site: Site):
    """The tokens that return during the test let more requests through."""
    token = site.storage.add("limit", Grant(requests_per_minute=1, burst=40))
    began = time.monotonic()
    answered = site.send(token, 100)
    assert 40 <= answered[200] <= 40 + (time.monotonic() - began) // 60
    assert answered[200] + answered[429] == 100


def test_what_a_killed_process_has_counted_stays_and_the_rest_is_free_again(site: Site):
    _, master, torchserve = site.running
    token = site.storage.add("killed", Grant(characters_per_month=100 * len(TEXT)))
    torchserve.together = Barrier(HELD + 1)
    torchserve.will(*["echo"] * 20, *["together"] * HELD)
    with ThreadPoolExecutor(1) as background:
        sending = background.submit(site.send, token, 60)
        wait_until(lambda: used(site.storage, "killed") == (60 - HELD) * len(TEXT))
        killed = master.children()[0]
        killed.kill()
        killed.wait(LIMIT_S)
        torchserve.together.wait(LIMIT_S)
        answered = sending.result()
    assert set(answered) <= {0, 200}
    wait_until(lambda: count_alive(site.folder) == 2)
    more = site.send(token, 90)
    assert answered[200] + more[200] == 100
    wait_until(lambda: used(site.storage, "killed") == 100 * len(TEXT))


@pytest.mark.faults
def test_neither_a_kill_of_all_nor_a_stop_forgets_anything(tmp_path: Path):
    """The shared memory outlives a gateway: the next one saves its counts."""
    database = f"sqlite:///{tmp_path / 'keys.db'}"
    with open_site(tmp_path, database) as site:
        token = site.storage.add("cat", Grant())
        assert site.send(token, 64) == {200: 64}
        master = site.running[1]
        for process in (*master.children(), master):
            process.kill()
        master.wait(LIMIT_S)
    with open_site(tmp_path, database) as site:
        wait_until(lambda: used(site.storage, "cat") == 64 * len(TEXT))
        assert site.send(token, 64) == {200: 64}
    with closing(KeyStorage(database)) as storage:
        assert used(storage, "cat") == 128 * len(TEXT)
