"""Requests per minute, counted in this machine's memory and in a real Redis."""

import secrets
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event

import gevent
import pytest

from gateway.access.keys import ApiKey, Grant
from gateway.access.limits import Limiter
from gateway.errors import KeysUnavailable, RateLimited
from gateway.shared_memory import Lock
from gateway.shared_redis import SharedRedis
from tests.e2e.reverse_proxy import find_port
from tests.gateway.access.conftest import LIMITS
from tests.gateway.access.servers import run_redis


def make_key(limit: int | None = 1, burst: int | None = 5) -> ApiKey:
    """Make a key that no other test uses; by default, a token returns after a minute."""
    grant = Grant(requests_per_minute=limit, burst=burst)
    return ApiKey(secrets.token_hex(6), "cat", "", grant)


@pytest.fixture(params=LIMITS)
def limiter(request: pytest.FixtureRequest, tmp_path: Path) -> Limiter:
    is_remote = request.param == "redis"
    url = request.getfixturevalue("redis_url") if is_remote else None
    return Limiter(tmp_path, url)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """A function that sets the time of this machine, in seconds."""
    return lambda now_s: monkeypatch.setattr(
        "time.time_ns", lambda: round(now_s * 10**9)
    )


def find_wait(limiter: Limiter, key: ApiKey, **given: float) -> float | None:
    """Send a request and return the seconds for which it is held, or None if it is refused."""
    try:
        return round(limiter.check(key, **given), 3)
    except RateLimited:
        return None


def send(limiter: Limiter, key: ApiKey, times: int) -> int:
    """Send requests and count those that are let through."""
    return sum(find_wait(limiter, key) is not None for _ in range(times))


def test_one_request_too_many_is_told_when_the_next_may_come(limiter):
    key = make_key()
    assert send(limiter, key, 5) == 5
    with pytest.raises(RateLimited) as refused:
        limiter.check(key)
    assert 1 <= int(refused.value.headers["Retry-After"]) <= 60
    assert send(limiter, make_key(), 9) == 5


def test_a_burst_is_as_large_as_the_key_says_or_a_minutes_requests(limiter, clock):
    clock(1000)  # for this machine; Redis has its own
    assert send(limiter, make_key(5, burst=2), 9) == 2
    assert send(limiter, make_key(1, burst=8), 12) == 8
    assert send(limiter, make_key(2, burst=None), 12) == 2
    unlimited = make_key(None, None)
    assert send(limiter, unlimited, 100) == 100
    limiter.give_back(unlimited)


def test_a_request_that_is_given_back_does_not_count(limiter):
    key = make_key(1, burst=2)
    assert send(limiter, key, 3) == 2
    limiter.give_back(key)
    assert send(limiter, key, 3) == 1
    for _ in range(9):  # a bucket is never more than full
        limiter.give_back(key)
    assert send(limiter, key, 9) == 2


def test_tokens_come_back_one_by_one_and_refused_requests_do_not_count(tmp_path, clock):
    limiter, key, found = Limiter(tmp_path), make_key(6, burst=3), []
    for now_s in (1000, 1000, 1000, 1000, 1001, 1010, 1020, 1020, 1030, 1099):
        clock(now_s)
        found.append(find_wait(limiter, key))
    assert found == [0, 0, 0, None, None, 0, 0, None, 0, 0]


def test_requests_that_are_a_little_early_are_held_in_turn(limiter):
    key = make_key(30, burst=1)
    waits_s = [find_wait(limiter, key) for _ in range(6)]
    assert waits_s == [0, *(pytest.approx(n, abs=0.9) for n in (2, 4, 6, 8)), None]
    limiter.give_back(key)
    assert find_wait(limiter, key, patience_s=4) is None
    assert find_wait(limiter, key) == pytest.approx(8, abs=0.9)


@pytest.mark.parametrize(
    ("limit", "through", "wait_s"),
    [(600, 680, 9), (4, 4, 15)],
    ids=["ten a second", "one in 15 s"],
)
def test_a_client_that_waits_for_retry_after_is_let_through(
    tmp_path, clock, limit, through, wait_s
):
    limiter, key = Limiter(tmp_path), make_key(limit, None)
    clock(1000)
    assert send(limiter, key, through) == through
    with pytest.raises(RateLimited) as refused:
        limiter.check(key)
    assert int(refused.value.headers["Retry-After"]) == wait_s
    clock(1000 + wait_s)
    assert send(limiter, key, 1) == 1


def test_a_clock_that_is_set_back_keeps_nobody_out_for_long(tmp_path, clock):
    limiter, key = Limiter(tmp_path), make_key(6, None)
    clock(10**6)
    assert send(limiter, key, 6) == 6
    clock(1000)
    assert send(limiter, key, 1) == 0
    clock(1010)
    assert send(limiter, key, 1) == 1


@pytest.mark.slow
def test_while_redis_is_gone_this_machine_counts_alone(tmp_path, caplog):
    port, key = find_port(), make_key()
    with run_redis(tmp_path, port) as (url, _):
        limiter = Limiter(tmp_path, url.replace("redis", "valkey"))
        assert send(limiter, key, 9) == 5
    assert send(limiter, key, 9) == 5
    assert caplog.text.count("the Redis for requests per minute does not answer") == 1
    assert limiter._redis
    limiter._redis.breaker.rests_until = 1.0
    with run_redis(tmp_path, port):
        assert send(limiter, key, 1) == 0
        gevent.wait(timeout=60)
        assert "answers again" in caplog.text
        assert send(limiter, key, 9) == 4  # the attempt has taken one


def test_a_redis_that_hangs_stops_no_other_greenlet_and_delays_one_call():
    """Also with embedded models, where gevent patches nothing."""
    redis = SharedRedis("redis://127.0.0.1", 0.1, "tests")
    answered = Event()
    asking = gevent.spawn(redis.ask, answered.wait)
    began = time.monotonic()
    gevent.sleep(0.01)
    assert time.monotonic() < began + 0.5
    assert asking.get() is None
    redis.breaker.rests_until, began = 1.0, time.monotonic()
    assert redis.ask(answered.wait) is None
    assert time.monotonic() < began + 0.5
    answered.set()


def test_a_redis_may_be_on_a_host_of_any_name():
    redis = SharedRedis("redis://valkey:6379", 1, "tests").client
    assert redis.connection_pool.connection_kwargs["host"] == "valkey"


def test_a_process_that_keeps_the_lock_delays_nobody(tmp_path, monkeypatch):
    limiter = Limiter(tmp_path)
    monkeypatch.setattr("gateway.shared_memory._LOCK_S", 0)
    with Lock(tmp_path / "lock").hold(), pytest.raises(KeysUnavailable):
        limiter.check(make_key())
