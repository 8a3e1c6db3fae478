"""Turns texts into documents without delaying other requests: short texts at once, long ones in
a process that starts when it is first needed."""

from __future__ import annotations

import heapq
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from gevent import Timeout
from gevent.event import Event
from gevent.monkey import get_original
from gevent.socket import wait_read, wait_write
from pydantic import TypeAdapter

from gateway.errors import (
    DeadlineExceeded,
    GlossariesUnavailable,
    InternalError,
    NotReady,
    Overloaded,
    TooManyRows,
)
from gateway.glossaries.glossary import read_entries
from gateway.http.connection import is_readable
from gateway.http.request import Call
from gateway.services.reader import ERRORS
from gateway.threads import call_in_thread, let_others_run
from text.document import Document, Piece, ReadingJob, collect, scan
from text.errors import TermsUnavailable, TooManySentences
from text.terms import TermCache

#: The lines to a reader: a job and its time limit; and from it: pieces, or an error's name.
_JOBS: TypeAdapter[tuple[ReadingJob, float]] = TypeAdapter(tuple[ReadingJob, float])
_PARTS: TypeAdapter[list[Piece | int] | str] = TypeAdapter(list[Piece | int] | str)
_ROOT = Path(__file__).parents[2]
#: Texts of up to this many characters are read at once. The slowest need 3 µs per character.
_SHORT = 2000
#: Characters read in about a second. Long texts are ordered by arrival plus reading time.
_CHARACTERS_PER_S = 250_000
_MOST_WAITING = 100
_CHUNK_BYTES = 64 << 10
_STAGE = "the texts were read"
#: For setitimer, 0 means no limit.
_LEAST_S = 0.001

#: The system's own: a wait for these sockets uses the hub of its own thread, and a sleeping
#: thread lets the loop continue.
_socketpair = get_original("socket", "socketpair")
_sleep = get_original("time", "sleep")


class Readers:
    """The process that reads long texts: only one, to leave the CPU to other requests. Safe to
    share among greenlets."""

    def __init__(self) -> None:
        self._is_free = True
        self._reader: _Reader | None = None
        self._waiting: list[tuple[float, int, Event]] = []
        self._arrivals = count()
        self._terms = TermCache(read_entries, lambda: _sleep(0))

    def read(self, job: ReadingJob, call: Call) -> list[Document]:
        """Return a document for each text. Raises TooManyRows, DeadlineExceeded, ClientGone,
        Overloaded, GlossariesUnavailable, or NotReady if the process was killed."""
        size = sum(len(text) for text, _ in job.texts)
        try:
            if size <= _SHORT:
                self._make_terms(job, call)
                return list(collect(job, scan(job, self._terms)))
            with self._take_place(size, call), self._take_reader() as reader:
                return list(collect(job, reader.read(job, call)))
        except TooManySentences as error:
            raise TooManyRows(job.max_rows) from error
        except TermsUnavailable as error:
            raise GlossariesUnavailable(
                "The glossary cannot be read now, or has just been changed."
            ) from error

    def close(self) -> None:
        """End the process."""
        if self._reader:
            self._reader.end()

    def _make_terms(self, job: ReadingJob, call: Call) -> None:
        """Load terms that are not in the cache, in a thread, so as not to block the loop."""
        choice, target, stage = job.dictionaries, job.target, "the glossary was read"
        if choice is None or target is None:
            return
        for source in {language for _, language in job.texts}:
            if self._terms.has(choice, source):
                continue
            with Timeout(call.deadline.check(stage), DeadlineExceeded(stage)):
                call_in_thread("terms", self._terms.take, choice, source, target)

    @contextmanager
    def _take_place(self, size: int, call: Call) -> Iterator[None]:
        if len(self._waiting) >= _MOST_WAITING:
            raise Overloaded("Too many long texts are waiting to be read.")
        turn = Event()
        rank = time.monotonic() + size / _CHARACTERS_PER_S
        place = (rank, next(self._arrivals), turn)
        heapq.heappush(self._waiting, place)
        self._call_next()
        try:
            while not turn.wait(call.check(_STAGE)):
                pass
            yield
        finally:
            if place in self._waiting:
                self._waiting.remove(place)
                heapq.heapify(self._waiting)
            else:  # its turn may have begun in the same moment
                self._is_free = True
                self._call_next()

    def _call_next(self) -> None:
        if self._is_free and self._waiting:
            self._is_free = False
            heapq.heappop(self._waiting)[-1].set()

    @contextmanager
    def _take_reader(self) -> Iterator[_Reader]:
        """Yield the process, or a new one if it has ended. End it if it is not ready then."""
        if self._reader is None or not self._reader.is_ready:
            self._reader = _Reader()
        try:
            yield self._reader
        finally:
            if not self._reader.is_ready:
                self._reader.end()


class _Reader:
    """A process, and the socket for its input and output."""

    def __init__(self) -> None:
        self._socket, theirs = _socketpair()
        self._socket.setblocking(False)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "gateway.services.reader"],
                cwd=_ROOT,
                stdin=theirs,
                stdout=theirs,
            )
        self._is_busy = False
        # If it is not called, the process ends with this object or the gateway's process.
        self.end = weakref.finalize(self, _end, self._process, self._socket)

    @property
    def is_ready(self) -> bool:
        """Whether the process can accept a job."""
        if self._is_busy or not self.end.alive:
            return False
        return not is_readable(self._socket)  # it is readable only at its end

    def read(self, job: ReadingJob, call: Call) -> Iterator[Piece | int]:
        """Yield pieces like `document.scan`. Also raises the errors of `Readers.read`."""
        call.check(_STAGE)
        self._is_busy = True
        limit_s = max(_LEAST_S, call.deadline - time.monotonic())
        self._send(_JOBS.dump_json((job, limit_s)) + b"\n", call)
        missing = len(job.texts)
        for line in self._receive(call):
            let_others_run()  # lines may arrive without a pause
            pieces = _PARTS.validate_json(line)
            if isinstance(pieces, str):
                self._is_busy = False
                raise ERRORS[pieces]
            missing -= sum(isinstance(piece, int) for piece in pieces)
            self._is_busy = missing > 0
            yield from pieces
            if not missing:
                return
        call.check(_STAGE)
        # Its own faults have status 1. After a kill it is 0 if libev has collected the status.
        if self._process.wait() <= 0:
            raise NotReady("The process that read the text was killed.")
        raise InternalError("The text could not be read.")

    def _send(self, content: bytes, call: Call) -> None:
        rest = memoryview(content)
        while rest:
            try:
                rest = rest[self._socket.send(rest) :]
            except BlockingIOError:
                with suppress(TimeoutError):
                    wait_write(self._socket.fileno(), call.check(_STAGE))
            except OSError:
                return  # the process has ended, and so does its answer

    def _receive(self, call: Call) -> Iterator[bytearray]:
        """Yield the answer's lines, up to the end of the process."""
        begun = bytearray()
        while True:
            try:
                chunk = self._socket.recv(_CHUNK_BYTES)
            except BlockingIOError:
                with suppress(TimeoutError):
                    wait_read(self._socket.fileno(), call.check(_STAGE))
                continue
            except OSError:  # the socket is closed when this process ends
                return
            if not chunk:
                return
            begun += chunk
            if b"\n" in chunk:  # a long line is not copied for each chunk
                *lines, begun = begun.split(b"\n")
                yield from lines


def _end(process: subprocess.Popen[bytes], connection: socket.socket) -> None:
    connection.close()
    process.kill()
    process.wait()
