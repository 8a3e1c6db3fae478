"""Sentences in a Redis or Valkey that machines share. While it is down, no request waits."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from gevent.pool import Pool

from gateway.cache.table import CacheKey
from gateway.shared_redis import SharedRedis

#: The longest wait for Redis, in seconds.
_REDIS_S = 0.1
#: The most values of a question: more could take longer than a call may.
_MOST_READS = 1000
#: The most values that wait to be written; more are dropped.
_MOST_WRITES = 256
#: The seconds for which a value is kept after a write: a week.
_KEPT_S = 7 * 24 * 3600


class RemoteCache:
    """The values in Redis, encrypted as in `CacheTable`."""

    def __init__(self, url: str) -> None:
        self._redis = SharedRedis(url, _REDIS_S, "sentences")
        self._writing = Pool(_MOST_WRITES)

    def get(self, keys: Sequence[CacheKey]) -> list[bytes | None]:
        """Return each key's value, or None."""
        found: list[bytes | None] = []
        for first in range(0, len(keys), _MOST_READS):
            some = keys[first : first + _MOST_READS]
            names = [_name(key) for key in some]
            there: Any = self._redis.ask(partial(self._redis.client.mget, names))
            for key, sealed in zip(some, there or [None] * len(some), strict=True):
                found.append(key.open(sealed) if sealed else None)
        return found

    def put(self, key: CacheKey, value: bytes) -> None:
        """Write a value in the background."""
        if not self._redis.breaker.is_resting and not self._writing.full():
            write = self._redis.client.set
            self._writing.spawn(
                self._redis.ask, lambda: write(_name(key), key.seal(value), ex=_KEPT_S)
            )


def _name(key: CacheKey) -> str:
    return f"babelgate:sentence:{key.place:016x}{key.tag.hex()}"
