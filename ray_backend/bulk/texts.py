"""Files of texts: small ones are read together, large ones in parts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from text.options import TranslationRequest

from catalog import Model
from clients.errors import InputError
from clients.sources import TABLES, Source
from clients.tables import open_table
from clients.tables.table import Column, Table
from clients.translations import (
    Reader,
    Translations,
    answer_cells,
    pack,
    write_translations,
)
from clients.translator import Reply
from handlers.translation import TranslationHandler
from ray_backend.bulk.ledger import Ledger
from ray_backend.bulk.pieces import Chunk, Finished, Piece, Report, make_record
from ray_backend.bulk.sources import fetch
from ray_backend.bulk.storage import Draft
from ray_backend.bulk.translation import BatchTranslator
from ray_backend.bulk.workspace import Workspace
from ray_backend.replica import load_handler
from text.langid import Identifier

#: A part of a file, or several small files. A worker sorts and packs the sentences of one.
MOST_TEXTS, MOST_CHARACTERS = 4096, 1 << 20
#: Files that are read one after the other by the same reader.
_GROUP_BYTES, _GROUP_FILES = 4 << 20, 256
_DEADLY = "each worker that translated this text has ended"


@dataclass(frozen=True)
class _Part:
    """The answers to a part of a file."""

    answers: Translations
    seconds: float
    #: Why the file could not be read further.
    error: str | None = None


_PARTS = TypeAdapter(_Part)


@dataclass(frozen=True, kw_only=True)
class TextTask:
    """Translates the texts of files."""

    workspace: Workspace
    columns: tuple[Column, ...]
    has_quotes: bool
    #: Without texts.
    wanted: TranslationRequest
    model: Model
    cache: Path
    most_texts: int = MOST_TEXTS

    unit = "texts"
    sources = TABLES

    def check(self, sources: Sequence[Source]) -> None:
        """As `Task.check`."""
        for source in sources:
            self.open(source)

    def describe(self) -> Mapping[str, Any]:
        """As `Task.describe`."""
        settings = self.model.settings
        return {
            "columns": [(column.name, column.into) for column in self.columns],
            "has_quotes": self.has_quotes,
            "wanted": repr(self.wanted),
            "model": (settings.model, settings.engine, self.model.compute_type),
            "most_texts": self.most_texts,
        }

    def name_output(self, source: Source) -> Path:
        """`a.jsonl` becomes `a.fr.jsonl`."""
        path = source.relative
        return path.with_name(f"{path.stem}.{self.wanted.target}{path.suffix}")

    def open(self, source: Source) -> Table:
        """Raises InputError if there is no such format, or no column was named for it."""
        return open_table(source, self.columns, has_quotes=self.has_quotes)

    def group(self, sources: Sequence[Source]) -> Iterator[tuple[Source, ...]]:
        """As `Task.group`."""
        waiting: list[Source] = []
        left = _GROUP_BYTES
        for source in sources:
            is_full = len(waiting) == _GROUP_FILES or source.size_bytes > left
            if waiting and is_full:
                yield tuple(waiting)
                waiting, left = [], _GROUP_BYTES
            waiting.append(source)
            left -= source.size_bytes
        if waiting:
            yield tuple(waiting)

    def read(self, sources: Sequence[Source]) -> Iterator[Chunk]:
        """As `Task.read`. Where a part ends depends on its file alone, so another run finds
        the same parts."""
        waiting: list[Piece] = []
        for source in sources:
            for piece in self._split(source):
                if waiting and not (piece.is_whole and self._fits(piece, waiting)):
                    yield tuple(waiting)
                    waiting = []
                waiting.append(piece)
                if not piece.is_whole:
                    yield tuple(waiting)
                    waiting = []
        if waiting:
            yield tuple(waiting)

    def load(self) -> TextWorker:
        """As `Task.load`."""
        handler = load_handler(self.model, self.cache)
        if not isinstance(handler, TranslationHandler):
            raise TypeError(f"{self.model.name} translates no texts")
        identifier = Identifier(handler.sources)
        return TextWorker(self, BatchTranslator(handler, identifier, self.wanted))

    def assemble(self, source: Source, parts: int) -> Finished:
        """As `Task.assemble`."""
        seconds, error = 0.0, None
        for number in range(parts):
            part = self._read_part(source, number)
            seconds += part.seconds
            error = error or part.error

        def read() -> Iterator[Translations]:
            return (self._read_part(source, n).answers for n in range(parts))

        return self.write(source, read, seconds=seconds, error=error)

    def write(
        self,
        source: Source,
        read: Callable[[], Iterator[Translations]],
        *,
        seconds: float,
        error: str | None,
    ) -> Finished:
        """Writes a result; `read` begins to list the file's answers again each time."""
        draft = Draft(self.workspace.store, self.name_output(source).as_posix())
        try:
            with fetch(source) as copy:
                review, said = write_translations(
                    self.open(copy), read, draft.open, is_broken=bool(error)
                )
        except InputError as failure:
            return Finished(source, None, None, (str(failure),))
        errors = ([error] if error else []) + [*said.errors]
        if not draft.is_written:
            return Finished(source, None, None, tuple(errors), tuple(said.warnings))
        record = make_record(
            self,
            source,
            draft,
            rows=review.text_count,
            errors=review.error_count,
            warnings=review.warning_count,
            seconds=round(seconds, 3),
        )
        return Finished(source, record, draft.name, tuple(errors), tuple(said.warnings))

    def _split(self, source: Source) -> Iterator[Piece]:
        """The pieces of a file, at least one."""
        answered = self.workspace.list_parts(source)
        try:
            with fetch(source) as copy:
                for piece in self._pack(source, self.open(copy)):
                    is_answered = piece.part in answered
                    yield replace(piece, cells=None) if is_answered else piece
        except InputError as failure:
            yield Piece(source, error=str(failure))

    def _pack(self, source: Source, table: Table) -> Iterator[Piece]:
        reader = Reader(table, threading.Event())
        packs = pack(reader.read(), self.most_texts, MOST_CHARACTERS)
        cells, part, before = next(packs, ()), 0, 0.0
        for following in packs:
            share = table.share
            yield Piece(source, part, False, share - before, cells)
            cells, part, before = following, part + 1, share
        yield Piece(source, part, True, 1 - before, cells, reader.error)

    def _read_part(self, source: Source, part: int) -> _Part:
        return _PARTS.validate_json(self.workspace.read_part(source, part))

    def _fits(self, piece: Piece, others: Iterable[Piece]) -> bool:
        pieces = (piece, *others)
        texts = [c.text or "" for p in pieces for c in p.cells or () if c.is_wanted]
        return len(texts) <= self.most_texts and (
            sum(map(len, texts)) <= MOST_CHARACTERS
        )


@dataclass(frozen=True)
class TextWorker:
    """Translates chunks and writes the answers down."""

    task: TextTask
    translator: BatchTranslator

    def __call__(self, chunk: Chunk) -> Iterator[Report]:
        """As `Worker`."""
        began = time.monotonic()
        texts = [
            cell.text or ""
            for piece in chunk
            for cell in piece.cells or ()
            if cell.is_wanted
        ]
        ledger = Ledger(self.task.workspace.find_ledger(texts))
        replies = iter(
            reply or Reply(None, error=_DEADLY)
            for reply in ledger.run(
                len(texts), lambda a, b: self.translator.translate(texts[a:b])
            )
        )
        per_text_s = (time.monotonic() - began) / max(1, len(texts))
        for piece in chunk:
            yield self._write(piece, replies, per_text_s)

    def _write(
        self, piece: Piece, replies: Iterator[Reply], per_text_s: float
    ) -> Report:
        source, cells = piece.source, piece.cells
        count = sum(cell.is_wanted for cell in cells or ())
        seconds = count * per_text_s
        finished = None
        if cells is not None:
            answers = answer_cells(0, cells, replies)
            if piece.is_whole:
                finished = self.task.write(
                    source, lambda: iter([answers]), seconds=seconds, error=piece.error
                )
            else:
                part = _PARTS.dump_json(_Part(answers, seconds, piece.error))
                self.task.workspace.write_part(source, piece.part, part)
        return Report(source, piece.part, piece.is_last, piece.share, count, finished)
