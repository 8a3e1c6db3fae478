"""Limits each key's requests per minute with a token bucket: a burst at once, then one for each
token that comes back, over all gateway processes of this machine, or of all machines with
Redis.
"""

import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from gateway.access.keys import ApiKey, Grant
from gateway.errors import KeysUnavailable, RateLimited
from gateway.shared_memory import Lock, SharedTable
from gateway.shared_redis import SharedRedis

_MINUTE_US, _SECOND_US = 60 * 10**6, 10**6
#: The longest wait of a request for its token. DeepL's clients wait 10 s for an answer, and
#: retry for 16 s, regardless of Retry-After.
HELD_S = 8.0
_HELD_US = round(HELD_S * _SECOND_US)
#: Redis answers within a millisecond, but a busy gateway may read the answer late.
_REDIS_S = 5.0
#: `TokenBucket.take`, by Redis' clock, which all machines share.
_SCRIPT = """
local interval, burst, tokens = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local held = tonumber(ARGV[4])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local full_at = tonumber(redis.call('GET', KEYS[1]) or 0)
full_at = math.min(math.max(full_at, now), now + burst * interval + held)
local wait = math.max(0, full_at + tokens * interval - burst * interval - now)
if wait <= held then full_at = full_at + tokens * interval end
local life_ms = math.max(1, math.ceil((full_at - now) / 1000))
redis.call('SET', KEYS[1], string.format('%.0f', full_at), 'PX', life_ms)
return wait
"""


class TokenBucket(NamedTuple):
    """A bucket of `burst` tokens that regains one every `interval_us`."""

    interval_us: int
    burst: int

    def take(self, full_at_us: int, now_us: int, tokens: int) -> tuple[int, int]:
        """Take `tokens`, even some that are not back yet. Return the time at which the bucket
        is full again, and the wait for the tokens; none are taken if that exceeds `HELD_S`."""
        size_us = self.burst * self.interval_us
        # If the clock is set back, no client may be refused for longer than this.
        full_at_us = min(max(full_at_us, now_us), now_us + size_us + _HELD_US)
        after_us = full_at_us + tokens * self.interval_us
        wait_us = max(0, after_us - size_us - now_us)
        return (full_at_us if wait_us > _HELD_US else after_us), wait_us


def find_bucket(grant: Grant) -> TokenBucket | None:
    """Return a key's bucket, or None without a limit. By default, it has a minute's tokens."""
    limit = grant.requests_per_minute
    return TokenBucket(_MINUTE_US // limit, grant.burst or limit) if limit else None


class Limiter:
    """The rate limits of all keys: the time at which each key's bucket is full again. They are
    in Redis, or in this machine's memory if there is no Redis or it is down."""

    def __init__(self, folder: Path, url: str | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = Lock(folder / "lock")
        with self._lock.hold():
            self._table = SharedTable(folder / "buckets", 1)
        self._redis = SharedRedis(url, _REDIS_S, "requests per minute") if url else None
        self._run = self._redis and self._redis.client.register_script(_SCRIPT)

    def check(self, key: ApiKey, patience_s: float = HELD_S) -> float:
        """Count a request. Return the seconds for which it must wait for its turn. Raises
        RateLimited if there are too many, and KeysUnavailable."""
        bucket = find_bucket(key.grant)
        wait_s = self._take_tokens(key, bucket, 1) if bucket else 0.0
        if bucket and wait_s > min(patience_s, HELD_S):
            if wait_s <= HELD_S:
                self.give_back(key)
            limit = key.grant.requests_per_minute
            raise RateLimited(
                f"This key may send {limit} requests per minute, at most {bucket.burst} at "
                "once.",
                retry_after_s=wait_s,
                limit=limit,
            )
        return wait_s

    def give_back(self, key: ApiKey) -> None:
        """Return the token of a request that does not count."""
        bucket = find_bucket(key.grant)
        if bucket:
            with suppress(KeysUnavailable):
                self._take_tokens(key, bucket, -1)

    def _take_tokens(self, key: ApiKey, bucket: TokenBucket, tokens: int) -> float:
        """Take tokens and return the seconds until they are available."""
        if self._redis and (run := self._run):
            keys = [f"babelgate:bucket:{key.id}"]
            given = [bucket.interval_us, bucket.burst, tokens, _HELD_US]
            wait_us = self._redis.ask(lambda: run(keys, given))
            if wait_us is not None:
                return int(wait_us) / _SECOND_US
        try:
            with self._lock.hold():
                row = self._table.find(int(key.id, 16))
                now_us = time.time_ns() // 1000
                row[0], wait_us = bucket.take(row[0], now_us, tokens)
        except OSError as error:  # also if the lock stays taken
            raise KeysUnavailable(
                "The key's requests cannot be counted now."
            ) from error
        return wait_us / _SECOND_US
