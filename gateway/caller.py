"""The client that asks: its address, its deadline, and whether it still waits."""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass

from flask import Request

from gateway.connection import has_gone
from gateway.schemas import parse_timeout_ms

#: nginx says so who its client is.
_ADDRESS_HEADER = "X-Real-IP"
#: And so when the request arrived there, as `t=` and Unix time in seconds.
_ARRIVAL_HEADER = "X-Request-Start"
#: nginx waits no longer: a request that seems older came by another clock.
_OLDEST_S = 60.0


@dataclass(frozen=True)
class Caller:
    """One request's client. `deadline` is in the machine's monotonic time."""

    address: str
    #: Seconds that the request may take in all.
    limit_s: float
    deadline: float
    #: Its connection, where there is one.
    client: socket.socket | None = None

    def has_gone(self) -> bool:
        """Whether it has closed its connection."""
        return has_gone(self.client)


def read_caller(request: Request, longest_s: float) -> Caller:
    """The client of a request that may take `longest_s`, or less with `X-Timeout-Ms`. The
    time that it has waited since it reached nginx counts.

    Raises MalformedRequest.
    """
    limit_s = parse_timeout_ms(request.headers.get("X-Timeout-Ms"), longest_s)
    waited_s = _read_age(request.headers.get(_ARRIVAL_HEADER, ""))
    return Caller(
        request.headers.get(_ADDRESS_HEADER) or request.remote_addr or "",
        limit_s,
        time.monotonic() + limit_s - waited_s,
        request.environ.get("gunicorn.socket"),
    )


def _read_age(header: str) -> float:
    try:
        age_s = time.time() - float(header.removeprefix("t="))
    except ValueError:
        return 0.0
    return age_s if 0 <= age_s < _OLDEST_S else 0.0
