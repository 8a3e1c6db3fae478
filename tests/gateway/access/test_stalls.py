"""A database and a Redis that hang, are slow, or disappear for a while: requests continue,
nothing is lost, and missed updates follow later.
"""

from collections.abc import Iterator
from contextlib import (
    AbstractContextManager,
    ExitStack,
    closing,
    contextmanager,
    suppress,
)
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
import redis

from gateway.access.keys import Grant, make_token
from gateway.access.storage import KeyStorage
from tests.e2e.real_stack import wait_until
from tests.gateway.access.servers import PostgreSQL, Proxy, make_postgresql, run_redis
from tests.gateway.access.test_exactness import TEXT, Send, open_site, used

pytestmark = pytest.mark.faults

#: The delay in each direction, if the server is slow.
DELAY_S = 0.2
#: The time that the documentation promises, with a margin for a busy machine.
CAUGHT_UP_S = 30
REQUESTS = 16


@dataclass(frozen=True)
class Site:
    """A gateway with one process, its database, and the proxy between them."""

    server: PostgreSQL
    process: psutil.Process
    proxy: Proxy
    storage: KeyStorage
    send: Send

    def status(self, token: str) -> int:
        (status,) = self.send(token, 1)
        return status


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("stalls")
    with ExitStack() as life:
        server = life.enter_context(make_postgresql())
        process = life.enter_context(server.run())
        proxy = Proxy(server.port)
        life.enter_context(proxy.run())
        url = server.url.replace(str(server.port), str(proxy.port))
        opened = life.enter_context(open_site(folder, f"{url}/postgres", workers=1))
        storage = life.enter_context(closing(KeyStorage(f"{server.url}/postgres")))
        yield Site(server, process, proxy, storage, opened.send)


@contextmanager
def stop(*processes: psutil.Process) -> Iterator[None]:
    """Suspend processes. One may be ending: a backend outlives its connection for a moment."""
    try:
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.suspend()
        yield
    finally:
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.resume()


def stop_backends(site: Site) -> AbstractContextManager[None]:
    """Suspend the server's processes for the gateway; the server accepts other connections."""
    site.storage.close()
    query = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'"
    with site.server.connect() as connection:
        ours = connection.info.backend_pid
        pids = [pid for (pid,) in connection.execute(query) if pid != ours]
    assert pids
    return stop(*(process for process in psutil.process_iter() if process.pid in pids))


def stop_server(site: Site) -> AbstractContextManager[None]:
    return stop(site.process, *site.process.children(recursive=True))


@pytest.mark.parametrize(
    ("stall", "is_asked"),
    [
        pytest.param(stop_backends, True, id="its backends are stopped"),
        pytest.param(stop_server, False, id="all of it is stopped"),
        pytest.param(lambda site: site.proxy.slow(DELAY_S), True, id="slow"),
        pytest.param(lambda site: site.proxy.cut(), False, id="cut"),
    ],
)
def test_a_database_that_does_not_answer_stops_nobody(request, site, stall, is_asked):
    name = request.node.callspec.id
    token = site.storage.add(name, Grant())
    assert site.send(token, REQUESTS) == {200: REQUESTS}
    with stall(site):
        assert site.send(token, REQUESTS) == {200: REQUESTS}
        unknown = 401 if is_asked else 503
        wait_until(lambda: site.status(make_token()[0]) == unknown, limit_s=CAUGHT_UP_S)
        if is_asked:
            site.storage.revoke(name)
            wait_until(lambda: site.status(token) == 401, limit_s=CAUGHT_UP_S)
        else:
            assert site.send(token, REQUESTS) == {200: REQUESTS}
    if not is_asked:
        site.storage.close()  # its connection may have ended
        site.storage.revoke(name)
        wait_until(lambda: site.status(token) == 401, limit_s=CAUGHT_UP_S)
    answered = REQUESTS * (2 if is_asked else 3)
    wait_until(
        lambda: used(site.storage, name) >= answered * len(TEXT), limit_s=CAUGHT_UP_S
    )


@pytest.mark.parametrize("stall", ["stopped", "slow", "cut"])
def test_a_redis_that_does_not_answer_stops_nobody(tmp_path: Path, stall: str):
    with ExitStack() as life:
        url, server = life.enter_context(run_redis(tmp_path))
        proxy = Proxy(urlsplit(url).port or 0)
        life.enter_context(proxy.run())
        database, limits = f"sqlite:///{tmp_path}/db", f"redis://127.0.0.1:{proxy.port}"
        site = life.enter_context(open_site(tmp_path, database, limits, workers=1))
        send = site.send
        # Redis keeps the count of a request for one second, until its token returns.
        token = site.storage.add("cat", Grant(requests_per_minute=60, burst=1000))
        client = life.enter_context(closing(redis.Redis.from_url(url)))
        assert send(token, REQUESTS) == {200: REQUESTS}
        wait_until(lambda: send(token, 1) == {200: 1} and client.dbsize(), limit_s=60)
        client.flushall()
        stalls = {
            "stopped": stop(server),
            "slow": proxy.slow(DELAY_S),
            "cut": proxy.cut(),
        }
        with stalls[stall]:
            for _ in range(3):
                assert send(token, REQUESTS) == {200: REQUESTS}
        client.flushall()
        # Requests are counted in Redis again.
        wait_until(lambda: send(token, 1) == {200: 1} and client.dbsize(), limit_s=60)
