"""A fake of Ray's dashboard that records deployments."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from requests import PreparedRequest
from responses import RequestsMock

from ray_backend.deployment import Machine

TOKEN = "t0ken"
MACHINES = [
    {"node_ip": "10.0.0.1", "state": "ALIVE", "resources_total": {"CPU": 2}},
    {"node_ip": "10.0.0.2", "state": "DEAD", "resources_total": {}},
]
CPUS = Machine(node_ip="10.0.0.1", state="ALIVE", resources_total={"CPU": 2})
GPUS = Machine(
    node_ip="10.0.0.2",
    state="ALIVE",
    resources_total={"CPU": 16, "GPU": 2, "accelerator_type:H100": 1},
)


def describe(
    entry: Mapping[str, Any],
    status: str = "RUNNING",
    *nodes: str | None,
    **options: Any,
) -> dict[str, Any]:
    """An application as Serve reports it, with a replica per node (None: not yet placed)."""
    nodes = nodes or ("10.0.0.1",)
    is_running = status == "RUNNING"
    replicas = [
        {"state": "RUNNING" if is_running and node else "STARTING", "node_ip": node}
        for node in nodes
    ]
    model = {
        "status": "HEALTHY",
        "deployment_config": {"name": "model", **options},
        "target_num_replicas": len(nodes),
        "required_resources": {"CPU": 0.1, "GPU": 0.5, "accelerator_type:H100": 0.001},
        "replicas": replicas,
    }
    return {
        "status": status,
        "message": "out of memory",
        "deployed_app_config": dict(entry),
        "deployments": {"model": model},
        "route_prefix": "/not/needed",
    }


class FakeRay:
    """A dashboard that requires the token, and on which every deployment runs at once."""

    url = "http://127.0.0.1:7801"

    def __init__(self) -> None:
        self.applications: dict[str, Any] = {}
        #: The bodies of the PUT requests.
        self.deployed: list[Any] = []
        #: The status and body that replace every answer, if set.
        self.instead: tuple[int, str] | None = None

    def answer(self, request: PreparedRequest) -> tuple[int, dict[str, str], str]:
        if request.headers["Authorization"] != f"Bearer {TOKEN}":
            return 403, {}, "Forbidden"
        if request.method == "PUT":
            config = json.loads(request.body or "")
            shared = {"logging_config": config.get("logging_config")}
            entries = {each["name"]: shared | each for each in config["applications"]}
            self.applications = {name: describe(each) for name, each in entries.items()}
            self.deployed.append(config)
        content: Any = {"applications": self.applications, "proxies": {}}
        if request.path_url.startswith("/api/v0/nodes?"):
            content = {"data": {"result": {"result": MACHINES}}}
        status, text = self.instead or (200, json.dumps(content))
        return status, {}, text


@contextmanager
def serve() -> Iterator[FakeRay]:
    """Serve a fake dashboard; requests to any other address fail meanwhile."""
    fake = FakeRay()
    url = re.compile(f"{fake.url}/api/(v0/nodes|serve/applications/)")
    with RequestsMock(assert_all_requests_are_fired=False) as mock:
        for method in ("GET", "PUT"):
            mock.add_callback(method, url, fake.answer)
        yield fake
