"""Tells which rows somebody still waits for, from a file that the gateway shares with
the workers on its machine.
"""

from __future__ import annotations

import mmap
from pathlib import Path

from contract import variables

#: In the stack's run directory; `gateway/admission/shared_counters.py` writes it.
FILE = Path("admission", "rows")


class Wanted:
    """One byte per row, which is 0 once nobody waits for the row. Without the file every row
    is wanted."""

    def __init__(self) -> None:
        self._run = variables.find_run()
        self._bytes: mmap.mmap | None = None

    def has(self, number: str | None) -> bool:
        """Whether somebody waits for the row with this number, which its header names."""
        if not self._run or number is None or not number.isdecimal():
            return True
        rows = self._bytes = self._bytes or self._open(self._run)
        return rows is None or int(number) >= len(rows) or bool(rows[int(number)])

    def _open(self, run: Path) -> mmap.mmap | None:
        """Opens the file later if the gateway starts after this worker."""
        try:
            with (run / FILE).open("rb") as file:
                return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError):
            return None
