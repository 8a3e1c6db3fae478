"""A Redis or Valkey with the sentences of several machines. While it is gone, nobody waits for
it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from gevent.pool import Pool

from gateway.access.limits import connect
from gateway.cache.table import CacheKey
from gateway.circuit_breaker import CircuitBreaker

log = logging.getLogger(__name__)

#: The longest wait for it, and the time for which nobody asks it after that.
_REDIS_S, _RETRY_S = 0.1, 5.0
#: Values that wait to be written; more are dropped.
_MOST_WRITES = 256
#: The seconds for which a value is kept after it was written: a week.
_KEPT_S = 7 * 24 * 3600

Out = TypeVar("Out")


class RemoteCache:
    """The values, enciphered as in `CacheTable`."""

    def __init__(self, url: str) -> None:
        from redis import RedisError

        self._client = connect(url, _REDIS_S)
        self._error = RedisError
        self._breaker = CircuitBreaker(_RETRY_S)
        self._writing = Pool(_MOST_WRITES)

    def get(self, keys: Sequence[CacheKey]) -> list[bytes | None]:
        """The value of each key."""
        found: Any = self._try(lambda: self._client.mget(map(_name, keys)))
        return [
            key.open(sealed) if sealed else None
            for key, sealed in zip(keys, found or [None] * len(keys), strict=True)
        ]

    def put(self, key: CacheKey, value: bytes) -> None:
        """Keep a value. It is written meanwhile."""
        if not self._breaker.is_resting and not self._writing.full():
            self._writing.spawn(self._try, lambda: self._write(key, value))

    def _write(self, key: CacheKey, value: bytes) -> None:
        self._client.set(_name(key), key.seal(value), ex=_KEPT_S)

    def _try(self, ask: Callable[[], Out]) -> Out | None:
        """The answer of Redis; None while it is gone."""
        if not self._breaker.let_in():
            return None
        try:
            answer = ask()
        except self._error as error:
            if self._breaker.open():
                log.warning("the cache's Redis is gone (%s)", type(error).__name__)
            return None
        if self._breaker.close():
            log.warning("the cache's Redis answers again")
        return answer


def _name(key: CacheKey) -> str:
    return f"babelgate:sentence:{key.place:016x}{key.tag.hex()}"
