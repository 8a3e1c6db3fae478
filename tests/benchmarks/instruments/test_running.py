"""Programs end with the benchmark that started them; a stack that requires a key is refused."""

import signal
import sys
from pathlib import Path

import psutil
import pytest

from benchmarks.instruments.generator import Request
from benchmarks.instruments.running import Running
from deploy.launch import is_alive
from deploy.stack import StackError
from tests.benchmarks.conftest import Server
from tests.e2e.real_stack import wait_until
from tests.programs import call

#: A benchmark that kills itself once it has started a program.
KILLED = """
import os, signal, sys
from pathlib import Path
from benchmarks.instruments import running

folder = Path(sys.argv[1])
command = ["sleep", "600"]
with (
    running.undo_after(["touch", str(folder / "undone")], 60),
    running.run_program(command, folder / "log", folder=folder, environment={}) as it,
):
    while it.name() != "sleep":
        pass
    print(it.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_benchmark_that_is_killed_leaves_nothing_behind(tmp_path: Path):
    done = call(sys.executable, "-c", KILLED, tmp_path)
    assert done.returncode == -signal.SIGKILL, done.stderr
    wait_until((tmp_path / "undone").exists)
    wait_until(lambda: has_ended(int(done.stdout)))


def has_ended(pid: int) -> bool:
    return not any(each.pid == pid and is_alive(each) for each in psutil.process_iter())


def test_a_stack_that_wants_a_key_is_not_asked_again(server: Server):
    server.statuses = [401]
    stack = Running(server.url, {}, headers={"X-Any": "1"})
    with pytest.raises(StackError, match=r"with 401\. .* requires a key"):
        stack.aim([Request(b"{}")])
    assert len(server.asked) == 1
    assert stack.aim([Request(b"{}")]).headers == stack.headers
