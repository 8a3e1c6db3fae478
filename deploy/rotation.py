"""Keeps log files within their limits. Programs append, so a file can be copied and emptied."""

from __future__ import annotations

import shutil
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from contract import durable

_EVERY_S = 5
_MB = 1 << 20


@dataclass(frozen=True)
class Bound:
    """The largest size of a program's log, and how many older ones are kept."""

    most_bytes: int
    kept: int


BOUNDS = {
    "nginx": Bound(50 * _MB, 3),
    "gateway": Bound(20 * _MB, 3),
    "torchserve": Bound(20 * _MB, 3),
    "registrar": Bound(5 * _MB, 1),
    "documents": Bound(5 * _MB, 1),
    "ray": Bound(5 * _MB, 1),
}


def rotate_forever(logs: Path) -> None:
    """Looks at all logs every few seconds; never returns."""
    while True:
        for program, bound in BOUNDS.items():
            with suppress(OSError):  # missing, or a disk error, which shows elsewhere
                rotate(logs / f"{program}.log", bound)
        time.sleep(_EVERY_S)


def rotate(path: Path, bound: Bound) -> None:
    """Copies a log that is too large to `<name>.1` and empties it.

    After renaming, nginx would have to open a new file, which its workers may not be allowed
    to do. A line that arrives in the microseconds between the two steps is lost. On a full
    disk the log is emptied without a copy. Raises OSError.
    """
    if path.stat().st_size < bound.most_bytes:
        return
    older = [path.with_name(f"{path.name}.{i}") for i in range(1, bound.kept + 1)]
    for source, target in zip(older[-2::-1], older[:0:-1], strict=True):
        with suppress(FileNotFoundError):
            durable.rename(source, target)
    with path.open("r+b") as log:
        try:
            with older[0].open("wb", buffering=0) as copy:
                shutil.copyfileobj(log, copy, _MB)
        except OSError:
            older[0].unlink(missing_ok=True)
        log.truncate(0)
