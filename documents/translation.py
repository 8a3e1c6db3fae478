"""Translates one document: a worker reads its texts, the gateway is asked for them, a few
requests at a time, and a worker writes the document again. What is translated is in a journal,
so that another program can go on.
"""

import json
import logging
import shutil
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal, TypeAlias

from clients.bulk import pack
from clients.translations import TranslationOptions
from contract import durable
from documents.errors import (
    DamagedDocument,
    DocumentError,
    DocumentTooLarge,
    DocumentTooSlow,
    TranslationFailed,
    explain,
)
from documents.gateway import MOST_AT_ONCE, Gateway, TranslationRefused
from documents.pieces import DocumentJournal, TextPiece, divide
from documents.sandbox import Allowance, LimitExceeded, TakeStep, WorkerEnded
from documents.storage import DocumentFolder, Gone

log = logging.getLogger(__name__)

#: A request's texts, and its characters unless one text has more. The gateway turns them into
#: sentences, and takes 64 of them at a time.
_CHUNK_TEXTS, _CHUNK_CHARACTERS = 64, 6_000
#: Seconds between two looks at whether somebody still wants the document, and between two
#: reports of how far it is.
_LOOK_S, _REPORT_S = 1.0, 0.5
#: The most programs that may end with a document before anything of it was sent.
_MOST_ATTEMPTS = 5
#: The most workers that may end or hang in the same step, with a pause between them.
_MOST_WORKERS, _PAUSE_S = 3, 5.0
#: A worker may take this many seconds of CPU, and more for each MB; a MB of Word that is well
#: packed needs 8 s. On a busy machine that may last four times as long.
_CPU_S, _CPU_S_PER_MB, _MOST_CPU_S, _TIMES_CPU = 30, 60, 3_600, 4
#: Twice what the largest Markdown takes, which needs more than all other formats.
MEMORY_BYTES = 512 << 20
#: Limits of a worker's output: office documents are packed, and translations may be
#: longer.
_WRITTEN_BYTES, _TIMES_BYTES = 32 << 20, 8


class WorkerStopped(Exception):
    """This program ends; another one goes on with the document."""


#: A request of several texts, and its answer to come.
_Sent: TypeAlias = tuple[list[TextPiece], Future[list[str]]]


@dataclass
class DocumentTranslation:
    """The translation of one document by this program."""

    document: DocumentFolder
    gateway: Gateway
    take_step: TakeStep
    stopping: threading.Event

    def __post_init__(self) -> None:
        #: Set when nobody waits for further answers.
        self._ended = threading.Event()
        self._state = self.document.read_state()
        self._reported_at = self._looked_at = 0.0

    def run(self, kept_s: float) -> None:
        """Ends with a document that is done or has failed, and is kept for `kept_s`. Raises
        WorkerStopped, Gone, and OSError where not even that can be written."""
        if not self._state.is_over:
            ended = self._try()
            self._report(**ended, expires_at=time.time() + kept_s)
        self.document.tidy()

    def _try(self) -> dict[str, Any]:
        """Return how it has ended, for its state. All that it needs stays until that is
        written: a full disk may keep it from being told until later."""
        try:
            self._begin()
            self._translate()
            return {"status": "done", "attempts": 0}
        except WorkerStopped:  # which is no fault of the document
            self._report(attempts=max(0, self._state.attempts - 1))
            raise
        except Gone:
            raise
        except Exception as error:  # the job's edge: its owner is told
            self.document.check()
            problem = explain(error)
            log.warning("document %s: %s", self.document.order.id, problem["type"])
            self.document.clear()
            return {"status": "failed", "error": problem}

    def _begin(self) -> None:
        """Counts the attempt: a document must not end one program after the other."""
        attempts = self._state.attempts + 1
        if attempts > _MOST_ATTEMPTS:
            raise _give_up("The program that reads it has ended", _MOST_ATTEMPTS)
        self._report(
            status="translating",
            attempts=attempts,
            started_at=self._state.started_at or time.time(),
        )

    def _translate(self) -> None:
        order = self.document.order
        found = self._run_step("read")
        self._warn(*found["warnings"])
        source = self._find_language(found)
        if source == order.tgt_lang:
            self._return_as_it_is(found["texts"])
            return
        wanted = TranslationOptions(
            order.tgt_lang, source, found["markup"], order.glossary
        )
        with (
            closing(DocumentJournal(self.document.journal)) as self._journal,
            self.document.texts.open("rb") as texts,
        ):
            done, rest = self._journal.resume(self._read_texts(texts, wanted))
            self._report(texts_done=done)
            self._ask_for(rest, wanted)
        written = self._run_step("write", source=source)
        self._warn(*written["warnings"])
        durable.rename(self.document.part, self.document.result)

    def _return_as_it_is(self, texts: int) -> None:
        shutil.copyfile(self.document.source, self.document.part)
        durable.sync(self.document.part)
        durable.rename(self.document.part, self.document.result)
        self._warn(f"The document is in {self.document.order.tgt_lang!r} already.")
        self._report(texts_done=texts)

    def _warn(self, *warnings: str) -> None:
        said = dict.fromkeys((*self._state.warnings, *warnings))
        self._state = replace(self._state, warnings=tuple(said))

    def _run_step(
        self, step: Literal["read", "write"], **more: Any
    ) -> Mapping[str, Any]:
        """The answer of a worker. One that has ended without an answer is replaced, and so is
        one that stood still. Raises TranslationFailed, DocumentError, WorkerStopped and
        Gone."""
        allowance = _allow(self.document)
        request = {"step": step, "folder": str(self.document.folder), **more}
        for attempt in range(1, _MOST_WORKERS + 1):
            try:
                answer = self.take_step(request, allowance, self._look)
            except LimitExceeded as error:
                if error.resource != "time" or attempt == _MOST_WORKERS:
                    raise _describe_error(error, step, allowance) from error
            except WorkerEnded:
                self.stopping.wait(_PAUSE_S)
                self._check()
            else:
                if problem := answer.get("problem"):
                    raise TranslationFailed(problem)
                return answer
        raise _give_up(f"The processes that {step} it have ended", _MOST_WORKERS)

    def _find_language(self, found: Mapping[str, Any]) -> str | None:
        """Tells what the document has, and its language."""
        order, sample = self.document.order, found["sample"]
        source = order.src_lang or self._state.src_lang
        if source is None and sample:
            self._report(attempts=0)
            with self.gateway.connect(order, self._wait) as translator:
                source = translator.identify(sample)
        told = {name: found[name] for name in ("texts", "characters", "media_type")}
        self._report(src_lang=source, **told)
        return source

    def _read_texts(
        self, texts: Iterable[bytes], wanted: TranslationOptions
    ) -> Iterator[TextPiece]:
        """Read the texts to translate; long texts are divided, as requests have a time
        limit."""
        for text in map(json.loads, texts):
            self._look()
            yield from divide(text, wanted.source, wanted.format, _CHUNK_CHARACTERS)

    def _ask_for(self, pieces: Iterator[TextPiece], wanted: TranslationOptions) -> None:
        most = _CHUNK_TEXTS, _CHUNK_CHARACTERS
        chunks = pack(pieces, lambda piece: (1, len(piece.text)), *most)
        sent: deque[_Sent] = deque()

        def send() -> bool:
            """Sends as many requests as may be; returns whether an answer is to come."""
            room = max(0, int(translator.pace.allowed) - len(sent))
            for chunk in islice(chunks, room):
                texts = [piece.text for piece in chunk]
                sent.append((chunk, pool.submit(translator.translate, texts, wanted)))
            return bool(sent)

        with (
            self.gateway.connect(self.document.order, self._wait) as translator,
            ThreadPoolExecutor(MOST_AT_ONCE, "asking") as pool,
        ):
            try:
                while send():
                    self._keep(*sent[0])
                    sent.popleft()
                    self._look()
            except WorkerStopped:
                self._save(sent)
                raise
            finally:
                self._ended.set()

    def _keep(self, chunk: list[TextPiece], answer: Future[list[str]]) -> None:
        """Waits for an answer and writes it down. Raises TranslationFailed with the place of a
        refused text in the document, counted from 1."""
        if self._state.attempts:
            self._report(attempts=0)
        done = self._state.texts_done
        try:
            self._journal.add(chunk, answer.result())
        except TranslationRefused as error:
            index = 0 if len(chunk) == 1 else error.index
            if index is None:
                raise
            number = done + _count_texts(chunk[:index]) + 1
            detail = f"Text {number} of the document: {error.problem['detail']}"
            raise TranslationFailed({**error.problem, "detail": detail}) from error
        done += _count_texts(chunk)
        self._state = replace(self._state, texts_done=done)

    def _save(self, sent: Iterable[_Sent]) -> None:
        """Writes down what has been answered when the program is told to end."""
        with suppress(WorkerStopped, Gone, TranslationRefused):
            for chunk, answer in sent:
                self._journal.add(chunk, answer.result())

    def _check(self) -> None:
        """Raises WorkerStopped or Gone."""
        if self.stopping.is_set():
            raise WorkerStopped
        self.document.check()

    def _wait(self, seconds: float) -> None:
        """Waits, and looks now and then. Raises WorkerStopped or Gone."""
        give_up_at = time.monotonic() + seconds
        while (left_s := give_up_at - time.monotonic()) > 0:
            self.stopping.wait(min(left_s, _LOOK_S))
            self._check()
            if self._ended.is_set():
                raise WorkerStopped

    def _look(self) -> None:
        """Now and then says how far the document is. Raises WorkerStopped or Gone."""
        now = time.monotonic()
        if now - self._looked_at > _LOOK_S:
            self._looked_at = now
            self._check()
        if now - self._reported_at > _REPORT_S:
            self._report()

    def _report(self, **changes: Any) -> None:
        self._state = replace(self._state, **changes)
        self.document.write_state(self._state)
        self._reported_at = time.monotonic()


def _count_texts(pieces: Iterable[TextPiece]) -> int:
    return sum(piece.gap is None for piece in pieces)


def _allow(document: DocumentFolder) -> Allowance:
    files = (document.source, document.journal)
    size = sum(path.stat().st_size for path in files if path.exists())
    cpu_s = min(_MOST_CPU_S, _CPU_S + (size * _CPU_S_PER_MB >> 20))
    most_bytes = _WRITTEN_BYTES + _TIMES_BYTES * size
    return Allowance(cpu_s, _TIMES_CPU * cpu_s, MEMORY_BYTES, most_bytes)


def _describe_error(
    error: LimitExceeded, step: str, allowance: Allowance
) -> DocumentError:
    told = {
        "memory": f"{allowance.memory_bytes >> 20:,} MB of memory",
        "bytes": f"{allowance.written_bytes >> 20:,} MB in its files",
        "cpu": f"{allowance.cpu_s:,} s of a processor's time",
        "time": f"{allowance.time_s:,.0f} s",
    }
    is_size = error.resource in ("memory", "bytes")
    return (DocumentTooLarge if is_size else DocumentTooSlow)(
        f"To {step} it takes more than {told[error.resource]}, which is the limit for a "
        "document of its size."
    )


def _give_up(what: str, times: int) -> DamagedDocument:
    return DamagedDocument(
        f"{what} {times} times with this document: it cannot be read in the memory that is "
        "there."
    )
