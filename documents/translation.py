"""Translates one document: reads its texts, asks the gateway for them, a few requests at a
time, and writes the document anew. What is translated is in a journal, so that another
program can go on.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, NamedTuple

from contract.problems import write_problem
from documents.asking import MOST_AT_ONCE, Gateway, Pace, Refused, Wanted
from documents.errors import DamagedDocument, DocumentError, DocumentTooLarge
from documents.formats import find_format
from documents.formats.format import Format, Languages
from documents.journal import Journal
from documents.storage import Document, Gone

log = logging.getLogger(__name__)

#: A request's texts, and its characters unless one text has more. The gateway turns them into
#: sentences, and takes 64 of them at a time.
_CHUNK_TEXTS, _CHUNK_CHARACTERS = 64, 6_000
#: Characters in which a document's language is looked for.
_SAMPLE_CHARACTERS = 10_000
#: Seconds between two looks at whether somebody still wants the document, and between two
#: reports of how far it is.
_LOOK_S, _REPORT_S = 1.0, 0.5
#: So many programs may have ended with a document before anything of it was sent.
_MOST_ATTEMPTS = 5
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_TAG = re.compile(r"<[^<>]+>")


class Stopped(Exception):
    """This program ends; another one goes on with the document."""


@dataclass(frozen=True)
class Watch:
    """Notices that a document is not wanted any more, or that this program is to end."""

    document: Document
    stopping: threading.Event
    #: Set when nobody waits for further answers.
    ended: threading.Event = field(default_factory=threading.Event)

    def check(self) -> None:
        """Raises Stopped or Gone."""
        if self.stopping.is_set():
            raise Stopped
        self.document.check()

    def wait(self, seconds: float) -> None:
        """Waits, and looks now and then. Raises Stopped or Gone."""
        give_up_at = time.monotonic() + seconds
        while (left_s := give_up_at - time.monotonic()) > 0:
            self.stopping.wait(min(left_s, _LOOK_S))
            self.check()
            if self.ended.is_set():
                raise Stopped


class _Sent(NamedTuple):
    """A request of several texts, and its answer to come."""

    chunk: list[str]
    answer: Future[list[str]]


class Translation:
    """The translation of one document by this program."""

    def __init__(
        self, document: Document, gateway: Gateway, stopping: threading.Event
    ) -> None:
        self._document = document
        self._gateway = gateway
        self._watch = Watch(document, stopping)
        self._state = document.read_state()
        self._reported_at = 0.0
        self._looked_at = 0.0

    def run(self, kept_s: float) -> None:
        """Ends with a document that is done or has failed, and is kept for `kept_s`. Raises
        Stopped, Gone, and OSError where not even that can be written."""
        try:
            if not self._state.is_over:
                self._begin()
                self._translate(find_format(self._document.order.name))
                self._report(status="done", attempts=0, expires_at=time.time() + kept_s)
        except Stopped:  # which is no fault of the document
            self._report(attempts=max(0, self._state.attempts - 1))
            raise
        except Gone:
            raise
        except Exception as error:  # the job's edge: its owner is told
            self._document.check()
            problem = _explain(error)
            log.warning("document %s: %s", self._document.order.id, problem["type"])
            self._document.clear()
            self._report(
                status="failed", error=problem, expires_at=time.time() + kept_s
            )
        self._tidy()

    def _begin(self) -> None:
        """Counts the attempt: a document must not end one program after the other."""
        attempts = self._state.attempts + 1
        if attempts > _MOST_ATTEMPTS:
            raise DamagedDocument(
                f"The program that reads it has ended {_MOST_ATTEMPTS} times with this "
                "document: it cannot be read in the memory that is there."
            )
        self._report(
            status="translating",
            attempts=attempts,
            started_at=self._state.started_at or time.time(),
        )

    def _translate(self, format: Format) -> None:
        order = self._document.order
        source = self._survey(format)
        wanted = Wanted(order, source, format.markup)
        journal = Journal(self._document.journal)
        try:
            done, rest = journal.resume(self._read(format))
            self._report(texts_done=done)
            self._ask_for(rest, wanted, journal)
            self._write(format, journal, Languages(source, order.tgt_lang))
        finally:
            journal.close()

    def _survey(self, format: Format) -> str | None:
        """Counts the texts and finds their language. What cannot be read is found before
        anything is translated."""
        texts = characters = 0
        sample: list[str] = []
        for text in self._read(format):
            shown = _TAG.sub("", text) if format.markup == "xml" else text
            if characters < _SAMPLE_CHARACTERS:
                sample.append(shown)
            texts, characters = texts + 1, characters + len(shown)
        order, source = self._document.order, self._state.src_lang
        if source is None and order.src_lang is None and sample:
            self._report(attempts=0)
            shown = " ".join(sample)[:_SAMPLE_CHARACTERS]
            source = self._gateway.identify(shown, order, self._watch.wait)
        source = order.src_lang or source
        self._report(
            texts=texts,
            characters=characters,
            src_lang=source,
            media_type=format.media_type,
        )
        return source

    def _read(self, format: Format) -> Iterator[str]:
        for text in format.read(self._document.source, self._document.order.tgt_lang):
            self._look()
            yield text

    def _ask_for(self, texts: Iterator[str], wanted: Wanted, journal: Journal) -> None:
        """Translates texts into the journal, in their order."""
        chunks, pace = _cut(texts), Pace()
        sent: deque[_Sent] = deque()

        def ask(chunk: list[str]) -> list[str]:
            return self._gateway.translate(chunk, wanted, self._watch.wait, pace)

        def send() -> None:
            room = max(0, int(pace.allowed) - len(sent))
            for chunk in islice(chunks, room):
                sent.append(_Sent(chunk, pool.submit(ask, chunk)))

        with ThreadPoolExecutor(MOST_AT_ONCE, "asking") as pool:
            try:
                self._keep_all(sent, send, journal)
            except Stopped:
                _save(sent, journal)
                raise
            finally:
                self._watch.ended.set()

    def _keep_all(
        self, sent: deque[_Sent], send: Callable[[], None], journal: Journal
    ) -> None:
        """Writes all answers down, and sends more requests meanwhile."""
        send()
        while sent:
            self._keep(sent[0], journal)
            sent.popleft()
            self._look()
            send()

    def _keep(self, sent: _Sent, journal: Journal) -> None:
        """Waits for an answer and writes it down. Raises Refused with the text's place in the
        document."""
        if self._state.attempts:
            self._report(attempts=0)
        count = len(sent.chunk)
        try:
            journal.append(sent.chunk, sent.answer.result())
        except Refused as error:
            raise _place(error, self._state.texts_done, count) from error
        self._state = replace(self._state, texts_done=self._state.texts_done + count)

    def _write(self, format: Format, journal: Journal, languages: Languages) -> None:
        document = self._document
        document.part.unlink(missing_ok=True)
        translations = self._read_on(journal)
        format.write(document.source, translations, document.part, languages)
        with document.part.open("rb") as file:
            os.fsync(file.fileno())
        document.part.replace(document.result)
        document.sync()

    def _read_on(self, journal: Journal) -> Iterator[str]:
        for translation in journal.read():
            self._look()
            yield translation

    def _look(self) -> None:
        """Now and then says how far the document is. Raises Stopped or Gone."""
        now = time.monotonic()
        if now - self._looked_at > _LOOK_S:
            self._looked_at = now
            self._watch.check()
        if now - self._reported_at > _REPORT_S:
            self._report()

    def _report(self, **changes: Any) -> None:
        self._state = replace(self._state, **changes)
        self._document.write_state(self._state)
        self._reported_at = time.monotonic()

    def _tidy(self) -> None:
        """Only the result is kept."""
        for path in (self._document.source, self._document.journal):
            path.unlink(missing_ok=True)


def _cut(texts: Iterator[str]) -> Iterator[list[str]]:
    chunk: list[str] = []
    size = 0
    for text in texts:
        is_full = len(chunk) == _CHUNK_TEXTS or size + len(text) > _CHUNK_CHARACTERS
        if chunk and is_full:
            yield chunk
            chunk, size = [], 0
        chunk.append(text)
        size += len(text)
    if chunk:
        yield chunk


def _save(sent: Iterable[_Sent], journal: Journal) -> None:
    """Writes down what has been answered when the program is told to end."""
    with suppress(Stopped, Gone, Refused):
        for chunk, answer in sent:
            journal.append(chunk, answer.result())


def _place(error: Refused, first: int, count: int) -> Refused:
    """The refusal with its place in the document, counted from 1."""
    index = 0 if count == 1 else error.index
    if index is None:
        return error
    place = f"Text {first + index + 1} of the document: "
    problem = dict(error.problem) | {"detail": place + str(error.problem["detail"])}
    return Refused(problem, first + index)


def _explain(error: Exception) -> dict[str, Any]:
    """The problem that the owner is told."""
    if isinstance(error, Refused):
        return dict(error.problem)
    if isinstance(error, MemoryError):
        error = DocumentTooLarge("It needs more memory than there is.")
    if isinstance(error, DocumentError):
        return write_problem(error.slug, error.status, str(error))
    if isinstance(error, OSError) and error.errno in _NO_ROOM:
        return write_problem(
            "disk-full", 507, "There is no room for the translated document."
        )
    _log_fault(error)
    return write_problem(
        "internal", 500, "The program that translates documents failed on this one."
    )


def _log_fault(error: Exception) -> None:
    """Where it happened; its message may quote the document."""
    frame = error.__traceback__
    while frame and frame.tb_next:
        frame = frame.tb_next
    place = f"{frame.tb_frame.f_code.co_filename}:{frame.tb_lineno}" if frame else ""
    log.error("%s at %s", type(error).__name__, place)
