"""`python -m ray_backend` against a dashboard that takes notes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ray_backend.__main__ import app
from tests.ray_backend.fake_ray import TOKEN, FakeRay, describe, serve

Run = Callable[..., Result]
CHANGES = ["new fr", "new ko"]


@pytest.fixture
def ray() -> Iterator[FakeRay]:
    with serve() as server:
        yield server


@pytest.fixture
def run(ray: FakeRay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command for a map with two languages."""
    files = {
        "token": TOKEN,
        "key": "secret",
        "map": json.dumps({"cuda_id": {"fr": "0", "ko": "0"}}),
    }
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    monkeypatch.setenv("BABELGATE_RAY_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("BABELGATE_RAY_KEY_FILE", str(tmp_path / "key"))
    monkeypatch.setenv("BABELGATE_MAP", str(tmp_path / "map"))
    monkeypatch.setenv("BABELGATE_RAY_DASHBOARD_URL", ray.url)
    monkeypatch.setenv("COLUMNS", "160")
    return lambda *arguments: CliRunner().invoke(app, arguments)


@pytest.mark.parametrize(
    ("placement", "shown"),
    [
        ({"replicas": [2, 8]}, "2 to 8"),
        ({"replicas": 3, "max_replicas_per_machine": 1}, "3, 1 per machine"),
    ],
    ids=["autoscaling", "apart"],
)
def test_check_shows_how_many_replicas_there_are(run, tmp_path, placement, shown):
    content = {"cuda_id": {"fr": "cpu"}, "cluster": {"translation": placement}}
    (tmp_path / "map").write_text(json.dumps(content))
    assert f"  {shown}  " in run("check").stdout


def test_a_map_that_is_wrong_is_told(run: Run, tmp_path: Path):
    (tmp_path / "map").write_text(
        '{"cuda_id": {"fr": "0"}, "cluster": {"translation": {"replicas": 0}}}'
    )
    done = run("check")
    assert done.exit_code == 1
    assert "replicas: expected" in done.stdout


def test_a_dry_run_shows_the_changes_and_makes_none(run: Run, ray: FakeRay):
    done = run("deploy", "--dry-run")
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        "The cluster has no GPU: every model runs on the CPU.",
        *CHANGES,
    ]
    assert ray.deployed == []


def test_what_was_deployed_is_not_changed_again(run: Run, ray: FakeRay):
    done = run("deploy")
    assert done.exit_code == 0, done.stdout
    assert done.stdout.splitlines()[1:3] == CHANGES
    assert [entry["name"] for entry in ray.deployed[0]["applications"]] == ["fr", "ko"]
    assert "secret" not in json.dumps(ray.deployed)
    assert "nothing to change" in run("deploy", "--dry-run").stdout
    assert run("status").exit_code == 0


def test_the_status_shows_replicas_and_machines(run: Run, ray: FakeRay):
    told = {"name": "fr", "args": {"task": "translation", "languages": ["fr"]}}
    ray.applications = {"fr": describe("fr", told)}
    done = run("status")
    assert done.exit_code == 1
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["fr", "fr", "RUNNING", "1/2", "10.0.0.1"] in rows
    assert ["ko", "-", "not", "deployed", "-", "-"] in rows
    assert "10.0.0.1 has 2 CPU" in done.stdout


@pytest.mark.parametrize(
    ("instead", "fault"),
    [
        ((500, ""), "answered 500 an empty answer"),
        ((400, "no such key"), "answered 400 no such key"),
        ((200, "<html>"), "is not understood: <html>"),
        ((200, '{"applications": 7}'), "is not understood"),
    ],
)
def test_what_ray_says_otherwise_is_quoted(run, ray, instead, fault):
    ray.instead = instead
    done = run("status")
    assert done.exit_code == 1
    assert fault in done.stdout


@pytest.mark.parametrize(
    ("token", "fault"),
    [(None, "cannot be read from"), ("another", "copy the file from the head")],
)
def test_a_token_that_does_not_do_is_told(run, tmp_path, token, fault):
    (tmp_path / "token").unlink()
    if token:
        (tmp_path / "token").write_text(token)
    done = run("deploy")
    assert done.exit_code == 1
    assert fault in done.stdout


def test_a_dashboard_that_does_not_answer_is_told(run: Run):
    done = run("status", "--dashboard-url", "http://127.0.0.1:1/")
    assert done.exit_code == 1
    assert "does not answer: ConnectionError" in done.stdout
