"""Answers an upload while it is being read: sends several rows to the backend at a time
and returns the answers in the order of the images. All uploads of a process share a buffer.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import gevent
from gevent import Greenlet
from gevent.event import Event
from gevent.pool import Pool

from gateway.admission.control import Admission, Ticket
from gateway.backends.backend import RowRequest
from gateway.errors import BodyTooLarge, ClientGone, DeadlineExceeded, Problem
from gateway.http.bodies import Incoming
from gateway.http.connection import LeastRate
from gateway.http.request import Call
from gateway.settings import AHEAD_BYTES, ROW_BYTES, Settings
from gateway.uploads.rows import Cut, UploadLimits, cut

#: Rows of one upload that are with the backend at the same time: enough to keep a worker busy,
#: few enough to let other clients have their turns.
ROWS_AT_ONCE = 4
#: Work is counted in frames. The work of an unread row is unknown.
_ROW_COST = 1.0


@dataclass(frozen=True)
class ImageUpload:
    """A request with images."""

    incoming: Incoming
    content_type: str
    call: Call


@dataclass(frozen=True)
class FrameAnswer:
    """The backend's answer to some frames."""

    frames: int
    content: dict[str, Any]


class Uploads:
    """Answers uploads. Safe to share among greenlets."""

    def __init__(self, admission: Admission, settings: Settings) -> None:
        self.admission = admission
        self.limits = UploadLimits(settings.max_upload_bytes, settings.max_image_bytes)
        largest = max(ROW_BYTES, settings.max_image_bytes)
        self.buffer = Buffer(settings.upload_buffer_bytes, AHEAD_BYTES + largest)
        self.rate = LeastRate(settings.body_grace_s)

    def answer(
        self,
        upload: ImageUpload,
        model: str,
        *,
        parameters: Mapping[str, str],
        is_single: bool = False,
    ) -> list[FrameAnswer]:
        """One answer per row. Raises the Problem of the first row that has one, and
        Overloaded at once if not even the first row could be answered in time."""
        most, length = self.limits.max_upload_bytes, upload.incoming.length
        if length is not None and length > most:
            raise BodyTooLarge(f"The body has more than {most} bytes, the most it may.")
        is_bulk = length is None or length > ROW_BYTES
        with (
            self.admission.admit(
                model, upload.call, [_ROW_COST], is_bulk=is_bulk
            ) as ticket,
            self.buffer.share(upload.call.deadline) as share,
        ):
            job = _Job(upload, ticket, parameters, self.limits, share, self.rate)
            return job.run(is_single=is_single)


@dataclass
class _Job:
    """One upload. A row that fails ends it, even while it is still being read."""

    upload: ImageUpload
    ticket: Ticket
    parameters: Mapping[str, str]
    limits: UploadLimits
    share: UploadShare
    rate: LeastRate
    #: Bytes that were read and do not belong to a row yet.
    ahead: int = 0
    failure: Exception | None = None
    #: The greenlet that waits for the client, while it does.
    reader: Any = None
    pool: Pool = field(default_factory=lambda: Pool(ROWS_AT_ONCE))

    def run(self, *, is_single: bool) -> list[FrameAnswer]:
        """Reads, sends and waits."""
        sent: list[Greenlet[[Cut], FrameAnswer | None]] = []
        rows = cut(
            self._read(),
            self.upload.content_type,
            self.limits,
            is_single=is_single,
            grow=self.share.grow,
        )
        try:
            for row in rows:
                held = self.share.send(self.ahead)
                sent.append(self.pool.spawn(self._send, row))
                # Also of one that is ended before it has begun.
                sent[-1].rawlink(lambda _, held=held: self.share.release(held))
                del row  # its bytes, while the next one is read
            while self.pool:
                self._check()
                gevent.wait(list(self.pool), count=1)
            self._check()
            return [one.get() for one in sent]
        finally:
            self.pool.kill(block=False)

    def _read(self) -> Iterator[bytes]:
        deadline = self.upload.call.deadline
        chunks = self.upload.incoming.read(deadline, self.rate, self._expect)
        while True:
            self._check()
            self.reader = gevent.getcurrent()
            try:
                chunk = next(chunks, b"")
            except (ClientGone, InterruptedError):
                self._check()  # no, it was interrupted
                raise
            finally:
                self.reader = None
            if not chunk:
                return
            yield chunk

    def _expect(self, count: int) -> None:
        """Reserves the bytes that have come and may come with the next piece. An idle upload
        reserves next to nothing."""
        more = min(count, AHEAD_BYTES) - self.ahead
        if more > 0:
            self.share.grow(more)
            self.ahead += more

    def _interrupt(self) -> None:
        """Stops waiting for a client that may itself be waiting for the answer."""
        if self.reader:
            self.reader.throw(InterruptedError)

    def _check(self) -> None:
        if self.failure:
            raise self.failure

    def _send(self, row: Cut) -> FrameAnswer | None:
        try:
            return FrameAnswer(row.frames, self._predict(row))
        except Exception as error:  # a greenlet's edge: `run` raises it
            if isinstance(error, Problem) and row.place:
                error.detail = f"{row.place}: {error.detail}"
            self.failure = self.failure or error
            gevent.get_hub().loop.run_callback(self._interrupt)
            return None

    def _predict(self, row: Cut) -> dict[str, Any]:
        sent = RowRequest(row.body, row.content_type, self.parameters)
        return self.ticket.predict(sent, row.frames)


class Buffer:
    """A number of bytes that uploads share. To prevent a deadlock among waiting uploads, room
    for one largest row, `largest` bytes, is kept for the upload whose row was begun first.
    Bytes that are with the backend come back by themselves.
    """

    def __init__(self, size: int, largest: int) -> None:
        self._free = size
        self._largest = largest
        #: Bytes of rows with the backend.
        self._sent = 0
        #: Bytes that each upload holds besides.
        self._held: dict[UploadShare, int] = {}
        #: The uploads that have begun a row, oldest row first.
        self._begun: dict[UploadShare, None] = {}
        self._waiting: deque[_Ticket] = deque()

    @contextmanager
    def share(self, deadline: float) -> Iterator[UploadShare]:
        """One upload's share, empty at first."""
        share = UploadShare(self, deadline)
        try:
            yield share
        finally:
            self._begun.pop(share, None)
            self._give_back(self._held.pop(share, 0))

    def _take(self, ticket: _Ticket, deadline: float) -> None:
        self._waiting.append(ticket)
        self._admit()
        try:
            if not ticket.admitted.wait(max(0.0, deadline - time.monotonic())):
                raise DeadlineExceeded("there was room to read the upload")
        finally:
            if not ticket.admitted.is_set():
                self._waiting.remove(ticket)
                self._admit()

    def _admit(self) -> None:
        """Serves requests in order of arrival; only the oldest row may overtake."""
        is_waiting = False
        for ticket in tuple(self._waiting):
            oldest = next(iter(self._begun), self._waiting[0].share)
            is_first = ticket.share is oldest or not is_waiting
            if is_first and self._has_room(ticket, oldest):
                self._waiting.remove(ticket)
                self._free -= ticket.count
                self._held[ticket.share] = self._count(ticket.share) + ticket.count
                self._begun.setdefault(ticket.share)
                ticket.admitted.set()
            else:
                is_waiting = True

    def _has_room(self, ticket: _Ticket, oldest: UploadShare) -> bool:
        is_oldest = ticket.share is oldest
        kept = 0 if is_oldest else self._largest - self._count(oldest)
        return ticket.count <= min(self._free, self._free + self._sent - kept)

    def _count(self, share: UploadShare) -> int:
        return self._held.get(share, 0)

    def _send(self, share: UploadShare, kept: int) -> int:
        count = max(self._count(share) - kept, 0)
        if count:
            self._held[share] = kept
            self._sent += count
        # The bytes that it holds must not be missing where another row becomes the
        # oldest.
        if self._free + self._sent >= self._largest:
            self._begun.pop(share, None)
        self._admit()
        return count

    def _release(self, count: int) -> None:
        self._sent -= count
        self._give_back(count)

    def _give_back(self, count: int) -> None:
        self._free += count
        self._admit()


@dataclass(frozen=True, eq=False)
class UploadShare:
    """The bytes that one upload holds."""

    _buffer: Buffer
    _deadline: float

    def grow(self, count: int) -> None:
        """Waits for room for `count` bytes before they are read or copied. Raises
        DeadlineExceeded at the upload's deadline.
        """
        self._buffer._take(_Ticket(self, count), self._deadline)

    def send(self, kept: int) -> int:
        """Marks all held bytes but `kept` as a row that is with the backend. Returns their
        number; they stay held until they are released."""
        return self._buffer._send(self, kept)

    def release(self, count: int) -> None:
        """Gives back the bytes of a sent row."""
        self._buffer._release(count)


@dataclass(frozen=True, eq=False)
class _Ticket:
    share: UploadShare
    count: int
    admitted: Event = field(default_factory=Event)
