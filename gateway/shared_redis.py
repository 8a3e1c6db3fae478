"""A Redis or Valkey that several machines share. While it is gone, nobody waits for it."""

import logging
from collections.abc import Callable
from typing import Any, TypeVar

from gateway.circuit_breaker import CircuitBreaker

log = logging.getLogger(__name__)

#: The time for which nobody asks it after it has not answered.
_RETRY_S = 5.0
#: Connections of a gateway process.
_CONNECTIONS = 32

Out = TypeVar("Out")


class SharedRedis:
    """A client that never waits for longer than its limit. Safe to share among greenlets."""

    def __init__(self, url: str, limit_s: float, use: str) -> None:
        """The log says what its `use` is when it goes. Valkey speaks Redis' protocol, so that
        one client does for both."""
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        plain = url.replace("valkey", "redis", 1).replace("redis+unix", "unix", 1)
        pool: Any = redis.BlockingConnectionPool.from_url(
            plain,
            max_connections=_CONNECTIONS,
            timeout=limit_s,
            socket_timeout=limit_s,
            socket_connect_timeout=limit_s,
            # Once, where it has closed a connection since; never what it may have counted.
            retry=Retry(NoBackoff(), 1, supported_errors=(redis.ConnectionError,)),
        )
        self.client = redis.Redis(connection_pool=pool)
        self.breaker = CircuitBreaker(_RETRY_S)
        self._error, self._use = redis.RedisError, use

    def ask(self, question: Callable[[], Out]) -> Out | None:
        """The answer to a question that uses the client, None where Redis does not answer, or
        has not answered a moment ago."""
        if not self.breaker.let_in():
            return None
        try:
            answer = question()
        except self._error as error:
            if self.breaker.open():
                kind = type(error).__name__
                log.warning("the Redis for %s is gone (%s)", self._use, kind)
            return None
        if self.breaker.close():
            log.warning("the Redis for %s answers again", self._use)
        return answer
