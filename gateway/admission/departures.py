"""Notices clients that close their connections while they are being served."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from gevent import get_hub
from gevent.monkey import get_original

#: gevent's patch takes it away, since it blocks; here it is only ever asked what it knows.
_epoll = get_original("select", "epoll")
_READABLE = 1


class Departures:
    """Watches connections without asking them one by one. Nothing is read from them."""

    def __init__(self) -> None:
        self._epoll = _epoll()
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._watcher: Any = None

    @contextmanager
    def watch(
        self, client: socket.socket | None, callback: Callable[[], None]
    ) -> Iterator[None]:
        """Calls `callback` once, in the hub, where the client closes its connection in
        the meantime."""
        number = -1 if client is None else client.fileno()
        if number < 0 or number in self._callbacks:
            yield
            return
        self._start()
        self._callbacks[number] = callback
        self._epoll.register(number, select.EPOLLRDHUP | select.EPOLLONESHOT)
        try:
            yield
        finally:
            del self._callbacks[number]
            with suppress(OSError):  # it has been closed on our side as well
                self._epoll.unregister(number)

    def _start(self) -> None:
        if self._watcher is None:
            self._watcher = get_hub().loop.io(self._epoll.fileno(), _READABLE)
            self._watcher.start(self._notice)

    def _notice(self) -> None:
        for number, _ in self._epoll.poll(0):
            if callback := self._callbacks.get(number):
                callback()
