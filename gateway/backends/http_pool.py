"""Keep-alive connections to the programs that run models. Every failure of a call is one of
three exceptions.
"""

from __future__ import annotations

import errno
import socket
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode, urlsplit

from gevent.lock import BoundedSemaphore
from httptools import HttpParserError, HttpResponseParser
from pydantic_core import from_json

from contract import rows
from contract.problems import CONTENT_TYPE
from gateway.backends.backend import Cancellation, RowRequest
from gateway.errors import DeadlineExceeded
from gateway.http.connection import is_readable
from gateway.http.request import Deadline

_CONNECT_S = 2.0
_LEAST_S = 0.001
_BLOCK_BYTES = 64 << 10
_MOST_HEADERS = 100
#: The errors of a cut link. The last two occur on the same network, where the machine's address
#: is then not found either.
_CUT = {errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH}

#: A socket option: level, name and value.
Option = tuple[int, int, int]


class ConnectError(Exception):
    """The connection could not be opened, or the other end no longer acknowledges anything."""


class ConnectionClosed(Exception):
    """The connection was closed before the answer was complete."""


class ReadTimeout(Exception):
    """The answer did not arrive within the call's limit."""


@dataclass(frozen=True)
class HealthProbe:
    """A check that runs once while a call waits. Its exception, if any, ends the call."""

    after_s: float
    ask: Callable[[], None]


class Channel:
    """A pool of keep-alive connections to one address, safe to share among greenlets. It opens
    one only if none is idle, so it never has more connections than concurrent calls, which its
    callers limit."""

    def __init__(self, url: str, options: Sequence[Option] = ()) -> None:
        self.url = url
        parts = urlsplit(url)
        self._address = parts.hostname or "", parts.port or 80
        self._host = f"Host: {parts.netloc}"
        self._options = (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1), *options
        self._idle: deque[socket.socket] = deque()
        self._opened_at = time.monotonic()
        weakref.finalize(self, _close_all, self._idle)

    def renew(self, age_s: float) -> None:
        """Close the idle connections, unless all were opened in the last `age_s`."""
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
        """Return the answer, before `until` by the monotonic clock. Cancelling closes the
        connection. Raises ConnectError, ConnectionClosed, ReadTimeout and errors of the
        `probe`."""
        opened_at = self._opened_at
        limit_s = max(_LEAST_S, until - time.monotonic())
        head = self._write_head(method, path, headers, len(body))
        sock = self._take_idle() or self._connect(limit_s)
        try:
            sock.settimeout(limit_s)
            _send(sock, head, body)
            if cancellation:
                cancellation.stop = partial(_shut, sock)
                if cancellation.is_cancelled:  # while it was being sent
                    _shut(sock)
            if probe and until - time.monotonic() > probe.after_s:
                _wait(sock, probe)
            reply = HttpReply(sock, until)
        except (OSError, HttpParserError) as error:
            sock.close()
            raise _explain(error) from error
        except BaseException:
            sock.close()
            raise
        finally:
            if cancellation:
                cancellation.stop = None
        if reply.keeps_alive and opened_at == self._opened_at:
            self._idle.append(sock)
        else:
            sock.close()
        return reply

    def _write_head(
        self, method: str, path: str, headers: Mapping[str, str], length: int
    ) -> bytes:
        """Return the request's head. Raises ValueError if a header contains a line break."""
        lines = [f"{method} {path} HTTP/1.1", self._host]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if method != "GET":
            lines.append(f"Content-Length: {length}")
        head = "\r\n".join((*lines, "", ""))
        breaks = len(lines) + 1
        if head.count("\n") != breaks or head.count("\r") != breaks:
            raise ValueError(f"A header for {path} has a line break.")
        return head.encode("latin-1")

    def _take_idle(self) -> socket.socket | None:
        """Return the most recently used idle connection that is still open."""
        while self._idle:
            sock = self._idle.pop()
            if not is_readable(sock):
                return sock
            sock.close()
        return None

    def _connect(self, limit_s: float) -> socket.socket:
        # The limit for sending a large row would be too long.
        limit_s = min(_CONNECT_S, limit_s)
        try:
            sock = socket.create_connection(self._address, limit_s)
        except OSError as error:
            raise ConnectError("It does not accept connections.") from error
        for option in self._options:
            sock.setsockopt(*option)
        return sock


class Slots:
    """A limit on the unanswered rows of a process."""

    def __init__(self, count: int) -> None:
        self._free = BoundedSemaphore(count)

    @contextmanager
    def take(self, deadline: float) -> Iterator[None]:
        """Take a slot for a `with` block. Raises DeadlineExceeded if none is free in time."""
        limit_s = Deadline(deadline).check("the model was asked")
        if not self._free.acquire(timeout=limit_s):
            raise DeadlineExceeded("a connection was free")
        try:
            yield
        finally:
            self._free.release()


def describe(row: RowRequest) -> dict[str, str]:
    """Return the headers that describe a row to any handler."""
    headers = {"Content-Type": row.content_type}
    if row.parameters:
        headers[rows.PARAMETERS] = urlencode(row.parameters)
    if row.trace:
        headers[rows.TRACE] = row.trace
    return headers


def _explain(error: Exception) -> Exception:
    """Distinguish our own timeout, the system's timeout for a connection whose other end
    acknowledges nothing, and a closed connection."""
    if isinstance(error, OSError) and error.errno in _CUT:
        return ConnectError("It does not acknowledge what it is sent.")
    if isinstance(error, TimeoutError):
        return ReadTimeout("It does not answer.")
    return ConnectionClosed("It closed the connection.")


def _close_all(idle: deque[socket.socket]) -> None:
    while idle:
        idle.pop().close()


def _send(sock: socket.socket, head: bytes, body: bytes) -> None:
    # The other end may have answered without reading all of a large row.
    with suppress(BrokenPipeError, ConnectionResetError):
        if len(body) < _BLOCK_BYTES:
            data = head + body
            # Usually one system call: gevent's `sendall` first reads the buffer's size.
            if (sent := sock.send(data)) < len(data):
                sock.sendall(memoryview(data)[sent:])
        else:
            sock.sendall(head)
            sock.sendall(body)


def _wait(sock: socket.socket, probe: HealthProbe) -> None:
    """Run the probe if nothing is received before it is due."""
    sock.settimeout(probe.after_s)
    try:
        sock.recv(1, socket.MSG_PEEK)
    except TimeoutError as error:
        if error.errno:  # the system's, for a cut link
            raise
        probe.ask()


def _shut(sock: socket.socket) -> None:
    """Shut a connection down, which wakes the greenlet that waits for the answer."""
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


class HttpReply:
    """An answer of any status, read completely from a connection. The parser calls its `on_`
    methods. Header names are in lower case."""

    def __init__(self, sock: socket.socket, until: float) -> None:
        self.headers: dict[str, str] = {}
        self.body = bytearray()
        self.status, self.keeps_alive = 0, False
        self._parser = HttpResponseParser(self)
        try:
            while not self.status:
                sock.settimeout(max(_LEAST_S, until - time.monotonic()))
                block = sock.recv(_BLOCK_BYTES)
                if not block:
                    raise ConnectionResetError
                self._parser.feed_data(block)
        finally:
            del self._parser  # or the two would form a cycle

    def on_message_begin(self) -> None:
        if self.status:
            raise HttpParserError("A second response came at once.")
        self.headers.clear()  # those of an interim response

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(self.headers) >= _MOST_HEADERS:
            raise HttpParserError("It has too many headers.")
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= HTTPStatus.OK:  # not of an interim response
            self.status, self.keeps_alive = status, self._parser.should_keep_alive()

    @property
    def is_problem(self) -> bool:
        """Whether the body is a problem document."""
        return self.headers.get("content-type") == CONTENT_TYPE

    def read_json(self) -> Any:
        """Return the parsed body."""
        return from_json(self.body)
