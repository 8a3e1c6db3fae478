"""A client's connection. It measures how fast a body arrives, reports a client that is too slow
or disconnects, and allows bytes that were read too early to be put back."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from gevent import Timeout, get_hub, socket
from gevent.monkey import get_original

# Nothing that opens sockets is imported here: gevent has not patched them yet.

#: The system's own: gevent's switches greenlets and does not support POLLRDHUP.
_poll = get_original("select", "poll")
#: gevent removes `epoll` because it can block. Here it is only polled.
_epoll = get_original("select", "epoll")
_READABLE = 1
_ONCE_GONE = select.EPOLLRDHUP | select.EPOLLONESHOT
#: A timer of 0 seconds would fire before the waiting bytes are read.
_LEAST_S = 0.001
#: Any useful connection is faster in the long run.
_LEAST_BYTES_PER_S = 1024
#: The most bytes of answers that wait for their clients in one process, the fewest of one that
#: are counted even before they have to wait, and the seconds that each may take in any case.
_MOST_UNSENT, _LARGE_BYTES, _PATIENCE_S = 256 << 20, 64 << 10, 1.0


class TooSlow(Exception):
    """A body arrives more slowly than its rate allows."""


class Silence:
    """The seconds for which one body may still be silent. Received bytes add time, up to the
    grace period, and silence uses it: a client may pause now and then, but not trickle."""

    def __init__(self, grace_s: float) -> None:
        self._grace_s = self.left_s = grace_s

    def count(self, seconds: float, size: int) -> None:
        """Record the arrival of `size` bytes after `seconds`."""
        left_s = max(self.left_s - seconds, 0) + size / _LEAST_BYTES_PER_S
        self.left_s = min(left_s, self._grace_s)


class Connection(socket.socket):  # type: ignore[misc]
    """The connection that Gunicorn's parser reads from."""

    #: Bytes that were read and put back.
    _first = b""
    _silence: Silence | None = None
    #: The timer for waits between requests.
    _idle: Any = None
    #: The largest read: Gunicorn reads more than its caller requests.
    _most_bytes = 1 << 20
    #: The bytes that connections of this process have to send, and since when, oldest first.
    unsent: dict[Connection, tuple[float, int]]

    @contextmanager
    def bear(self, silence: Silence, most_bytes: int) -> Iterator[None]:
        """Apply `silence` while a part of the body is read."""
        self._silence, self._most_bytes = silence, most_bytes
        try:
            yield
        finally:
            self._silence, self._most_bytes = None, Connection._most_bytes

    def recv_next(self, size: int, idle_s: float) -> bytes:
        """Receive like `recv`, between requests: empty after `idle_s` without data. One timer
        serves all waits of the connection."""
        if self._idle is None:
            self._idle = get_hub().loop.timer(idle_s, idle_s)
        self._idle.again(self._end, update=False)
        try:
            return self.recv(size)
        finally:
            self._idle.stop()

    def _end(self) -> None:
        """Make the waiting `recv` return the end of the stream."""
        with suppress(OSError):
            self.shutdown(socket.SHUT_RD)

    def put_back(self, data: bytes) -> None:
        """Make the next reads return these bytes."""
        self._first = data + self._first

    def recv(self, size: int, flags: int = 0) -> bytes:
        """Receive like a socket's `recv`. Raises TooSlow."""
        if self._first:
            data = self._first[:size]
            self._first = self._first[size:]
            return data
        size = min(size, self._most_bytes)
        if self._silence is None:
            return bytes(super().recv(size, flags))
        began = time.monotonic()
        try:
            with Timeout(max(self._silence.left_s, _LEAST_S), TooSlow):
                data = bytes(super().recv(size, flags))
        except TooSlow:
            if not is_readable(self):  # this process may have been the slow one
                raise
            data = bytes(super().recv(size, flags))
        self._silence.count(time.monotonic() - began, len(data))
        return data

    def sendall(self, data: bytes, flags: int = 0) -> None:
        """Send everything, usually in one system call. If too many bytes wait for clients, cut
        the slowest off: nginx lets one take its answer for hours."""
        rest = memoryview(data)
        if len(rest) < _LARGE_BYTES:  # it seldom waits
            rest = rest[self.send(rest, flags) :]
        if not rest:
            return
        now = time.monotonic()
        self.unsent[self] = now, len(rest)
        try:
            while sum(size for _, size in self.unsent.values()) > _MOST_UNSENT:
                slowest, (since, _) = next(iter(self.unsent.items()))
                if now - since < _PATIENCE_S:
                    break
                del self.unsent[slowest]
                with suppress(OSError):  # its client may have gone
                    slowest.shutdown(socket.SHUT_RDWR)
            super().sendall(rest, flags)
        finally:
            self.unsent.pop(self, None)


def is_readable(sock: socket.socket) -> bool:
    """Whether bytes or the end of the stream have arrived."""
    poll = _poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


def has_gone(client: socket.socket | None) -> bool:
    """Whether the client has closed the connection, even with a part of its body unread."""
    if client is None:
        return False
    try:
        poll = _poll()
        poll.register(client, select.POLLRDHUP)
        return bool(poll.poll(0))
    except (OSError, ValueError):
        return True


class DisconnectWatcher:
    """A watcher of connections that neither polls each nor reads from them."""

    def __init__(self) -> None:
        self._epoll = _epoll()
        self._callbacks: dict[int, list[Callable[[], None]]] = {}
        self._watcher: Any = None

    def watch(
        self, client: socket.socket | None, callback: Callable[[], None]
    ) -> int | None:
        """Call `callback`, in the hub, if the client closes its connection before a call of
        `forget` with the returned number. A connection may have several callbacks."""
        number = -1 if client is None else client.fileno()
        if number < 0:
            return None
        if self._watcher is None:
            self._watcher = get_hub().loop.io(self._epoll.fileno(), _READABLE)
            self._watcher.start(self._notice)
        self._callbacks.setdefault(number, []).append(callback)
        try:
            self._epoll.modify(number, _ONCE_GONE)
        except FileNotFoundError:  # at first; the system forgets it as it closes
            self._epoll.register(number, _ONCE_GONE)
        return number

    def forget(self, number: int | None, callback: Callable[[], None]) -> None:
        """Cancel a callback of this number."""
        if number is not None:
            self._callbacks[number].remove(callback)

    def _notice(self) -> None:
        for number, _ in self._epoll.poll(0):
            for callback in tuple(self._callbacks.get(number, ())):
                callback()
