"""A threaded HTTP server for tests that ends with all its connections, and a handler."""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class ClosingServer(ThreadingHTTPServer):
    """Knows its open connections, so that none outlives a test."""

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
        """Returns when all has ended."""
        self._is_ending = True
        with suppress(OSError):  # a full backlog wakes the server as well
            socket.create_connection(("127.0.0.1", self.server_port), timeout=1).close()
        self._thread.join()
        self.close_connections()
        self.server_close()

    def _serve(self) -> None:
        """Unlike `serve_forever`, wakes for a connection only: a test's end need not wait."""
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

    def close_connections(self) -> None:
        for client in list(self._open):
            with suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)


class QuietHandler(BaseHTTPRequestHandler):
    """Keeps connections open and logs nothing."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def reply(
        self, status: int, body: bytes, headers: Mapping[str, str] | None = None
    ) -> None:
        """A whole answer; the headers may promise another length."""
        self.send_response(status)
        length = {"Content-Length": str(len(body))}
        for name, value in (length | dict(headers or {})).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""
