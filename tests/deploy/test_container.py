"""A program of the stack in a container becomes the command that supervisord would start."""

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import catalog
from deploy import stack
from deploy.container import app, read_start
from deploy.stack import ROOT, Stack
from torchserve_backend import archiver

PROGRAMS = Stack(Path("/srv"), Path("map.json")).programs


@pytest.fixture(autouse=True)
def umask() -> Iterator[None]:
    """Restore the umask: unlike a container's process, this one continues after the test."""
    before = os.umask(0o022)
    os.umask(before)
    yield
    os.umask(before)


@pytest.fixture
def archived(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The arguments of each call to write archives, which converts and writes nothing."""
    written: list[object] = []
    monkeypatch.setattr(archiver, "list_desired", lambda *_, **__: ["fr"])
    monkeypatch.setattr(
        archiver, "write_archives", lambda *given: written.append(given)
    )
    return written


@pytest.fixture
def prepared(
    tmp_path: Path, archived: list[object], monkeypatch: pytest.MonkeyPatch
) -> Stack:
    """A stack whose run directory is prepared for its programs."""
    monkeypatch.setenv("BABELGATE_RUN_DIR", str(tmp_path))
    done = CliRunner().invoke(app, ["prepare", "--port-offset", "2000"])
    assert done.exit_code == 0, done.output
    found = stack.read(tmp_path)
    assert found
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_starts_as_supervisord_starts_it(prepared: Stack, name: str):
    text = prepared.render_supervisor(Path("/opt/100%/nginx"))
    command, folder, environment = read_start(name, text)
    assert "deploy.launch" not in command
    assert command[0].startswith("/opt/100%/" if name == "nginx" else "/")
    assert folder.is_absolute()
    assert not [part for part in command if "$" in part]
    assert all("%" not in value for value in environment.values())


def test_the_run_directory_is_prepared_once_and_again(prepared, archived):
    assert (prepared.port_offset, prepared.map) == (2000, catalog.MAP)
    assert archived == [(["fr"], prepared.store)]
    assert prepared.frozen_map.read_text("utf-8")
    mode = (prepared.run / "nginx/nginx.conf").stat().st_mode
    assert not mode & (stat.S_IRWXG | stat.S_IRWXO)
    assert prepared.log("nginx").readlink() == Path("/dev/stdout")
    assert "listen 9777" in (prepared.run / "nginx/nginx.conf").read_text("utf-8")
    assert CliRunner().invoke(app, ["prepare"]).exit_code == 0


def test_before_a_cluster_nothing_is_converted_and_no_secret_is_made(
    tmp_path, archived, monkeypatch
):
    monkeypatch.setenv("BABELGATE_RUN_DIR", str(tmp_path))
    monkeypatch.setenv("GATEWAY_BACKEND", "ray")
    assert CliRunner().invoke(app, ["prepare"]).exit_code == 0
    assert not archived
    assert list((tmp_path / "ray").iterdir()) == []
    found = stack.read(tmp_path)
    assert found
    assert found.server == "ray"


def test_a_program_that_starts_too_early_says_what_is_missing(tmp_path):
    done = CliRunner().invoke(app, ["run", "gateway", "--run-dir", str(tmp_path)])
    assert isinstance(done.exception, SystemExit), done.exception
    assert "run `prepare` before gateway" in done.output


def test_the_entrypoint_knows_every_program():
    text = (ROOT / "deploy/image/entrypoint").read_text("utf-8")
    (names,) = re.findall(
        r"^    (.+)\)\n        exec python3 -m deploy.container run", text, re.M
    )
    assert sorted(names.split(" | ")) == sorted(PROGRAMS)
