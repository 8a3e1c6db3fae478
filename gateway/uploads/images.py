"""Cuts an upload into rows while it arrives: an image file becomes one row, an array several
small ones. Sends several rows to the backend at a time and returns the answers in order.
A whole upload is never in memory; all uploads of a process share a buffer."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import gevent
from gevent import Greenlet
from gevent.event import Event
from gevent.pool import Pool
from werkzeug.http import parse_options_header

from catalog import Catalog
from contract import npy
from gateway.admission.control import Admission, Ticket
from gateway.backends.backend import RowRequest
from gateway.errors import (
    BodyTooLarge,
    ClientGone,
    DeadlineExceeded,
    InvalidImage,
    InvalidRequest,
    Problem,
    TaskNotServed,
    UnsupportedEncoding,
    UnsupportedImage,
)
from gateway.http.bodies import PLAIN_NAMES, Incoming, limit
from gateway.http.request import Call, GatewayRequest
from gateway.metrics import Telemetry
from gateway.schemas import Schema, validate
from gateway.settings import AHEAD_BYTES, ROW_BYTES, Settings
from gateway.uploads.forms import Form, Stream

#: An array is cut into rows of at most this many frames, and at most `ROW_BYTES`.
ROW_FRAMES = 32

_EXPECTED = (
    "a JPEG, PNG or WebP file, a .npy array, or multipart/form-data with such files"
)
_NO_FILE = "found a field that is no file, expected files; options go into the URL"
#: The first bytes that identify a file; WebP's include its length.
_HEAD_BYTES = 12
_CONTENT_TYPES = {
    rb"\xff\xd8\xff": "image/jpeg",
    rb"\x89PNG\r\n\x1a\n": "image/png",
    rb"RIFF.{4}WEBP": "image/webp",
}
#: Rows of one upload that are at the backend at the same time: enough to keep a worker busy,
#: few enough to leave capacity to other clients.
ROWS_AT_ONCE = 4
#: Work is counted in frames. The work of an unread row is unknown.
_ROW_COST = 1.0


@dataclass(frozen=True)
class FrameAnswer:
    """The backend's answer to some frames."""

    frames: int
    content: dict[str, Any]


class ImageService:
    """The service that answers uploads for all image tasks. Safe to share among greenlets."""

    def __init__(
        self,
        catalog: Catalog,
        admission: Admission,
        telemetry: Telemetry,
        settings: Settings,
    ) -> None:
        self.catalog, self.admission, self.telemetry = catalog, admission, telemetry
        self.settings = settings
        self.buffer = Buffer(settings.upload_buffer_bytes, settings.upload_bytes)

    def answer(self, request: GatewayRequest) -> list[FrameAnswer]:
        """Return one answer per row of a request, whose route's `Operation` names the task and
        the URL's parameters for the handler. Raises the Problem of the first row that has one,
        also of a second image if only one is allowed, and Overloaded at once if not even the
        first row could be answered in time."""
        task = request.operation.task
        parameters = request.operation.query or Schema
        if request.headers.get("Content-Encoding", "").lower() not in PLAIN_NAMES:
            raise UnsupportedEncoding("Expected images as they are.", "identity")
        if task not in self.catalog.tasks:
            raise TaskNotServed(task)
        model = self.catalog.tasks[task]
        call = request.open_call(limit_s=self.settings.upload_timeout_s)
        given = {name: str(value) for name, value in validate(parameters, request.args)}
        most, length = self.settings.max_upload_bytes, request.content_length
        if length is not None and length > most:
            raise BodyTooLarge(f"The body has more than {most} bytes, the most it may.")
        is_bulk = length is None or length > ROW_BYTES
        costs = [_ROW_COST]
        ticket = self.admission.admit(model.name, call, costs, is_bulk=is_bulk)
        share = UploadShare(self.buffer, call.deadline)
        with closing(ticket), closing(share):
            answers = _Job(request, call, given, ticket, self.settings, share).run()
        frames = sum(answer.frames for answer in answers)
        self.telemetry.count(self.telemetry.frames, task, amount=frames)
        for answer in answers:
            call.timing.name_model(model.weights, answer.content.pop("model", ""))
        return answers


@dataclass
class _Job:
    """One upload. A failed row ends it, even while it is still being read."""

    request: GatewayRequest
    call: Call
    parameters: Mapping[str, str]
    ticket: Ticket
    limits: Settings
    share: UploadShare
    #: Bytes that were read but do not belong to a row yet.
    ahead: int = 0
    failure: Exception | None = None
    #: The greenlet that is waiting for the client, if it is.
    reader: Any = None
    pool: Pool = field(default_factory=lambda: Pool(ROWS_AT_ONCE))

    def run(self) -> list[FrameAnswer]:
        """Read and send all rows, and return their answers."""
        sent: list[Greenlet[[Cut], FrameAnswer | None]] = []
        rows = cut(
            self._read_chunks(),
            self.request.content_type or "",
            self.limits,
            is_single=self.request.operation.takes == "image",
            grow=self.share.grow,
        )
        try:
            for row in rows:
                held = self.share.send(self.ahead)
                sent.append(self.pool.spawn(self._send, row))
                # A link also runs for a greenlet that is killed before it starts.
                sent[-1].rawlink(lambda _, held=held: self.share.release(held))
                del row  # frees its bytes while the next one is read
            for _ in gevent.iwait(sent):
                self._raise_failure()
            return [one.get() for one in sent]
        finally:
            self.pool.kill(block=False)

    def _read_chunks(self) -> Iterator[bytes]:
        request, call = self.request, self.call
        incoming = Incoming(request.stream, request.content_length, call.client)
        chunks = incoming.read(call.deadline, self.limits.body_grace_s, self._expect)
        while True:
            self._raise_failure()
            self.reader = gevent.getcurrent()
            try:
                chunk = next(chunks, b"")
            except (ClientGone, InterruptedError):
                self._raise_failure()  # `_interrupt` raised the error
                raise
            finally:
                self.reader = None
            if not chunk:
                return
            yield chunk

    def _expect(self, count: int) -> None:
        """Reserve the bytes that have arrived and those of the next piece. An idle upload
        reserves almost nothing."""
        more = min(count, AHEAD_BYTES) - self.ahead
        if more > 0:
            self.share.grow(more)
            self.ahead += more

    def _interrupt(self) -> None:
        """Stop waiting for a client that may itself be waiting for the answer."""
        if self.reader:
            self.reader.throw(InterruptedError)

    def _raise_failure(self) -> None:
        if self.failure:
            raise self.failure

    def _send(self, row: Cut) -> FrameAnswer | None:
        try:
            sent = RowRequest(
                row.body, row.content_type, self.parameters, trace=self.call.trace
            )
            return FrameAnswer(row.frames, self.ticket.predict(sent, row.frames))
        except Exception as error:  # a greenlet's edge: `run` raises it
            if isinstance(error, Problem) and row.place:
                error.detail = f"{row.place}: {error.detail}"
            self.failure = self.failure or error
            gevent.get_hub().loop.run_callback(self._interrupt)
            return None


class Buffer:
    """A number of bytes that uploads share. To prevent a deadlock among waiting uploads, the
    bytes of one largest row are reserved for the upload whose row was begun first. Bytes at the
    backend are released in any case."""

    def __init__(self, size: int, largest: int) -> None:
        self.largest = largest
        #: Free bytes, and those of rows at the backend.
        self.free, self.sent = size, 0
        #: The uploads that have begun a row, oldest row first.
        self.begun: dict[UploadShare, None] = {}
        self.waiting: list[UploadShare] = []

    def admit(self) -> None:
        """Admit waiting uploads in order of arrival; only the oldest row may overtake."""
        is_waiting = False
        for share in tuple(self.waiting):
            oldest = next(iter(self.begun), self.waiting[0])
            is_first = share is oldest or not is_waiting
            kept = 0 if share is oldest else self.largest - oldest.held
            room = min(self.free, self.free + self.sent - kept)
            if is_first and share.wanted <= room:
                self.waiting.remove(share)
                self.free -= share.wanted
                share.held += share.wanted
                self.begun.setdefault(share)
                share.admitted.set()
            else:
                is_waiting = True


@dataclass(eq=False)
class UploadShare:
    """The bytes that one upload has reserved, without those of rows at the backend."""

    buffer: Buffer
    deadline: float
    held: int = 0
    #: The bytes that it waits for, and the event that grants them.
    wanted: int = 0
    admitted: Event = field(default_factory=Event)

    def close(self) -> None:
        """Return the bytes."""
        self.buffer.begun.pop(self, None)
        self.buffer.free += self.held
        self.buffer.admit()

    def grow(self, count: int) -> None:
        """Reserve bytes before a read or copy. Raises DeadlineExceeded at the deadline."""
        self.wanted, buffer = count, self.buffer
        self.admitted.clear()
        buffer.waiting.append(self)
        buffer.admit()
        try:
            if not self.admitted.wait(max(0.0, self.deadline - time.monotonic())):
                raise DeadlineExceeded("there was room to read the upload")
        finally:
            if not self.admitted.is_set():
                buffer.waiting.remove(self)
                buffer.admit()

    def send(self, kept: int) -> int:
        """Mark all reserved bytes except `kept` as a row at the backend. Return their number;
        they stay reserved until `release`."""
        count = max(self.held - kept, 0)
        buffer = self.buffer
        self.held -= count
        buffer.sent += count
        # Its reserved bytes must not be missing if another row becomes the oldest.
        if buffer.free + buffer.sent >= buffer.largest:
            buffer.begun.pop(self, None)
        buffer.admit()
        return count

    def release(self, count: int) -> None:
        """Release the bytes of a sent row."""
        self.buffer.sent -= count
        self.buffer.free += count
        self.buffer.admit()


@dataclass(frozen=True)
class Cut:
    """A row, and its place in the upload. `place` is empty if the row is the whole upload."""

    body: bytes
    content_type: str
    frames: int = 1
    place: str = ""


Grow = Callable[[int], None]


def cut(
    chunks: Iterator[bytes],
    content_type: str,
    limits: Settings,
    *,
    is_single: bool = False,
    grow: Grow = lambda _: None,
) -> Iterator[Cut]:
    """Cut an upload into rows. The first bytes of `chunks` identify its type; if they are not
    an image's, `content_type` may name a form. With `is_single`, a second image is refused.
    `grow` gets the number of bytes to be added to a row, and may wait until they are free.

    Raises UnsupportedImage, InvalidImage, InvalidRequest, MalformedRequest or BodyTooLarge."""
    cutter = _Cutter(limits, grow)
    most = limits.max_upload_bytes
    detail = f"The body has more than {most} bytes, the most it may."
    stream = Stream(limit(chunks, most, detail))
    is_form = parse_options_header(content_type)[0].lower() == "multipart/form-data"
    head = stream.peek(_HEAD_BYTES)
    is_known = head.startswith(npy.MAGIC) or _find_content_type(head)
    if is_form and not is_known:
        rows = cutter.cut_parts(Form(stream, content_type))
    else:
        rows = cutter.cut_file(stream)
    frames = 0
    for row in rows:
        frames += row.frames
        if is_single and frames > 1:
            raise InvalidImage("Expected exactly one image or frame, found more.")
        yield row
        del row  # frees its bytes while the next one is read
    if not frames:
        raise InvalidImage(f"The form contains no file, expected {_EXPECTED}.")


def _find_content_type(head: bytes) -> str | None:
    for magic, content_type in _CONTENT_TYPES.items():
        if re.match(magic, head, re.DOTALL):
            return content_type
    return None


@dataclass(frozen=True)
class _Cutter:
    limits: Settings
    grow: Grow

    def cut_parts(self, form: Form) -> Iterator[Cut]:
        """Yield the rows of all files. A problem names its file. Raises InvalidRequest if there
        is also a field."""
        for index, part in enumerate(form):
            if part.filename is None:
                raise InvalidRequest({(part.name or "body")[:40]: _NO_FILE})
            where = f"image {index}"
            try:
                for row in self.cut_file(part.stream):
                    place = f"{where}, {row.place}" if row.place else where
                    yield replace(row, place=place)
                    del row  # frees its bytes while the next one is read
            except (BodyTooLarge, InvalidImage, UnsupportedImage) as problem:
                problem.detail = f"{where}: {problem.detail}"
                raise

    def cut_file(self, stream: Stream) -> Iterator[Cut]:
        """Yield the rows of one file, up to the end of `stream`."""
        head = stream.peek(_HEAD_BYTES)
        if head.startswith(npy.MAGIC):
            yield from self._cut_array(stream)
        elif content_type := _find_content_type(head):
            yield Cut(self._take_image(stream), content_type)
        elif head:
            raise UnsupportedImage(f"Expected {_EXPECTED}; this is none of them.")
        else:
            raise InvalidImage(f"Nothing was sent, expected {_EXPECTED}.")

    def _take_image(self, stream: Stream) -> bytes:
        most, body = self.limits.max_image_bytes, io.BytesIO()
        if self._copy(stream, body, most) == most and stream.peek(1):
            detail = f"The image has more than {most} bytes, the most it may."
            raise BodyTooLarge(detail)
        return body.getvalue()

    def _cut_array(self, stream: Stream) -> Iterator[Cut]:
        shape = _read_shape(stream)
        count = shape[0] if len(shape) == 4 else 1
        frame = shape[-3:]
        size = prod(frame)
        # Checked before any frame is read.
        if size > (most := self.limits.max_image_bytes):
            raise BodyTooLarge(f"A frame has {size} bytes, expected at most {most}.")
        if (whole := count * size) > (most := self.limits.max_upload_bytes):
            raise BodyTooLarge(f"The array has {whole} bytes, expected at most {most}.")
        at_once = max(1, min(ROW_FRAMES, ROW_BYTES // size))
        for first in range(0, count, at_once):
            frames = min(at_once, count - first)
            body = io.BytesIO()
            body.write(npy.write_header((frames, *frame)[-len(shape) :]))
            found = self._copy(stream, body, frames * size)
            if found < frames * size:
                raise InvalidImage(
                    f"The array is cut off: expected {whole} bytes for its shape "
                    f"{shape}, found {first * size + found}."
                )
            last = first + frames - 1
            place = f"frame {first}" if frames == 1 else f"frames {first}-{last}"
            place = place if count > 1 else ""
            yield Cut(body.getvalue(), "application/octet-stream", frames, place)
        if stream.peek(1):
            raise InvalidImage(
                f"The array continues after its end: expected {whole} bytes for its shape "
                f"{shape}, found more."
            )

    def _copy(self, stream: Stream, body: io.BytesIO, count: int) -> int:
        """Copy at most `count` bytes, and return their number."""
        found = 0
        while found < count and (taken := stream.take(count - found)):
            self.grow(len(taken))
            found += body.write(taken)
        return found


def _read_shape(stream: Stream) -> tuple[int, ...]:
    """Take the header of an array from `stream`, and return its shape."""
    try:
        size = npy.measure(stream.peek(npy.START_BYTES))
        return npy.read_shape(stream.take_all(size))
    except npy.HeaderError as error:
        text = str(error)
        raise InvalidImage(f"{text[0].upper()}{text[1:]}.") from error
