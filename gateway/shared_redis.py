"""A Redis or Valkey that several machines share. While it is down, no request waits for it."""

import logging
from collections.abc import Callable
from typing import Any, TypeVar

import gevent
from gevent.monkey import is_module_patched

from gateway.circuit_breaker import CircuitBreaker
from gateway.threads import run_beside

log = logging.getLogger(__name__)

#: The pause after an unanswered call, in which no other call is made.
_RETRY_S = 5.0
#: The steps of the slowest call, each within the limit: a free connection, the address of its
#: host, its opening, TLS, two greetings and the question. Nothing else limits the second.
_STEPS = 7
#: The most connections of one gateway process.
_CONNECTIONS = 32

Out = TypeVar("Out")


class SharedRedis:
    """A client no step of which waits longer than its limit. Safe to share among greenlets."""

    def __init__(self, url: str, limit_s: float, use: str) -> None:
        """`use` names it in the log. Valkey speaks Redis' protocol, so one client suffices."""
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        scheme, _, place = url.partition("://")
        scheme = scheme.replace("valkey", "redis").removeprefix("redis+")
        pool: Any = redis.BlockingConnectionPool.from_url(
            f"{scheme}://{place}",
            max_connections=_CONNECTIONS,
            timeout=limit_s,
            socket_timeout=limit_s,
            socket_connect_timeout=limit_s,
            # Retry a closed connection once, but no timeout: Redis may have counted the call.
            retry=Retry(NoBackoff(), 1, supported_errors=(redis.ConnectionError,)),
        )
        self.client = redis.Redis(connection_pool=pool)
        self.breaker = CircuitBreaker(_RETRY_S)
        self._error, self._late = redis.RedisError, redis.TimeoutError
        self._use = use
        self._longest_s = _STEPS * limit_s

    def ask(self, question: Callable[[], Out]) -> Out | None:
        """Return the result of a call that uses the client. None if Redis does not answer, or
        did not answer the last call; after each rest, one more is made in the background."""
        if not self.breaker.rests_until:
            return self._ask(question)
        if self.breaker.let_one_try():
            gevent.spawn(self._ask, question)
        return None

    def _ask(self, question: Callable[[], Out]) -> Out | None:
        is_beside = not is_module_patched("socket")  # a thread waits, not the loop
        try:
            with gevent.Timeout(self._longest_s, self._late):
                answer = run_beside(question) if is_beside else question()
        except self._error as error:
            if self.breaker.open():
                kind = type(error).__name__
                log.warning("the Redis for %s does not answer (%s)", self._use, kind)
            return None
        if self.breaker.close():
            log.warning("the Redis for %s answers again", self._use)
        return answer
