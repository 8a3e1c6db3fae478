"""Ending a recorded process group and nothing else, on real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest

from deploy import launch
from deploy.programs import NGINX, find, install
from tests.e2e.real_stack import wait_until
from tests.programs import run

WAIT_S = 10
#: Runs as `deploy.launch` does, then waits.
LEADER = """
import json, sys
from deploy.launch import describe_self
print(json.dumps(describe_self()), flush=True)
sys.stdin.read()
"""
Leader = tuple[psutil.Popen, dict[str, Any]]
StartLeader = Callable[..., Leader]


@pytest.fixture
def start_leader() -> Iterator[StartLeader]:
    """Starts the leader of a group, in a run directory or in none, and returns its record."""
    with ExitStack() as running:

        def start(run: Path | None) -> Leader:
            mark = {"BABELGATE_RUN_DIR": str(run)} if run else {}
            leader = running.enter_context(
                psutil.Popen(
                    [sys.executable, "-c", LEADER],
                    env=os.environ | mark,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    start_new_session=True,
                )
            )
            return leader, json.loads(leader.stdout.readline())

        yield start


def end(folder: Path, record: object) -> None:
    """End the last life of a program, as the next one does first."""
    path = folder / "gateway.group"
    path.write_text(record if isinstance(record, str) else json.dumps(record))
    launch.end_recorded(path)


def test_what_an_earlier_life_has_left_is_ended(
    tmp_path: Path, start_leader: StartLeader
):
    leader, record = start_leader(tmp_path)
    end(tmp_path, record)
    assert not launch.is_alive(leader)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"boot": "another"}, id="of another boot"),
        pytest.param({"start": 1}, id="whose leader had the same number"),
    ],
)
def test_a_group_that_has_come_round_again_is_left_alone(
    tmp_path: Path, start_leader: StartLeader, change: dict[str, object]
):
    leader, record = start_leader(tmp_path)
    end(tmp_path, record | change)
    assert leader.poll() is None


@pytest.mark.parametrize("other", [None, "another"], ids=["none", "another"])
def test_a_process_without_our_run_directory_is_left_alone(
    tmp_path: Path, start_leader: StartLeader, other: str | None
):
    leader, record = start_leader(tmp_path / other if other else None)
    end(tmp_path, record)
    assert leader.poll() is None


@pytest.mark.parametrize("torn", ["", '{"boot": "', "[]", '{"group": 1}', "null"])
def test_a_torn_record_ends_nothing_and_stops_nobody(tmp_path: Path, torn: str):
    end(tmp_path, torn)


def test_without_a_record_there_is_nothing_to_end(tmp_path: Path):
    launch.end_recorded(tmp_path / "nginx.group")


def test_the_workers_of_a_killed_nginx_are_ended(tmp_path: Path):
    folder = tmp_path / "nginx"
    (folder / "logs").mkdir(parents=True)
    configuration = "pid nginx.pid; error_log logs/error.log; events {} http {}"
    (folder / "nginx.conf").write_text(configuration)
    (tmp_path / "logs").mkdir()
    nginx = find(NGINX) or install(NGINX)[0]
    command = [str(nginx), "-p", f"{folder}/", "-c", "nginx.conf"]
    with psutil.Popen(
        [sys.executable, "-m", "deploy.launch", "nginx", *command, "-g", "daemon off;"],
        env=os.environ
        | {"BABELGATE_RUN_DIR": str(tmp_path), "PYTHONPATH": os.getcwd()},
        cwd=folder,
        start_new_session=True,
    ) as master:
        wait_until(lambda: master.children() != [], limit_s=WAIT_S)
        workers = master.children()
        master.kill()
    assert all(worker.is_running() for worker in workers)
    launch.end_recorded(tmp_path / "nginx.group")
    assert not any(map(launch.is_alive, workers))


def test_a_programs_output_goes_to_its_own_log(tmp_path: Path):
    (tmp_path / "logs").mkdir()
    said = "echo one; echo two >&2"
    launch_it = (
        sys.executable,
        "-m",
        "deploy.launch",
        "gateway",
        "/bin/sh",
        "-c",
        said,
    )
    run(*launch_it, env=os.environ | {"BABELGATE_RUN_DIR": str(tmp_path)})
    assert (tmp_path / "logs/gateway.log").read_text() == "one\ntwo\n"


@pytest.mark.parametrize(("name", "gives_way"), [("nginx", False), ("gateway", True)])
def test_every_program_but_nginx_gives_way(tmp_path: Path, name: str, gives_way: bool):
    (tmp_path / "logs").mkdir()
    launch_it = (sys.executable, "-m", "deploy.launch", name, "/usr/bin/env", "nice")
    run(*launch_it, env=os.environ | {"BABELGATE_RUN_DIR": str(tmp_path)})
    found = int((tmp_path / f"logs/{name}.log").read_text())
    assert (found > os.nice(0)) == gives_way


WRITE = """
import os, pathlib, sys
print(sorted(set(os.environ) & {"BABELGATE_DATABASE_URL", "BABELGATE_LIMITS_URL",
    "BABELGATE_CLIENT_KEY"}))
pathlib.Path(sys.argv[1]).write_text("")
"""


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("gateway", ["BABELGATE_DATABASE_URL", "BABELGATE_LIMITS_URL"]),
        ("documents", []),
        ("nginx", []),
        ("torchserve", []),
        ("ray", []),
        ("registrar", []),
    ],
)
def test_a_program_knows_no_secret_of_others_and_writes_for_its_owner_only(
    tmp_path: Path, name: str, known: list[str]
):
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    (tmp_path / "logs").mkdir()
    log = tmp_path / f"logs/{name}.log"
    log.write_text("of an earlier version\n")
    log.chmod(0o644)
    given = {
        "BABELGATE_RUN_DIR": str(tmp_path),
        "BABELGATE_DOCUMENTS": str(shared),
        "BABELGATE_DATABASE_URL": "postgresql://user:secret@host/name",
        "BABELGATE_LIMITS_URL": "redis://:secret@host",
        "BABELGATE_CLIENT_KEY": "secret",
    }
    program = [sys.executable, "-c", WRITE, tmp_path / "written"]
    run(
        *(sys.executable, "-m", "deploy.launch", name, *program),
        env=os.environ | given,
    )
    assert log.read_text() == f"of an earlier version\n{known}\n"
    modes = [path.stat().st_mode & 0o777 for path in (tmp_path / "written", log)]
    assert modes == [0o600, 0o600]
    assert shared.stat().st_mode & 0o777 == (0o700 if name == "documents" else 0o755)
