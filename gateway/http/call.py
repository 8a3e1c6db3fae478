"""The client, the deadline and the key of a request. They travel as one argument with all work
that is done for it.
"""

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
from documents.storage import NOBODY
from gateway.errors import ClientGone, DeadlineExceeded
from gateway.http.connection import has_gone
from gateway.schemas import parse_timeout_ms

#: nginx's headers for the client's address and the time of arrival (`t=` and Unix seconds).
_ADDRESS, _ARRIVAL = "HTTP_X_REAL_IP", "HTTP_X_REQUEST_START"
_REQUEST_ID = re.compile(r"[\w-]{1,64}", re.ASCII)
#: From the program that translates documents.
_WORKER = "HTTP_" + WORKER_HEADER.upper().replace("-", "_")
#: nginx does not wait longer, so an older time is from another clock.
_OLDEST_S = 60.0
#: Seconds between two looks at whether waiting is still useful.
_LOOK_S = 0.25

#: Counts characters if a block succeeds.
Charge = Callable[[int], AbstractContextManager[None]]


class Deadline(float):
    """The moment at which a request's time is over, in seconds of the monotonic clock."""

    __slots__ = ()

    def check(self, stage: str) -> float:
        """Return the seconds that are left for a stage such as "the texts were read". Raises
        DeadlineExceeded if there are none."""
        remaining_s = self - time.monotonic()
        if remaining_s <= 0:
            raise DeadlineExceeded(stage)
        return remaining_s


def charge_nobody(characters: int) -> AbstractContextManager[None]:
    """Counts nothing: the request has no key."""
    return nullcontext()


@dataclass(frozen=True)
class Call:
    """One request's client, time and owner."""

    address: str
    #: The time limit of the whole request in seconds.
    limit_s: float
    deadline: Deadline
    #: The connection, if there is one.
    client: socket.socket | None = None
    #: The id of the key whose glossaries and documents the request sees.
    owner: str = NOBODY
    charge: Charge = charge_nobody
    #: Whether nobody looks at a screen meanwhile.
    is_bulk: bool = False

    def has_gone(self) -> bool:
        """Whether the client has closed the connection."""
        return has_gone(self.client)

    def check(self, stage: str) -> float:
        """Return the seconds after which to look again while something waits for a stage.
        Raises ClientGone, and what `Deadline.check` raises."""
        if self.has_gone():
            raise ClientGone
        return min(self.deadline.check(stage), _LOOK_S)


def read_call(
    environ: Mapping[str, Any],
    longest_s: float,
    owner: str = NOBODY,
    charge: Charge = charge_nobody,
) -> Call:
    """The call of a WSGI request that may take `longest_s`, or less with `X-Timeout-Ms`. The
    time since its arrival at nginx counts. Raises MalformedRequest.
    """
    limit_s = parse_timeout_ms(environ.get("HTTP_X_TIMEOUT_MS"), longest_s)
    waited_s = _read_age(environ.get(_ARRIVAL, ""))
    return Call(
        environ.get(_ADDRESS) or environ.get("REMOTE_ADDR", ""),
        limit_s,
        Deadline(time.monotonic() + limit_s - waited_s),
        environ.get("gunicorn.socket"),
        owner,
        charge,
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
