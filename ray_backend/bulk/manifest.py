"""The list of the files that a run has written, which outlives the run: a line of JSON for
each, written before the file gets its name.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError

from ray_backend.bulk.storage import Store

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

    def __init__(self, store: Store) -> None:
        """Reads the list and leaves out what a kill has torn, or what is not there."""
        self._store = store
        self._journal = store.open_journal(NAME)
        lines = self._journal.read()
        found = {record.output: record for line in lines for record in _read(line)}
        there = store.find(found.keys())
        self.records = {name: found[name] for name in found if name in there}
        if len(self.records) < len(lines):
            self._write()

    def append(self, record: Record) -> None:
        """Is kept when this returns. Safe to call from several threads."""
        self.records[record.output] = record
        self._journal.append(_RECORDS.dump_json(record), is_durable=True)

    def forget(self, outputs: Collection[str]) -> None:
        """Removes results and their records."""
        self._store.remove(outputs)
        for name in outputs:
            self.records.pop(name, None)
        self._write()

    def settle(self) -> None:
        """The list is one file afterwards."""
        if self._journal.is_scattered:
            self._write()

    def _write(self) -> None:
        self._journal.replace(map(_RECORDS.dump_json, self.records.values()))


def _read(line: bytes) -> tuple[Record, ...]:
    """The record of a line, unless it is torn."""
    try:
        return (_RECORDS.validate_json(line),)
    except ValidationError:
        return ()
