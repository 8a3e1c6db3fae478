"""Keep-alive connections to the programs that run models. However a call can fail, it is
one of three exceptions.
"""

from __future__ import annotations

import errno
import json
import socket
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import urlencode, urlsplit

from contract import rows
from gateway.backends.backend import Cancellation, RowRequest
from gateway.errors import DeadlineExceeded
from gateway.http.connection import is_readable

_CONNECT_S = 2.0
_LEAST_S = 0.001
#: The errors of a cut link; the latter two on the same network, where it also finds
#: no machine of that address any more.
_CUT = {errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH}

#: A socket's level, option and value.
Option = tuple[int, int, int]


class ConnectError(Exception):
    """There is no connection, or none any more: nobody at the other end takes bytes."""


class ConnectionClosed(Exception):
    """The connection was closed before the answer was complete."""


class ReadTimeout(Exception):
    """The answer did not come within the call's limit."""


@dataclass(frozen=True)
class HealthProbe:
    """A question that is asked once while a call waits. It may raise what ends the call."""

    after_s: float
    ask: Callable[[], None]


@dataclass(frozen=True)
class HttpReply:
    """An answer of any status."""

    status: int
    headers: Message
    body: bytes

    def read_json(self) -> Any:
        """The content of the body."""
        return json.loads(self.body)


class Channel:
    """A pool of keep-alive connections to one address, safe to share among greenlets."""

    def __init__(
        self, url: str, *, connections: int, options: Sequence[Option] = ()
    ) -> None:
        self.url = url
        self._most_idle = connections
        self._options = options
        self._idle: deque[_Connection] = deque()
        self._opened_at = time.monotonic()
        weakref.finalize(self, _close_all, self._idle)

    def renew(self, age_s: float) -> None:
        """Close the idle connections, unless all were made in the last `age_s`."""
        if time.monotonic() - self._opened_at > age_s:
            self._opened_at = time.monotonic()
            _close_all(self._idle)

    def call(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        *,
        body: bytes = b"",
        until: float,
        cancellation: Cancellation | None = None,
        probe: HealthProbe | None = None,
    ) -> HttpReply:
        """Return an answer before `until` by the monotonic clock. The connection is closed if
        the call is cancelled. Raises ConnectError, ConnectionClosed, ReadTimeout, and what the
        `probe` raises."""
        idle, opened_at = self._idle, self._opened_at
        try:
            connection = idle.pop()  # the one that was used last
        except IndexError:
            connection = _Connection(self.url, self._options)
        try:
            connection.open(max(_LEAST_S, until - time.monotonic()))
            connection.send_request(
                method, path, headers, body, cancellation=cancellation
            )
            reply = connection.read_reply(until, probe)
        except (OSError, HTTPException) as error:
            connection.close()
            raise _explain(error) from error
        except BaseException:
            connection.close()
            raise
        finally:
            if cancellation:
                cancellation.stop = None
        if opened_at == self._opened_at and len(idle) < self._most_idle:
            idle.append(connection)
        else:
            connection.close()
        return reply


class Slots:
    """Bounds the rows that a process has sent and not been answered."""

    def __init__(self, count: int) -> None:
        self._free = threading.BoundedSemaphore(count)

    @contextmanager
    def take(self, deadline: float) -> Iterator[None]:
        """One of them. Raises DeadlineExceeded where none is free in time."""
        if not self._free.acquire(timeout=count_remaining(deadline)):
            raise DeadlineExceeded("a connection was free")
        try:
            yield
        finally:
            self._free.release()


def count_remaining(deadline: float) -> float:
    """Seconds until then. Raises DeadlineExceeded if there are none."""
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise DeadlineExceeded("the model was asked")
    return remaining


def describe(row: RowRequest) -> dict[str, str]:
    """The headers by which every handler knows a row."""
    headers = {"Content-Type": row.content_type}
    if row.parameters:
        headers[rows.PARAMETERS] = urlencode(row.parameters)
    return headers


def _explain(error: Exception) -> Exception:
    """Tell our own limit from the system's, which gives up a connection whose other end
    acknowledges nothing, and both from a connection that was closed."""
    if isinstance(error, OSError) and error.errno in _CUT:
        return ConnectError("It does not acknowledge what is sent.")
    if isinstance(error, TimeoutError):
        return ReadTimeout("It does not answer.")
    return ConnectionClosed("It closed the connection.")


def _close_all(idle: deque[_Connection]) -> None:
    while idle:
        idle.pop().close()


class _Connection(HTTPConnection):
    """One connection, which may be closed and opened again."""

    def __init__(self, url: str, options: Sequence[Option]) -> None:
        parts = urlsplit(url)
        super().__init__(parts.hostname or "", parts.port)
        self._options = options

    def open(self, limit_s: float) -> None:
        """Connect, unless a request can be sent by it as it is. Raises ConnectError."""
        if self.sock is not None and is_readable(self.sock):
            self.close()
        if self.sock is None:
            self._connect(limit_s)
        self.sock.settimeout(limit_s)

    def _connect(self, limit_s: float) -> None:
        # The limit for sending a large row would be too long.
        self.timeout = min(_CONNECT_S, limit_s)
        try:
            self.connect()
        except OSError as error:
            raise ConnectError("It does not accept connections.") from error
        for option in self._options:
            self.sock.setsockopt(*option)

    def send_request(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes,
        *,
        cancellation: Cancellation | None,
    ) -> None:
        """Send a request that can be cancelled from then on."""
        self.putrequest(method, path, skip_accept_encoding=True)
        for name, value in headers.items():
            self.putheader(name, value)
        if method != "GET":
            self.putheader("Content-Length", str(len(body)))
        # The other end may have answered before it has read a large row.
        with suppress(BrokenPipeError, ConnectionResetError):
            self.endheaders(body)
        if cancellation:
            cancellation.stop = self._shut
            if cancellation.is_cancelled:  # while it was being sent
                self._shut()

    def read_reply(self, until: float, probe: HealthProbe | None) -> HttpReply:
        """Read the whole answer. The probe is asked if nothing has come by then."""
        if probe and until - time.monotonic() > probe.after_s:
            self._wait(probe)
        self.sock.settimeout(max(_LEAST_S, until - time.monotonic()))
        response = self.getresponse()
        return HttpReply(response.status, response.headers, response.read())

    def _wait(self, probe: HealthProbe) -> None:
        self.sock.settimeout(probe.after_s)
        try:
            self.sock.recv(1, socket.MSG_PEEK)
        except TimeoutError as error:
            if error.errno:  # the system's, for a cut link
                raise
            probe.ask()

    def _shut(self) -> None:
        """End the connection for the greenlet that waits for the answer."""
        if self.sock is not None:
            with suppress(OSError):
                self.sock.shutdown(socket.SHUT_RDWR)
