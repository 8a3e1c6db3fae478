"""The real supervisord with our configuration and programs that a test writes."""

import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from deploy import launch
from deploy.stack import Stack, StackError
from deploy.supervision import Supervision, end
from tests.e2e.real_stack import wait_until
from tests.programs import run

pytestmark = pytest.mark.slow

#: A program runs the script in `<name>.does`.
PROGRAM = """#!/bin/sh
exec /bin/sh "$BABELGATE_RUN_DIR/{name}.does"
"""
#: Python, except for the registrar, Ray and the documents program.
PYTHON = """#!/bin/sh
case "$*" in
"-m deploy.watch") exec /bin/sh "$BABELGATE_RUN_DIR/registrar.does";;
"-m deploy.node") exec /bin/sh "$BABELGATE_RUN_DIR/ray.does";;
"-m documents") exec /bin/sh "$BABELGATE_RUN_DIR/documents.does";;
esac
exec {python} "$@"
"""
LAST = "exec sleep 600"
SIZE = 1 << 20  # sixteen times the capacity of a pipe


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Stack]:
    stack = Stack(tmp_path, tmp_path / "map.json")
    lay_out(stack)
    yield stack
    end(stack)


def lay_out(stack: Stack) -> None:
    """Write a run directory with small programs that only sleep."""
    stack.write("{}")
    folder = stack.run / "bin"
    folder.mkdir()
    scripts = {
        "nginx": PROGRAM.format(name="nginx"),
        "gunicorn": PROGRAM.format(name="gateway"),
        "torchserve": PROGRAM.format(name="torchserve"),
        "python": PYTHON.format(python=sys.executable),
    }
    for name, script in scripts.items():
        (folder / name).write_text(script)
        (folder / name).chmod(0o755)
    for program in stack.programs:
        do(stack, program, LAST)


def start(stack: Stack) -> Supervision:
    """Start supervisord with the small programs."""
    supervision = Supervision(stack)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", str(stack.run / "bin/python"))
        supervision.start(stack.environment(), stack.run / "bin/nginx")
    # A signal sent before supervisord has started the program would be lost.
    wait_until(lambda: all((stack.run / f"{p}.group").exists() for p in stack.programs))
    return supervision


def start_all(stack: Stack) -> list[psutil.Process]:
    """Start all programs and return their main processes."""
    start(stack)
    return [stack.find_leader(program) for program in stack.programs]


def do(stack: Stack, program: str, script: str) -> None:
    """Set the program's next action."""
    (stack.run / f"{program}.does").write_text(script)


def supervisord(stack: Stack) -> psutil.Process:
    return psutil.Process(int((stack.run / "supervisord.pid").read_text()))


def test_what_was_stopped_or_given_up_is_started_again(small: Stack):
    """The gateway ends after two seconds, nginx cannot start, and logs are on a full disk."""
    do(small, "gateway", "sleep 2; exit 1")
    do(small, "nginx", "exit 3")
    do(small, "documents", f"echo lost; touch {small.run}/documents.done; {LAST}")
    for program in small.programs:
        small.log(program).symlink_to("/dev/full")
    supervision = start(small)
    wait_until((small.run / "documents.done").exists)
    # If supervisord considered it started, it would be EXITED, and restarted at once.
    wait_until(lambda: supervision.states()["gateway"] == "BACKOFF")

    do(small, "gateway", LAST)
    supervisorctl = (sys.executable, "-m", "supervisor.supervisorctl")
    run(*supervisorctl, "-s", f"unix://{small.socket}", "stop", "torchserve")
    do(small, "torchserve", f"touch {small.run}/torchserve.again; {LAST}")
    started: set[str] = set()

    def start_both() -> bool:
        # supervisord also retries nginx.
        started.update(supervision.start_stopped())
        return started >= {"nginx", "torchserve"}

    wait_until(start_both)
    do(small, "nginx", f"touch {small.run}/nginx.again; {LAST}")
    wait_until(lambda: len(list(small.run.glob("*.again"))) == 2)
    wait_until(lambda: supervision.start_stopped() == [])


def test_programs_go_on_while_supervisord_is_stopped(small, monkeypatch):
    monkeypatch.setattr("deploy.supervision._ALIVE_S", 1)
    assert not Supervision(small).is_running()
    wait, write = "while ! [ -e go ]; do sleep 0.1; done", f"head -c {SIZE} /dev/zero"
    for program in small.programs:
        done = f"touch {program}.done"
        do(small, program, f"cd {small.run}; {wait}; {write}; {done}; {LAST}")
    supervision = start(small)
    stopped = supervisord(small)
    stopped.suspend()
    try:
        with pytest.raises(StackError, match="does not answer"):
            supervision.is_running()
        (small.run / "go").touch()
        wait_until(
            lambda: all((small.run / f"{p}.done").exists() for p in small.programs)
        )
    finally:
        stopped.resume()
    for program in small.programs:
        assert small.log(program).stat().st_size >= SIZE
    monkeypatch.undo()
    assert supervision.is_running()


def test_a_stack_that_is_being_stopped_is_told(small: Stack):
    wait = f"touch {small.run}/begun; while true; do sleep 0.1; done"
    do(small, "gateway", f"trap 'touch {small.run}/told' TERM; {wait}")
    supervision = start(small)
    wait_until((small.run / "begun").exists)
    supervision._call("shutdown")
    wait_until((small.run / "told").exists)
    for ask in (supervision.is_running, lambda: end(small)):
        with pytest.raises(StackError, match="is being stopped"):
            ask()
    with pytest.raises(StackError, match="stopped meanwhile"):
        supervision.states()
    small.find_leader("gateway").kill()
    wait_until(lambda: not small.socket.exists())
    with pytest.raises(StackError, match="stopped meanwhile"):
        supervision.states()


def test_what_may_finish_is_not_ended_before(small: Stack, monkeypatch):
    monkeypatch.setattr("deploy.supervision._STOP_S", 0)
    finish = f"sleep 1; touch {small.run}/finished; exit"
    wait = f"touch {small.run}/begun; while true; do sleep 0.1; done"
    do(small, "gateway", f"trap '{finish}' TERM; {wait}")
    start(small)
    wait_until((small.run / "begun").exists)
    assert end(small)
    assert (small.run / "finished").exists()


def test_torn_files_do_not_keep_a_stack_from_being_ended(small: Stack):
    leaders = start_all(small)
    (small.run / "stack.json").write_text("{")
    (small.run / "map.json").write_text("null")
    for file in ("gateway.group", "supervisord.pid"):
        (small.run / file).write_text("")
    assert end(small)
    assert not any(map(launch.is_alive, leaders))
    assert list(small.run.glob("*.group")) == []
    assert not small.socket.exists()


def test_what_a_killed_supervisord_has_left_is_ended(small: Stack):
    leaders = start_all(small)
    killed = supervisord(small)
    killed.kill()
    wait_until(lambda: not launch.is_alive(killed))
    assert all(map(launch.is_alive, leaders))
    assert small.socket.exists()
    assert not end(small)
    assert not any(map(launch.is_alive, leaders))
    assert list(small.run.glob("*.group")) == []


def test_two_ends_at_once_do_not_disturb_each_other(tmp_path: Path, monkeypatch):
    record = tmp_path / "ray.group"
    record.touch()
    monkeypatch.setattr(launch, "end_left", lambda *_: record.unlink())
    end(Stack(tmp_path, tmp_path / "map.json"))


def test_what_has_left_its_group_is_ended_with_its_program(tmp_path: Path):
    stack = Stack(tmp_path, tmp_path / "map.json", backend="ray", is_door=False)
    lay_out(stack)
    worker = "setsid sleep 600 & echo $! >$BABELGATE_RUN_DIR/worker"
    do(stack, "ray", f"{worker}; {LAST}")
    try:
        start(stack)
        wait_until(lambda: (tmp_path / "worker").exists())
        left = psutil.Process(int((tmp_path / "worker").read_text()))
        stack.find_leader("ray").kill()
        wait_until(lambda: not launch.is_alive(left))
    finally:
        end(stack)
