"""Ending the real processes that an earlier run of a program left."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from deploy import launch
from deploy.programs import NGINX, find, install
from tests.e2e.real_stack import wait_until
from tests.programs import run

WAIT_S = 10
StartProgram = Callable[..., psutil.Popen]


@pytest.fixture
def start_program() -> Iterator[StartProgram]:
    """A function that starts a program with these variables that runs until its input ends."""
    with ExitStack() as running:

        def start(
            program: str = "/bin/cat", folder: Path | None = None, **variables: object
        ) -> psutil.Popen:
            given = os.environ | {name: str(value) for name, value in variables.items()}
            return running.enter_context(
                psutil.Popen([program], env=given, cwd=folder, stdin=subprocess.PIPE)
            )

        yield start


def test_what_an_earlier_life_has_left_is_ended_and_nothing_else(
    tmp_path, start_program
):
    run, gateway = {"BABELGATE_RUN_DIR": tmp_path}, {"BABELGATE_PROGRAM": "gateway"}
    nginx = tmp_path / "second/nginx"  # a stack's run directory in that of another
    nginx.mkdir(parents=True)
    (nginx / "nginx").symlink_to("/bin/cat")
    ours = start_program(**run, **gateway)
    others = [
        start_program(**run),
        start_program(**gateway),
        start_program(**run, BABELGATE_PROGRAM="registrar"),
        start_program(BABELGATE_RUN_DIR=tmp_path / "another", **gateway),
        *(start_program(str(nginx / "nginx"), folder) for folder in (None, nginx)),
    ]
    for program in ("gateway", "nginx"):
        launch.end_left(program, tmp_path)
    assert not launch.is_alive(ours)
    assert [each.poll() for each in others] == [None] * len(others)


#: Its first thread ends at once, which makes it a zombie with another, live thread.
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
    launch.end_left("nginx", tmp_path)
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
    run(sys.executable, "-m", "deploy.launch", name, *program, env=os.environ | given)
    _, found, more = log.read_text().splitlines()
    assert (int(found) > os.nice(0)) == gives_way
    assert more == "more"
    assert log.stat().st_mode & 0o777 == 0o600
    assert shared.stat().st_mode & 0o777 == (0o700 if name == "documents" else 0o755)
