"""Bulk work on files: a run has the missing results computed, and writes them. Small files of
texts go to a worker together, large ones in parts; a worker translates many texts at once, and
each as `POST /translate` does. A video is captioned as a whole, by the worker that reads it.
"""

from __future__ import annotations

import hashlib
import json
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from pydantic import TypeAdapter

from catalog import Model, checkpoint
from clients import captions
from clients.bulk import Event, Remarks, Report, pack
from clients.errors import ClientError, InputError, OutputError, ServerError
from clients.files import TABLES, VIDEOS, Source, SourceKind, name_files
from clients.frames import FrameSize, VideoOptions
from clients.tables import Cell, Column, TextReply, TextTable, open_table
from clients.translations import (
    TranslationAnswer,
    answer_cells,
    pack_cells,
    write_translations,
)
from handlers.base import Result, Row, TaskError, TaskHandler
from handlers.translation import TranslationHandler
from ray_backend.bulk.storage import KEPT, Store, fetch
from ray_backend.replica import load_handler
from text.composition import translate_batch
from text.errors import SentenceRefused, TextError
from text.langid import Identifier
from text.options import TranslationRequest

_OPTIONS, _FAILED = f"{KEPT}/options.json", f"{KEPT}/failed"
#: A part of a file, or several small files. A worker sorts and packs the sentences of one.
MOST_TEXTS, MOST_CHARACTERS, _MOST_FILES = 4096, 1 << 20, 256
#: Small files are read at once, and results written: an object store takes its time for each.
_AT_ONCE, _SMALL_BYTES = 16, 1 << 20
_DEADLY_TEXT = TextReply(None, error="each worker that translated this text has ended")
_DEADLY_VIDEO = "each worker that captioned this video has ended"
_ANSWERS = TypeAdapter(TranslationAnswer)
#: While one batch is in the model, the next one is read.
_SENDING = captions.Sending(requests_in_flight=2)

Item = TypeVar("Item")
Found = TypeVar("Found")
#: A loaded model: an answer for each text, or for each video.
Answerer = Callable[[Sequence[Any]], Sequence[Any]]
#: The captions of a video and its end; or the machine that does not see the file.
VideoAnswer = list[captions.CaptionAnswer | captions.VideoEnd] | str


@dataclass(frozen=True)
class FilePart:
    """A file, or a part of a large one."""

    source: Source
    #: Its number in the file, from 0.
    number: int = 0
    is_last: bool = True
    #: The share of the file, from 0 to 1.
    share: float = 1.0
    #: The texts and what is between them; None if an earlier run has answered them.
    cells: Sequence[Cell] | None = ()
    #: The reason why the file could not be read further.
    error: str | None = None

    @property
    def texts(self) -> list[str]:
        """The texts to translate."""
        return [cell.text or "" for cell in self.cells or () if cell.is_wanted]

    @property
    def is_whole(self) -> bool:
        """Whether the file has no other part."""
        return self.number == 0 and self.is_last


@dataclass(frozen=True)
class Chunk:
    """The parts of files that a worker gets at once, and the texts or videos in them."""

    parts: tuple[FilePart, ...]
    items: Sequence[Any]


#: The executor's function: loads the model where it is to run, and answers each chunk,
#: in any order. An answer is None if each worker that got the item has ended.
Execute = Callable[
    [Callable[[], Answerer], Iterator[Chunk]], Iterator[tuple[Chunk, Sequence[Any]]]
]


@dataclass(frozen=True)
class PartWritten(Event):
    """A part whose answers are written."""

    part: FilePart
    #: Texts or frames.
    count: int
    remarks: Remarks = Remarks()
    #: Texts of a file without a result, or 1 if there is none of the file.
    failed: int = 0

    @property
    def size(self) -> int:
        return self.count


@dataclass(kw_only=True)
class _Job:
    """The model of a bulk job, and where its results go."""

    store: Store
    model: Model
    cache: Path


@dataclass(kw_only=True)
class BulkTranslation(_Job):
    """Translates the texts of files."""

    columns: Sequence[Column]
    has_quotes: bool
    #: Without texts.
    request: TranslationRequest
    most_texts: int = MOST_TEXTS
    #: The number of answered parts of each large file, and the last one if it is answered.
    _done: dict[Source, tuple[int, FilePart | None]] = field(
        default_factory=dict, init=False
    )
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    unit: ClassVar[str] = "texts"
    kind: ClassVar[SourceKind] = TABLES

    def check(self, sources: Sequence[Source]) -> None:
        """Raises ClientError where nothing can come of it."""
        for source in sources:
            self._open(source)

    def describe(self) -> Mapping[str, Any]:
        """Describe what results depend on beside the files."""
        settings = self.model.settings
        return {
            "columns": [(column.name, column.into) for column in self.columns],
            "has_quotes": self.has_quotes,
            "request": repr(self.request),
            "model": (settings.model, settings.engine, self.model.compute_type),
            "most_texts": self.most_texts,
        }

    def name_output(self, source: Source) -> Path:
        """Name a result, below the others: `a.jsonl` becomes `a.fr.jsonl`."""
        path = source.relative
        return path.with_name(f"{path.stem}.{self.request.target}{path.suffix}")

    def load(self) -> Callable[[], Answerer]:
        """The function that loads the model. It goes to every worker."""
        return partial(load_translator, self.model, self.cache, self.request)

    def read(self, sources: Sequence[Source], kept: set[str]) -> Iterator[Chunk]:
        """Read the files in parts, which depend on each file alone, so that another run
        finds the same ones. `kept` are the names that an unfinished run has left."""

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
        """Writes the answers, and the results of files that end with them. Runs in several
        threads."""
        replies = iter(reply or _DEADLY_TEXT for reply in answers)
        for part in chunk.parts:
            found = answer_cells(0, part.cells or (), replies)
            report = PartWritten(0, part, len(part.texts))
            if part.is_whole:
                yield self._write_result(report, partial(iter, (found,)), part.error)
                continue
            if part.cells is not None:
                with self.store.create(_name_part(part.source, part.number)) as file:
                    file.write(_ANSWERS.dump_json(found))
            if last := self._note(part):
                names = [_name_part(last.source, n) for n in range(last.number + 1)]
                read = partial(map, self._read_part, names)
                report = self._write_result(report, read, last.error)
                self.store.remove(names)
            yield report

    def _read_part(self, name: str) -> TranslationAnswer:
        return _ANSWERS.validate_json(self.store.read(name) or b"")

    def _note(self, part: FilePart) -> FilePart | None:
        """The last part of the file, once all of them are answered."""
        with self._lock:
            done, last = self._done.pop(part.source, (0, None))
            done, last = done + 1, part if part.is_last else last
            if last and done > last.number:
                return last
            self._done[part.source] = done, last
            return None

    def _write_result(
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
                count, said = write_translations(
                    self._open(copy), read, create, is_broken=bool(error)
                )
        except InputError as failure:
            count, said, error = 0, Remarks(), str(failure)
        errors = [*([error] if error else ()), *said.errors]
        failed = count or int(bool(errors))
        return replace(report, remarks=replace(said, errors=errors), failed=failed)

    def _open(self, source: Source) -> TextTable:
        """Raises InputError if there is no such format, or no column was named for it."""
        return open_table(source, self.columns, has_quotes=self.has_quotes)

    def _split_all(self, sources: Sequence[Source]) -> Iterator[FilePart]:
        """The parts of all files in order. Small files are read several at once."""

        def split(source: Source) -> Iterable[FilePart]:
            parts = self._split(source)
            return [*parts] if source.size_bytes <= _SMALL_BYTES else parts

        return chain.from_iterable(_map_at_once(split, sources))

    def _split(self, source: Source) -> Iterator[FilePart]:
        """The parts of a file, at least one."""
        try:
            with fetch(source) as copy:
                table = self._open(copy)
                packs = pack_cells(table.list_cells(), self.most_texts, MOST_CHARACTERS)
                cells, number, before = next(packs, ()), 0, 0.0
                for following in packs:
                    share = table.share
                    yield FilePart(source, number, False, share - before, cells)
                    cells, number, before = following, number + 1, share
                yield FilePart(source, number, True, 1 - before, cells, table.error)
        except InputError as failure:
            yield FilePart(source, error=str(failure))


def _name_part(source: Source, number: int) -> str:
    """Name the file with the answers to a part; another one once the file has changed."""
    place = source.url or source.path.absolute()
    state = f"{place}\n{source.size_bytes}\n{source.modified_ns}"
    return f"{KEPT}/{hashlib.sha256(state.encode()).hexdigest()[:32]}-{number:06}"


@dataclass(frozen=True)
class LocalModel:
    """A model of this process. Safe to share among threads."""

    handler: TaskHandler[Any]
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, *bodies: bytes) -> list[Result]:
        """The answers to rows."""
        with self._turn:
            return self.handler.answer([Row(body) for body in bodies]).results

    def caption(self, body: Sequence[bytes | memoryview], _: int) -> Sequence[str]:
        """The captions of an array of frames. Raises ServerError."""
        (result,) = self.answer(b"".join(body))
        if isinstance(result, TaskError):
            raise ServerError(result.detail)
        captions: list[str] = result["captions"]
        return captions


def load_translator(model: Model, cache: Path, request: TranslationRequest) -> Answerer:
    """Loads a model, in the process that is to run it."""
    handler = load_handler(model, cache)
    if not isinstance(handler, TranslationHandler):
        raise TypeError(f"{model.name} translates no texts")
    identifier = Identifier(handler.sources)
    return partial(translate_texts, LocalModel(handler), identifier, request)


def translate_texts(
    model: LocalModel,
    identifier: Identifier,
    request: TranslationRequest,
    texts: Sequence[str],
) -> list[TextReply]:
    """A reply for each text; what is wrong with one is its own error."""

    def ask(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any] | SentenceRefused]:
        return [
            SentenceRefused(each.detail, each.members)
            if isinstance(each, TaskError)
            else each
            for each in model.answer(*(json.dumps(row).encode() for row in rows))
        ]

    return [
        TextReply(None, error=str(each))
        if isinstance(each, TextError)
        else TextReply(each.renderings[0].text, warning=next(iter(each.warnings), None))
        for each in translate_batch(texts, request, identifier, ask)
    ]


@dataclass(kw_only=True)
class BulkCaptioning(_Job):
    """Captions videos, with the methods of `BulkTranslation`."""

    #: In the size that the model takes unless another one is given.
    reading: VideoOptions
    is_full_size: bool
    format: captions.SubtitleFormat

    unit: ClassVar[str] = "frames"
    kind: ClassVar[SourceKind] = VIDEOS

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
        """Name a result, below the others: `a.mp4` becomes `a.jsonl`, `a.srt` or `a.vtt`."""
        return source.relative.with_suffix(f".{self.format}")

    def load(self) -> Callable[[], Answerer]:
        options = self.reading, self.is_full_size
        return partial(load_captioner, self.model, self.cache, *options)

    def read(self, sources: Sequence[Source], kept: set[str]) -> Iterator[Chunk]:
        """Only names: a video is read where it is captioned."""
        return (Chunk((FilePart(source),), [source]) for source in sources)

    def write(
        self, chunk: Chunk, answers: Sequence[VideoAnswer | None]
    ) -> Iterator[PartWritten]:
        (part,), (answer,) = chunk.parts, answers
        source = part.source
        if isinstance(answer, str):
            if not source.has_changed():
                raise ClientError(
                    f"{answer} does not see {source.path.absolute()}: every machine must "
                    "have the videos under the same path"
                )
            answer = _fail(f"{source.name} has changed meanwhile")
        events = answer or _fail(f"{source.name}: {_DEADLY_VIDEO}")
        ends = (each for each in events if isinstance(each, captions.VideoEnd))
        errors = [end.error for end in ends if end.error]
        count = sum(event.size for event in events)
        if count or not errors:
            with self.store.create(self.name_output(source).as_posix()) as file:
                pieces = captions.render(self.format, source.name, events)
                file.writelines(piece.encode() for piece in pieces)
        yield PartWritten(0, part, count, Remarks(errors), len(errors))


def load_captioner(
    model: Model, cache: Path, reading: VideoOptions, is_full_size: bool
) -> Answerer:
    """Loads a model, in the process that is to run it."""
    local = LocalModel(load_handler(model, cache))
    found = None if is_full_size else checkpoint.find_input_size(model)
    size = FrameSize(found.height, found.width) if found else None
    reading = replace(reading, size=size)
    captioner = captions.Captioner(local.caption, reading, _SENDING)
    return lambda sources: [caption_source(captioner, source) for source in sources]


def caption_source(captioner: captions.Captioner, source: Source) -> VideoAnswer:
    """Caption one video; what is wrong with it is its own error."""
    if not source.url and source.has_changed():
        return socket.gethostname()
    events: list[Any] = []
    try:
        with fetch(source) as copy:
            captioner.run([copy], lambda event, _: events.append(event))
    except InputError as error:
        return _fail(str(error))
    except ClientError as error:
        return _fail(f"{source.name}: {error}")
    return events


def _fail(error: str) -> list[captions.CaptionAnswer | captions.VideoEnd]:
    return [captions.VideoEnd(0, error)]


BulkJob = BulkTranslation | BulkCaptioning


@dataclass
class RunTotals:
    """The numbers of a run."""

    #: Results that were there before.
    skipped: int
    #: Texts without a result, and files without one.
    failed: int = 0


def run(
    job: BulkJob,
    sources: Sequence[Source],
    execute: Execute,
    *,
    report: Report,
    say: Callable[[Remarks], None],
    is_overwrite: bool = False,
) -> RunTotals:
    """Writes the missing results, and tells of progress and of what is wrong or in doubt.
    Raises ClientError; what is done stays."""
    named = _name_results(job, sources)
    store = job.store
    with store.lock() as check:
        if is_overwrite:
            store.remove([*named, *store.list_files(KEPT)])
        changed_ns = store.list_files()
        _check_options(job)
        errors = [*_look_back(named, changed_ns)]
        totals = RunTotals(len(named.keys() & changed_ns), failed=len(errors))
        say(Remarks(errors))
        missing = [source for name, source in named.items() if name not in changed_ns]
        whole = sum(source.size_bytes for source in missing) or 1
        behind = 0.0
        chunks = execute(job.load(), job.read(missing, set(changed_ns)))
        for written in _write_all(job, chunks, check):
            behind += written.part.share * written.part.source.size_bytes
            report(written, min(1.0, behind / whole))
            totals.failed += written.failed
            say(written.remarks)
        check()
        store.remove(store.list_files(KEPT))
        return totals


def _name_results(job: BulkJob, sources: Sequence[Source]) -> dict[str, Source]:
    """The sources by the names of their results. Raises ClientError."""
    for source in sources:
        try:
            source.name.encode()
        except UnicodeEncodeError as error:
            raise InputError(f"{source.name!r}: the name is not in UTF-8") from error
    files = name_files(sources, job.name_output)
    named = {path.as_posix(): sources[place] for path, (place,) in files.items()}
    results = {job.store.locate(name) for name in named}
    kept = {
        name: source
        for name, source in named.items()
        if (source.url or str(source.path.resolve())) not in results
    }
    if not kept:
        raise OutputError(f"{job.store.locate()}: nothing there is a source")
    return kept


def _check_options(job: BulkJob) -> None:
    """Raises OutputError if an unfinished run has other options."""
    wanted = json.dumps(job.describe(), sort_keys=True, default=str).encode()
    known = job.store.read(_OPTIONS)
    if known not in (None, wanted):
        raise OutputError(
            f"{job.store.locate()}: a run with other options was begun there; repeat its "
            "command, or begin again with --overwrite"
        )
    with job.store.create(_OPTIONS) as file:
        file.write(wanted)


def _look_back(
    named: Mapping[str, Source], changed_ns: Mapping[str, int]
) -> Iterator[str]:
    """A line for each thing that is wrong with the results that are there."""
    if _FAILED in changed_ns:
        yield "an earlier, unfinished run has left texts without a result"
    for name, source in named.items():
        # Object stores know whole seconds.
        if source.modified_ns // 10**9 > changed_ns.get(name, sys.maxsize) // 10**9:
            yield (
                f"{source.name} has changed since {name} was written; remove that file to "
                "have it written again"
            )


def _write_all(
    job: BulkJob,
    chunks: Iterator[tuple[Chunk, Sequence[Any]]],
    check: Callable[[], None],
) -> Iterator[PartWritten]:
    """Writes several chunks at once. `check` raises OutputError if another run writes there."""

    def write(answered: tuple[Chunk, Sequence[Any]]) -> list[PartWritten]:
        check()
        reports = [*job.write(*answered)]
        if any(report.failed for report in reports):
            with job.store.create(_FAILED):
                pass
        return reports

    return chain.from_iterable(_map_at_once(write, chunks))


def _map_at_once(
    function: Callable[[Item], Found], items: Iterable[Item]
) -> Iterator[Found]:
    """Yield what `function` returns for each item, in order; calls run several at once."""
    waiting: deque[Future[Found]] = deque()
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for item in items:
            waiting.append(pool.submit(function, item))
            while waiting and (waiting[0].done() or len(waiting) > _AT_ONCE):
                yield waiting.popleft().result()
        for future in waiting:
            yield future.result()
