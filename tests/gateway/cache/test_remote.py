"""The Redis behind the memory cache: sharing between machines, and outages."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis

from gateway.cache.remote import RemoteCache
from gateway.cache.table import make_key
from tests.e2e.real_stack import wait_until
from tests.gateway.access.servers import run_redis

make = partial(make_key, b"password")
HELLO, BYE = make("Hello"), make("Bye")
TEXT = b"Ein geheimer Satz."


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, Any]]:
    with run_redis(tmp_path) as running:
        yield running


@pytest.mark.slow
def test_machines_share_what_only_they_can_read(server):
    url, _ = server
    one, other = RemoteCache(url), RemoteCache(url)
    one.put(HELLO, TEXT)
    one._writing.join()
    wait_until(lambda: other.get([HELLO, BYE]) == [TEXT, None])
    other._redis._longest_s = 0.1
    assert other.get([HELLO] * 200_000) == [TEXT] * 200_000
    with redis.Redis.from_url(url) as client:
        (name,) = client.keys()
        content = client.get(name)
        assert 0 < client.ttl(name) <= 7 * 24 * 3600
    assert b"geheimer" not in content
    assert b"Hello" not in name
    assert make("Other").open(content) is None


@pytest.mark.slow
def test_a_redis_that_does_not_answer_is_left_alone(server, caplog, monkeypatch):
    url, process = server
    monkeypatch.setattr("gateway.shared_redis._RETRY_S", 60.0)
    cache = RemoteCache(url)
    cache.put(HELLO, TEXT)
    cache._writing.join()
    process.suspend()
    assert [cache.get([HELLO, BYE]) for _ in range(3)] == [[None, None]] * 3
    cache.put(HELLO, TEXT)
    assert not cache._writing
    process.resume()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "password" not in caplog.text
    assert TEXT.decode() not in caplog.text
