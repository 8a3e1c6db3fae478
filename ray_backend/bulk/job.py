"""Bulk work on files: a run computes and writes the missing results. Workers get small text
files together and large ones in parts, and translate many texts at once, each as
`POST /translate` does. A video is captioned as a whole, by the worker that reads it.
"""

import hashlib
import json
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
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
from handlers.base import Outcome, Result, Row, TaskError
from handlers.translation import TranslationHandler
from ray_backend.bulk.storage import KEPT, Store, fetch
from ray_backend.replica import load_handler
from text.composition import translate_batch
from text.errors import SentenceRefused, TextError
from text.langid import Identifier
from text.options import TranslationRequest

_OPTIONS, _FAILED = f"{KEPT}/options.json", f"{KEPT}/failed"
#: Limits of a part, or of several small files. A worker sorts and packs the sentences of one.
MOST_TEXTS, MOST_CHARACTERS, _MOST_FILES = 4096, 1 << 20, 256
#: Object stores are slow: this many small files are read, and results written, at once.
_AT_ONCE, _SMALL_BYTES = 16, 1 << 20
#: The most sentences whose answers a worker keeps, of at most a thousand characters each.
_MOST_KEPT = 1 << 14
_DEADLY_TEXT = TextReply(None, error="every worker that got this text has ended")
_DEADLY_VIDEO = "every worker that got this video has ended"
_ANSWERS = TypeAdapter(TranslationAnswer)
#: While the model computes one batch, the next one is read.
_SENDING = captions.Sending(requests_in_flight=2)

Item = TypeVar("Item")
Found = TypeVar("Found")
#: A loaded model: returns an answer for each text or video.
Answerer = Callable[[Sequence[Any]], Sequence[Any]]
#: The captions of a video and its end; or the name of a machine that cannot read the file.
VideoAnswer = list[captions.CaptionAnswer | captions.VideoEnd] | str


@dataclass(frozen=True)
class FilePart:
    """A file, or a part of a large one."""

    source: Source
    #: Its number in the file, from 0.
    number: int = 0
    #: The share of the file, from 0 to 1.
    share: float = 1.0
    #: The cells with texts and those between them; None if an earlier run has answered them.
    cells: Sequence[Cell] | None = ()
    #: The reason the rest of the file could not be read.
    error: str | None = None
    is_last: bool = True

    @cached_property
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


#: The executor's function: loads the model in each worker, and answers the chunks in any order.
#: An answer is None if each worker that got the item has ended.
Execute = Callable[
    [Callable[[], Answerer], Iterator[Chunk]], Iterator[tuple[Chunk, Sequence[Any]]]
]


@dataclass(frozen=True)
class PartWritten(Event):
    """A part whose answers have been written."""

    part: FilePart
    #: Texts or frames.
    size: int = 0
    remarks: Remarks = Remarks()


@dataclass(kw_only=True)
class BulkTranslation:
    """The translation of texts in files. Its `repr` contains everything that results depend on
    besides the files and the model. It is sent to every worker."""

    store: Store = field(repr=False)
    model: Model = field(repr=False)
    cache: Path = field(default_factory=checkpoint.default_cache, repr=False)
    columns: Sequence[Column]
    has_quotes: bool
    #: Without texts.
    request: TranslationRequest
    most_texts: int = MOST_TEXTS
    #: The answered parts of each large file, while some are missing.
    _done: dict[Source, list[FilePart]] = field(
        default_factory=dict, init=False, repr=False
    )

    unit: ClassVar[str] = "texts"
    kind: ClassVar[SourceKind] = TABLES

    def check(self, sources: Sequence[Source]) -> None:
        """Raise ClientError if a source cannot be translated."""
        for source in sources:
            self._open(source)

    def name_output(self, source: Source) -> Path:
        """Return the relative path of a result: `a.jsonl` becomes `a.fr.jsonl`."""
        path = source.relative
        return path.with_name(f"{path.stem}.{self.request.target}{path.suffix}")

    def load(self) -> Answerer:
        """Load the model, in the process that is to run it."""
        handler = load_handler(self.model, self.cache)
        assert isinstance(handler, TranslationHandler)
        model, identifier = LocalModel(handler.answer), Identifier(handler.sources)
        return partial(translate_texts, model, identifier, self.request)

    def read(self, sources: Sequence[Source], kept: Container[str]) -> Iterator[Chunk]:
        """Read the files in parts. Parts depend on their file alone, so that another run finds
        the same ones. `kept` contains the names that an unfinished run has left."""

        def measure(part: FilePart) -> tuple[int, int]:
            count = max(len(part.texts), self.most_texts // _MOST_FILES)
            return count, sum(map(len, part.texts))

        def split(source: Source) -> Iterable[FilePart]:
            parts = self._split(source, kept)
            return [*parts] if source.size_bytes <= _SMALL_BYTES else parts

        parts = chain.from_iterable(_map_at_once(split, sources))
        for packed in pack(parts, measure, self.most_texts, MOST_CHARACTERS):
            yield Chunk(tuple(packed), [text for part in packed for text in part.texts])

    def write(
        self, chunk: Chunk, answers: Sequence[TextReply | None]
    ) -> Iterator[PartWritten]:
        """Write the answers, and the results that these complete. Called by several threads."""
        replies = iter(reply or _DEADLY_TEXT for reply in answers)
        for part in chunk.parts:
            found = answer_cells(0, part.cells or (), replies)
            remarks = Remarks()
            if part.is_whole:
                remarks = self._write_result(part, partial(iter, (found,)))
            elif part.cells is not None:
                with self.store.create(_name_part(part.source, part.number)) as file:
                    file.write(_ANSWERS.dump_json(found))
            if not part.is_whole and (last := self._note(part)):
                names = [_name_part(last.source, n) for n in range(last.number + 1)]
                remarks = self._write_result(last, partial(map, self._read_part, names))
                self.store.remove(names)
            yield PartWritten(0, part, len(part.texts), remarks)

    def _read_part(self, name: str) -> TranslationAnswer:
        return _ANSWERS.validate_json(self.store.read(name) or b"")

    def _note(self, part: FilePart) -> FilePart | None:
        """Record a part. Return the last one, once per file, when all others are written."""
        done = self._done.setdefault(part.source, [])
        done.append(replace(part, cells=None))
        last = next((each for each in done if each.is_last), None)
        if last and len(done) > last.number and self._done.pop(part.source, None):
            return last
        return None

    def _write_result(
        self, last: FilePart, read: Callable[[], Iterator[TranslationAnswer]]
    ) -> Remarks:
        """Write the result of a file with this last part. Each `read` lists all its answers."""
        source, error = last.source, last.error
        create = partial(self.store.create, self.name_output(source).as_posix())
        try:
            with fetch(source) as copy:
                table = self._open(copy)
                said = write_translations(table, read, create, is_broken=bool(error))
        except InputError as failure:
            said = Remarks()
            error = str(failure)
        return replace(said, errors=[*([error] if error else ()), *said.errors])

    def _open(self, source: Source) -> TextTable:
        """Open a table. Raises InputError if its format is unknown or needs a column."""
        return open_table(source, self.columns, has_quotes=self.has_quotes)

    def _split(self, source: Source, kept: Container[str]) -> Iterator[FilePart]:
        """Yield the parts of a file, at least one."""
        try:
            with fetch(source) as copy:
                table = self._open(copy)
                found = pack_cells(table.list_cells(), self.most_texts, MOST_CHARACTERS)
                packs = (
                    None if _name_part(source, number) in kept else cells
                    for number, cells in enumerate(found)
                )
                cells = next(packs, ())
                number = 0
                before = 0.0
                for following in packs:
                    share = table.share
                    yield FilePart(source, number, share - before, cells, is_last=False)
                    cells = following
                    number += 1
                    before = share
                yield FilePart(source, number, 1 - before, cells, table.error)
        except InputError as failure:
            yield FilePart(source, error=str(failure))


def _name_part(source: Source, number: int) -> str:
    """Name the file for a part's answers. The name changes if the source does."""
    place = source.url or source.path.absolute()
    state = f"{place}\n{source.size_bytes}\n{source.modified_ns}"
    return f"{KEPT}/{hashlib.sha256(state.encode()).hexdigest()[:32]}-{number:06}"


@dataclass(frozen=True)
class LocalModel:
    """A model in this process. Safe to share among threads."""

    #: Answers a batch of rows.
    ask: Callable[[Sequence[Row]], Outcome]
    _turn: threading.Lock = field(default_factory=threading.Lock)
    #: The latest answers to sentences, oldest first.
    _kept: dict[bytes, Result] = field(default_factory=dict)

    def answer(self, *bodies: bytes) -> list[Result]:
        with self._turn:
            return self.ask([Row(body) for body in bodies]).results

    def translate(self, bodies: Sequence[bytes]) -> list[Result]:
        """Return the answers to sentences; recent ones without running the model again."""
        with self._turn:
            found = {body: self._kept[body] for body in bodies if body in self._kept}
        missing = [body for body in bodies if body not in found]
        if missing:
            found |= zip(missing, self.answer(*missing), strict=True)
        with self._turn:
            for body, result in found.items():
                self._kept.pop(body, None)  # moves it to the end
                if not isinstance(result, TaskError):
                    self._kept[body] = result
            for body in [*self._kept][:-_MOST_KEPT]:
                del self._kept[body]
        return [found[body] for body in bodies]

    def caption(self, body: Sequence[bytes | memoryview], _: int) -> Sequence[str]:
        """Return the captions of an array of frames. Raises ServerError."""
        (result,) = self.answer(b"".join(body))
        if isinstance(result, TaskError):
            raise ServerError(result.detail)
        return [*result["captions"]]


def translate_texts(
    model: LocalModel,
    identifier: Identifier,
    request: TranslationRequest,
    texts: Sequence[str],
) -> list[TextReply]:
    """Return a reply for each text, which may be that text's error."""

    def ask(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any] | SentenceRefused]:
        return [
            SentenceRefused(each.detail, each.members)
            if isinstance(each, TaskError)
            else each
            for each in model.translate([json.dumps(row).encode() for row in rows])
        ]

    return [
        TextReply(None, error=str(each))
        if isinstance(each, TextError)
        else TextReply(each.renderings[0].text, warning=next(iter(each.warnings), None))
        for each in translate_batch(texts, request, identifier, ask)
    ]


@dataclass(kw_only=True)
class BulkCaptioning:
    """The captioning of videos, with the methods of `BulkTranslation`."""

    store: Store = field(repr=False)
    model: Model = field(repr=False)
    cache: Path = field(default_factory=checkpoint.default_cache, repr=False)
    #: `load` sets the size: the model's, unless `is_full_size`.
    reading: VideoOptions
    is_full_size: bool
    format: captions.SubtitleFormat

    unit: ClassVar[str] = "frames"
    kind: ClassVar[SourceKind] = VIDEOS

    def check(self, sources: Sequence[Source]) -> None:
        captions.check_decoder()

    def name_output(self, source: Source) -> Path:
        """Return the relative path of a result: `a.mp4` becomes `a.jsonl`, `.srt` or `.vtt`."""
        return source.relative.with_suffix(f".{self.format}")

    def load(self) -> Answerer:
        local = LocalModel(load_handler(self.model, self.cache).answer)
        found = None if self.is_full_size else checkpoint.find_input_size(self.model)
        size = FrameSize(found.height, found.width) if found else None
        reading = replace(self.reading, size=size)
        captioner = captions.Captioner(local.caption, reading, _SENDING)
        return lambda sources: [caption_source(captioner, source) for source in sources]

    def read(self, sources: Sequence[Source], kept: Container[str]) -> Iterator[Chunk]:
        """Yield only names: a video is read by the worker that captions it."""
        return (Chunk((FilePart(source),), [source]) for source in sources)

    def write(
        self, chunk: Chunk, answers: Sequence[VideoAnswer | None]
    ) -> Iterator[PartWritten]:
        (part,), (answer,) = chunk.parts, answers
        source = part.source
        if isinstance(answer, str):
            if not source.has_changed():
                raise ClientError(
                    f"{answer} cannot find {source.path.absolute()}: every machine must "
                    "have the videos under the same path"
                )
            answer = _fail(f"{source.name} has changed meanwhile")
        events = answer or _fail(f"{source.name}: {_DEADLY_VIDEO}")
        errors = [
            e.error for e in events if isinstance(e, captions.VideoEnd) and e.error
        ]
        count = sum(event.size for event in events)
        if count or not errors:
            with self.store.create(self.name_output(source).as_posix()) as file:
                pieces = captions.render(self.format, source.name, events)
                file.writelines(piece.encode() for piece in pieces)
        yield PartWritten(0, part, count, Remarks(errors))


def caption_source(captioner: captions.Captioner, source: Source) -> VideoAnswer:
    """Caption one video. A failure becomes the video's error."""
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


def run(
    job: BulkJob,
    sources: Sequence[Source],
    execute: Execute,
    *,
    report: Report,
    say: Callable[[Remarks], None],
    is_overwrite: bool = False,
) -> tuple[int, int]:
    """Write the missing results, and report progress, errors and warnings. Return how many
    results existed already, and how many errors there are. Raises ClientError; finished results
    are kept."""
    named = _name_results(job, sources)
    store = job.store
    with store.lock() as check:
        if is_overwrite:
            # Some stores end the removal at the first name that does not exist.
            there = store.list_files()
            store.remove(n for n in there if n in named or n.startswith(f"{KEPT}/"))
        changed_ns = store.list_files()
        _check_options(job)
        errors = [*_look_back(named, changed_ns)]
        say(Remarks(errors))
        missing = [source for name, source in named.items() if name not in changed_ns]
        whole = sum(source.size_bytes for source in missing) or 1
        behind = 0.0
        wrong = len(errors)

        def write(answered: tuple[Chunk, Sequence[Any]]) -> list[PartWritten]:
            check()
            reports = [*job.write(*answered)]
            if any(report.remarks.errors for report in reports):
                with store.create(_FAILED):
                    pass
            return reports

        load = replace(job).load  # of an unchanging copy, so that it can be sent
        chunks = execute(load, job.read(missing, changed_ns))
        for written in chain.from_iterable(_map_at_once(write, chunks)):
            behind += written.part.share * written.part.source.size_bytes
            report(written, min(1.0, behind / whole))
            wrong += len(written.remarks.errors)
            say(written.remarks)
        check()
        store.remove(store.list_files(KEPT))
        return len(named) - len(missing), wrong


def _name_results(job: BulkJob, sources: Sequence[Source]) -> dict[str, Source]:
    """Return the sources by the names of their results. Raises ClientError."""
    for source in sources:
        if source.name != source.name.encode(errors="replace").decode():
            raise InputError(f"{source.name!r}: the name is not UTF-8")
    files = name_files(sources, job.name_output)
    results = {job.store.locate(path.as_posix()) for path in files}
    named = {
        path.as_posix(): source
        for path, source in zip(files, sources, strict=True)
        if (source.url or str(source.path.resolve())) not in results
    }
    if not named:
        raise OutputError(f"{job.store.locate()}: found only results there, no sources")
    return named


def _check_options(job: BulkJob) -> None:
    """Raise OutputError if an unfinished run has other options."""
    settings = job.model.settings
    weights = settings.model, settings.engine, job.model.compute_type
    wanted = json.dumps(repr((job, weights))).encode()
    if job.store.read(_OPTIONS) not in (None, wanted):
        raise OutputError(
            f"{job.store.locate()}: an unfinished run there has other options; repeat its "
            "command, or start over with --overwrite"
        )
    with job.store.create(_OPTIONS) as file:
        file.write(wanted)


def _look_back(
    named: Mapping[str, Source], changed_ns: Mapping[str, int]
) -> Iterator[str]:
    """Yield a message for each fault of the existing results."""
    if _FAILED in changed_ns:
        yield "an earlier, unfinished run has left texts without a result"
    for name, source in named.items():
        # Object stores know only whole seconds.
        if source.modified_ns // 10**9 > changed_ns.get(name, sys.maxsize) // 10**9:
            said = f"{source.name} has changed since {name} was written"
            yield f"{said}; remove that file to have it written again"


def _map_at_once(
    function: Callable[[Item], Found], items: Iterable[Item]
) -> Iterator[Found]:
    """Yield the result of `function` for each item, in order; several calls run at once."""
    waiting: deque[Future[Found]] = deque()
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for item in items:
            waiting.append(pool.submit(function, item))
            while waiting and (waiting[0].done() or len(waiting) > _AT_ONCE):
                yield waiting.popleft().result()
        for future in waiting:
            yield future.result()
