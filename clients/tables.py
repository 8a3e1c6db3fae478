"""Files of texts. Each format reads its texts in order, and copies its rows byte for byte with
the translations added.
"""

from __future__ import annotations

import csv
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from io import TextIOWrapper
from itertools import chain, islice, tee
from typing import Any, BinaryIO, ClassVar

from clients.errors import ClientError, InputError
from clients.files import TABLES, Source
from contract.validation import kind

BOM = "\ufeff"
#: The most characters of a field or a line. Sixteen of them fit into memory.
LONGEST_FIELD = 16 << 20
_NO_TEXT = "contains a byte or half of a surrogate pair that is not a character"
_HINT = " (--no-quotes for a .tsv whose quotes are plain characters)"
_BREAKS, _TAB_OR_BREAKS = re.compile(r"[\r\n]+"), re.compile(r"[\t\r\n]+")
_NOT_JSON = object()


@dataclass(frozen=True)
class Column:
    """A column of texts, and the column for their translations."""

    name: str
    into: str

    @property
    def error(self) -> str:
        """The column for the reason why a row has no translation."""
        return f"{self.into}_error"


def name_columns(
    names: Sequence[str], into: Sequence[str], language: str
) -> list[Column]:
    """Return the columns of the command line. Raises InputError if `into` does not match."""
    into = into or [f"{name}_{language}" for name in names]
    if len(into) != len(names):
        raise InputError(
            f"--into was given {len(into)} times: expected one for each --column, "
            f"{len(names)}"
        )
    columns = [Column(*pair) for pair in zip(names, into, strict=True)]
    new = [name for column in columns for name in (column.into, column.error)]
    if len({*names, *new}) != len(names) + len(new):
        raise InputError(f"two columns have the same name: {', '.join([*names, *new])}")
    return columns


@dataclass(frozen=True)
class Cell:
    """A cell of a file: its text, or None if it has none."""

    #: The number of its row or line, from 1.
    row: int
    text: str | None
    error: str | None = None

    @classmethod
    def of(cls, row: int, text: str | None) -> Cell:
        """Return a cell, which has an error if the text cannot be sent."""
        try:
            (text or "").encode()
        except UnicodeEncodeError:
            return cls(row, None, _NO_TEXT)
        return cls(row, text)

    @property
    def is_wanted(self) -> bool:
        """Whether there is something to translate."""
        return self.error is None and bool(self.text and not self.text.isspace())


@dataclass(frozen=True)
class TextReply:
    """A translation, or the reason why there is none."""

    text: str | None
    error: str | None = None
    warning: str | None = None


@dataclass
class TextTable(ABC):
    """A file of texts, which can be read repeatedly."""

    source: Source
    columns: Sequence[Column]
    #: The share of the file read so far.
    share: float = 0.0
    #: The fault that ended the reading, with its place.
    error: str | None = None

    #: The word for a row.
    word: ClassVar[str] = "row"

    def describe(self) -> dict[str, Any]:
        """Return the selection of texts, for a journal."""
        return {"columns": [[column.name, column.into] for column in self.columns]}

    @abstractmethod
    def read(self) -> Iterator[Cell]:
        """Yield the cells, row by row. Raises InputError where the file is broken."""

    @abstractmethod
    def write(
        self, file: BinaryIO, results: Iterator[TextReply], *, has_errors: bool
    ) -> None:
        """Write the rows with the results of their cells, up to the first row without any."""

    def list_cells(self) -> Iterator[Cell]:
        """Yield the cells up to the first fault, which sets `error`."""
        try:
            yield from self.read()
        except InputError as error:
            self.error = str(error)
        except OSError as error:
            self.error = f"{self.source.name}: {error.strerror}"

    def fail(self, row: int, reason: str) -> InputError:
        """Return the error of a row, to be raised."""
        return InputError(f"{self.source.name}: {self.word} {row}: {reason}")

    def check_names(self, names: Sequence[str]) -> None:
        """Raise InputError if the file's columns do not match ours."""
        for name in (column.name for column in self.columns):
            if names.count(name) != 1:
                found = "has no" if name not in names else "has more than one"
                raise InputError(
                    f"{self.source.name} {found} column {name}; found {', '.join(names)}"
                )
        for name in self.list_names(has_errors=True):
            if name in names:
                raise InputError(
                    f"{self.source.name} already has {name}; --into renames the new one"
                )

    def list_names(self, *, has_errors: bool) -> list[str]:
        """Return the names of the new columns."""
        errors = [column.error for column in self.columns] if has_errors else []
        return [*(column.into for column in self.columns), *errors]


def open_table(
    source: Source, columns: Sequence[Column], *, has_quotes: bool = True
) -> TextTable:
    """Return the table for the file's suffix. Quotes always enclose a field in a .csv, and in a
    .tsv if `has_quotes`. Raises ClientError without such a table, its columns or its extra."""
    suffix = source.relative.suffix.lower()
    if suffix not in TABLES.suffixes:
        expected = " ".join(sorted(TABLES.suffixes))
        raise InputError(f"{source.name}: expected a file that ends in {expected}")
    if suffix == ".txt":
        return TextFile(source, ())
    if not columns:
        raise InputError(f"{source.name}: name its column of texts with --column")
    match suffix:
        case ".jsonl":
            return RecordFile(source, columns)
        case ".parquet":
            return _open_parquet(source, columns)
        case ".tsv":
            return SeparatedFile(
                source, columns, separators="\t", has_quotes=has_quotes
            )
    return SeparatedFile(source, columns)


def _open_parquet(source: Source, columns: Sequence[Column]) -> TextTable:
    try:
        from clients.parquet import ParquetFile  # an extra
    except ModuleNotFoundError as error:
        raise ClientError(
            "Reading Parquet requires PyArrow: `make .venv/ready-parquet` installs it."
        ) from error
    return ParquetFile(source, columns)


@dataclass(frozen=True)
class TableRow:
    """One or more lines, and the texts in them."""

    end: str
    cells: Sequence[Cell]
    #: Returns the row without its end, given its cells' results and whether there are errors.
    write: Callable[[Sequence[TextReply], bool], str]


class LineTable(TextTable):
    """A file of lines in UTF-8. Invalid bytes are preserved, and their row is an error."""

    word = "line"
    #: The line ends, as in `open`.
    newline: ClassVar[str] = ""

    @abstractmethod
    def parse(self, lines: Iterator[str]) -> Iterator[TableRow]:
        """Yield the rows of lines, which include their ends."""

    def read(self) -> Iterator[Cell]:
        with self._open() as (_, lines):
            for row in self.parse(lines):
                yield from row.cells

    def write(
        self, file: BinaryIO, results: Iterator[TextReply], *, has_errors: bool
    ) -> None:
        with self._open() as (mark, lines):
            file.write(mark.encode())
            for row in self.parse(lines):
                found = list(islice(results, len(row.cells)))
                if len(found) < len(row.cells):
                    return
                line = row.write(found, has_errors) + row.end
                file.write(line.encode("utf-8", "surrogateescape"))

    @contextmanager
    def _open(self) -> Iterator[tuple[str, Iterator[str]]]:
        """Open the file and yield its byte-order mark, if any, and the lines after it."""
        with (
            self.source.path.open("rb") as binary,
            TextIOWrapper(
                binary, "utf-8", errors="surrogateescape", newline=self.newline
            ) as file,
        ):
            lines = self._read_lines(file, binary)
            first = next(lines, "")
            if first.startswith(("\udcff\udcfe", "\udcfe\udcff")):
                raise InputError(f"{self.source.name} is UTF-16, expected UTF-8")
            mark = BOM if first.startswith(BOM) else ""
            first = first.removeprefix(BOM)
            yield mark, chain([first] if first else [], lines)

    def _read_lines(self, file: TextIOWrapper, binary: BinaryIO) -> Iterator[str]:
        size_bytes = self.source.size_bytes or 1
        read = partial(file.readline, LONGEST_FIELD)
        for number, line in enumerate(iter(read, ""), start=1):
            if len(line) == LONGEST_FIELD:
                raise self.fail(number, f"longer than {LONGEST_FIELD} characters")
            self.share = min(1.0, binary.tell() / size_bytes)
            yield line


def split_end(line: str) -> tuple[str, str]:
    """Split a line into its text and its end."""
    text = line.removesuffix("\n").removesuffix("\r")
    return text, line[len(text) :]


class TextFile(LineTable):
    """A text per line; the translation of a text with an error is an empty line."""

    def parse(self, lines: Iterator[str]) -> Iterator[TableRow]:
        for number, line in enumerate(lines, start=1):
            text, end = split_end(line)
            yield TableRow(end, [Cell.of(number, text)], self._write_line)

    def _write_line(self, results: Sequence[TextReply], _: bool) -> str:
        (result,) = results
        return _BREAKS.sub(" ", result.text or "")


class RecordFile(LineTable):
    """JSON lines: an object gets a key for each translation and is otherwise unchanged. Only
    objects with an error get a key for it."""

    # Within a line, a carriage return is JSON white space.
    newline = "\n"

    def parse(self, lines: Iterator[str]) -> Iterator[TableRow]:
        found: set[str] = set()
        others: list[str] = []
        for number, line in enumerate(lines, start=1):
            raw, end = split_end(line)
            record = _read_record(raw)
            if isinstance(record, dict):
                there = [n for n in self.list_names(has_errors=True) if n in record]
                if there:
                    reason = f"{there[0]} already exists; --into renames the new one"
                    raise self.fail(number, reason)
                found |= record.keys() & {column.name for column in self.columns}
                others = others or list(record)
            cells = self._list_cells(number, record) if raw.strip() else ()
            yield TableRow(end, cells, partial(self._write_record, raw, record))
        missing = [c.name for c in self.columns if c.name not in found]
        if missing and others:
            raise InputError(
                f"{self.source.name}: no line has {', '.join(missing)}; the first has "
                f"{', '.join(others)}"
            )

    def _write_record(
        self, raw: str, record: Any, results: Sequence[TextReply], _: bool
    ) -> str:
        if not isinstance(record, dict):
            return raw
        added: dict[str, str | None] = {}
        for column, result in zip(self.columns, results, strict=True):
            added[column.into] = result.text
            if result.error:
                added[column.error] = result.error
        inner = raw.rstrip()
        rest = raw[len(inner) :]
        inner = inner[:-1].rstrip()
        comma = "" if inner.endswith("{") else ", "
        pairs = json.dumps(added, ensure_ascii=False)[1:]
        return f"{inner}{comma}{pairs}{rest}"

    def _list_cells(self, number: int, record: Any) -> list[Cell]:
        if isinstance(record, dict):
            values = [record.get(column.name) for column in self.columns]
            return [_read_value(number, value) for value in values]
        reason = "not JSON" if record is _NOT_JSON else f"found {kind(record)}"
        return [Cell(number, None, f"{reason}, expected an object")] * len(self.columns)


def _read_record(raw: str) -> Any:
    """Parse a record without converting its numbers: some are too long for Python."""
    try:
        return json.loads(raw, parse_int=len, parse_float=len)
    except (ValueError, RecursionError):
        return _NOT_JSON


def _read_value(number: int, value: Any) -> Cell:
    if not isinstance(value, str | None):
        return Cell(number, None, f"found {kind(value)}, expected a string")
    return Cell.of(number, value)


@dataclass
class SeparatedFile(LineTable):
    """CSV and TSV: each row gets new fields. The first row names the columns."""

    #: The possible separators: the first with which the header has the columns, else the first.
    separators: str = ",;\t|"
    has_quotes: bool = True

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "has_quotes": self.has_quotes}

    def parse(self, lines: Iterator[str]) -> Iterator[TableRow]:
        records = self._list_records(lines)
        header = next(records, None)
        if header is None:
            raise InputError(f"{self.source.name}: empty, expected column names")
        _, names, line = header
        self.check_names(names)
        places = [names.index(column.name) for column in self.columns]
        raw, end = split_end(line)
        yield TableRow(end, (), partial(self._write_header, raw))
        width = len(names)
        for number, fields, line in records:
            raw, end = split_end(line)
            padding = self._separator * (width - len(fields)) if fields else ""
            wanted = places if fields else ()
            cells = [_read_field(number, fields, place, width) for place in wanted]
            yield TableRow(end, cells, partial(self._write_row, raw + padding))

    def _write_header(self, raw: str, _: object, has_errors: bool) -> str:
        return self._add_fields(raw, self.list_names(has_errors=has_errors))

    def _write_row(
        self, raw: str, results: Sequence[TextReply], has_errors: bool
    ) -> str:
        errors = [result.error or "" for result in results if has_errors]
        return self._add_fields(raw, [*(each.text or "" for each in results), *errors])

    def _add_fields(self, raw: str, fields: Sequence[str]) -> str:
        return self._separator.join([raw, *map(self._quote, fields)])

    def _quote(self, field: str) -> str:
        if not self.has_quotes:
            return _TAB_OR_BREAKS.sub(" ", field)
        if any(mark in field for mark in (self._separator, '"', "\r", "\n")):
            return '"' + field.replace('"', '""') + '"'
        return field

    def _list_records(
        self, lines: Iterator[str]
    ) -> Iterator[tuple[int, list[str], str]]:
        """Yield the number of each row's first line, its fields, and its lines as they are."""
        number, taken = 1, list[str]()

        def take(lines: Iterator[str]) -> Iterator[str]:
            for line in lines:
                taken.append(line)
                yield line
            if taken:  # the reader expects another line
                raise self.fail(number, f"a quote is not closed{_HINT}")

        # This limit applies to the whole process; the library has no other.
        csv.field_size_limit(LONGEST_FIELD)
        try:
            self._separator, lines = self._choose_separator(lines)
            reader = self._parse(take(lines), self._separator)
            for fields in reader:
                yield number, fields, "".join(taken)
                taken.clear()
                number = reader.line_num + 1
        except csv.Error as error:
            raise self.fail(
                number, f"{error}: is a quote not closed?{_HINT}"
            ) from error

    def _choose_separator(self, lines: Iterator[str]) -> tuple[str, Iterator[str]]:
        """Return the separator, and all lines again."""
        names = {column.name for column in self.columns}
        for separator in self.separators:
            lines, ahead = tee(lines)
            if names <= set(next(self._parse(ahead, separator), ())):
                return separator, lines
        return self.separators[0], lines

    def _parse(self, lines: Iterator[str], separator: str) -> Any:
        if self.has_quotes:
            return csv.reader(lines, delimiter=separator)
        return csv.reader(lines, delimiter=separator, quoting=csv.QUOTE_NONE)


def _read_field(number: int, fields: Sequence[str], place: int, width: int) -> Cell:
    if len(fields) > width:
        reason = f"found {len(fields)} fields, expected {width} as in the first row"
        return Cell(number, None, reason)
    return Cell.of(number, fields[place] if place < len(fields) else None)
