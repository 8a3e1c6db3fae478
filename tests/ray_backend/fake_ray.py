"""Ray's dashboard, which takes notes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from requests import PreparedRequest
from responses import RequestsMock

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


class FakeRay:
    """Answers callers who know the token. Everything that is put runs at once."""

    url = "http://127.0.0.1:7801"

    def __init__(self) -> None:
        self.applications: dict[str, Any] = {}
        #: The bodies that were put.
        self.deployed: list[Any] = []
        #: Status and body that every request gets instead of its answer.
        self.instead: tuple[int, str] | None = None

    def answer(self, request: PreparedRequest) -> tuple[int, dict[str, str], str]:
        if request.headers["Authorization"] != f"Bearer {TOKEN}":
            return 403, {}, "Forbidden"
        if request.method == "PUT":
            self._deploy(json.loads(request.body or ""))
        content: Any = {"applications": self.applications, "proxies": {}}
        if request.path_url.startswith("/api/v0/nodes?"):
            content = {"data": {"result": {"result": MACHINES}}}
        status, text = self.instead or (200, json.dumps(content))
        return status, {}, text

    def _deploy(self, config: Any) -> None:
        shared = {"logging_config": config.get("logging_config")}
        self.deployed.append(config)
        self.applications = {
            entry["name"]: describe(entry["name"], shared | entry)
            for entry in config["applications"]
        }


@contextmanager
def serve() -> Iterator[FakeRay]:
    """One that answers; nobody else does meanwhile."""
    fake, url = (
        FakeRay(),
        re.compile(f"{FakeRay.url}/api/(v0/nodes|serve/applications/)"),
    )
    with RequestsMock(assert_all_requests_are_fired=False) as mock:
        for method in ("GET", "PUT"):
            mock.add_callback(method, url, fake.answer)
        yield fake
