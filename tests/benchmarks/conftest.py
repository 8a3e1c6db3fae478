"""A tiny model with random weights, and a server that answers at once."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from handlers.engine.directories import SETTINGS_FILE
from tests.random_m2m100 import build_tiny


@dataclass
class Server:
    """Answers every request with the next of its statuses, then with 200."""

    url: str = ""
    statuses: list[int] = field(default_factory=list)
    #: Path and decoded body of every request.
    asked: list[tuple[str, Any]] = field(default_factory=list)


@pytest.fixture
def server() -> Iterator[Server]:
    """An HTTP server on a free port."""
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            state.asked.append((self.path, json.loads(body)))
            answer = b'{"translated": "Hallo"}'
            self.send_response(state.statuses.pop(0) if state.statuses else 200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http_server:
        state.url = f"http://127.0.0.1:{http_server.server_port}"
        thread = threading.Thread(target=http_server.serve_forever)
        thread.start()
        yield state
        http_server.shutdown()
        thread.join()


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of two small layers, whose answers end after eight tokens."""
    directory = build_tiny(tmp_path_factory.mktemp("tiny") / "model", positions=64)
    (directory / SETTINGS_FILE).write_text(json.dumps({"max_tokens": 8}))
    return directory
