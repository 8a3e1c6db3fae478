"""Writes documents to disk while they arrive, and reads the progress and results of their
translations. Nothing here waits for the disk on the loop, or keeps a file in memory."""

import hmac
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from io import FileIO
from pathlib import Path
from typing import ParamSpec, TypeVar

from gevent import Timeout

from contract import durable
from contract.dialects import OURS, find_dialect
from contract.documents import find_documents
from documents.errors import NO_ROOM, UnknownFormat
from documents.storage import (
    NOBODY,
    DocumentFolder,
    DocumentLimits,
    DocumentStorage,
    Gone,
    NoRoom,
    Order,
    Reservation,
    State,
    TooManyWaiting,
    clean_name,
    disguise,
    read_page,
)
from gateway.access import Access
from gateway.errors import (
    BodyTooLarge,
    DeadlineExceeded,
    DiskFull,
    InvalidRequest,
    MalformedRequest,
    NoDocument,
    TooManyDocuments,
    UnsupportedDocument,
    UnsupportedEncoding,
)
from gateway.http.bodies import PLAIN_NAMES, READ_BYTES, Incoming, limit
from gateway.http.request import Call, Fields, GatewayRequest
from gateway.schemas import DocumentRequest
from gateway.settings import Settings
from gateway.threads import call_in_thread
from gateway.uploads.forms import Form, FormPart, Stream

#: The most bytes of a field, parts of a form, and bytes of a form besides its file.
_MOST_FIELD_BYTES, _MOST_FIELDS = 8 << 10, 50
_FORM_BYTES = 256 << 10
#: The longest wait for the disk, in seconds.
_DISK_S = 60.0

Given = ParamSpec("Given")
Out = TypeVar("Out")


def _run(
    function: Callable[Given, Out], *args: Given.args, **kwargs: Given.kwargs
) -> Out:
    """Call a function that uses the disk, in a thread. Raises NoDocument, DiskFull, and
    DeadlineExceeded if the disk hangs; what has begun may still be done."""
    try:
        with Timeout(_DISK_S, DeadlineExceeded("the disk answered")):
            return call_in_thread("disk", function, *args, **kwargs)
    except (Gone, FileNotFoundError) as error:
        raise NoDocument from error
    except OSError as error:
        if error.errno in NO_ROOM:
            raise DiskFull("The server has no room for the document.") from error
        raise


class Documents:
    """The documents of this stack. Safe to share among greenlets."""

    def __init__(self, settings: Settings, access: Access) -> None:
        self._settings, self._access = settings, access
        self._storage = DocumentStorage(find_documents(settings.documents))
        self._limits = DocumentLimits(
            settings.documents_waiting,
            settings.documents_of_one,
            settings.documents_kept_bytes,
            settings.documents_kept_bytes_of_one,
            settings.disk_reserve_bytes,
        )
        self._most_bytes = settings.document_bytes
        self._too_large = f"A document may have at most {self._most_bytes} bytes."

    def receive(
        self, request: GatewayRequest, read: Callable[[Fields], DocumentRequest]
    ) -> DocumentFolder:
        """Store the document in a request's form for translation, and return it. As fields
        before the file may contain the key, the owner is known when `read` gets all fields
        with the name. Raises Problem, also from `read`; after any error, nothing is left."""
        from documents.formats import find_format  # loads the libraries of all formats

        call = request.open_call(limit_s=self._settings.upload_timeout_s)
        # Our own fields may contain a secret, which has no place in a URL.
        fields = {} if find_dialect(request.path) is OURS else request.args.to_dict()
        place, name = None, ""
        with ExitStack() as undo:
            for part in self._read_form(request, call):
                if part.filename is None:
                    fields[part.name] = _read_field(part)
                    continue
                if place:
                    raise _refuse_file("found a second one, expected one file")
                self._access.admit_form(request, fields)
                name = part.filename
                place = self._reserve(request, call.address)
                undo.callback(_run, place.drop)
                self._write_file(part.stream, place.path)
            if place is None:
                self._access.admit_form(request, fields)
                raise _refuse_file("missing, expected the document")
            # DeepL's clients may send the name in a field.
            name = clean_name(fields.get("filename") or name)
            if not name:
                raise _refuse_file("has no name, expected one such as report.docx")
            wanted = read({**fields, "filename": name})
            try:
                find_format(name)
            except UnknownFormat as error:
                raise UnsupportedDocument(str(error)) from error
            order = Order(
                id=place.job.id,
                owner=place.job.owner,
                caller=place.job.caller,
                address=call.address,
                name=name,
                src_lang=wanted.source,
                tgt_lang=wanted.target,
                glossary=wanted.glossary,
                password=secrets.token_hex(32),
                created_at=time.time(),
            )
            accepted = _run(place.accept, order, wanted.webhook)
            undo.pop_all()
            return accepted

    def find(
        self, owner: str, document_id: str, password: str | None = None
    ) -> DocumentFolder:
        """Return a document. Raises NoDocument, also for a wrong owner or `password`."""
        found = _run(self._storage.find, owner, document_id)
        if password is not None:
            expected = found.order.password.encode()
            if not hmac.compare_digest(password.encode(), expected):
                raise NoDocument
        return found

    def list_page(
        self, owner: str, after: str, count: int
    ) -> tuple[list[tuple[DocumentFolder, State]], str | None]:
        return _run(read_page, self._storage, owner, after, count)

    def delete(self, document: DocumentFolder) -> None:
        """Delete a document, even while it is being translated."""
        _run(self._storage.delete, document)

    def _read_form(self, request: GatewayRequest, call: Call) -> Iterator[FormPart]:
        if request.headers.get("Content-Encoding", "").lower() not in PLAIN_NAMES:
            raise UnsupportedEncoding("Expected an uncompressed form.", "identity")
        content_type = request.content_type or ""
        if request.mimetype != "multipart/form-data":
            raise MalformedRequest(
                "Expected multipart/form-data with a file and fields."
            )
        most = self._most_bytes + _FORM_BYTES
        if (request.content_length or 0) > most:
            raise BodyTooLarge(self._too_large)
        incoming = Incoming(request.stream, request.content_length, call.client)
        pieces = incoming.read(call.deadline, self._settings.body_grace_s)
        stream = Stream(limit(pieces, most, self._too_large))
        for number, part in enumerate(Form(stream, content_type)):
            if number >= _MOST_FIELDS:
                raise BodyTooLarge(f"The form has more than {_MOST_FIELDS} parts.")
            yield part

    def _reserve(self, request: GatewayRequest, address: str) -> Reservation:
        owner = request.owner
        caller = disguise(address) if owner == NOBODY else owner
        size = min(request.content_length or self._most_bytes, self._most_bytes)
        try:
            return _run(self._storage.reserve, owner, caller, self._limits, size)
        except TooManyWaiting as error:
            whose = "Your" if error.is_own else "All"
            raise TooManyDocuments(
                f"{whose} documents that wait or are being translated are {error.limit}, which "
                "is the limit.",
                limit=error.limit,
            ) from error
        except NoRoom as error:
            if not error.is_own:
                raise DiskFull("The server has no room for more documents.") from error
            raise BodyTooLarge(
                f"Your documents may take at most {error.limit} bytes together: delete some, "
                "or wait until they are deleted. Unfinished ones count twice."
            ) from error

    def _write_file(self, stream: Stream, path: Path) -> None:
        log = _run(durable.AppendLog, path, mode=0o600)
        try:
            for piece in limit(stream, self._most_bytes, self._too_large):
                _run(log.append, piece)
            _run(log.sync)
        finally:
            _run(log.close)  # which may write what is left


def read_state(document: DocumentFolder) -> State:
    """Read the progress of a document. Raises NoDocument."""
    return _run(document.read_state)


def read_file(path: Path) -> tuple[Iterable[bytes], int]:
    """Return a file's content in pieces, and its size. Raises NoDocument, and like `_run` while
    the pieces are read."""
    return _read_pieces(path), _run(path.stat).st_size


def _read_pieces(path: Path) -> Iterator[bytes]:
    file = _run(FileIO, path)
    try:
        while piece := _run(file.read, READ_BYTES):
            yield piece
    finally:
        _run(file.close)


def _read_field(part: FormPart) -> str:
    too_large = f"{part.name[:40]}: over {_MOST_FIELD_BYTES} bytes."
    try:
        return b"".join(limit(part.stream, _MOST_FIELD_BYTES, too_large)).decode()
    except UnicodeDecodeError as error:
        raise MalformedRequest(f"{part.name[:40]}: not UTF-8.") from error


def _refuse_file(expected: str) -> InvalidRequest:
    return InvalidRequest({"file": expected})
