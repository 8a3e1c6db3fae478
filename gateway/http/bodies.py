"""Reads bodies from connections: in pieces, within a time limit, or whole and decompressed,
within a size limit and the process's memory budget."""

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
_GZIP_NAMES, PLAIN_NAMES = {"gzip", "x-gzip"}, {"", "identity"}
#: zlib's number for a stream with gzip's header and checksum.
_GZIP_WINDOW = 16 + zlib.MAX_WBITS
_BROKEN = "The body is not what its Content-Encoding says: "
#: Other greenlets may run after this many unpacked bytes.
_UNPACKED_BYTES = 64 << 10
#: The largest and the first read, in bytes.
READ_BYTES, _FIRST_BYTES = 256 << 10, 4 << 10
_STAGE = "the whole body arrived"
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
        """Yield the whole body in pieces. Before each read, call `expect` with the most bytes
        that will have arrived after it, at most twice those so far. Raises the errors of
        `read_chunk`, and ClientGone if the body ends early."""
        found = 0
        silence = Silence(grace_s)
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
    """Return the next piece, empty at the end. Raises DeadlineExceeded, BodyTooSlow, ClientGone
    or MalformedRequest."""
    try:
        # After this kind of error, Gunicorn closes the connection.
        with Timeout(deadline.check(_STAGE), TimeoutError):
            return body.read(size)
    except TimeoutError as error:
        raise DeadlineExceeded(_STAGE) from error
    except TooSlow as error:
        raise BodyTooSlow("The body arrived too slowly.") from error
    except OSError as error:
        raise ClientGone from error
    except ParseException as error:
        raise MalformedRequest("The body's chunked encoding is invalid.") from error


class Bodies:
    """The reader of a gateway process's bodies, with a budget of memory."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        largest = max(settings.max_body_bytes, settings.most_glossary_body_bytes)
        size = max(settings.upload_buffer_bytes, largest)
        #: The bytes that are free for bodies, and those that clients without keys leave free.
        self._free = size
        self._kept = size // 2
        self._most_bytes = {
            "fields": settings.max_body_bytes,
            "glossary": settings.most_glossary_body_bytes,
        }
        self._turn = BoundedSemaphore(1)

    def read_for_route(self, request: GatewayRequest) -> None:
        """Read and unpack fields or a glossary before the route is called, unless the check of
        the key has read them. Without a route, read nothing. Raises the errors of `read`."""
        operation = request.operation
        if operation and (most_bytes := self._most_bytes.get(operation.takes)):
            self.read(request, most_bytes)

    def read_for_key(self, request: GatewayRequest, most_bytes: int) -> None:
        """Read the body of a client that has not sent a key yet: all such clients may use half
        of the budget. Raises the errors of `read`."""
        most_bytes = min(most_bytes, self._settings.max_body_bytes)
        self.read(request, most_bytes, kept=self._kept)

    def read(self, request: GatewayRequest, most_bytes: int, *, kept: int = 0) -> None:
        """Read and unpack a body. Raises the errors of `read_whole`, and Overloaded."""
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
        given = environ["wsgi.input"]
        encoding = environ.get("HTTP_CONTENT_ENCODING")
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
        """Reserve `count` bytes in all for a request's body, and leave `kept` to others. Raises
        Overloaded if they are not free: a request that waited would keep the bytes it has."""
        more = count - request.held
        if more > 0 and more > self._free - kept:
            raise Overloaded("The gateway's memory for request bodies is full.")
        self._free -= more
        request.held = count

    def _parse_beside(self, function: Callable[..., Out], *given: Any) -> Out:
        """Parse a large body in a thread, one at a time, so that the loop shares the processor
        with only one. Raises Overloaded."""
        if not self._turn.acquire(timeout=self._settings.timeout_s):
            raise Overloaded("Too many large bodies are waiting to be parsed.")
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
    """Return the unpacked body, of at most `most_bytes` both packed and unpacked. Call `hold`
    with the number of bytes in memory before it grows. Raises BodyTooLarge,
    UnsupportedEncoding, MalformedRequest, and the errors of `Incoming.read` and `hold`."""
    name = encoding.strip().lower()
    if name not in _GZIP_NAMES | PLAIN_NAMES:
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
    """Yield the pieces of a body. Raises BodyTooLarge after more than `most` bytes."""
    found = 0
    for piece in pieces:
        found += len(piece)
        if found > most:
            raise BodyTooLarge(detail)
        yield piece


def _unpack(packed: deque[bytes], hold: Callable[[int], None]) -> Iterator[bytes]:
    """Unpack a body in small pieces, and drop the packed ones. An empty body stays empty."""
    unpacker = zlib.decompressobj(_GZIP_WINDOW)
    is_empty = not packed
    left = sum(map(len, packed))
    found = 0
    try:
        while packed:
            rest, size = packed.popleft(), 0
            left -= len(rest)
            while rest or size == _UNPACKED_BYTES:
                hold(left + len(rest) + found + _UNPACKED_BYTES)
                piece = unpacker.decompress(rest, _UNPACKED_BYTES)
                rest = unpacker.unconsumed_tail
                size = len(piece)
                found += size
                yield piece
                let_others_run()
            if unpacker.unused_data:
                raise MalformedRequest(_BROKEN + "it continues after the end of gzip.")
    except zlib.error as error:
        raise MalformedRequest(_BROKEN + "this is no gzip.") from error
    if not (unpacker.eof or is_empty):
        raise MalformedRequest(_BROKEN + "it ends in the middle of gzip.")
