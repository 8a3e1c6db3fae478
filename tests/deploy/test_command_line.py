"""`python -m deploy check`: its output for a map, and for a running stack."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import click
import pytest
from typer.testing import CliRunner

import catalog
from deploy import __main__ as command_line
from deploy import lifecycle, serving
from deploy.stack import Stack
from deploy.supervision import Supervision
from handlers.engine.directories import read_settings
from tests.catalog.conftest import clean_environment, write_map
from tests.torchserve_backend.fakes import FakeManagement, runs
from torchserve_backend import archiver

__all__ = ["clean_environment", "write_map"]

PHRASEBOOK = catalog.ROOT / "models/phrasebook"


class Ran(NamedTuple):
    """A command's exit code, and its output and its errors without colours."""

    exit_code: int
    stdout: str
    stderr: str


@pytest.fixture
def run(tmp_path: Path) -> Any:
    """A function that runs `check` for a map, or another command, with a temporary run
    directory."""

    def run(path: Path | None, *options: str, command: str = "check") -> Ran:
        arguments = [command, "--run-dir", str(tmp_path / "run"), *options]
        arguments += ["--map", str(path)] if path else []
        result = CliRunner().invoke(command_line.app, arguments)
        assert result.exception is None or isinstance(result.exception, SystemExit)
        said, errors = map(click.unstyle, (result.stdout, result.stderr))
        return Ran(result.exit_code, said, errors)

    return run


def test_check_shows_languages_together_with_all_their_workers(
    run, monkeypatch, write_map
):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    devices = {"ko": ["0", "1"], "en": "cpu", "fr": ["1", "0"]}
    result = run(write_map(devices, placement="device", workers=3))
    rows = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "ko fr 0,1 ctranslate2 float16 6 64 100 4096" in rows
    assert "en cpu ctranslate2 int8 3 64 100 4096" in rows


def test_tables_fit_a_terminal_and_say_all(run, monkeypatch, write_map):
    monkeypatch.setenv("COLUMNS", "80")
    devices = dict.fromkeys(read_settings(PHRASEBOOK)["languages"], "cpu")
    lines = run(write_map(devices, placement="device")).stdout
    assert max(map(len, lines.splitlines())) <= 80
    assert {*devices, "ctranslate2"} <= {*lines.split()}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "cuda_id: models/phrasebook does not know nl, expected some of en ko zh"),
        ({"model": "facebook/not-here-yet"}, None),
        ({"compute_type": "float16"}, "int8_float32 on this CPU, found float16"),
    ],
    ids=["lacking", "unknown yet", "precision"],
)
def test_check_refuses_what_the_model_or_cpu_lacks(run, write_map, settings, said):
    result = run(write_map({"ko": "cpu", "nl": "cpu"}, **settings))
    assert result.exit_code == (1 if said else 0)
    assert (said or "nl") in (result.stderr if said else result.stdout)


def test_check_shows_the_other_tasks(run):
    result = run(catalog.MAP.with_name("all_tasks.json"))
    assert result.exit_code == 0
    assert {"captioning", "detection"} <= {*result.stdout.split()}


def test_a_wrong_map_is_explained_on_one_line(run, monkeypatch, write_map):
    monkeypatch.setenv("COLUMNS", "40")
    path = write_map({"[/ko]": "0"})
    result = run(path)
    assert result.exit_code == 1
    (line,) = result.stderr.splitlines()
    assert result.stdout == ""
    assert line.startswith(f"{path}: cuda_id.[/ko]: expected a language of")


@pytest.mark.parametrize(
    ("placement", "shown"),
    [
        ({"replicas": [2, 8]}, "2 to 8"),
        ({"replicas": 3, "max_replicas_per_machine": 1}, "3, 1 per machine"),
    ],
    ids=["autoscaling", "apart"],
)
def test_check_shows_how_many_replicas_a_cluster_gets(run, write_map, placement, shown):
    content = {"cuda_id": {"fr": "cpu"}, "cluster": {"translation": placement}}
    assert f"  {shown}  " in run(write_map(content=content), "--backend", "ray").stdout


def test_check_names_what_up_would_change(run, monkeypatch, write_map):
    management = FakeManagement(runs("fr", "1.0-old"))
    monkeypatch.setattr(serving, "Management", lambda *_: management)
    monkeypatch.setattr(archiver, "list_desired", lambda *_, **__: [])
    monkeypatch.setattr(lifecycle, "find_running", lambda wanted: wanted)
    path = write_map({"fr": "cpu"})
    assert "nothing to change: TorchServe runs what the map" in run(path).stdout
    management.found["de"] = runs("de", "1.0-7f411872")
    assert "remove de: the map does not name it" in run(path).stdout
    assert management.calls == []
    other = Stack(Path("elsewhere"), path, backend="ray")
    monkeypatch.setattr(lifecycle, "find_running", lambda _: other)
    assert "remove" not in run(path, "--backend", "torchserve").stdout


@pytest.mark.parametrize("offset", ["-8000", "60000"])
def test_a_port_that_does_not_exist_is_refused(run, tmp_path: Path, offset: str):
    assert run(None, "--port-offset", offset, command="up").exit_code == 2
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("port", "said"), [("1", "No such"), ("70000", "0-65535")])
def test_what_the_system_refuses_is_told_without_a_traceback(
    run, monkeypatch, port: str, said: str
):
    monkeypatch.setattr(lifecycle, "find", lambda run: Stack(run, run))
    monkeypatch.setattr(lifecycle, "ensure", lambda *_: [Path("/bin/true")])
    result = run(None, "--port", port, command="monitor")
    assert (result.exit_code, said in result.stderr) == (1, True)


def test_the_status_of_programs_of_another_version_is_shown(run, monkeypatch):
    states = {"gateway": "STARTING", "nginx": "BACKOFF"}  # without documents
    served = SimpleNamespace(show=lambda: True)
    monkeypatch.setattr(lifecycle, "find", lambda run: Stack(run, run))
    monkeypatch.setattr(serving, "choose_serving", lambda _: served)
    monkeypatch.setattr(Supervision, "states", lambda _: states)
    result = run(None, command="status")
    assert result == (1, "gateway RUNNING  nginx BACKOFF\n", "")
