"""`python -m deploy.launch NAME COMMAND…`: kills the processes that an earlier start of NAME
left running, opens its log file, and becomes COMMAND. Children outlive a killed master:
nginx's workers continue to serve and keep the port, so a new master cannot start.
"""

import json
import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from contract import durable, variables
from contract.documents import find_documents

#: Importing `deploy.programs` would delay each start of a program by a quarter of a second.
_NGINX = "nginx"
_WAIT_S, _LOOK_S = 5, 0.02
#: The niceness of every program but nginx, which must answer in time on a busy machine.
_NICENESS = 5


def main(name: str, command: list[str]) -> None:
    """Become `command`; never return."""
    run = variables.find_run()
    assert run, f"{variables.RUN_DIR.name} is not set"
    end_left(name, run)
    with suppress(OSError):  # a full disk keeps no program from starting
        record = {"group": os.getpid(), "since": time.time()}
        durable.write(run / f"{name}.group", json.dumps(record))
    confine(name)
    with suppress(OSError):
        _write_own_log(run / "logs" / f"{name}.log")
    os.environ[variables.PROGRAM.name] = name
    if name != _NGINX:
        os.nice(_NICENESS)
    os.execv(command[0], command)


def confine(name: str) -> None:
    """Hide a program's files from other users, and from it all secrets but its own."""
    os.umask(0o077)
    for variable in variables.SECRETS:
        if name not in (variable.readers or ()):
            os.environ.pop(variable.name, None)
    if name == "documents":
        folder = find_documents(Path(variables.DOCUMENTS.given))
        with suppress(OSError):  # a user on another machine may own it
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o700)


def end_left(name: str, run: Path) -> None:
    """Kill the processes that earlier starts of a program left running, and no others."""
    left = [each for each in psutil.process_iter() if find_program(each, run) == name]
    for process in left:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    wait_for_end(left, _WAIT_S)


def wait_for_end(
    processes: Sequence[psutil.Process], limit_s: float
) -> list[psutil.Process]:
    """Wait for processes to end, and return those that have not ended in time."""
    give_up_at = time.monotonic() + limit_s
    while alive := list(filter(is_alive, processes)):
        if time.monotonic() > give_up_at:
            break
        time.sleep(_LOOK_S)
    return alive


def is_alive(process: psutil.Process) -> bool:
    """Whether a process has not ended. A zombie has ended once it has a single thread: the
    other threads of Java may keep its port for a moment."""
    with suppress(psutil.NoSuchProcess):
        is_zombie = process.status() == psutil.STATUS_ZOMBIE
        return process.is_running() and not (is_zombie and process.num_threads() == 1)
    return False


def find_program(process: psutil.Process, run: Path) -> str | None:
    """Return the program of this run directory's stack that a process belongs to, according to
    its environment. nginx overwrites that with its title, so its working directory counts.
    Another user's process, which shows neither, is not ours."""
    with suppress(psutil.Error):
        environment = process.environ()
        if environment.get(variables.RUN_DIR.name) == str(run):
            return environment.get(variables.PROGRAM.name)
        if process.name() == _NGINX and Path(process.cwd()) == run / _NGINX:
            return _NGINX
    return None


def _write_own_log(path: Path) -> None:
    """Redirect output to the file instead of supervisord: if that stopped, the program would
    too. Appending lets `deploy.watch` truncate the file."""
    log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.fchmod(log, 0o600)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(log, stream.fileno())
    os.close(log)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
