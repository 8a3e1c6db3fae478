"""`python -m deploy.launch NAME COMMAND…`: ends what an earlier life of NAME left
running, opens its log file, and becomes COMMAND. A killed master leaves children:
nginx's workers go on serving and hold the port, so a new master cannot start. They are
all in the master's process group.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from contract import durable, variables
from contract.documents import find_documents
from deploy.programs import NGINX
from deploy.stack import read_object

_WAIT_S, _LOOK_S = 5, 0.02
#: Every program but nginx gives way by this much: if no other program has CPU left,
#: nginx must say so in time.
_NICENESS = 5
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
#: A field of /proc/<pid>/stat, counted from the name: the start in ticks since boot, which
#: setting the clock does not change.
_START_FIELD = 19


def main(name: str, command: list[str]) -> None:
    """Never returns."""
    run = variables.find_run()
    assert run, f"{variables.RUN_DIR.name} is not set"
    record = run / f"{name}.group"
    end_recorded(record)
    with suppress(OSError):  # a full disk keeps no program from starting
        durable.write(record, json.dumps(describe_self()))
    confine(name)
    with suppress(OSError):
        _write_own_log(run / "logs" / f"{name}.log")
    os.environ[variables.PROGRAM.name] = name
    if name != NGINX.name:
        os.nice(_NICENESS)
    os.execv(command[0], command)


def confine(name: str) -> None:
    """Hides what a program writes from other users, and from the program what is secret and
    not its own."""
    os.umask(0o077)
    for variable in variables.SECRETS:
        if name not in (variable.readers or ()):
            os.environ.pop(variable.name, None)
    if name == "documents":
        folder = find_documents(Path(variables.DOCUMENTS.given))
        with suppress(OSError):  # another machine's user may have made it
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o700)


def describe_self() -> dict[str, str | float]:
    """This process as the leader of its group, for its record."""
    return {
        "boot": _BOOT_ID.read_text().strip(),
        "group": os.getpid(),
        "start": _read_start(os.getpid()) or 0,
        "since": time.time(),
    }


def end_recorded(record: Path) -> None:
    """Kills what is left of the process group in `record`, and the processes that have left the
    group but still bear the program's name. Nothing else: after a reboot, or after its number
    was reused, the group is somebody else's."""
    match read_object(record):
        case {"boot": str(boot), "group": int(group), "start": int(start)}:
            pass
        case _:
            return
    if boot != _BOOT_ID.read_text().strip() or _read_start(group) not in (None, start):
        return
    members = [
        process
        for process in psutil.process_iter()
        if is_ours(process.pid, record.parent)
        and (
            _is_member(process.pid, group, start)
            or find_program(process.pid) == record.stem
        )
    ]
    for process in members:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGKILL)
    wait_for_end(members, _WAIT_S)


def wait_for_end(
    processes: Sequence[psutil.Process], limit_s: float
) -> list[psutil.Process]:
    """Returns those that have not ended in time."""
    give_up_at = time.monotonic() + limit_s
    while alive := list(filter(is_alive, processes)):
        if time.monotonic() > give_up_at:
            break
        time.sleep(_LOOK_S)
    return alive


def is_alive(process: psutil.Process) -> bool:
    """Whether a process has not ended. A zombie has, and only its parent has not noticed yet,
    once it has a single thread: Java's others may still hold its port for a moment."""
    with suppress(psutil.NoSuchProcess):
        is_zombie = process.status() == psutil.STATUS_ZOMBIE
        return process.is_running() and not (is_zombie and process.num_threads() == 1)
    return False


def is_ours(pid: int, run: Path) -> bool:
    """Whether a process belongs to the stack of this run directory, by its environment. nginx
    overwrites its environment with its title and zeros, so its working directory counts. A
    process of another user shows neither, and is not ours."""
    process = Path(f"/proc/{pid}")
    try:
        environment = (process / "environ").read_bytes()
        if b"\0\0" in environment:
            return (process / "cwd").readlink().is_relative_to(run)
        mark = f"{variables.RUN_DIR.name}={run}".encode()
        return mark in environment.split(b"\0")
    except OSError:
        return False


def find_program(pid: int) -> str | None:
    """The program that a process belongs to, by its environment; None if that does not say."""
    with suppress(psutil.Error):
        return psutil.Process(pid).environ().get(variables.PROGRAM.name)
    return None


def _is_member(pid: int, group: int, start: int) -> bool:
    """Whether a process is in a group and not older than its leader."""
    try:
        return os.getpgid(pid) == group and (_read_start(pid) or 0) >= start
    except ProcessLookupError:
        return False


def _read_start(pid: int) -> int | None:
    """The start of a process in ticks since boot; None if it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return int(text.rpartition(")")[2].split()[_START_FIELD])


def _write_own_log(path: Path) -> None:
    """Sends output to the file and not through supervisord: if that stopped, the program
    would too. Appending lets `deploy.watch` shorten the file."""
    log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.fchmod(log, 0o600)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(log, stream.fileno())
    os.close(log)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
