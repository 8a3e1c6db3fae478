"""The base of all files of texts, those that consist of lines, and plain text files."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from io import TextIOWrapper
from itertools import chain, islice
from typing import Any, BinaryIO

from clients.errors import InputError
from clients.sources import Source

BOM = "\ufeff"
#: In characters, of a line as well. Sixteen of them fit into memory.
LONGEST_FIELD = 16 << 20
_NO_TEXT = "holds a byte or half of a surrogate pair that stands for no character"


@dataclass(frozen=True)
class Column:
    """A column of texts, and the one that their translations go to."""

    name: str
    into: str

    @property
    def error(self) -> str:
        """The column that says why a row has no translation."""
        return f"{self.into}_error"


def name_columns(
    names: Sequence[str], into: Sequence[str], language: str
) -> list[Column]:
    """The columns of the command line. Raises InputError if `into` does not fit."""
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
    """A text of a file, None where there is none."""

    #: Its row or line, from 1.
    row: int
    text: str | None
    error: str | None = None

    @classmethod
    def of(cls, row: int, text: str) -> Cell:
        """An error if the text cannot be sent."""
        try:
            text.encode()
        except UnicodeEncodeError:
            return cls(row, None, _NO_TEXT)
        return cls(row, text)

    @property
    def is_wanted(self) -> bool:
        """Whether there is something to translate."""
        return self.error is None and bool(self.text and not self.text.isspace())


@dataclass(frozen=True)
class CellResult:
    """The result for a cell."""

    text: str | None
    error: str | None = None


class TextTable(ABC):
    """A file that can be read again and again."""

    #: The word for a row.
    word = "row"

    def __init__(self, source: Source, columns: Sequence[Column]) -> None:
        self.source = source
        self.columns = columns
        #: The share that has been read.
        self.share = 0.0

    def describe(self) -> dict[str, Any]:
        """Describe the choice of texts, for a journal."""
        return {"columns": [[column.name, column.into] for column in self.columns]}

    @abstractmethod
    def read(self) -> Iterator[Cell]:
        """Its cells, row by row. Raises InputError where it is broken."""

    @abstractmethod
    def write(
        self, file: BinaryIO, results: Iterator[CellResult], *, has_errors: bool
    ) -> None:
        """Its rows with the results of all cells, up to a row that has none."""

    def fail(self, row: int, reason: str) -> InputError:
        """The error of a row."""
        return InputError(f"{self.source.name}: {self.word} {row}: {reason}")

    def check_names(self, names: Sequence[str]) -> None:
        """Raises InputError where the file's columns do not fit ours."""
        for name in (column.name for column in self.columns):
            if names.count(name) != 1:
                found = "has no" if name not in names else "has more than one"
                raise InputError(
                    f"{self.source.name} {found} column {name}: {', '.join(names)}"
                )
        for name in self.list_names(has_errors=True):
            if name in names:
                raise InputError(
                    f"{self.source.name} has {name} already; --into renames ours"
                )

    def list_names(self, *, has_errors: bool) -> list[str]:
        """The names of the further columns."""
        errors = [column.error for column in self.columns] if has_errors else []
        return [*(column.into for column in self.columns), *errors]


@dataclass(frozen=True)
class TableRow:
    """A row as it is written, without its line end."""

    raw: str
    end: str
    cells: Sequence[Cell] = ()
    #: Whether something can be added to it.
    is_open: bool = True


class LineTable(TextTable):
    """A file of lines in UTF-8. Bytes that are none stay, and their row is an error."""

    word = "line"
    #: The characters that end a line, as for `open`.
    newline = ""

    @abstractmethod
    def parse(self, lines: Iterator[str]) -> Iterator[TableRow]:
        """Its rows; `lines` have their ends."""

    @abstractmethod
    def complete(
        self, row: TableRow, results: Sequence[CellResult], *, has_errors: bool
    ) -> str:
        """The row with its results."""

    def read(self) -> Iterator[Cell]:
        with self._open() as (_, lines):
            for row in self.parse(lines):
                yield from row.cells

    def write(
        self, file: BinaryIO, results: Iterator[CellResult], *, has_errors: bool
    ) -> None:
        with self._open() as (mark, lines):
            file.write(mark.encode())
            for row in self.parse(lines):
                found = list(islice(results, len(row.cells)))
                if len(found) < len(row.cells):
                    return
                line = self.complete(row, found, has_errors=has_errors) + row.end
                file.write(line.encode("utf-8", "surrogateescape"))

    @contextmanager
    def _open(self) -> Iterator[tuple[str, Iterator[str]]]:
        """The byte-order mark, if there is one, and the lines after it."""
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
    """A line without its end, and the end."""
    text = line.removesuffix("\n").removesuffix("\r")
    return text, line[len(text) :]


_ENDS = re.compile(r"[\r\n]+")


class TextFile(LineTable):
    """A translation per line; the line of an error is empty."""

    def parse(self, lines: Iterator[str]) -> Iterator[TableRow]:
        for number, line in enumerate(lines, start=1):
            text, end = split_end(line)
            yield TableRow(text, end, [Cell.of(number, text)])

    def complete(
        self, row: TableRow, results: Sequence[CellResult], *, has_errors: bool
    ) -> str:
        (result,) = results
        return _ENDS.sub(" ", result.text or "")
