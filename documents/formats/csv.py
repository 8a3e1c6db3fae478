"""Tables as text: cells with prose are translated. Numbers, codes, formulas, quotes and line
endings stay. Only one row is in memory at a time.
"""

import csv
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import dropwhile, islice
from pathlib import Path
from typing import TypeAlias

from documents.errors import DamagedDocument, DocumentTooLarge
from documents.formats.encoding import MAX_LINE, Encoding, stream, stream_lines
from documents.formats.format import Edit, Parts, is_prose, make_format, surround

_DELIMITERS = ",;\t|"
#: A character that no text has, so that a row is one cell.
_NO_DELIMITER = "\0"
#: The number of rows used to find the delimiter, and of characters after which fewer suffice.
_SAMPLE_ROWS, _SAMPLE_CHARACTERS = 50, 1 << 20
#: Excel's limit is 16,384.
_MAX_CELLS = 1 << 16
#: Excel's declaration of the delimiter.
_DECLARED = re.compile(r'"?sep=([^\w\s"]|\t)"?[\r\n]*')
#: The beginning of a formula in spreadsheets.
_FORMULA = re.compile(r"\s*(?:[=@]|[-+]\S)")
#: A quote after a backslash, as MySQL and Spark write it, and a quoted cell up to one inside.
_ESCAPED = re.compile(r'(?<!\\)((?:\\\\)*)\\"')
_INNER = r'(?m)(?:^|{0})"(?:[^"\\]++|\\[^"])*\\"(?!["{0}\r\n]|\Z)'
#: A column name that is meant for programs.
_IDENTIFIER = re.compile(r"[a-z][a-z0-9_-]*", re.ASCII)

#: A row, with the starts, ends and values of its cells.
Row: TypeAlias = tuple[str, list[tuple[int, int, str]]]


def _split(path: Path, encoding: Encoding, delimiter: str) -> Iterator[Row]:
    """Yield each row. The positions of cells include their quotes."""
    lines = stream_lines(path, encoding)
    mark = re.escape(delimiter)
    is_escaped = re.search(_INNER.format(mark), next(stream(path, encoding), ""))
    # Doubled instead, all other characters keep their place.
    double = partial(_ESCAPED.sub, r'\1""') if is_escaped else str
    cell = re.compile(
        rf'((?:"(?:[^"]++|"")*+"[^{mark}\r\n]*+|(?!")[^{mark}\r\n]*+))'
        rf"({mark}|\r\n|\r|\n|\Z)"
    )
    number, left, taken = 1, MAX_LINE, list[str]()

    def take() -> Iterator[str]:
        nonlocal left
        for line in lines:
            taken.append(line)
            left -= len(line)
            if left < 0:
                raise DocumentTooLarge(
                    f"Row {number:,} has more than {MAX_LINE:,} characters"
                )
            yield double(line)
        if taken:
            raise DamagedDocument(f"A quoted cell in row {number:,} is not closed")

    csv.field_size_limit(sys.maxsize)  # `take` limits whole rows
    for values in csv.reader(take(), delimiter=delimiter):
        if len(values) > _MAX_CELLS:
            raise DocumentTooLarge(f"Row {number:,} has more than {_MAX_CELLS:,} cells")
        row = "".join(taken)
        found = zip(cell.finditer(double(row)), values, strict=False)
        yield row, [(*each.span(1), value) for each, value in found]
        number += 1
        left = MAX_LINE
        taken.clear()


def _find_delimiter(path: Path, encoding: Encoding) -> tuple[str, int]:
    """Return the delimiter that splits the first rows into the same number of cells, perhaps
    after a title, or else the first row into the most; and the number of first rows that
    stay: Excel's `sep=;` and names for programs."""
    if path.suffix.lower() == ".tsv":
        return "\t", _has_names(path, encoding, "\t")
    first = next(stream_lines(path, encoding), "")
    if declared := _DECLARED.fullmatch(first):
        return declared[1], 1 + _has_names(path, encoding, declared[1], 1)
    rates = {delimiter: _rate(path, encoding, delimiter) for delimiter in _DELIMITERS}
    best = max(rates, key=rates.__getitem__)
    if rates[best] < (False, 0, 2):
        return _NO_DELIMITER, False
    return best, _has_names(path, encoding, best)


def _sample(path: Path, encoding: Encoding, delimiter: str) -> Iterator[Row]:
    """Yield the first rows, as far as they can be read with a delimiter."""
    rows = _split(path, encoding, delimiter)
    left = _SAMPLE_CHARACTERS
    # If it is no table with this delimiter; errors with the chosen one are raised later.
    with suppress(DamagedDocument, DocumentTooLarge):
        for row, cells in islice(rows, _SAMPLE_ROWS):
            yield row, cells
            left -= len(row)
            if left < 0:
                return


def _rate(path: Path, encoding: Encoding, delimiter: str) -> tuple[bool, int, int]:
    """Return whether all rows have the same number of cells; or else how many have after a
    title of single cells; and that number, or else the first row's."""
    counts, is_quoted = list[int](), False
    for row, cells in _sample(path, encoding, delimiter):
        if any(end > at for at, end, _ in cells):
            counts.append(len(cells))
            is_quoted = all(row.startswith('"', at) for at, *_ in cells)
    table = [*dropwhile(lambda count: count == 1, counts)]
    is_even = len(set(table)) == 1
    # A single row may be prose with a comma, unless it has quotes around all cells.
    if is_even and len(counts) > len(table) > (not is_quoted):
        return False, len(table), table[0]
    return is_even and table == counts, 0, counts[0] if counts else 0


def _has_names(path: Path, encoding: Encoding, mark: str, number: int = 0) -> bool:
    _, cells = next(islice(_sample(path, encoding, mark), number, None), ("", []))
    return len(cells) > 1 and all(_IDENTIFIER.fullmatch(name) for *_, name in cells)


def _find_edits(
    row: str, cells: list[tuple[int, int, str]], mark: str
) -> Iterator[Edit]:
    for start, end, cell in cells:
        text = cell.strip()
        if is_prose(text) and not _FORMULA.match(text):
            write = _make_writer(cell, mark, row[start:end])
            yield Edit(start, end, (text,), write)


def _make_writer(
    cell: str, delimiter: str, raw: str
) -> Callable[[Sequence[str], str], str]:
    # In a table of one column, any delimiter would begin another.
    is_alone = delimiter == _NO_DELIMITER and set(cell).isdisjoint(_DELIMITERS)
    marks = {*'"\r\n', *(_DELIMITERS if is_alone else delimiter)}
    is_quoted = raw.startswith('"')
    is_escaped = is_quoted and _ESCAPED.search(raw[1:-1].replace('""', ""))
    quote = '\\"' if is_escaped else '""'

    def write(new: Sequence[str], _: str) -> str:
        value = surround(cell, new[0])
        if is_quoted or not marks.isdisjoint(value):
            return '"{}"'.format(value.replace('"', quote))
        return value

    return write


def _find_rows(path: Path, encoding: Encoding) -> Parts:
    """Yield each row with its edits. Only one row is in memory at a time."""
    delimiter, kept = _find_delimiter(path, encoding)
    rows = _split(path, encoding, delimiter)
    for number, (row, cells) in enumerate(rows):
        yield row, () if number < kept else _find_edits(row, cells, delimiter)


COMMAS = make_format((".csv",), "text/csv", "text", _find_rows)
TABS = make_format((".tsv",), "text/tab-separated-values", "text", _find_rows)
