"""Files of texts: each format reads its texts in order, and writes its rows again with the
translations beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from clients.errors import ClientError, InputError
from clients.sources import TABLES, Source
from clients.tables.records import RecordFile
from clients.tables.separated import SeparatedFile
from clients.tables.table import Column, TextFile, TextTable


def open_table(
    source: Source, columns: Sequence[Column], *, has_quotes: bool = True
) -> TextTable:
    """The table that a file's suffix names. In a .csv quotes always hold a field together,
    a .tsv can do without. Raises ClientError if there is none, or if it
    needs columns or an extra."""
    suffix = source.relative.suffix.lower()
    if suffix not in TABLES.suffixes:
        expected = " ".join(sorted(TABLES.suffixes))
        raise InputError(f"{source.name}: expected a file that ends in {expected}")
    if suffix == ".txt":
        return TextFile(source, ())
    if not columns:
        raise InputError(f"{source.name}: name its column of texts with --column")
    if suffix == ".jsonl":
        return RecordFile(source, columns)
    if suffix == ".parquet":
        return _open_parquet(source, columns)
    is_tab = suffix == ".tsv"
    has_quotes = has_quotes or not is_tab
    return SeparatedFile(source, columns, is_tab=is_tab, has_quotes=has_quotes)


def _open_parquet(source: Source, columns: Sequence[Column]) -> TextTable:
    try:
        columnar = import_module("clients.tables.columnar")
    except ModuleNotFoundError as error:
        raise ClientError(
            "Parquet files are read by PyArrow: `make .venv/ready-parquet` installs it."
        ) from error
    table: TextTable = columnar.ParquetFile(source, columns)
    return table
