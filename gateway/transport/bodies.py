"""Reads a request's whole body: in time, within its size limit, and decompressed.
Uploads are read piece by piece elsewhere.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator
from typing import Any

from flask import Blueprint, Flask, g, request
from gevent.lock import BoundedSemaphore

from gateway.errors import (
    TOO_LARGE,
    BodyTooLarge,
    MalformedRequest,
    Overloaded,
    UnsupportedEncoding,
)
from gateway.settings import Settings
from gateway.transport.connection import Incoming, WholeBody
from gateway.transport.sending import LeastRate

#: `x-gzip` is the old name.
_GZIP_NAMES, _PLAIN_NAMES = {"gzip", "x-gzip"}, {"", "identity"}
#: zlib's number for gzip's header and checksum around it.
_GZIP_WINDOW = 16 + zlib.MAX_WBITS
#: Large bodies in memory, per gateway process.
_LARGE_AT_ONCE = 4
_BROKEN = "The body is not what its Content-Encoding says: "


class UploadBlueprint(Blueprint):
    """Its routes read their bodies themselves, piece by piece."""


class DocumentBlueprint(UploadBlueprint):
    """Its routes take forms with a document, and look for the key among the fields."""


class LargeBlueprint(Blueprint):
    """Its routes take bodies of up to `most_bytes`, whatever the settings say of others; of
    the larger ones only a few at the same time."""

    def __init__(self, name: str, import_name: str, *, most_bytes: int) -> None:
        super().__init__(name, import_name)
        self.most_bytes = most_bytes


def register_bodies(app: Flask, settings: Settings) -> None:
    """Every other body is read before its route is asked, which finds it unpacked."""

    room = BoundedSemaphore(_LARGE_AT_ONCE)

    @app.before_request
    def read_body() -> None:
        if is_upload(app):
            return
        blueprint = app.blueprints.get(request.blueprint or "")
        most_bytes = settings.max_body_bytes
        if isinstance(blueprint, LargeBlueprint) and _may_exceed(most_bytes):
            if not room.acquire(timeout=settings.timeout_s):
                raise Overloaded("Too many large bodies are being read.")
            g.large_body = room
            most_bytes = blueprint.most_bytes
        _replace(request.environ, settings, most_bytes)

    @app.teardown_request
    def make_room(_: BaseException | None) -> None:
        if g.pop("large_body", None):
            room.release()


def is_upload(app: Flask) -> bool:
    """Whether the route of the current request reads its body itself."""
    return isinstance(app.blueprints.get(request.blueprint or ""), UploadBlueprint)


def takes_document(app: Flask) -> bool:
    """Whether the route of the current request looks for a key in its form."""
    return isinstance(app.blueprints.get(request.blueprint or ""), DocumentBlueprint)


def _may_exceed(size: int) -> bool:
    """Whether the current request's body may have more bytes."""
    if request.content_length is None:
        return "HTTP_TRANSFER_ENCODING" in request.environ
    is_packed = request.headers.get("Content-Encoding", "") != ""
    return is_packed or request.content_length > size


def _replace(environ: dict[str, Any], settings: Settings, most_bytes: int) -> None:
    """Puts the whole body, unpacked, where the one still to come was."""
    length = environ.get("CONTENT_LENGTH") or ""
    incoming = Incoming(
        environ["wsgi.input"],
        int(length) if length.isdecimal() else None,
        environ.get("gunicorn.socket"),
    )
    body = read_whole(
        incoming,
        environ.get("HTTP_CONTENT_ENCODING", ""),
        most_bytes,
        deadline=time.monotonic() + settings.timeout_s,
        rate=LeastRate(settings.body_bytes_per_s, settings.body_grace_s),
    )
    environ["wsgi.input"] = WholeBody(body)
    environ["CONTENT_LENGTH"] = str(len(body))
    environ.pop("HTTP_TRANSFER_ENCODING", None)


def read_whole(
    incoming: Incoming,
    encoding: str,
    most_bytes: int,
    *,
    deadline: float,
    rate: LeastRate,
) -> bytes:
    """The unpacked body, of at most `most_bytes` both packed and unpacked. Raises
    BodyTooLarge, UnsupportedEncoding, MalformedRequest, and what `Incoming.read` raises.
    """
    name = encoding.strip().lower()
    if name not in _GZIP_NAMES | _PLAIN_NAMES:
        raise UnsupportedEncoding("Expected a body as it is, or with gzip.", "gzip")
    if (incoming.length or 0) > most_bytes:
        raise BodyTooLarge(TOO_LARGE)
    pieces = _limit(incoming.read(deadline, rate), most_bytes)
    if name in _GZIP_NAMES:
        pieces = _limit(_unpack(pieces, most_bytes), most_bytes)
    return b"".join(pieces)


def _limit(pieces: Iterator[bytes], most: int) -> Iterator[bytes]:
    found = 0
    for piece in pieces:
        found += len(piece)
        if found > most:
            raise BodyTooLarge(TOO_LARGE)
        yield piece


def _unpack(pieces: Iterator[bytes], most: int) -> Iterator[bytes]:
    """Unpacks at most `most` + 1 bytes of each piece, however much is in it. An empty body
    stays empty."""
    unpacker, is_empty = zlib.decompressobj(_GZIP_WINDOW), True
    try:
        for piece in pieces:
            is_empty = False
            yield unpacker.decompress(piece, most + 1)
            if unpacker.unused_data:
                raise MalformedRequest(_BROKEN + "it goes on after the end of gzip.")
    except zlib.error as error:
        raise MalformedRequest(_BROKEN + "this is no gzip.") from error
    if not (unpacker.eof or is_empty):
        raise MalformedRequest(_BROKEN + "gzip ends too early.")
