"""Translates one document: a worker reads its texts, the gateway translates them, a few
requests at a time, and a worker writes the new document. The translations are kept in a
journal, so that another program can continue.
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
from documents.gateway import MOST_AT_ONCE, Gateway
from documents.pieces import DocumentJournal, TextPiece, divide
from documents.sandbox import Allowance, LimitExceeded, TakeStep, WorkerEnded
from documents.storage import DocumentFolder, Gone

log = logging.getLogger(__name__)

#: The maximum number of texts per request, and of characters unless one text has more. The
#: gateway splits them into sentences, and models translate 64 of these at a time.
_CHUNK_TEXTS, _CHUNK_CHARACTERS = 64, 6_000
#: Seconds between checks whether the document still exists, and between progress reports.
_LOOK_S, _REPORT_S = 1.0, 0.5
#: The number of programs that may end with a document before sending any of its text.
_MOST_ATTEMPTS = 5
#: The number of workers that may end or hang in the same step, and the pause between them.
_MOST_WORKERS, _PAUSE_S = 3, 5.0
#: A worker's CPU seconds: the base, the addition per MB and the maximum; a well-compressed MB
#: of Word needs 8 s. On a busy machine the work may last four times as long.
_CPU_S, _CPU_S_PER_MB, _MOST_CPU_S, _TIMES_CPU = 30, 60, 3_600, 4
#: Twice the need of the largest Markdown document, the most demanding format.
MEMORY_BYTES = 512 << 20
#: The bytes of a file that a worker writes, and times the input's size: office documents are
#: compressed, and translations may be longer.
_WRITTEN_BYTES, _TIMES_BYTES = 32 << 20, 8


class WorkerStopped(Exception):
    """This program is stopping; another one will continue with the document."""


#: The pieces of a request, and its pending answer.
_Sent: TypeAlias = tuple[list[TextPiece], Future[list[str]]]


@dataclass
class DocumentTranslation:
    """The translation of one document by this program."""

    document: DocumentFolder
    gateway: Gateway
    take_step: TakeStep
    stopping: threading.Event

    def __post_init__(self) -> None:
        #: Set when no further answers are needed.
        self._ended = threading.Event()
        self._state = self.document.read_state()
        self._reported_at = self._looked_at = 0.0

    def run(self, kept_s: float) -> None:
        """Translate the document or record its failure, and keep it for `kept_s`. Raises
        WorkerStopped, Gone, and OSError if not even the final state can be written."""
        if not self._state.is_over:
            ended = self._try()
            self._report(**ended, expires_at=time.time() + kept_s)
        self.document.tidy()

    def _try(self) -> dict[str, Any]:
        """Return the fields of the final state. The files for a retry stay until that is
        written, since a full disk may delay it."""
        try:
            self._begin()
            self._translate()
            return {"status": "done", "attempts": 0}
        except WorkerStopped:  # not the document's fault
            self._report(attempts=max(0, self._state.attempts - 1))
            raise
        except Gone:
            raise
        except Exception as error:  # the job's edge: the owner gets a problem
            self.document.check()
            problem = explain(error)
            log.warning("document %s: %s", self.document.order.id, problem["type"])
            self.document.clear()
            return {"status": "failed", "error": problem}

    def _begin(self) -> None:
        """Count the attempt: a document must not crash one program after another."""
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
        self._warn(f"The document is already in {self.document.order.tgt_lang!r}.")
        self._report(texts_done=texts)

    def _warn(self, *warnings: str) -> None:
        said = dict.fromkeys((*self._state.warnings, *warnings))
        self._state = replace(self._state, warnings=tuple(said))

    def _run_step(
        self, step: Literal["read", "write"], **more: Any
    ) -> Mapping[str, Any]:
        """Return a worker's answer. A worker that ends without one, or hangs, is replaced.
        Raises TranslationFailed, DocumentError, WorkerStopped and Gone."""
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
        """Return the document's language, and report it with the sizes found by the worker."""
        order = self.document.order
        sample = found["sample"]
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
        """Yield the texts to translate, dividing long ones: requests have a time limit."""
        for text in map(json.loads, texts):
            self._look()
            yield from divide(text, wanted.source, wanted.format, _CHUNK_CHARACTERS)

    def _ask_for(self, pieces: Iterator[TextPiece], wanted: TranslationOptions) -> None:
        chunks = pack(
            pieces, lambda piece: (1, len(piece.text)), _CHUNK_TEXTS, _CHUNK_CHARACTERS
        )
        sent: deque[_Sent] = deque()

        def send() -> bool:
            """Send as many requests as allowed. Return whether an answer is pending."""
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
        """Wait for an answer and add it to the journal. Raises TranslationFailed with the
        number of a refused text in the document, counted from 1."""
        if self._state.attempts:
            self._report(attempts=0)
        done = self._state.texts_done
        try:
            self._journal.add(chunk, answer.result())
        except TranslationFailed as error:
            if error.index is None:
                raise
            number = done + _count_texts(chunk[: error.index]) + 1
            detail = f"Text {number} of the document: {error.problem['detail']}"
            raise TranslationFailed({**error.problem, "detail": detail}) from error
        done += _count_texts(chunk)
        self._state = replace(self._state, texts_done=done)

    def _save(self, sent: Iterable[_Sent]) -> None:
        """Add the answers that arrived before the program stopped to the journal."""
        with suppress(WorkerStopped, Gone, TranslationFailed):
            for chunk, answer in sent:
                self._journal.add(chunk, answer.result())

    def _check(self) -> None:
        """Raise WorkerStopped if the program stops, or Gone if the document was deleted."""
        if self.stopping.is_set():
            raise WorkerStopped
        self.document.check()

    def _wait(self, seconds: float) -> None:
        """Wait, with regular checks. Raises WorkerStopped and Gone."""
        give_up_at = time.monotonic() + seconds
        while (left_s := give_up_at - time.monotonic()) > 0:
            self.stopping.wait(min(left_s, _LOOK_S))
            self._check()
            if self._ended.is_set():
                raise WorkerStopped

    def _look(self) -> None:
        """Check the document and report its progress if due. Raises WorkerStopped and Gone."""
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
        "bytes": f"{allowance.written_bytes >> 20:,} MB in a file",
        "cpu": f"{allowance.cpu_s:,} s of CPU time",
        "time": f"{allowance.time_s:,.0f} s",
    }
    is_size = error.resource in ("memory", "bytes")
    return (DocumentTooLarge if is_size else DocumentTooSlow)(
        f"It takes more than {told[error.resource]}, the limit for a document of its size, "
        f"to {step} it."
    )


def _give_up(what: str, times: int) -> DamagedDocument:
    return DamagedDocument(
        f"{what} {times} times on this document: the available memory is not enough."
    )
