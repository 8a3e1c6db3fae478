"""The client of a request: its address, its deadline, and whether it still waits."""

from __future__ import annotations

import re
import socket
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from contract.documents import WORKER_HEADER
from gateway.http.connection import Deadline
from gateway.http.sending import has_gone
from gateway.schemas import parse_timeout_ms

#: nginx's headers for the client's address and the time of arrival (`t=` and Unix seconds).
_ADDRESS, _ARRIVAL = "HTTP_X_REAL_IP", "HTTP_X_REQUEST_START"
_REQUEST_ID = re.compile(r"[\w-]{1,64}", re.ASCII)
#: From the program that translates documents.
_WORKER = "HTTP_" + WORKER_HEADER.upper().replace("-", "_")
#: nginx does not wait longer, so an older time is from another clock.
_OLDEST_S = 60.0
#: Where a request's environment has the `Charge` of its key.
CHARGE = "babelgate.charge"

#: Counts characters if a block succeeds.
Charge = Callable[[int], AbstractContextManager[None]]


def charge_nobody(characters: int) -> AbstractContextManager[None]:
    """Counts nothing: the request has no key."""
    return nullcontext()


@dataclass(frozen=True)
class Caller:
    """One request's client. `deadline` is in the machine's monotonic time."""

    address: str
    #: The time limit of the whole request in seconds.
    limit_s: float
    deadline: float
    #: The connection, if there is one.
    client: socket.socket | None = None
    charge: Charge = charge_nobody
    #: Whether nobody looks at a screen meanwhile.
    is_bulk: bool = False

    def has_gone(self) -> bool:
        """Whether the client has closed the connection."""
        return has_gone(self.client)

    @property
    def patience(self) -> Deadline:
        """The limit for work that is done before rows are sent."""
        return Deadline(self.deadline, self.has_gone)


def read_caller(environ: Mapping[str, Any], longest_s: float) -> Caller:
    """The client of a WSGI request that may take `longest_s`, or less with `X-Timeout-Ms`.
    The time since its arrival at nginx counts. Raises MalformedRequest.
    """
    limit_s = parse_timeout_ms(environ.get("HTTP_X_TIMEOUT_MS"), longest_s)
    waited_s = _read_age(environ.get(_ARRIVAL, ""))
    return Caller(
        environ.get(_ADDRESS) or environ.get("REMOTE_ADDR", ""),
        limit_s,
        time.monotonic() + limit_s - waited_s,
        environ.get("gunicorn.socket"),
        environ.get(CHARGE, charge_nobody),
        _WORKER in environ,
    )


def read_request_id(environ: Mapping[str, Any]) -> str:
    """The id that nginx gives every request, or a new one."""
    given = environ.get("HTTP_X_REQUEST_ID", "")
    return given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex


def _read_age(header: str) -> float:
    try:
        age_s = time.time() - float(header.removeprefix("t="))
    except ValueError:
        return 0.0
    return age_s if 0 <= age_s < _OLDEST_S else 0.0
