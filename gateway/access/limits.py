"""Limits each key's requests per minute by the library `limits`: never more than allowed in
any 60 seconds, over all gateway processes of this machine, or of all machines with Redis.
"""

from __future__ import annotations

import logging
import math
import time
from bisect import bisect_right
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from limits import RateLimitItem, RateLimitItemPerMinute
from limits.errors import StorageError
from limits.storage import MovingWindowSupport, Storage, storage_from_string
from limits.strategies import MovingWindowRateLimiter

from gateway.access.keys import Key
from gateway.errors import KeysUnavailable, RateLimited
from gateway.sharing import Lock, map_file

log = logging.getLogger(__name__)

_NUMBER_BYTES, _SECOND_NS = 8, 10**9
#: Redis answers within a millisecond, but a busy gateway may hear it late. Where it does not
#: answer at all, one request in a while asks it again.
_REDIS_S, _RETRY_S = 5.0, 5.0
#: Connections to Redis of a gateway process.
_CONNECTIONS = 32


class SharedMemoryStorage(Storage, MovingWindowSupport):
    """The times of each limit's last requests: as many as are allowed, in a ring that all
    processes share. Only the strategy of a moving window is supported."""

    STORAGE_SCHEME = None

    def __init__(self, folder: Path) -> None:
        super().__init__()
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._lock = Lock(folder / "lock")
        self._rings: dict[str, memoryview] = {}

    def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        """Takes `amount` of `limit` requests, all or none."""
        if amount > limit:
            return False
        times, head = self._open(key, limit)
        with self._lock.hold():
            now, first = time.time_ns(), head[0]
            oldest = times[(first + amount - 1) % limit]
            if 0 <= now - oldest < expiry * _SECOND_NS:
                return False
            for i in range(amount):
                times[(first + i) % limit] = now
            head[0] = (first + amount) % limit
        return True

    def get_moving_window(self, key: str, limit: int, expiry: int) -> tuple[float, int]:
        """When the first request of the window came, and how many are in it."""
        times, head = self._open(key, limit)
        now, first = time.time_ns(), head[0]
        before = now - expiry * _SECOND_NS
        past = bisect_right(
            range(limit), before, key=lambda i: times[(first + i) % limit]
        )
        begin = times[(first + past) % limit] if past < limit else now
        return begin / _SECOND_NS, limit - past

    @property
    def base_exceptions(self) -> type[Exception]:
        """What is raised where another process holds the lock."""
        return TimeoutError

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError("This storage has moving windows only.")

    incr = get = get_expiry = clear = reset = check = _refuse

    def _open(self, key: str, limit: int) -> tuple[memoryview, memoryview]:
        """A limit's times, and the place of the oldest."""
        ring = self._rings.get(key)
        if ring is None:
            name = _name_file(key, str(limit))
            memory = map_file(self._folder, name, (limit + 1) * _NUMBER_BYTES)
            ring = self._rings[key] = memoryview(memory).cast("q")
        return ring[:limit], ring[limit:]


class Limiter:
    """Lets requests through, or not. While Redis is gone, this machine's memory counts."""

    def __init__(self, folder: Path, url: str | None = None) -> None:
        self._local = MovingWindowRateLimiter(SharedMemoryStorage(folder))
        self._remote = MovingWindowRateLimiter(_connect(url)) if url else None
        self._is_reachable = True
        self._retry_at = -math.inf

    def check(self, key: Key) -> None:
        """Counts a request. Raises RateLimited if it is one too many, and KeysUnavailable."""
        limit = key.grant.requests_per_minute
        if limit is None:
            return
        item = _make_item(limit)
        try:
            wait_s = self._find_wait(item, key.id)
        except TimeoutError as error:
            raise KeysUnavailable(
                "The key's requests cannot be counted now."
            ) from error
        if wait_s is not None:
            raise RateLimited(limit, retry_after_s=wait_s)

    def _find_wait(self, item: RateLimitItem, key_id: str) -> float | None:
        """Seconds until a request is let through; None if this one is."""
        if self._remote and time.monotonic() >= self._retry_at:
            if not self._is_reachable:
                self._retry_at = time.monotonic() + _RETRY_S  # the others go on
            try:
                wait_s = _hit(self._remote, item, key_id)
                self._note(is_reachable=True)
                return wait_s
            except StorageError as error:
                self._note(is_reachable=False, error=error.__cause__)
        return _hit(self._local, item, key_id)

    def _note(self, *, is_reachable: bool, error: object = None) -> None:
        self._retry_at = -math.inf if is_reachable else time.monotonic() + _RETRY_S
        if is_reachable != self._is_reachable:
            said = (
                "answers again"
                if is_reachable
                else "is gone: this machine counts alone"
            )
            log.warning("the limits' Redis %s (%s)", said, type(error).__name__)
        self._is_reachable = is_reachable


def _hit(
    limiter: MovingWindowRateLimiter, item: RateLimitItem, key_id: str
) -> float | None:
    if limiter.hit(item, key_id):
        return None
    return limiter.get_window_stats(item, key_id).reset_time - time.time()


@cache
def _make_item(limit: int) -> RateLimitItem:
    return RateLimitItemPerMinute(limit)


def _connect(url: str) -> Any:
    """Valkey speaks Redis' protocol, so that one client does for both."""
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    plain = url.replace("valkey", "redis", 1).replace("redis+unix", "unix", 1)
    pool = redis.BlockingConnectionPool.from_url(
        plain,
        max_connections=_CONNECTIONS,
        timeout=_REDIS_S,
        socket_timeout=_REDIS_S,
        socket_connect_timeout=_REDIS_S,
        # Once, where Redis has closed a connection since; never what it may have counted.
        retry=Retry(NoBackoff(), 1, supported_errors=(redis.ConnectionError,)),
    )
    options: dict[str, Any] = {"connection_pool": pool, "key_prefix": "babelgate"}
    return storage_from_string("redis://", wrap_exceptions=True, **options)


def _name_file(key: str, limit: str) -> str:
    return f"{key.replace('/', '-')}-{limit}.ring"
