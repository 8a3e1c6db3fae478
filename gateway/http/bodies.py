"""Reads bodies from their connections in pieces and in time, and whole ones within their size
limit and the process's budget, and decompressed.
"""

import socket
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import IO, Any, TypeVar

from gevent import Timeout
from gevent.lock import BoundedSemaphore
from gunicorn.http.errors import ParseException  # type: ignore[import-untyped]

from gateway.errors import (
    TOO_LARGE,
    BodyTooLarge,
    BodyTooSlow,
    ClientGone,
    DeadlineExceeded,
    MalformedRequest,
    Overloaded,
    UnsupportedEncoding,
)
from gateway.http.connection import Connection, Silence, TooSlow
from gateway.http.message import WholeBody
from gateway.http.request import Deadline, GatewayRequest
from gateway.settings import Settings
from gateway.threads import let_others_run, run_beside

#: `x-gzip` is the old name.
_GZIP_NAMES, _PLAIN_NAMES = {"gzip", "x-gzip"}, {"", "identity"}
#: zlib's number for gzip's header and checksum around it.
_GZIP_WINDOW = 16 + zlib.MAX_WBITS
_BROKEN = "The body is not what its Content-Encoding says: "
#: Others have a turn after this many unpacked bytes.
_UNPACKED_BYTES = 64 << 10
#: The largest and the first read, in bytes.
READ_BYTES, _FIRST_BYTES = 256 << 10, 4 << 10
_STAGE = "the whole body was there"
#: Parsing a body of this size may take milliseconds.
_LARGE_BYTES = 32 << 10

Out = TypeVar("Out")


@dataclass(frozen=True)
class Incoming:
    """A body that is still arriving. A chunked body has no `length`."""

    body: IO[bytes]
    length: int | None = None
    #: The connection, if there is one.
    client: socket.socket | None = None

    def read(
        self,
        deadline: Deadline,
        grace_s: float,
        expect: Callable[[int], None] = lambda _: None,
    ) -> Iterator[bytes]:
        """The whole body, in pieces. Before each read, `expect` is told how many bytes have
        come and may come with it, which is at most twice what has come. Raises what
        `read_chunk` raises, and ClientGone if the body ends early.
        """
        found, silence = 0, Silence(grace_s)
        client = self.client if isinstance(self.client, Connection) else None
        while self.length is None or found < self.length:
            size = min(READ_BYTES, max(_FIRST_BYTES, found))
            expect(found + size)
            with client.bear(silence, size) if client else nullcontext():
                chunk = read_chunk(self.body, deadline, size)
            if not chunk:
                if self.length is None:
                    return
                raise ClientGone
            found += len(chunk)
            yield chunk


def read_chunk(body: IO[bytes], deadline: Deadline, size: int = READ_BYTES) -> bytes:
    """The next piece, empty at the end.

    Raises DeadlineExceeded, BodyTooSlow, ClientGone or MalformedRequest.
    """
    try:
        # This kind of error tells Gunicorn to close the connection.
        with Timeout(deadline.check(_STAGE), TimeoutError):
            return body.read(size)
    except TimeoutError as error:
        raise DeadlineExceeded(_STAGE) from error
    except TooSlow as error:
        raise BodyTooSlow("The body came too slowly.") from error
    except OSError as error:
        raise ClientGone from error
    except ParseException as error:
        raise MalformedRequest("The body's chunks cannot be read.") from error


class Bodies:
    """Reads the bodies of a gateway process."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        largest = max(settings.max_body_bytes, settings.most_glossary_body_bytes)
        size = max(settings.upload_buffer_bytes, largest)
        #: The bytes that bodies may still take, and those that clients without keys leave.
        self._free, self._kept = size, size // 2
        self._most_bytes = {
            "fields": settings.max_body_bytes,
            "glossary": settings.most_glossary_body_bytes,
        }
        self._turn = BoundedSemaphore(1)

    def read_for_route(self, request: GatewayRequest) -> None:
        """Reads every body that no key was looked for in before its route is asked, which finds
        it unpacked. Where no route is, nothing is read. Raises what `read` raises."""
        operation = request.operation
        if operation and (most_bytes := self._most_bytes.get(operation.takes)):
            self.read(request, most_bytes)

    def read_for_key(self, request: GatewayRequest, most_bytes: int) -> None:
        """Reads the body of a client that has shown no key yet: all such clients may hold half
        of the budget. Raises what `read` raises."""
        most_bytes = min(most_bytes, self._settings.max_body_bytes)
        self.read(request, most_bytes, kept=self._kept)

    def read(self, request: GatewayRequest, most_bytes: int, *, kept: int = 0) -> None:
        """Reads a request's whole body, unpacked. Raises what `read_whole` raises, and
        Overloaded."""
        if request.is_read:
            return
        environ = request.environ
        length = environ.get("CONTENT_LENGTH") or ""
        if length not in ("", "0") or "HTTP_TRANSFER_ENCODING" in environ:
            request.release = self._hold
            request.body = self._read_body(request, length, most_bytes, kept)
        if len(request.body) > _LARGE_BYTES:
            request.parse_beside = self._parse_beside
        request.is_read = True

    def _read_body(
        self, request: GatewayRequest, length: str, most_bytes: int, kept: int
    ) -> bytes:
        environ = request.environ
        given, encoding = environ["wsgi.input"], environ.get("HTTP_CONTENT_ENCODING")
        if isinstance(given, WholeBody) and not encoding:
            (body,) = limit([given.getvalue()], most_bytes)
            self._hold(request, len(body), kept=kept)
            return body
        whole = int(length) if length.isdecimal() else None
        return read_whole(
            Incoming(given, whole, environ.get("gunicorn.socket")),
            encoding or "",
            most_bytes,
            deadline=Deadline(time.monotonic() + self._settings.timeout_s),
            grace_s=self._settings.body_grace_s,
            hold=partial(self._hold, request, kept=kept),
        )

    def _hold(self, request: GatewayRequest, count: int, *, kept: int = 0) -> None:
        """Holds `count` bytes of a request's body from now on, and leaves `kept` to others.
        Raises Overloaded where there is no room: a request that waited for some would hold
        what has come of its body already."""
        more = count - request.held
        if more > 0 and more > self._free - kept:
            raise Overloaded("The gateway holds as many bytes of bodies as it may.")
        self._free -= more
        request.held = count

    def _parse_beside(self, function: Callable[..., Out], *given: Any) -> Out:
        """Parses a large body in a thread, one at a time: the loop has to share the processor
        with a single one. Raises Overloaded."""
        if not self._turn.acquire(timeout=self._settings.timeout_s):
            raise Overloaded("Too many large bodies wait to be parsed.")
        try:
            return run_beside(function, *given)
        finally:
            self._turn.release()


def read_whole(
    incoming: Incoming,
    encoding: str,
    most_bytes: int,
    *,
    deadline: Deadline,
    grace_s: float,
    hold: Callable[[int], None] = lambda _: None,
) -> bytes:
    """The unpacked body, of at most `most_bytes` both packed and unpacked. `hold` is told
    how many bytes are in memory, before there are more. Raises BodyTooLarge,
    UnsupportedEncoding, MalformedRequest, and what `Incoming.read` and `hold` raise.
    """
    name = encoding.strip().lower()
    if name not in _GZIP_NAMES | _PLAIN_NAMES:
        raise UnsupportedEncoding("Expected a body as it is, or with gzip.", "gzip")
    if (incoming.length or 0) > most_bytes:
        raise BodyTooLarge(TOO_LARGE)
    pieces = deque(limit(incoming.read(deadline, grace_s, hold), most_bytes))
    if name in _GZIP_NAMES:
        pieces = deque(limit(_unpack(pieces, hold), most_bytes))
    body = b"".join(pieces)
    hold(len(body))
    return body


def limit(
    pieces: Iterable[bytes], most: int, detail: str = TOO_LARGE
) -> Iterator[bytes]:
    """The pieces of a body. Raises BodyTooLarge once they have more than `most` bytes."""
    found = 0
    for piece in pieces:
        found += len(piece)
        if found > most:
            raise BodyTooLarge(detail)
        yield piece


def _unpack(packed: deque[bytes], hold: Callable[[int], None]) -> Iterator[bytes]:
    """Unpacks a whole body a little at a time, and forgets what it has unpacked. An empty
    body stays empty."""
    unpacker, is_empty = zlib.decompressobj(_GZIP_WINDOW), not packed
    left, found = sum(map(len, packed)), 0
    try:
        while packed:
            rest, size = packed.popleft(), 0
            left -= len(rest)
            while rest or size == _UNPACKED_BYTES:
                hold(left + len(rest) + found + _UNPACKED_BYTES)
                piece = unpacker.decompress(rest, _UNPACKED_BYTES)
                rest, size = unpacker.unconsumed_tail, len(piece)
                found += size
                yield piece
                let_others_run()
            if unpacker.unused_data:
                raise MalformedRequest(_BROKEN + "it goes on after the end of gzip.")
    except zlib.error as error:
        raise MalformedRequest(_BROKEN + "this is no gzip.") from error
    if not (unpacker.eof or is_empty):
        raise MalformedRequest(_BROKEN + "gzip ends too early.")
