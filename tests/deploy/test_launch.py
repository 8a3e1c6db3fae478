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


def test_what_an_earlier_life_has_left_is_ended(tmp_path, start_leader):
    leader, record = start_leader(tmp_path)
    end(tmp_path, record)
    assert not launch.is_alive(leader)


#: Its first thread ends at once, and it becomes a zombie with another one.
LEADERLESS = """
import ctypes, sys, threading
threading.Thread(target=sys.stdin.read).start()
ctypes.CDLL(None).pthread_exit(None)
"""


def test_a_process_lives_as_long_as_any_of_its_threads():
    command = [sys.executable, "-c", LEADERLESS]
    with psutil.Popen(command, stdin=subprocess.PIPE) as process:
        wait_until(lambda: process.status() == psutil.STATUS_ZOMBIE)
        assert launch.is_alive(process)
        process.stdin.close()
        wait_until(lambda: not launch.is_alive(process))


@pytest.mark.parametrize(
    ("run", "change"),
    [
        pytest.param("", {"boot": "another"}, id="of another boot"),
        pytest.param("", {"start": 1}, id="whose leader had the same number"),
        pytest.param("another", {}, id="of another run directory"),
        pytest.param(None, {}, id="of no run directory"),
    ],
)
def test_a_group_that_is_not_ours_is_left_alone(tmp_path, start_leader, run, change):
    leader, record = start_leader(None if run is None else tmp_path / run)
    end(tmp_path, record | change)
    assert leader.poll() is None


def test_a_torn_or_missing_record_ends_nothing_and_stops_nobody(tmp_path: Path):
    launch.end_recorded(tmp_path / "nginx.group")
    end(tmp_path, '{"boot": "')
    end(tmp_path, '{"group": 1}')


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


@pytest.mark.parametrize(
    ("name", "gives_way"), [("nginx", False), ("gateway", True), ("documents", True)]
)
def test_a_program_writes_for_its_owner_and_gives_way(tmp_path, name, gives_way):
    shared, log = tmp_path / "shared", tmp_path / f"logs/{name}.log"
    for folder in (shared, log.parent):
        folder.mkdir(mode=0o755)
    log.write_text("of an earlier version\n")
    log.chmod(0o644)
    given = {"BABELGATE_RUN_DIR": str(tmp_path), "BABELGATE_DOCUMENTS": str(shared)}
    program = ("/bin/sh", "-c", "nice; echo more >&2")
    run(
        *(sys.executable, "-m", "deploy.launch", name, *program), env=os.environ | given
    )
    _, found, more = log.read_text().splitlines()
    assert (int(found) > os.nice(0)) == gives_way
    assert more == "more"
    assert log.stat().st_mode & 0o777 == 0o600
    assert shared.stat().st_mode & 0o777 == (0o700 if name == "documents" else 0o755)
