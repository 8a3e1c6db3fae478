"""Connections to PostgreSQL that never wait for ever: where a server stands still, or its host
is gone, what was asked ends with an error.
"""

from __future__ import annotations

from typing import Any, TypeVar

import psycopg
from sqlalchemy import Engine, event

Row = TypeVar("Row")


def limit_waits(target: Engine, limit_s: int) -> None:
    """Closes a connection that gives no answer for `limit_s` seconds."""

    class LimitedConnection(psycopg.Connection[Row]):
        def wait(
            self, gen: Any, interval: float = 0.1, timeout: float | None = None
        ) -> Any:
            try:
                return super().wait(gen, interval, timeout or limit_s)
            except psycopg.errors._WaitTimeout as error:
                self.pgconn.finish()  # nobody could tell whose a late answer is
                raise psycopg.OperationalError(f"no answer for {limit_s} s") from error

    def connect(_: object, __: object, given: list[Any], named: Any) -> Any:
        limits = {
            "connect_timeout": limit_s,
            "tcp_user_timeout": 1000 * limit_s,
            "keepalives_idle": 3,
            "keepalives_interval": 1,
            "keepalives_count": 3,
        }
        return LimitedConnection.connect(*given, **(limits | named))

    event.listen(target, "do_connect", connect)
