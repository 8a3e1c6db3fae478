"""Sends thousands of requests per second from one thread, in an open or a closed loop."""

import errno
import gc
import heapq
import math
import random
import re
import resource
import select
import socket
import struct
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import accumulate, count, takewhile
from typing import NamedTuple
from urllib.parse import urlsplit

import psutil
from typing_extensions import Buffer

#: The main process of each program, the ancestor of its other processes.
Leaders = Mapping[str, psutil.Process]
#: The time that a client waits beyond a request's time limit.
GRACE_S = 1.0
#: Statuses of requests without an answer. `unsent` is the client's own fault: it has no file
#: descriptor or port left.
REFUSED, RESET, TIMEOUT, UNSENT = "refused", "reset", "timeout", "unsent"
#: Connections idle for longer are not reused, because servers may close them at any moment.
_IDLE_S = 10.0
#: The most requests sent between two polls of the sockets.
_BURST = 32
_LOOK_S = 0.1
_READ_BYTES = 65_536
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_LAST_CHUNK = b"0\r\n\r\n"


@dataclass(frozen=True)
class Request:
    """The body and path of one request."""

    body: bytes
    path: str = "/"


@dataclass(frozen=True)
class Target:
    """A server, and the requests to send to it."""

    url: str
    requests: Sequence[Request]
    #: Headers for every request.
    headers: Mapping[str, str] = field(default_factory=dict)
    #: The server's programs, if their cost is measured.
    leaders: Leaders = field(default_factory=dict)


class LoadReply(NamedTuple):
    """The outcome of one request. Times are in seconds."""

    #: The request's position in the load.
    number: int
    #: An HTTP status, or `refused`, `reset`, `timeout` or `unsent`.
    status: str
    #: From the start of the load to the arrival of the answer's end, even if it is read later.
    ended_s: float
    #: From the planned arrival.
    latency_s: float
    #: From the planned arrival to the sending.
    lag_s: float

    @property
    def is_good(self) -> bool:
        return self.status == "200"


@dataclass(frozen=True)
class Manner:
    """The settings of a load's clients."""

    #: The request's time limit, sent as `X-Timeout-Ms`; None sends none.
    limit_ms: int | None = None
    #: The number of this machine's addresses that the clients use.
    addresses: int = 1
    #: The time that a client waits for an answer.
    patience_s: float = 600.0


def ask_within(limit_ms: int, *, addresses: int = 1) -> Manner:
    """Return settings with a time limit for requests, and a slightly longer one for clients."""
    return Manner(limit_ms, addresses, limit_ms / 1000 + GRACE_S)


def ask_once(target: Target) -> LoadReply:
    """Send only the target's first request, and return its reply."""
    first = replace(target, requests=target.requests[:1])
    (reply,) = Generator(first, Manner()).run([0.0])
    return reply


def ask_again(
    target: Target, manner: Manner, *, clients: int, seconds: float, pause_s: float = 0
) -> list[LoadReply]:
    """Run a closed loop: each client asks again after its answer, with a pause if not 200."""

    def find_next(reply: LoadReply) -> float | None:
        again_s = reply.ended_s + (0.0 if reply.is_good else pause_s)
        return again_s if again_s < seconds else None

    return Generator(target, manner).run([0.0] * clients, find_next)


#: Linux's SO_TIMESTAMPNS, for which Python has no name. Each read then comes with the time at
#: which its last bytes arrived, by the wall clock.
_OPTION = 35
_STAMP = struct.Struct("@qq")
_SPACE = socket.CMSG_SPACE(_STAMP.size)


class TimedSocket(socket.socket):
    """A TCP socket that records when data reached the kernel: a client short of CPU time reads
    it late, which must not count against the server. Times are of the monotonic clock."""

    #: The time at which the kernel had all bytes that have been read; 0 before the first.
    arrived_at = 0.0

    def __init__(self) -> None:
        super().__init__()
        self.setsockopt(socket.SOL_SOCKET, _OPTION, 1)

    def recv_into(self, buffer: Buffer, nbytes: int = 0, flags: int = 0) -> int:
        place = memoryview(buffer)
        count, ancillary, *_ = self.recvmsg_into(
            [place[: nbytes or len(place)]], _SPACE, flags
        )
        # The end of a connection has no timestamp, nor has data from before the option was set.
        if count:
            now, age_s = time.monotonic(), 0.0
            for _, _, data in ancillary:
                seconds, nanoseconds = _STAMP.unpack(data)
                age_s = max(0.0, time.time() - seconds - nanoseconds / 1e9)
            self.arrived_at = now - age_s
        return count


@dataclass(slots=True, eq=False)
class _Connection:
    """A socket, and the request that waits for its answer there."""

    socket: TimedSocket
    number: int = 0
    planned_s: float = 0.0
    sent_s: float = 0.0
    unsent: bytes = b""
    received: bytes = b""
    #: Whether the socket's send buffer is full.
    is_blocked: bool = False


class Generator:
    """One load. Its connections are reused, the most recently used first."""

    def __init__(self, target: Target, manner: Manner) -> None:
        parts = urlsplit(target.url)
        self._address = (parts.hostname or "127.0.0.1", parts.port or 80)
        self._messages = write_messages(target, manner.limit_ms)
        self._manner = manner
        self._epoll = select.epoll()
        self._open: dict[int, _Connection] = {}
        self._idle: list[_Connection] = []
        #: Connections by file descriptor, the longest-waiting first.
        self._waiting: OrderedDict[int, _Connection] = OrderedDict()
        self._buffer = memoryview(bytearray(_READ_BYTES))
        self._number = 0
        #: The replies so far.
        self.replies: list[LoadReply] = []

    def run(
        self,
        arrivals: Iterable[float],
        find_next: Callable[[LoadReply], float | None] = lambda _: None,
    ) -> list[LoadReply]:
        """Send a request at each arrival, in seconds from now, and return the replies. After
        each one, `find_next` may return another arrival; without it, the loop is open."""
        # Each connection needs a file descriptor.
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        self._find_next = find_next
        self._due = sorted(arrivals)
        self._began = time.monotonic()
        # Garbage collection of a model's libraries would block the loop for 0.1 s.
        gc.freeze()
        try:
            self._work()
        finally:
            gc.unfreeze()
            for connection in list(self._open.values()):
                self._close(connection)
            self._epoll.close()
        return self.replies

    def _work(self) -> None:
        looked_s = 0.0
        while self._due or self._waiting:
            self._send_due()
            due_s = self._due[0] if self._due else math.inf
            pause_s = max(0.0, min(_LOOK_S, due_s - self._now()))
            for fd, events in self._epoll.poll(pause_s):
                if events & select.EPOLLOUT:
                    self._write_request(self._open[fd])
                if events & ~select.EPOLLOUT and fd in self._open:
                    self._read_reply(self._open[fd])
            self._end_overdue()
            if self._now() - looked_s >= _LOOK_S:
                looked_s = self._now()
                for unused in [c for c in self._idle if c.sent_s < looked_s - _IDLE_S]:
                    self._close(unused)

    def _now(self) -> float:
        return time.monotonic() - self._began

    def _send_due(self) -> None:
        for _ in range(_BURST):
            if not self._due or self._due[0] > self._now():
                return
            self._ask_planned(heapq.heappop(self._due))

    def _ask_planned(self, planned_s: float) -> None:
        number = self._number
        self._number += 1
        try:
            connection = self._idle.pop() if self._idle else self._connect(number)
        except OSError as error:
            late_s = (now_s := self._now()) - planned_s
            self._tell_reply(LoadReply(number, _name(error), now_s, late_s, late_s))
            return
        connection.number = number
        connection.planned_s = planned_s
        connection.unsent = self._messages[number % len(self._messages)]
        connection.received = b""
        self._waiting[connection.socket.fileno()] = connection
        connection.sent_s = self._now()
        self._write_request(connection)

    def _connect(self, number: int) -> _Connection:
        opened = TimedSocket()
        opened.setblocking(False)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            if self._manner.addresses > 1:
                opened.bind((name_address(number % self._manner.addresses), 0))
            with suppress(BlockingIOError):
                opened.connect(self._address)
        except OSError:
            opened.close()
            raise
        connection = _Connection(opened)
        self._open[opened.fileno()] = connection
        self._epoll.register(opened.fileno(), select.EPOLLIN)
        return connection

    def _write_request(self, connection: _Connection) -> None:
        """Send as much as the socket accepts. Latency counts from the last part sent."""
        began_s = self._now()
        try:
            sent = connection.socket.send(connection.unsent)
            connection.sent_s = began_s
            self._waiting.move_to_end(connection.socket.fileno())
        except BlockingIOError:
            sent = 0
        except OSError as error:
            # The connection is broken, but the server may have answered before.
            self._read_reply(connection, _name(error))
            return
        connection.unsent = connection.unsent[sent:]
        if bool(connection.unsent) != connection.is_blocked:
            connection.is_blocked = not connection.is_blocked
            events = select.EPOLLOUT if connection.is_blocked else 0
            self._epoll.modify(connection.socket.fileno(), select.EPOLLIN | events)

    def _read_reply(self, connection: _Connection, fault: str = RESET) -> None:
        """Read the answer, which may arrive before all is sent, or finish with the fault."""
        try:
            count = connection.socket.recv_into(self._buffer)
            received = bytes(self._buffer[:count])
        except BlockingIOError:
            return
        except OSError as error:
            received = b""
            fault = REFUSED if fault == REFUSED else _name(error)
        connection.received += received
        if status := read_status(connection.received):
            self._finish(connection, status)
        elif not received:
            self._finish(connection, fault)

    def _finish(self, connection: _Connection, status: str) -> None:
        """Record the reply, and keep the connection if it can be reused."""
        was_asked = self._waiting.pop(connection.socket.fileno(), None)
        head = connection.received.partition(b"\r\n\r\n")[0].lower()
        is_over = connection.unsent or b"connection: close" in head
        if status.isdecimal() and was_asked and not is_over:
            self._idle.append(connection)
        else:
            self._close(connection)
        if was_asked:
            arrived_s = connection.socket.arrived_at - self._began
            ended_s = arrived_s if status.isdecimal() else self._now()
            late_s = ended_s - connection.planned_s
            lag_s = connection.sent_s - connection.planned_s
            number = connection.number
            self._tell_reply(LoadReply(number, status, ended_s, late_s, lag_s))

    def _tell_reply(self, reply: LoadReply) -> None:
        self.replies.append(reply)
        again_s = self._find_next(reply)
        if again_s is not None:
            heapq.heappush(self._due, again_s)

    def _end_overdue(self) -> None:
        last_s = self._now() - self._manner.patience_s
        while self._waiting:
            oldest = next(iter(self._waiting.values()))
            if oldest.sent_s > last_s:
                return
            # Its answer may have arrived since the last poll.
            self._read_reply(oldest)
            if self._waiting.get(oldest.socket.fileno()) is oldest:
                self._finish(oldest, TIMEOUT)

    def _close(self, connection: _Connection) -> None:
        if connection in self._idle:
            self._idle.remove(connection)
        if self._open.pop(connection.socket.fileno(), None):
            connection.socket.close()


def draw_arrivals(rate: float, seconds: float, seed: int) -> list[float]:
    """Draw the times of a Poisson process up to `seconds`, the same ones for the same seed."""
    rng = random.Random(seed)
    gaps = (rng.expovariate(rate) for _ in count())
    return list(takewhile(lambda time: time < seconds, accumulate(gaps)))


def write_messages(target: Target, limit_ms: int | None) -> list[bytes]:
    """Encode the target's requests as HTTP messages."""
    headers = {
        "Host": urlsplit(target.url).netloc,
        "Content-Type": "application/json",
        **target.headers,
        **({"X-Timeout-Ms": str(limit_ms)} if limit_ms else {}),
    }
    fields = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return [
        f"POST {request.path} HTTP/1.1\r\n{fields}"
        f"Content-Length: {len(request.body)}\r\n\r\n".encode()
        + request.body
        for request in target.requests
    ]


def read_status(received: bytes) -> str:
    """Return the status of a complete answer; empty if the answer is incomplete."""
    head_end = received.find(b"\r\n\r\n")
    if head_end < 0:
        return ""
    if length := _LENGTH.search(received, 0, head_end):
        is_complete = len(received) >= head_end + 4 + int(length[1])
    else:
        is_complete = received.endswith(_LAST_CHUNK)
    return received[9:12].decode("ascii", "replace") if is_complete else ""


def name_address(number: int) -> str:
    """Return one of this machine's loopback addresses; number 0 is 127.0.0.1."""
    return f"127.0.{number // 250}.{number % 250 + 1}"


def _name(error: OSError) -> str:
    if error.errno in (errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL):
        return UNSENT
    return REFUSED if error.errno == errno.ECONNREFUSED else RESET
