"""Text files: each line is a text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from clients.tables.table import Cell, CellResult, LineTable, TableRow, split_end

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
