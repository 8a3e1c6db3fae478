"""Measures for how long nginx wanted a core and had none: its answers may be this
late, whatever program took the core.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from tests.chaos.scene import Scene, Window

_LOOK_S, _LEAST_S = 0.1, 0.01


@contextmanager
def watch_nginx(scene: Scene) -> Iterator[None]:
    """Note a window of each wait that is as long as the wait."""
    stop = threading.Event()

    def look() -> None:
        waited: dict[str, float] = {}
        while not stop.wait(_LOOK_S):
            with suppress(psutil.Error, OSError, ValueError, LookupError):
                found = read_waits(scene.stack.find_leader("nginx").pid)
                most = max(found[pid] - waited.get(pid, 0.0) for pid in found)
                now = time.monotonic()
                if waited and most > _LEAST_S:
                    scene.frozen.append(Window("nginx without a core", now - most, now))
                waited = found

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def read_waits(master: int) -> dict[str, float]:
    """Seconds that each worker of a process has waited for a core, by the kernel's count."""
    workers = Path(f"/proc/{master}/task/{master}/children").read_text().split()
    return {
        pid: int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
        for pid in workers
    }
