"""The two kinds of bulk work. Texts: small files go to a worker together, large ones in parts;
a worker translates many at once, and each as `POST /translate` does. Videos: each is captioned
as a whole, by the worker that reads it.
"""

from __future__ import annotations

import hashlib
import json
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from catalog import Model, checkpoint
from clients import captions
from clients.bulk import Event, Remarks, pack
from clients.errors import ClientError, InputError, ServerError
from clients.files import TABLES, VIDEOS, Source
from clients.frames import FrameSize, VideoOptions
from clients.tables import Column, TextReply, TextTable, open_table
from clients.translations import (
    TranslationAnswer,
    answer_cells,
    pack_cells,
    write_translations,
)
from handlers.base import Row, TaskError, TaskHandler
from handlers.translation import TranslationHandler
from ray_backend.bulk.job import Answerer, BulkJob, Chunk, FilePart, PartWritten
from ray_backend.bulk.storage import KEPT, fetch
from ray_backend.replica import load_handler
from text.composition import translate_batch
from text.errors import SentenceRefused, TextError
from text.langid import Identifier
from text.options import TranslationRequest

#: A part of a file, or several small files. A worker sorts and packs the sentences of one.
MOST_TEXTS, MOST_CHARACTERS, _MOST_FILES = 4096, 1 << 20, 256
#: Small files are read at once, so that an object store is not waited for.
_READ_AT_ONCE, _SMALL_BYTES = 16, 1 << 20
_DEADLY_TEXT = TextReply(None, error="each worker that translated this text has ended")
_ANSWERS = TypeAdapter(TranslationAnswer)


@dataclass(kw_only=True)
class BulkTranslation(BulkJob):
    """Translates the texts of files."""

    columns: Sequence[Column]
    has_quotes: bool
    #: Without texts.
    request: TranslationRequest
    most_texts: int = MOST_TEXTS
    #: The parts of large files that are answered, and the last one.
    _done: dict[Source, set[int]] = field(default_factory=dict, init=False)
    _last: dict[Source, FilePart] = field(default_factory=dict, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    unit = "texts"
    kind = TABLES

    def check(self, sources: Sequence[Source]) -> None:
        for source in sources:
            self._open(source)

    def describe(self) -> Mapping[str, Any]:
        settings = self.model.settings
        return {
            "columns": [(column.name, column.into) for column in self.columns],
            "has_quotes": self.has_quotes,
            "request": repr(self.request),
            "model": (settings.model, settings.engine, self.model.compute_type),
            "most_texts": self.most_texts,
        }

    def name_output(self, source: Source) -> Path:
        """`a.jsonl` becomes `a.fr.jsonl`."""
        path = source.relative
        return path.with_name(f"{path.stem}.{self.request.target}{path.suffix}")

    def load(self) -> Callable[[], BatchTranslator]:
        return partial(load_translator, self.model, self.cache, self.request)

    def read(self, sources: Sequence[Source], kept: set[str]) -> Iterator[Chunk]:
        """Read the files in parts, which depend on each file alone, so that another run
        finds the same ones."""

        def measure(part: FilePart) -> tuple[int, int]:
            texts = part.texts
            # A part of a large file goes alone.
            least = self.most_texts // (_MOST_FILES if part.is_whole else 1)
            return max(len(texts), least), sum(map(len, texts))

        def leave_out(part: FilePart) -> FilePart:
            is_answered = _name_part(part.source, part.number) in kept
            return replace(part, cells=None) if is_answered else part

        parts = map(leave_out, self._split_all(sources))
        for packed in pack(parts, measure, self.most_texts, MOST_CHARACTERS):
            yield Chunk(tuple(packed), [text for part in packed for text in part.texts])

    def write(
        self, chunk: Chunk, answers: Sequence[TextReply | None]
    ) -> Iterator[PartWritten]:
        replies = iter(reply or _DEADLY_TEXT for reply in answers)
        for part in chunk.parts:
            found = answer_cells(0, part.cells or (), replies)
            report = PartWritten(0, part, len(part.texts))
            if part.is_whole:
                yield self._write(report, partial(iter, (found,)), part.error)
                continue
            if part.cells is not None:
                with self.store.create(_name_part(part.source, part.number)) as file:
                    file.write(_ANSWERS.dump_json(found))
            last = self._complete(part)
            yield self._assemble(report, last) if last else report

    def _complete(self, part: FilePart) -> FilePart | None:
        """The last part of the file, once all of them are answered."""
        with self._lock:
            done = self._done.setdefault(part.source, set())
            done.add(part.number)
            if part.is_last:
                self._last[part.source] = part
            last = self._last.get(part.source)
            if last is None or len(done) <= last.number:
                return None
            del self._done[part.source]
            return self._last.pop(part.source)

    def _assemble(self, report: PartWritten, last: FilePart) -> PartWritten:
        names = [_name_part(last.source, number) for number in range(last.number + 1)]

        def read() -> Iterator[TranslationAnswer]:
            for name in names:
                yield _ANSWERS.validate_json(self.store.read(name) or b"")

        written = self._write(report, read, last.error)
        self.store.remove(names)
        return written

    def _write(
        self,
        report: PartWritten,
        read: Callable[[], Iterator[TranslationAnswer]],
        error: str | None,
    ) -> PartWritten:
        """Writes a result; `read` lists the file's answers, each time from the first one."""
        source = report.part.source
        create = partial(self.store.create, self.name_output(source).as_posix())
        try:
            with fetch(source) as copy:
                count, remarks = write_translations(
                    self._open(copy), read, create, is_broken=bool(error)
                )
        except InputError as failure:
            return replace(report, remarks=Remarks([str(failure)]), failed=1)
        errors = [*([error] if error else ()), *remarks.errors]
        failed = count or int(bool(errors))
        return replace(report, remarks=replace(remarks, errors=errors), failed=failed)

    def _open(self, source: Source) -> TextTable:
        """Raises InputError if there is no such format, or no column was named for it."""
        return open_table(source, self.columns, has_quotes=self.has_quotes)

    def _split_all(self, sources: Sequence[Source]) -> Iterator[FilePart]:
        """The parts of all files in order. Small files are read several at once."""
        waiting: deque[Callable[[], Iterable[FilePart]]] = deque()
        with ThreadPoolExecutor(_READ_AT_ONCE) as pool:
            for source in sources:
                if source.size_bytes <= _SMALL_BYTES:
                    waiting.append(pool.submit(list, self._split(source)).result)
                else:
                    waiting.append(partial(self._split, source))
                if len(waiting) > _READ_AT_ONCE:
                    yield from waiting.popleft()()
            for take in waiting:
                yield from take()

    def _split(self, source: Source) -> Iterator[FilePart]:
        """The parts of a file, at least one."""
        try:
            with fetch(source) as copy:
                yield from self._pack(source, self._open(copy))
        except InputError as failure:
            yield FilePart(source, error=str(failure))

    def _pack(self, source: Source, table: TextTable) -> Iterator[FilePart]:
        packs = pack_cells(table.list_cells(), self.most_texts, MOST_CHARACTERS)
        cells, part, before = next(packs, ()), 0, 0.0
        for following in packs:
            share = table.share
            yield FilePart(source, part, False, share - before, cells)
            cells, part, before = following, part + 1, share
        yield FilePart(source, part, True, 1 - before, cells, table.error)


def _name_part(source: Source, number: int) -> str:
    """Name the file with the answers to a part; another one once the file has changed."""
    place = source.url or source.path.absolute()
    state = f"{place}\n{source.size_bytes}\n{source.modified_ns}"
    return f"{KEPT}/{hashlib.sha256(state.encode()).hexdigest()[:32]}-{number:06}"


def load_translator(
    model: Model, cache: Path, request: TranslationRequest
) -> BatchTranslator:
    """Loads a model, in the process that is to run it."""
    handler = load_handler(model, cache)
    if not isinstance(handler, TranslationHandler):
        raise TypeError(f"{model.name} translates no texts")
    return BatchTranslator(handler, Identifier(handler.sources), request)


@dataclass(frozen=True)
class BatchTranslator:
    """A model, and how to translate with it. Safe to share among threads."""

    handler: TaskHandler[Any]
    identifier: Identifier
    #: Without texts.
    request: TranslationRequest
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, texts: Sequence[str]) -> list[TextReply]:
        """A reply for each text; what is wrong with one is its own error."""
        return [
            TextReply(None, error=str(each))
            if isinstance(each, TextError)
            else TextReply(
                each.renderings[0].text, warning=next(iter(each.warnings), None)
            )
            for each in translate_batch(texts, self.request, self.identifier, self._ask)
        ]

    def _ask(
        self, rows: Sequence[dict[str, Any]]
    ) -> list[dict[str, Any] | SentenceRefused]:
        asked = [Row(json.dumps(row).encode()) for row in rows]
        with self._turn:
            results = self.handler.answer(asked).results
        return [
            SentenceRefused(each.detail, each.members)
            if isinstance(each, TaskError)
            else each
            for each in results
        ]


#: While one batch is in the model, the next one is read.
_SENDING = captions.Sending(requests_in_flight=2)
_DEADLY_VIDEO = "each worker that captioned this video has ended"


@dataclass(frozen=True)
class CaptionedVideo:
    """The captions of a video, as far as it could be read."""

    events: tuple[captions.CaptionAnswer | captions.VideoEnd, ...] = ()
    error: str | None = None
    #: The machine that does not see the file.
    blind: str | None = None


@dataclass(kw_only=True)
class BulkCaptioning(BulkJob):
    """Captions videos."""

    #: In the size that the model takes unless another one is given.
    reading: VideoOptions
    is_full_size: bool
    format: captions.SubtitleFormat

    unit = "frames"
    kind = VIDEOS

    def check(self, sources: Sequence[Source]) -> None:
        captions.check_decoder()

    def describe(self) -> Mapping[str, Any]:
        return {
            "every": asdict(self.reading.every),
            "is_full_size": self.is_full_size,
            "format": self.format,
            "model": (self.model.settings.model, self.model.compute_type),
        }

    def name_output(self, source: Source) -> Path:
        """`a.mp4` becomes `a.jsonl`, `a.srt` or `a.vtt`."""
        return source.relative.with_suffix(f".{self.format}")

    def load(self) -> Callable[[], Answerer]:
        options = self.reading, self.is_full_size
        return partial(load_captioner, self.model, self.cache, *options)

    def read(self, sources: Sequence[Source], kept: set[str]) -> Iterator[Chunk]:
        """Only names: a video is read where it is captioned."""
        return (Chunk((FilePart(source),), [source]) for source in sources)

    def write(
        self, chunk: Chunk, answers: Sequence[CaptionedVideo | None]
    ) -> Iterator[PartWritten]:
        (part,), (answer,) = chunk.parts, answers
        source = part.source
        found = answer or CaptionedVideo(error=f"{source.name}: {_DEADLY_VIDEO}")
        if found.blind and not source.has_changed():
            raise ClientError(
                f"{found.blind} does not see {source.path.absolute()}: every machine must "
                "have the videos under the same path"
            )
        ends = [each for each in found.events if isinstance(each, captions.VideoEnd)]
        said = (found.error, *(end.error for end in ends))
        errors = [error for error in said if error]
        count = sum(event.size for event in found.events)
        if count or not errors:
            with self.store.create(self.name_output(source).as_posix()) as file:
                pieces = captions.render(self.format, source.name, found.events)
                file.writelines(piece.encode() for piece in pieces)
        yield PartWritten(0, part, count, Remarks(errors), len(errors))


def load_captioner(
    model: Model, cache: Path, reading: VideoOptions, is_full_size: bool
) -> Answerer:
    """Loads a model, in the process that is to run it."""
    handler = load_handler(model, cache)
    found = None if is_full_size else checkpoint.find_input_size(model)
    size = FrameSize(found.height, found.width) if found else None
    reading = replace(reading, size=size)
    captioner = captions.Captioner(InProcess(handler), reading, _SENDING)
    return lambda sources: [caption_source(captioner, source) for source in sources]


def caption_source(captioner: captions.Captioner, source: Source) -> CaptionedVideo:
    """Caption one video; what is wrong with it is its own error."""
    if not source.url and source.has_changed():
        error = f"{source.name} has changed meanwhile"
        return CaptionedVideo(error=error, blind=socket.gethostname())
    events: list[captions.CaptionAnswer | captions.VideoEnd] = []

    def keep(event: Event, _: float) -> None:
        if isinstance(event, captions.CaptionAnswer | captions.VideoEnd):
            events.append(event)

    try:
        with fetch(source) as copy:
            captioner.run([copy], keep)
    except InputError as error:
        return CaptionedVideo(error=str(error))
    except ClientError as error:
        return CaptionedVideo(error=f"{source.name}: {error}")
    return CaptionedVideo(tuple(events))


@dataclass(frozen=True)
class InProcess:
    """A model of this process as a captioner asks it. Safe to share among threads."""

    handler: TaskHandler[Any]
    url: str = ""
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def caption(self, body: Sequence[bytes | memoryview], _: int) -> Sequence[str]:
        with self._turn:
            (result,) = self.handler.answer([Row(b"".join(body))]).results
        if isinstance(result, TaskError):
            raise ServerError(result.detail)
        captions: list[str] = result["captions"]
        return captions
