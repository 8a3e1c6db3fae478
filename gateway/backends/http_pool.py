"""Keep-alive connections to the programs that run models. However a call can fail, it is
one of three exceptions.
"""

from __future__ import annotations

import errno
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import urllib3
from urllib3.connection import HTTPConnection
from urllib3.response import HTTPResponse
from urllib3.util import SKIP_HEADER

from contract import rows
from gateway.backends.backend import Call, RowRequest
from gateway.errors import DeadlineExceeded
from gateway.http.sending import is_readable

_CONNECT_S = 2.0
_LEAST_S = 0.001
#: The system's errors of a cut link; the latter two on the same network, where it also
#: finds no machine of that address any more.
_CUT = {errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH}
#: A handler reads the headers of each row one by one.
_NO_HEADERS = {"User-Agent": SKIP_HEADER, "Accept-Encoding": SKIP_HEADER}


@dataclass(frozen=True)
class HealthProbe:
    """A question that is asked once while a call waits. It may raise the error that ends
    the call."""

    after_s: float
    ask: Callable[[], None]


#: The call that the connection in use works for, and the doubt about its answer.
_calls: ContextVar[Call | None] = ContextVar("_calls", default=None)
_doubts: ContextVar[HealthProbe | None] = ContextVar("_doubts", default=None)

#: A socket's level, option and value.
Option = tuple[int, int, int]


class ConnectError(Exception):
    """There is no connection, or none any more: nobody at the other end takes bytes."""


class ConnectionClosed(Exception):
    """The connection was closed before the answer was complete."""


class ReadTimeout(Exception):
    """The answer did not come within the call's limit."""


class Channel:
    """A pool of keep-alive connections to one address, safe to share among greenlets."""

    def __init__(
        self, url: str, *, connections: int, options: Sequence[Option] = ()
    ) -> None:
        self.url = url
        self._connections = connections
        self._options = [*HTTPConnection.default_socket_options, *options]
        self._open()

    def _open(self) -> None:
        # The pool below requests, whose own part was a fifth of the gateway's CPU.
        self._pool = urllib3.connection_from_url(
            self.url, maxsize=self._connections, socket_options=self._options
        )
        self._pool.ConnectionCls = _Connection
        self._opened_at = time.monotonic()

    def renew(self, age_s: float) -> None:
        """Closes the idle connections, unless all were made in the last `age_s`."""
        if time.monotonic() - self._opened_at > age_s:
            old = self._pool
            self._open()
            old.close()

    def call(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        *,
        body: bytes | None = None,
        until: float,
        call: Call | None = None,
        doubt: HealthProbe | None = None,
    ) -> urllib3.BaseHTTPResponse:
        """An answer of any status, before `until` by the monotonic clock. The connection is
        closed if the `call` is given up. Raises ConnectError, ConnectionClosed, ReadTimeout,
        and what the `doubt` raises."""
        limit_s = max(_LEAST_S, until - time.monotonic())
        call_token, doubt_token = _calls.set(call), _doubts.set(doubt)
        try:
            return self._pool.urlopen(
                method,
                path,
                body=body,
                headers={**headers, **_NO_HEADERS},
                retries=False,
                timeout=urllib3.Timeout(connect=limit_s, read=limit_s),
            )
        except urllib3.exceptions.ConnectTimeoutError as error:  # or a refusal
            raise ConnectError("It does not accept connections.") from error
        except urllib3.exceptions.HTTPError as error:
            raise _explain(error) from error
        finally:
            _calls.reset(call_token)
            _doubts.reset(doubt_token)
            if call:
                call.stop = None


class Slots:
    """Bounds the rows that a process has sent and not been answered."""

    def __init__(self, count: int) -> None:
        self._free = threading.BoundedSemaphore(count)

    @contextmanager
    def take(self, deadline: float) -> Iterator[None]:
        """One of them. Raises DeadlineExceeded where none is free in time."""
        if not self._free.acquire(timeout=count_remaining(deadline)):
            raise DeadlineExceeded(
                "The deadline passed while waiting for a connection."
            )
        try:
            yield
        finally:
            self._free.release()


def count_remaining(deadline: float) -> float:
    """Seconds until then. Raises DeadlineExceeded if there are none."""
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise DeadlineExceeded("The deadline passed before the model was asked.")
    return remaining


def describe(row: RowRequest) -> dict[str, str]:
    """The headers by which every handler knows a row."""
    headers = {"Content-Type": row.content_type}
    if row.parameters:
        headers[rows.PARAMETERS] = urlencode(row.parameters)
    return headers


def _explain(error: Exception) -> Exception:
    """Tells our own limit from the system's, which gives up a connection whose other end
    acknowledges nothing, and both from a connection that was closed."""
    origin = error.__cause__ or error.__context__
    if isinstance(origin, OSError) and origin.errno in _CUT:
        return ConnectError("It does not acknowledge what is sent.")
    if isinstance(origin, TimeoutError):
        return ReadTimeout("It does not answer.")
    return ConnectionClosed("It closed the connection.")


class _Connection(HTTPConnection):
    """urllib3 asks gevent's `poll` whether an idle connection is still open, which costs
    more than all the rest of a request. And its limit for connecting is also the one for
    sending, which is too short for a large row."""

    @property
    def is_connected(self) -> bool:
        """Whether a request can be sent by it."""
        return self.sock is not None and not is_readable(self.sock)

    def connect(self) -> None:
        """Connects within its own limit."""
        whole = self.timeout
        self.timeout = min(_CONNECT_S, whole or _CONNECT_S)
        try:
            super().connect()
        finally:
            self.timeout = whole
        self.sock.settimeout(whole)

    def request(self, *args: Any, **options: Any) -> None:
        """Sends a request, and from then on can be closed by the call."""
        super().request(*args, **options)
        if call := _calls.get():
            call.stop = self._shut
            if call.is_given_up:  # while it was being sent
                self._shut()

    def getresponse(self) -> HTTPResponse:  # type: ignore[override]
        """As http.client's. The doubt is asked if nothing has come by then."""
        doubt, limit_s = _doubts.get(), self.timeout
        if doubt and self.sock and limit_s and limit_s > doubt.after_s:
            began = time.monotonic()
            self._wait(doubt)
            self.timeout = max(_LEAST_S, limit_s - (time.monotonic() - began))
        return super().getresponse()

    def _wait(self, doubt: HealthProbe) -> None:
        self.sock.settimeout(doubt.after_s)
        try:
            self.sock.recv(1, socket.MSG_PEEK)
        except TimeoutError as error:
            if error.errno:  # the system's, for a cut link
                raise
            doubt.ask()

    def _shut(self) -> None:
        """Shut the connection: the greenlet that waits for the answer sees it end."""
        if self.sock is not None:
            with suppress(OSError):
                self.sock.shutdown(socket.SHUT_RDWR)
