"""CSV and TSV: each row gets further fields, and stays as it is else, byte for byte."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from clients.errors import InputError
from clients.sources import Source
from clients.tables.table import (
    LONGEST_FIELD,
    Cell,
    CellResult,
    Column,
    LineTable,
    TableRow,
    split_end,
)

_SEPARATORS = (",", ";", "\t", "|")
_HINT = " (--no-quotes for a .tsv in which they mean nothing)"
_BREAKS = re.compile(r"[\t\r\n]+")


@dataclass(frozen=True)
class _Record:
    """A row's fields, and the lines that they are from."""

    #: The number of the first line.
    number: int
    fields: list[str]
    raw: str


@dataclass(frozen=True)
class _Header(TableRow):
    """The names of the columns."""


class SeparatedFile(LineTable):
    """A table whose first row names its columns. Files that end in `.csv` have commas, or
    the semicolons, tabs or bars with which the header has the wanted columns."""

    def __init__(
        self,
        source: Source,
        columns: Sequence[Column],
        *,
        is_tab: bool,
        has_quotes: bool,
    ) -> None:
        super().__init__(source, columns)
        self._separators = ("\t",) if is_tab else _SEPARATORS
        self._separator = self._separators[0]
        self._has_quotes = has_quotes

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "has_quotes": self._has_quotes}

    def parse(self, lines: Iterator[str]) -> Iterator[TableRow]:
        records = self._list_records(lines)
        header = next(records, None)
        if header is None:
            raise InputError(f"{self.source.name}: empty, expected a row of names")
        self.check_names(header.fields)
        places = [header.fields.index(column.name) for column in self.columns]
        yield _Header(*split_end(header.raw))
        width = len(header.fields)
        for record in records:
            raw, end = split_end(record.raw)
            if not record.fields:
                yield TableRow(raw, end, is_open=False)
                continue
            padding = self._separator * (width - len(record.fields))
            cells = [_make_cell(record, place, width) for place in places]
            yield TableRow(raw + padding, end, cells)

    def complete(
        self, row: TableRow, results: Sequence[CellResult], *, has_errors: bool
    ) -> str:
        if not row.is_open:
            return row.raw
        if isinstance(row, _Header):
            fields = self.list_names(has_errors=has_errors)
        else:
            errors = [result.error or "" for result in results if has_errors]
            fields = [*(result.text or "" for result in results), *errors]
        return self._separator.join([row.raw, *map(self._quote, fields)])

    def _quote(self, field: str) -> str:
        if not self._has_quotes:
            return _BREAKS.sub(" ", field)
        if any(mark in field for mark in (self._separator, '"', "\r", "\n")):
            return '"' + field.replace('"', '""') + '"'
        return field

    def _list_records(self, lines: Iterator[str]) -> Iterator[_Record]:
        first = next(lines, "")
        self._separator = self._choose_separator(first)
        tape = _Tape(chain([first] if first else [], lines))
        # A limit of the whole process; the library has no other.
        csv.field_size_limit(LONGEST_FIELD)
        reader = csv.reader(
            tape,
            delimiter=self._separator,
            quoting=csv.QUOTE_MINIMAL if self._has_quotes else csv.QUOTE_NONE,
        )
        number = 1
        try:
            for fields in reader:
                if tape.is_over:
                    raise self.fail(number, f"a quote is not closed{_HINT}")
                yield _Record(number, fields, tape.take())
                number = reader.line_num + 1
        except csv.Error as error:
            raise self.fail(
                number, f"{error}: is a quote not closed?{_HINT}"
            ) from error

    def _choose_separator(self, header: str) -> str:
        """The one with which the first line has the columns, else the first."""
        names = {column.name for column in self.columns}
        for separator in self._separators:
            if names <= set(next(csv.reader([header], delimiter=separator), ())):
                return separator
        return self._separators[0]


class _Tape(Iterator[str]):
    """Lines, and those of them that have been read since the last record."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines
        self._taken: list[str] = []
        #: Whether another line was asked for after the last one.
        self.is_over = False

    def __next__(self) -> str:
        try:
            line = next(self._lines)
        except StopIteration:
            self.is_over = True
            raise
        self._taken.append(line)
        return line

    def take(self) -> str:
        """The lines of the record."""
        taken = "".join(self._taken)
        self._taken.clear()
        return taken


def _make_cell(record: _Record, place: int, width: int) -> Cell:
    count = len(record.fields)
    if count > width:
        reason = f"found {count} fields, expected {width} as in the first row"
        return Cell(record.number, None, reason)
    if place >= count:
        return Cell(record.number, None)
    return Cell.of(record.number, record.fields[place])
