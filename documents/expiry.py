"""The expiry of documents: an empty file for each, in a folder for each quarter of an hour.
A sweep reads the names of those whose time has come, and no others.

    expiring/<number of the quarter>/<unix seconds>~<owner>~<id>
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from documents.disk import list_names

_QUARTER_S = 900


class Expiry:
    """The times of all documents. Every call may block for the time that the disk takes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, owner: str, document_id: str, expires_at: float) -> None:
        """Has a document found when its time has come. Raises OSError."""
        second = math.ceil(expires_at)
        quarter = self._folder / str(second // _QUARTER_S)
        quarter.mkdir(mode=0o700, parents=True, exist_ok=True)
        (quarter / f"{second}~{owner}~{document_id}").touch()

    def list_due(self, now: float) -> Iterator[tuple[Path, str, str]]:
        """The files of documents whose time has come, the longest ago first, with their owners
        and ids. A caller that deletes a document removes its file. Raises OSError."""
        current = now // _QUARTER_S
        quarters = filter(str.isdecimal, list_names(self._folder))
        for quarter in sorted(quarters, key=int):
            if int(quarter) > current:
                return
            for name in sorted(list_names(self._folder / quarter)):
                second, _, document = name.partition("~")
                owner, _, document_id = document.partition("~")
                if second.isdecimal() and int(second) < now:
                    yield self._folder / quarter / name, owner, document_id
            if int(quarter) < current:
                with suppress(OSError):  # it is not empty yet
                    (self._folder / quarter).rmdir()
