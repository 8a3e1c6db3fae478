"""Reading Ray's dashboard over a real socket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ray_backend.dashboard import Dashboard, DashboardError
from tests.ray_backend.fake_ray import TOKEN, FakeRay, describe, serve


@pytest.fixture
def ray() -> Iterator[FakeRay]:
    with serve() as server:
        yield server


@pytest.fixture
def dashboard(ray: FakeRay, tmp_path: Path) -> Dashboard:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    return Dashboard(f"{ray.url}/", tmp_path / "token")


def test_applications_have_their_replicas(dashboard: Dashboard, ray: FakeRay):
    ray.applications = {"fr": describe("fr")}
    (found,) = dashboard.list_applications().values()
    assert found.is_running
    assert found.wanted == 2
    assert [each.is_running for each in found.replicas] == [True, False]


def test_only_machines_that_are_there_are_listed(dashboard: Dashboard):
    assert [each.node_ip for each in dashboard.list_machines()] == ["10.0.0.1"]


def test_a_deployment_is_one_call(dashboard: Dashboard, ray: FakeRay):
    dashboard.deploy({"applications": []})
    assert ray.deployed == [{"applications": []}]


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
