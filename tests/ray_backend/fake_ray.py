"""Ray's dashboard as a server that takes notes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.scripted_server import ClosingServer, QuietHandler

TOKEN = "t0ken"
MACHINES = [
    {"node_ip": "10.0.0.1", "state": "ALIVE", "resources_total": {"CPU": 2}},
    {"node_ip": "10.0.0.2", "state": "DEAD", "resources_total": {}},
]


def describe(
    name: str,
    config: Any = None,
    *,
    status: str = "RUNNING",
    node: str | None = "10.0.0.1",
) -> dict[str, Any]:
    """An application with two replicas, as Serve shows it; the second has just started."""
    replicas = [
        {"state": "RUNNING", "node_ip": "10.0.0.1", "pid": 7},
        {"state": "STARTING", "node_ip": node},
    ]
    deployment = {
        "status": "HEALTHY",
        "target_num_replicas": 2,
        "required_resources": {"CPU": 0.1},
        "replicas": replicas,
    }
    return {
        "name": name,
        "status": status,
        "message": "",
        "deployed_app_config": config or {"name": name},
        "deployments": {"model": deployment},
    }


class FakeRay(ClosingServer):
    """Answers callers who know the token."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.applications: dict[str, Any] = {}
        #: The bodies that were put.
        self.deployed: list[Any] = []
        #: Status and body that every request gets instead of its answer.
        self.instead: tuple[int, str] | None = None


class _Handler(QuietHandler):
    server: FakeRay

    def do_GET(self) -> None:
        if self.path.startswith("/api/v0/nodes?"):
            self._answer({"data": {"result": {"result": MACHINES}}})
        elif self.path == "/api/serve/applications/":
            self._answer({"applications": self.server.applications, "proxies": {}})

    def do_PUT(self) -> None:
        """Everything that is put runs at once."""
        config = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert self.path == "/api/serve/applications/"
        self.server.deployed.append(config)
        self.server.applications = {
            entry["name"]: describe(
                entry["name"], {"logging_config": config.get("logging_config"), **entry}
            )
            for entry in config["applications"]
        }
        self._answer({})

    def _answer(self, content: Any) -> None:
        status, text = self.server.instead or (200, json.dumps(content))
        if self.headers["Authorization"] != f"Bearer {TOKEN}":
            status, text = 403, "Forbidden"
        self.reply(status, text.encode())


@contextmanager
def serve() -> Iterator[FakeRay]:
    """One that listens."""
    server = FakeRay()
    server.start()
    try:
        yield server
    finally:
        server.stop()
