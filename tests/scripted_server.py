"""HTTP servers that close their connections when they end; one of them follows a script."""

from __future__ import annotations

import socket
import struct
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from contract import npy

T = TypeVar("T")

#: The longest time that a test waits for a server.
LIMIT_S = 120


def read_frames(content: bytes) -> Any:
    """Return the array of a `.npy` file. CPython 3.11 cannot run np.load in two threads."""
    begin = npy.measure(content[: npy.START_BYTES])
    shape = npy.read_shape(content[:begin])
    return np.frombuffer(content[begin:], np.uint8).reshape(shape)


class ClosingServer(ThreadingHTTPServer):
    """A server that closes its open connections, so that none outlives a test."""

    daemon_threads = False
    request_queue_size = 256

    def __init__(self, *args: Any) -> None:
        self._open: set[socket.socket] = set()
        self._is_ending = False
        super().__init__(*args)
        self._thread = threading.Thread(target=self._serve)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop the server, and wait until all its threads have ended."""
        self._is_ending = True
        with suppress(OSError):  # a full backlog wakes the server too
            socket.create_connection(("127.0.0.1", self.server_port), timeout=1).close()
        self._thread.join()
        self.close_connections()
        self.server_close()

    def _serve(self) -> None:
        """Serve without the polling of `serve_forever`, which would delay the end of a test."""
        while not self._is_ending:
            self.handle_request()

    def verify_request(self, *_: Any) -> bool:
        return not self._is_ending

    def get_request(self) -> tuple[socket.socket, Any]:
        client, address = super().get_request()
        self._open.add(client)
        return client, address

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that were killed."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

    def close_connections(self) -> None:
        for client in list(self._open):
            with suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)


class QuietHandler(BaseHTTPRequestHandler):
    """A handler that keeps connections open and logs nothing."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def read_body(self) -> bytes:
        return self.rfile.read(int(self.headers["Content-Length"] or 0))

    def reply(
        self, status: int, body: bytes, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send a whole answer; the headers may state another length."""
        self.send_response(status)
        length = {"Content-Length": str(len(body))}
        for name, value in (length | dict(headers or {})).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


@dataclass(kw_only=True)
class ScriptedServer:
    """A server that answers by the behaviours set with `will`, and later by its first one."""

    handler: ClassVar[type[ScriptedHandler]]
    behaviours: ClassVar[Mapping[str, Callable[..., None]]]

    #: The number of requests being answered now, and the most so far.
    at_once: int = 0
    most_at_once: int = 0
    #: All client connections so far.
    connections: list[socket.socket] = field(default_factory=list)
    #: Set when the server stops, or by a test; until then `hang` hangs.
    ending: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._script: list[str] = []
        self.arrival = threading.Condition()
        self.server = ClosingServer(("127.0.0.1", 0), partial(self.handler, self))

    def __enter__(self) -> Self:
        self.server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop like a machine that is shut down properly: connections are closed."""
        self.ending.set()
        with self.arrival:
            self.arrival.notify_all()
        self.server.stop()

    @property
    def url(self) -> str:
        return self.server.url

    def will(self, *behaviours: str) -> None:
        """Set the behaviours of the next requests, one each; later ones get the usual one."""
        unknown = set(behaviours) - set(self.behaviours)
        assert not unknown, f"{unknown} is none of {sorted(self.behaviours)}"
        self._script = list(behaviours)

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition, which is checked after each request and answer."""
        with self.arrival:
            assert self.arrival.wait_for(condition, LIMIT_S)

    def take(self, call: T, calls: list[T]) -> Callable[..., None]:
        """Record a request, and return the behaviour that answers it."""
        with self.arrival:
            calls.append(call)
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            self.arrival.notify_all()
            usual = next(iter(self.behaviours))
            return self.behaviours[self._script.pop(0) if self._script else usual]

    def leave(self) -> None:
        """Count a request as answered."""
        with self.arrival:
            self.at_once -= 1
            self.arrival.notify_all()


class ScriptedHandler(QuietHandler):
    """A handler for a ScriptedServer."""

    def __init__(self, fake: Any, *args: Any) -> None:
        self.fake = fake
        with suppress(ConnectionError):
            super().__init__(*args)

    def setup(self) -> None:
        super().setup()
        self.fake.connections.append(self.connection)


def reset_when_closed(handler: QuietHandler) -> None:
    """Make a connection end with a reset."""
    linger = struct.pack("ii", 1, 0)
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    handler.close_connection = True


def _cut(handler: ScriptedHandler, *_: Any) -> None:
    handler.reply(200, b'{"translated": "ha', {"Content-Length": "1000"})
    handler.close_connection = True


def _hang(handler: ScriptedHandler, *_: Any) -> None:
    handler.fake.ending.wait(LIMIT_S)
    handler.close_connection = True


def _drip(handler: ScriptedHandler, *_: Any) -> None:
    """Send a byte at a time, so that no single read takes long."""
    handler.reply(200, b"", {"Content-Length": "100000"})
    handler.close_connection = True
    with suppress(OSError):
        while not handler.fake.ending.wait(0.02):
            handler.wfile.write(b" ")


#: The faults of any server.
FAULTS: Mapping[str, Callable[..., None]] = {
    "close": lambda handler, *_: setattr(handler, "close_connection", True),
    "cut": _cut,
    "hang": _hang,
    "reset": lambda handler, *_: reset_when_closed(handler),
    "drip": _drip,
    "not-json": lambda handler, *_: handler.reply(
        200, b"surprise", {"Content-Type": "application/json"}
    ),
}
