"""A way to a server that a test makes slow, or cuts."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from socketserver import BaseRequestHandler, ThreadingTCPServer

_CHUNK = 1 << 16


class Proxy(ThreadingTCPServer):
    """Passes bytes on between clients and a port of this machine."""

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Passing)
        self.target = ("127.0.0.1", port)
        self.open: set[socket.socket] = set()
        #: Before each piece is passed on, in either direction.
        self.delay_s = 0.0
        self.is_cut = False

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @contextmanager
    def run(self) -> Iterator[None]:
        """Ends with all that it has started."""
        thread = threading.Thread(target=self.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield
        finally:
            with self.cut():
                self.shutdown()
                thread.join()
                self.server_close()

    @contextmanager
    def cut(self) -> Iterator[None]:
        """Ends all connections, and takes no others."""
        self.is_cut = True
        for each in list(self.open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        yield
        self.is_cut = False

    @contextmanager
    def slow(self, delay_s: float) -> Iterator[None]:
        """Answers come twice this late."""
        self.delay_s = delay_s
        yield
        self.delay_s = 0.0

    def pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        """Until one of them ends."""
        with suppress(OSError):
            while not self.is_cut and (data := source.recv(_CHUNK)):
                threading.Event().wait(self.delay_s)
                sink.sendall(data)
        for each in (source, sink):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


class _Passing(BaseRequestHandler):
    server: Proxy

    def handle(self) -> None:
        if self.server.is_cut:
            return
        client = self.request
        with socket.create_connection(self.server.target) as server:
            self.server.open |= {client, server}
            back = threading.Thread(target=self.server.pass_on, args=(server, client))
            back.start()
            self.server.pass_on(client, server)
            back.join()
            self.server.open -= {client, server}
