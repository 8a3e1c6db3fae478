"""64 clients over two gateway processes: nothing is counted twice, nothing is forgotten."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import psutil
import pytest
import requests

from contract import variables
from gateway.access.keys import Grant, make_token
from gateway.access.storage import Storage
from gateway.sharing import Lock, list_dead_places
from tests.e2e.real_stack import wait_until
from tests.gateway.access.conftest import LIMITS
from tests.gateway.access.servers import make_postgresql
from tests.gateway.fake_torchserve import LIMIT_S
from tests.gateway.test_gunicorn import Running, serve_before_fake

pytestmark = pytest.mark.slow

CLIENTS = 64
TEXT = "Hello 😀"
WANTED = {"src_lang": "en", "src_text": TEXT, "tgt_lang": "ko"}
Send = Callable[..., "Counter[int]"]


@pytest.fixture
def limits_in(request: pytest.FixtureRequest) -> str:
    """Where requests per minute are counted, unless a test says something else."""
    return str(getattr(request, "param", "memory"))


def write_variables(folder: Path, database: str) -> dict[str, str]:
    """The variables of a gateway of two processes that require keys."""
    return {
        "WEB_CONCURRENCY": "2",
        "BABELGATE_KEYS": "required",
        "BABELGATE_DATABASE_URL": database,
        variables.RUN_DIR.name: str(folder / "run"),
    }


@pytest.fixture
def given(
    request: pytest.FixtureRequest, tmp_path: Path, database: str, limits_in: str
) -> dict[str, str]:
    """With the test's own database and limits."""
    given = write_variables(tmp_path, database)
    if limits_in == "redis":
        given["BABELGATE_LIMITS_URL"] = request.getfixturevalue("redis_url")
    return given


@pytest.fixture
def running(tmp_path: Path, given: dict[str, str]) -> Iterator[Running]:
    """Such a gateway, once both processes are there."""
    with serve_before_fake(tmp_path, **given) as found:
        wait_until(lambda: are_both_there(tmp_path))
        found[2].keeps_bodies = False
        yield found


@pytest.fixture
def send(running: Running) -> Iterator[Send]:
    """Sends requests to the test's gateway."""
    with sender(running) as found:
        yield found


@contextmanager
def sender(running: Running) -> Iterator[Send]:
    """Sends requests from 64 clients at once, each on connections of its own, and counts the
    statuses; 0 is no answer."""
    url = running[0]

    def ask(token: str) -> int:
        try:
            return requests.post(
                url, json=WANTED, headers={"X-API-Key": token}, timeout=LIMIT_S
            ).status_code
        except requests.RequestException:
            return 0

    with ThreadPoolExecutor(CLIENTS) as pool:
        yield lambda token, times: Counter(pool.map(ask, [token] * times))


def used(storage: Storage) -> int:
    (listed,) = storage.list_all()
    return listed.characters


def are_both_there(folder: Path) -> bool:
    """Whether two processes count, however long they take to start. A process that starts
    while a dead one's place is looked at would take it for a living one's: hence the lock."""
    places = folder / "run/access/usage"
    if not places.exists():
        return False
    with closing(Lock(places / "lock")) as lock, lock.hold():
        return len([*places.glob("[0-9]*.lock")]) - len(list_dead_places(places)) == 2


def find_workers(master: psutil.Process) -> list[psutil.Process]:
    return [one for one in master.children() if one.status() != psutil.STATUS_ZOMBIE]


def test_quotas_are_exact_and_saved_within_a_second(send: Send, storage: Storage):
    token = storage.add("cat", Grant(characters_per_month=200 * len(TEXT)))
    assert send(token, 500) == {200: 200, 403: 300}
    wait_until(lambda: used(storage) == 200 * len(TEXT), limit_s=10)


@pytest.mark.parametrize("limits_in", LIMITS, indirect=True)
def test_limits_are_exact(send: Send, storage: Storage):
    token = storage.add("cat", Grant(requests_per_minute=150))
    assert send(token, 400) == {200: 150, 429: 250}


def test_what_a_killed_process_has_counted_stays(
    send: Send, storage: Storage, running: Running, tmp_path: Path
):
    token = storage.add("cat", Grant(characters_per_month=600 * len(TEXT)))
    with ThreadPoolExecutor(1) as background:
        sending = background.submit(send, token, 500)
        wait_until(lambda: used(storage) > 50 * len(TEXT))
        find_workers(running[1])[0].kill()
        answered = sending.result()
    assert set(answered) <= {0, 200}
    wait_until(lambda: are_both_there(tmp_path))
    more = send(token, 400)
    # What it was translating is free again, so that the quota can be used up. An answer that
    # was on its way when the process died is counted and was not seen.
    wait_until(lambda: used(storage) == 600 * len(TEXT), limit_s=10)
    seen = answered[200] + more[200]
    assert seen <= 600 <= seen + answered[0]


def test_a_stop_saves_what_was_counted(send: Send, storage: Storage, running: Running):
    token = storage.add("cat", Grant())
    assert send(token, 64) == {200: 64}
    running[1].terminate()
    running[1].wait(LIMIT_S)
    assert used(storage) == 64 * len(TEXT)


def test_a_killed_gateway_forgets_nothing_on_its_machine(
    send: Send,
    storage: Storage,
    running: Running,
    tmp_path: Path,
    given: dict[str, str],
):
    """Its memory outlives it: the next gateway saves what this one has counted."""
    token = storage.add("cat", Grant())
    assert send(token, 64) == {200: 64}
    for process in (*find_workers(running[1]), running[1]):
        process.kill()
    running[1].wait(LIMIT_S)
    with serve_before_fake(tmp_path, **given):
        wait_until(lambda: used(storage) == 64 * len(TEXT), limit_s=10)


def test_a_database_that_goes_and_comes_back_loses_no_count(tmp_path: Path):
    with make_postgresql() as server, ExitStack() as life:
        url = f"{server.url}/postgres"
        storage = life.enter_context(closing(Storage(url)))
        with server.run():
            token = storage.add("cat", Grant())
            given = write_variables(tmp_path, url) | {"WEB_CONCURRENCY": "1"}
            running = life.enter_context(serve_before_fake(tmp_path, **given))
            send = life.enter_context(sender(running))
            assert send(token, 64) == {200: 64}
        wait_until(lambda: send(make_token()[0], 4) == {503: 4})
        assert send(token, 64) == {200: 64}
        with server.run():
            wait_until(lambda: send(make_token()[0], 4) == {401: 4})
            storage.close()  # its connection has ended
            wait_until(lambda: used(storage) == 128 * len(TEXT))
            life.close()
