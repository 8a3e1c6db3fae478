"""What is read from Ray's dashboard, over a real socket."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ray_backend.dashboard import Dashboard, DashboardError

APPLICATIONS = {
    "applications": {
        "fr": {
            "name": "fr",
            "status": "RUNNING",
            "message": "",
            "deployed_app_config": {"name": "fr"},
            "deployments": {
                "model": {
                    "status": "HEALTHY",
                    "target_num_replicas": 2,
                    "required_resources": {"CPU": 0.1},
                    "replicas": [
                        {"state": "RUNNING", "node_ip": "10.0.0.1", "pid": 7},
                        {"state": "STARTING", "node_ip": None},
                    ],
                }
            },
        }
    },
    "proxies": {},
}
MACHINES = {
    "data": {
        "result": {
            "result": [
                {
                    "node_ip": "10.0.0.1",
                    "state": "ALIVE",
                    "resources_total": {"CPU": 2},
                },
                {"node_ip": "10.0.0.2", "state": "DEAD", "resources_total": {}},
            ]
        }
    }
}


class FakeRay(ThreadingHTTPServer):
    """Answers who knows the token."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.deployed: list[Any] = []
        #: Status and body that every request gets instead of its answer.
        self.instead: tuple[int, str] | None = None


class _Handler(BaseHTTPRequestHandler):
    server: FakeRay

    def do_GET(self) -> None:
        is_nodes = self.path.startswith("/api/v0/nodes?")
        self._answer(json.dumps(MACHINES if is_nodes else APPLICATIONS))

    def do_PUT(self) -> None:
        size = int(self.headers["Content-Length"])
        self.server.deployed.append((self.path, json.loads(self.rfile.read(size))))
        self._answer("")

    def _answer(self, text: str) -> None:
        status = 200
        if self.headers["Authorization"] != "Bearer t0ken":
            status, text = 403, "Forbidden"
        elif self.server.instead:
            status, text = self.server.instead
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def ray() -> Iterator[FakeRay]:
    with FakeRay() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def dashboard(ray: FakeRay, tmp_path: Path) -> Dashboard:
    (tmp_path / "token").write_text("t0ken\n")
    return Dashboard(f"http://127.0.0.1:{ray.server_port}/", tmp_path / "token")


def test_applications_have_their_replicas(dashboard: Dashboard):
    (found,) = dashboard.list_applications().values()
    assert found.is_running
    assert found.wanted == 2
    assert [each.is_running for each in found.replicas] == [True, False]


def test_only_machines_that_are_there_are_listed(dashboard: Dashboard):
    assert [each.node_ip for each in dashboard.list_machines()] == ["10.0.0.1"]


def test_a_deployment_is_one_call(dashboard: Dashboard, ray: FakeRay):
    dashboard.deploy({"applications": []})
    assert ray.deployed == [("/api/serve/applications/", {"applications": []})]


@pytest.mark.parametrize(
    ("instead", "fault"),
    [
        ((500, ""), "answered 500 an empty answer"),
        ((400, "no such key"), "answered 400 no such key"),
        ((200, "<html>"), "is not understood: <html>"),
        ((200, '{"applications": 7}'), "is not understood"),
    ],
)
def test_what_ray_says_otherwise_is_quoted(
    dashboard: Dashboard, ray: FakeRay, instead: tuple[int, str], fault: str
):
    ray.instead = instead
    with pytest.raises(DashboardError, match=fault):
        dashboard.list_applications()


@pytest.mark.parametrize(
    ("token", "fault"),
    [(None, "cannot be read from"), ("another", "copy the file from the head")],
)
def test_a_token_that_does_not_do_is_told(
    dashboard: Dashboard, tmp_path: Path, token: str | None, fault: str
):
    (tmp_path / "token").unlink()
    if token:
        (tmp_path / "token").write_text(token)
    with pytest.raises(DashboardError, match=fault):
        dashboard.list_machines()


def test_a_dashboard_that_does_not_answer_is_told(tmp_path: Path):
    (tmp_path / "token").write_text("t0ken")
    with pytest.raises(DashboardError, match="does not answer: ConnectionError"):
        Dashboard("http://127.0.0.1:1", tmp_path / "token").list_machines()
