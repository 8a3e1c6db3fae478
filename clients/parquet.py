"""Parquet files, rewritten with the same rows and types and new columns. Requires PyArrow."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from clients.errors import InputError
from clients.tables import Cell, TextReply, TextTable

#: The size of the batches that are read, and of the row groups that are written.
_BATCH_BYTES, _GROUP_BYTES = 4 << 20, 64 << 20
_MOST_ROWS = 4096
_PAGE_BYTES = 1 << 20


class ParquetFile(TextTable):
    """A table with columns of strings. Row groups are preserved unless they exceed 64 MiB."""

    def read(self) -> Iterator[Cell]:
        with self._open() as file:
            row = 0
            names = [column.name for column in self.columns]
            for batch in self._read_batches(file, range(file.num_row_groups), names):
                texts = [_read_texts(batch.column(name)) for name in names]
                for values in zip(*texts, strict=True):
                    row += 1
                    yield from (Cell.of(row, value) for value in values)
                self.share = row / file.metadata.num_rows

    def write(
        self, file: BinaryIO, results: Iterator[TextReply], *, has_errors: bool
    ) -> None:
        with self._open() as source:
            schema = source.schema_arrow
            for name in self.list_names(has_errors=has_errors):
                schema = schema.append(pa.field(name, pa.string()))
            compression = _find_compression(source)
            with pq.ParquetWriter(file, schema, compression=compression) as writer:
                for group in range(source.num_row_groups):
                    self._copy(source, group, results, writer)

    def _copy(
        self, source: Any, group: int, results: Iterator[TextReply], writer: Any
    ) -> None:
        """Write row groups of some batches each; if reading fails, the batches read so far."""
        schema, waiting = writer.schema, list[Any]()
        try:
            for batch in self._read_batches(source, [group]):
                waiting.append(self._complete(batch, results, schema))
                if sum(each.nbytes for each in waiting) >= _GROUP_BYTES:
                    writer.write_table(pa.Table.from_batches(waiting, schema))
                    waiting.clear()
        finally:
            if waiting:
                writer.write_table(pa.Table.from_batches(waiting, schema))

    def _complete(self, batch: Any, results: Iterator[TextReply], schema: Any) -> Any:
        """Return the batch with its results, without rows that have none."""
        width = len(self.columns)
        found = list(islice(results, batch.num_rows * width))
        texts = [[each.text for each in found[n::width]] for n in range(width)]
        errors = [[each.error for each in found[n::width]] for n in range(width)]
        added = [*texts, *errors][: len(schema) - batch.num_columns]
        columns = batch.slice(0, len(found) // width).columns
        arrays = [*columns, *(pa.array(values, pa.string()) for values in added)]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _read_batches(
        self, file: Any, groups: Iterable[int], names: Sequence[str] | None = None
    ) -> Iterator[Any]:
        for group in groups:
            found = file.metadata.row_group(group)
            row_bytes = found.total_byte_size // max(1, found.num_rows)
            rows = min(_MOST_ROWS, max(1, _BATCH_BYTES // max(1, row_bytes)))
            try:
                yield from file.iter_batches(rows, [group], names)
            except (pa.ArrowException, OSError) as error:
                raise self._explain(error) from error

    @contextmanager
    def _open(self) -> Iterator[Any]:
        try:
            # `pre_buffer` would load whole row groups into memory.
            file = pq.ParquetFile(
                self.source.path, buffer_size=_PAGE_BYTES, pre_buffer=False
            )
        # A name that is not UTF-8 is a ValueError.
        except (pa.ArrowException, ValueError, OSError) as error:
            raise self._explain(error) from error
        with file:
            schema = file.schema_arrow
            self.check_names(schema.names)
            for name in (column.name for column in self.columns):
                if not _is_text(kind := schema.field(name).type):
                    raise InputError(
                        f"{self.source.name}: {name} is {kind}, expected strings"
                    )
            yield file

    def _explain(self, error: Exception) -> InputError:
        return InputError(f"{self.source.name}: {str(error).strip().splitlines()[0]}")


def _is_text(kind: Any) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return kind in (pa.string(), pa.large_string(), pa.string_view())


def _read_texts(column: Any) -> list[str | None]:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    values: list[bytes | None] = column.cast(pa.large_binary()).to_pylist()
    return [v if v is None else v.decode("utf-8", "surrogateescape") for v in values]


def _find_compression(file: Any) -> str:
    """Return the writer's name for the codec of the file's columns."""
    if not file.num_row_groups:
        return "snappy"
    codec = str(file.metadata.row_group(0).column(0).compression).lower()
    return {"uncompressed": "none"}.get(codec, codec)
