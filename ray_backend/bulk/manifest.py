"""The list of the files that a run has written, which outlives the run: a line of JSON for
each, written before the file gets its name.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

NAME = "bulk-manifest.jsonl"


@dataclass(frozen=True, kw_only=True)
class Record:
    """A file that was written."""

    #: The source as it was named, and the result, below the folder of the results.
    file: str
    output: str
    #: Texts or frames: `errors` have no result, `warnings` have one that is in doubt.
    rows: int
    errors: int
    warnings: int
    #: The size and checksum of the result.
    bytes: int
    sha256: str
    #: How long workers were busy with it.
    seconds: float
    #: What the source was then.
    source_bytes: int
    source_modified_ns: int


_RECORDS = TypeAdapter(Record)


class Manifest:
    """The records of the results that are there, by their names."""

    def __init__(self, folder: Path) -> None:
        """Reads the list and leaves out what a kill has torn, or what is not there."""
        self._folder = folder
        self._path = folder / NAME
        self.records: dict[str, Record] = {}
        lines = self._path.read_bytes().splitlines() if self._path.exists() else []
        for line in lines:
            self._read(line)
        if len(self.records) < len(lines):
            self._write()

    def append(self, record: Record) -> None:
        """Is on the disk when this returns."""
        self.records[record.output] = record
        with self._path.open("ab") as file:
            file.write(_write_line(record))
            file.flush()
            os.fsync(file.fileno())

    def forget(self, outputs: Iterable[str]) -> None:
        """Removes results and their records."""
        for name in outputs:
            (self._folder / name).unlink(missing_ok=True)
            self.records.pop(name, None)
        self._write()

    def _read(self, line: bytes) -> None:
        try:
            record = _RECORDS.validate_json(line)
        except ValidationError:
            return
        if (self._folder / record.output).exists():
            self.records[record.output] = record

    def _write(self) -> None:
        part = self._path.with_suffix(".part")
        part.write_bytes(b"".join(map(_write_line, self.records.values())))
        part.replace(self._path)


def _write_line(record: Record) -> bytes:
    return _RECORDS.dump_json(record) + b"\n"
