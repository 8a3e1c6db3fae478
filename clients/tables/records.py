"""JSON lines: each line is an object, which gets further keys and stays as it is else."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from clients.errors import InputError
from clients.tables.table import Cell, CellResult, LineTable, TableRow, split_end
from contract.validation import kind

_NOT_JSON = object()


class RecordFile(LineTable):
    """A key for each translation. Only objects with an error have a key for it."""

    # Within a line, a carriage return is white space of JSON.
    newline = "\n"

    def parse(self, lines: Iterator[str]) -> Iterator[TableRow]:
        found: set[str] = set()
        others: list[str] = []
        for number, line in enumerate(lines, start=1):
            raw, end = split_end(line)
            record = _read(raw)
            if isinstance(record, dict):
                self._check_names(number, record)
                found |= record.keys() & {column.name for column in self.columns}
                others = others or list(record)
            cells = self._list_cells(number, raw, record)
            yield TableRow(raw, end, cells, is_open=isinstance(record, dict))
        missing = [c.name for c in self.columns if c.name not in found]
        if missing and others:
            raise InputError(
                f"{self.source.name}: no line has {', '.join(missing)}; the first has "
                f"{', '.join(others)}"
            )

    def complete(
        self, row: TableRow, results: Sequence[CellResult], *, has_errors: bool
    ) -> str:
        if not row.is_open:
            return row.raw
        added: dict[str, str | None] = {}
        for column, result in zip(self.columns, results, strict=True):
            added[column.into] = result.text
            if result.error:
                added[column.error] = result.error
        inner = row.raw.rstrip()
        rest = row.raw[len(inner) :]
        inner = inner[:-1].rstrip()
        comma = "" if inner.endswith("{") else ", "
        pairs = json.dumps(added, ensure_ascii=False)[1:]
        return f"{inner}{comma}{pairs}{rest}"

    def _list_cells(self, number: int, raw: str, record: Any) -> list[Cell]:
        if not raw.strip():
            return []
        if not isinstance(record, dict):
            reason = "not JSON" if record is _NOT_JSON else f"found {kind(record)}"
            error = f"{reason}, expected an object"
            return [Cell(number, None, error) for _ in self.columns]
        return [_make_cell(number, record.get(c.name)) for c in self.columns]

    def _check_names(self, number: int, record: dict[str, Any]) -> None:
        for name in self.list_names(has_errors=True):
            if name in record:
                raise self.fail(number, f"{name} is there already; --into renames ours")


def _read(raw: str) -> Any:
    """Read a record without the values of its numbers, of which some are too long for
    Python."""
    try:
        return json.loads(raw, parse_int=len, parse_float=len)
    except (ValueError, RecursionError):
        return _NOT_JSON


def _make_cell(number: int, value: Any) -> Cell:
    if value is None:
        return Cell(number, None)
    if not isinstance(value, str):
        return Cell(number, None, f"found {kind(value)}, expected a string")
    return Cell.of(number, value)
