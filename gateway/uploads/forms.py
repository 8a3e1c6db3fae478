"""Reads a body of unknown type in pieces: peeks at it, and takes it or a form's parts."""

from collections.abc import Iterator
from dataclasses import dataclass

from werkzeug.datastructures import Headers
from werkzeug.exceptions import RequestEntityTooLarge
from werkzeug.http import parse_options_header
from werkzeug.sansio.multipart import (
    Data,
    Epilogue,
    Event,
    Field,
    File,
    MultipartDecoder,
    NeedData,
)

from gateway.errors import BodyTooLarge, MalformedRequest
from gateway.http.bodies import READ_BYTES

#: RFC 2046 allows 70; programs that use random numbers send a few more.
_MOST_BOUNDARY_BYTES = 200
#: Parsing the headers of a part stops the loop, for 0.4 µs per byte.
_MOST_HEAD_BYTES = 8 << 10
#: The longest end of a line with a boundary.
_END_BYTES = len(b"--\r\n")


class Stream:
    """Bytes that can be peeked at and taken. One chunk is in memory."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._chunk = b""
        self._at = 0

    def peek(self, count: int) -> bytes:
        """Return the next `count` bytes without taking them; fewer only at the end."""
        while len(self._chunk) - self._at < count:
            more = next(self._chunks, None)
            if more is None:
                break
            self._chunk = self._chunk[self._at :] + more
            self._at = 0
        return self._chunk[self._at : self._at + count]

    def take(self, most: int) -> bytes:
        """Take at most `most` bytes; empty only at the end."""
        taken = self.peek(1) and self._chunk[self._at : self._at + most]
        self._at += len(taken)
        return taken

    def __iter__(self) -> Iterator[bytes]:
        """Take the rest in pieces."""
        return iter(lambda: self.take(READ_BYTES), b"")

    def take_all(self, count: int) -> bytes:
        """Take the next `count` bytes; fewer only at the end."""
        taken = self.peek(count)
        self._at += len(taken)
        return taken


@dataclass(frozen=True)
class FormPart:
    """A field of a form, or a file if it has a `filename`."""

    name: str
    filename: str | None
    stream: Stream


class _Decoder(MultipartDecoder):
    def _parse_headers(self, data: bytes | bytearray) -> Headers:
        if len(data) > _MOST_HEAD_BYTES:
            raise RequestEntityTooLarge
        return super()._parse_headers(data)


class Form:
    """The parts of a `multipart/form-data` body, one after the other."""

    def __init__(self, stream: Stream, content_type: str) -> None:
        """Raise MalformedRequest if the content type has no boundary for the parts."""
        boundary = parse_options_header(content_type)[1].get("boundary", "")
        if not (0 < len(boundary) <= _MOST_BOUNDARY_BYTES and boundary.isascii()):
            raise MalformedRequest(
                "Content-Type: multipart/form-data needs a boundary of 1 to "
                f"{_MOST_BOUNDARY_BYTES} characters."
            )
        self._stream = stream
        self._marker = b"--" + boundary.encode()
        most = 2 * READ_BYTES
        self._decoder = _Decoder(boundary.encode(), max_form_memory_size=most)

    def __iter__(self) -> Iterator[FormPart]:
        """Yield each part, which must be taken before the next one."""
        while not isinstance(event := self._next_event(), Epilogue):
            if isinstance(event, Field | File):
                filename = event.filename if isinstance(event, File) else None
                stream = Stream(self._read_part())
                yield FormPart(str(event.name or ""), filename, stream)

    def _read_part(self) -> Iterator[bytes]:
        is_open = True
        while is_open and isinstance(event := self._next_event(), Data):
            is_open = event.more_data
            yield event.data

    def _next_event(self) -> Event:
        try:
            while isinstance(event := self._decoder.next_event(), NeedData):
                # None marks the end for the decoder, which raises an error if it needs more.
                self._decoder.receive_data(self._take_chunk() or None)
        except ValueError as error:
            raise MalformedRequest(
                "The form cannot be read: it ends before its last boundary, or the "
                "headers of a part are damaged."
            ) from error
        except RequestEntityTooLarge as error:
            raise BodyTooLarge(
                "The form has too much data before, between or after its files."
            ) from error
        return event

    def _take_chunk(self) -> bytes:
        """Take some bytes that do not end in the middle of a boundary: Werkzeug 3.1 would treat
        the line break before it as part of the file."""
        chunk = self._stream.take(READ_BYTES)
        last = len(self._marker) + _END_BYTES
        seen = bytes(self._decoder.buffer[-last:]) + chunk[-last:]
        is_at_edge = self._marker in seen[-last:]
        return chunk + self._stream.take_all(_END_BYTES) if is_at_edge else chunk
