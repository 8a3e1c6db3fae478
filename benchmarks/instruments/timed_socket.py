"""A socket that says when a request was sent and when the kernel had its answer: a client
that gets no CPU reads late, and that is no fault of its server's.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterable

from typing_extensions import Buffer

#: Linux's SO_TIMESTAMPNS, for which Python has no name. It gives what is read the time of its
#: last bytes' arrival, by the clock that shows the date.
_OPTION = 35
_STAMP = struct.Struct("@qq")
_SPACE = socket.CMSG_SPACE(_STAMP.size)


class TimedSocket(socket.socket):
    """A TCP socket. Times are of the monotonic clock, and 0 at first."""

    #: The time at which it last began to send.
    sent_at = 0.0
    #: The time at which the kernel had all bytes that have been read.
    arrived_at = 0.0

    def __init__(self) -> None:
        super().__init__()
        self.setsockopt(socket.SOL_SOCKET, _OPTION, 1)

    def sendall(self, data: Buffer, flags: int = 0, /) -> None:
        """Notes when it begins to send."""
        self.sent_at = time.monotonic()
        super().sendall(data, flags)

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        """Notes when what it reads has arrived."""
        data, ancillary, *_ = self.recvmsg(bufsize, _SPACE, flags)
        self._note(ancillary, len(data))
        return data

    def recv_into(self, buffer: Buffer, nbytes: int = 0, flags: int = 0) -> int:
        """Notes when what it reads has arrived."""
        place = memoryview(buffer)
        count, ancillary, *_ = self.recvmsg_into(
            [place[: nbytes or len(place)]], _SPACE, flags
        )
        self._note(ancillary, count)
        return count

    def _note(self, ancillary: Iterable[tuple[int, int, bytes]], count: int) -> None:
        """The end of a connection has no time, nor what came before the kernel noted any."""
        if not count:
            return
        now, age_s = time.monotonic(), 0.0
        for _, _, data in ancillary:
            seconds, nanoseconds = _STAMP.unpack(data)
            age_s = max(0.0, time.time() - seconds - nanoseconds / 1e9)
        self.arrived_at = now - age_s
