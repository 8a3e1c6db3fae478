"""Bounds the bytes of uploads that a process holds. Requests that want to read more
wait their turn; a row that has begun can always be finished.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from gevent.event import Event

from gateway.errors import DeadlineExceeded


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
