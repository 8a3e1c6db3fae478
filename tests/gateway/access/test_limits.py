"""Requests per minute, in this machine's memory and in a real Redis."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.access.keys import Grant, Key
from gateway.access.limits import Limiter, SharedMemoryStorage
from gateway.errors import KeysUnavailable, RateLimited
from gateway.sharing import Lock
from tests.e2e.door import find_port
from tests.gateway.access.conftest import LIMITS
from tests.gateway.access.servers import run_redis


def make_key(name: str, limit: int | None = 5) -> Key:
    return Key(name, name, "", Grant(requests_per_minute=limit))


@pytest.fixture(params=LIMITS)
def limiter(request: pytest.FixtureRequest, tmp_path: Path) -> Limiter:
    is_remote = request.param == "redis"
    return Limiter(
        tmp_path, request.getfixturevalue("redis_url") if is_remote else None
    )


def send(limiter: Limiter, key: Key, times: int) -> int:
    """How many requests are let through."""
    through = 0
    for _ in range(times):
        try:
            limiter.check(key)
            through += 1
        except RateLimited:
            pass
    return through


def test_one_request_too_many_is_told_when_the_next_may_come(limiter, tmp_path):
    key = make_key(f"a{tmp_path.name}")
    assert send(limiter, key, 5) == 5
    with pytest.raises(RateLimited) as refused:
        limiter.check(key)
    assert 50 < int(refused.value.headers["Retry-After"]) <= 60
    assert send(limiter, make_key(f"b{tmp_path.name}"), 9) == 5


def test_a_key_without_a_limit_is_let_through(limiter):
    assert send(limiter, make_key("free", None), 100) == 100


def test_refused_requests_do_not_count_and_any_60_seconds_have_the_limit(
    tmp_path, monkeypatch
):
    limiter, key, found = Limiter(tmp_path), make_key("cat", 3), []
    for now_s in (1000, 1010, 1058, 1059, 1060, 1061, 1070, 1071, 1118, 1119):
        monkeypatch.setattr("time.time_ns", lambda now_s=now_s: now_s * 10**9)
        found.append(send(limiter, key, 1))
    assert found == [1, 1, 1, 0, 1, 0, 1, 0, 1, 0]


def test_several_requests_at_once_are_taken_together_or_not_at_all(tmp_path):
    storage = SharedMemoryStorage(tmp_path)
    assert storage.acquire_entry("a/b", 5, 60, 3)
    assert not storage.acquire_entry("a/b", 5, 60, 3)
    assert not storage.acquire_entry("a/b", 5, 60, 6)
    assert storage.get_moving_window("a/b", 5, 60)[1] == 3
    assert storage.acquire_entry("a/b", 5, 60, 2)
    with pytest.raises(NotImplementedError):
        storage.incr("a/b", 60)


@pytest.mark.slow
def test_while_redis_is_gone_this_machine_counts_alone(tmp_path, caplog, monkeypatch):
    port, key = find_port(), make_key("cat")
    with run_redis(tmp_path, port) as url:
        limiter = Limiter(tmp_path, url.replace("redis", "valkey"))
        assert send(limiter, key, 9) == 5
    assert send(limiter, key, 9) == 5
    assert caplog.text.count("this machine counts alone") == 1
    monkeypatch.setattr(limiter, "_retry_at", 0)
    with run_redis(tmp_path, port):
        assert send(limiter, key, 9) == 5
        assert "answers again" in caplog.text


def test_a_process_that_stops_with_the_lock_delays_nobody_for_long(
    tmp_path, monkeypatch
):
    limiter = Limiter(tmp_path)
    monkeypatch.setattr("gateway.sharing._LOCK_S", 0)
    with Lock(tmp_path / "lock").hold(), pytest.raises(KeysUnavailable):
        limiter.check(make_key("cat"))
