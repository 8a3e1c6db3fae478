"""`python -m deploy.launch NAME COMMAND…`: ends what an earlier life of NAME has left
running, then becomes COMMAND.

A killed master leaves its children behind: nginx's workers go on serving and hold the
port, so that no new master can start. All of them are in the master's process group.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import psutil

_WAIT_S = 5


def main(name: str, command: list[str]) -> None:
    """Never returns."""
    record = Path(os.environ["BABELGATE_RUN"]) / f"{name}.group"
    end_recorded(record)
    record.write_text(
        json.dumps({"group": os.getpid(), "since": psutil.Process().create_time()})
    )
    os.execv(command[0], command)


def end_recorded(record: Path) -> None:
    """Kills what is left of the process group in `record`: the members that started after
    its leader, for by now the number might belong to somebody else's group."""
    if not record.exists():
        return
    group = json.loads(record.read_text())
    members = [
        process for process in psutil.process_iter() if _is_member(process, **group)
    ]
    for process in members:
        process.send_signal(signal.SIGKILL)
    psutil.wait_procs(members, timeout=_WAIT_S)


def _is_member(process: psutil.Process, group: int, since: float) -> bool:
    try:
        return os.getpgid(process.pid) == group and process.create_time() >= since
    except (ProcessLookupError, psutil.Error):
        return False


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
