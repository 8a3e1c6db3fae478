"""A tiny model with random weights, and a server that answers at once."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from handlers.engine.directories import SETTINGS_FILE
from tests.scripted_server import ClosingServer, QuietHandler
from tests.tiny_models import build_m2m100


@dataclass
class Server:
    """A server that answers with its statuses in order, then with 200."""

    url: str = ""
    statuses: list[int] = field(default_factory=list)
    #: Path and decoded body of every request.
    asked: list[tuple[str, Any]] = field(default_factory=list)


@pytest.fixture
def server() -> Iterator[Server]:
    state = Server()

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            state.asked.append((self.path, json.loads(self.read_body())))
            status = state.statuses.pop(0) if state.statuses else 200
            self.reply(status, b'{"translated": "Hallo"}')

    http_server = ClosingServer(("127.0.0.1", 0), Handler)
    state.url = http_server.url
    http_server.start()
    yield state
    http_server.stop()


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with two small layers that stops after eight tokens."""
    directory = build_m2m100(tmp_path_factory.mktemp("tiny") / "model", positions=64)
    (directory / SETTINGS_FILE).write_text(json.dumps({"max_tokens": 8}))
    return directory
