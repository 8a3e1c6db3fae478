"""The bytes of uploads that a process holds at the same time: those who want to read more
wait for their turn, and whoever has begun a row can always finish it.
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
    """So many bytes, shared among greenlets.

    An upload waits while it holds a part of a row. So that not all wait for each other,
    what the row that was begun first may still need, `largest` in all, is kept for it.
    """

    def __init__(self, size: int, largest: int) -> None:
        self._free = size
        self._largest = largest
        #: Bytes of rows that are with the backend: these come back without anybody's help.
        self._sent = 0
        #: Bytes of the rows that are being read, in the order in which they were begun.
        self._rows: dict[Share, int] = {}
        self._waiting: deque[_Ticket] = deque()

    @contextmanager
    def share(self, ahead: int, deadline: float) -> Iterator[Share]:
        """One upload's part of it, `ahead` bytes for what is read and belongs to no row
        yet. Waits for these.

        Raises DeadlineExceeded where `deadline` comes first.
        """
        share = Share(self, deadline)
        self._take(_Ticket(share, ahead, is_row=False), deadline)
        try:
            yield share
        finally:
            self._give_back(self._rows.pop(share, 0) + ahead)

    def _take(self, ticket: _Ticket, deadline: float) -> None:
        self._waiting.append(ticket)
        self._admit()
        try:
            if not ticket.admitted.wait(max(0.0, deadline - time.monotonic())):
                raise DeadlineExceeded(
                    "The deadline passed while other uploads were being read."
                )
        finally:
            if not ticket.admitted.is_set():
                self._waiting.remove(ticket)
                self._admit()

    def _admit(self) -> None:
        """In the order in which they came; only the oldest row passes those who wait."""
        is_waiting = False
        for ticket in tuple(self._waiting):
            is_oldest = ticket.is_row and ticket.share is next(
                iter(self._rows), ticket.share
            )
            if (is_oldest or not is_waiting) and self._has_room(ticket, is_oldest):
                self._waiting.remove(ticket)
                self._free -= ticket.count
                if ticket.is_row:
                    begun = self._rows.get(ticket.share, 0)
                    self._rows[ticket.share] = begun + ticket.count
                ticket.admitted.set()
            else:
                is_waiting = True

    def _has_room(self, ticket: _Ticket, is_oldest: bool) -> bool:
        kept = 0 if is_oldest else self._largest - next(iter(self._rows.values()), 0)
        return ticket.count <= min(self._free, self._free + self._sent - kept)

    def _send(self, share: Share) -> int:
        count = self._rows.pop(share, 0)
        self._sent += count
        self._admit()
        return count

    def _release(self, count: int) -> None:
        self._sent -= count
        self._give_back(count)

    def _give_back(self, count: int) -> None:
        self._free += count
        self._admit()


@dataclass(frozen=True, eq=False)
class Share:
    """What one upload holds."""

    _buffer: Buffer
    _deadline: float

    def grow(self, count: int) -> None:
        """Waits for so many bytes more for the row that is being read.

        Raises DeadlineExceeded where the upload's deadline comes first.
        """
        self._buffer._take(_Ticket(self, count, is_row=True), self._deadline)

    def send(self) -> int:
        """The row has all its bytes, so many; they are held until they are released."""
        return self._buffer._send(self)

    def release(self, count: int) -> None:
        """Gives back the bytes of a row that was sent."""
        self._buffer._release(count)


@dataclass(frozen=True, eq=False)
class _Ticket:
    share: Share
    count: int
    #: Otherwise an upload that has not begun.
    is_row: bool
    admitted: Event = field(default_factory=Event)
