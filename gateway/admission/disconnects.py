"""Notices clients that close their connections while they are being served."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from gevent import get_hub
from gevent.monkey import get_original

#: gevent removes `epoll` because it can block. Here it is only polled.
_epoll = get_original("select", "epoll")
_READABLE = 1


class DisconnectWatcher:
    """Watches connections without polling each. It reads nothing from them."""

    def __init__(self) -> None:
        self._epoll = _epoll()
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._watcher: Any = None

    @contextmanager
    def watch(
        self, client: socket.socket | None, callback: Callable[[], None]
    ) -> Iterator[None]:
        """Calls `callback` once, in the hub, if the client closes its connection meanwhile."""
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
            with suppress(OSError):  # our side has closed it as well
                self._epoll.unregister(number)

    def _start(self) -> None:
        if self._watcher is None:
            self._watcher = get_hub().loop.io(self._epoll.fileno(), _READABLE)
            self._watcher.start(self._notice)

    def _notice(self) -> None:
        for number, _ in self._epoll.poll(0):
            if callback := self._callbacks.get(number):
                callback()
