"""Translates whole documents on the stack, several at a time: uploads each, waits, downloads
the translation and deletes both there.
"""

import os
import shutil
from dataclasses import dataclass, field
from mmap import ACCESS_READ, mmap
from multiprocessing.pool import ThreadPool
from pathlib import Path
from queue import Empty, SimpleQueue
from tempfile import TemporaryFile
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, TypeAdapter, ValidationError
from urllib3.filepost import choose_boundary, encode_multipart_formdata

from clients import bulk
from clients.errors import ServerError
from clients.files import write_whole
from clients.server import ApiClient, ApiRequest, Body
from clients.translations import TranslationOptions, Translator

_PATH = "/documents"
_FIRST_DELAY_S, _LONGEST_DELAY_S = 0.2, 5.0
#: The statuses with which the stack refuses a document.
_REFUSED = frozenset({400, 413, 415, 422})


@dataclass(frozen=True)
class DocumentUpload(bulk.Event):
    """The stack has accepted the document."""

    id: str


@dataclass(frozen=True)
class DocumentEnd(bulk.End):
    """The translation has been written, or has failed."""

    warnings: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        return 1


class _Error(BaseModel):
    detail: str = ""
    title: str = "failed"


class _Status(BaseModel):
    """The stack's status of a document."""

    id: str
    status: Literal["queued", "translating", "done", "failed"]
    texts: int | None = None
    texts_done: int | None = None
    error: _Error | None = None
    warnings: list[str] = []

    @property
    def share(self) -> float:
        return min(1.0, (self.texts_done or 0) / (self.texts or 1))


#: Events, each with the completed share of its document, or an error that ends the run.
_Told = SimpleQueue[tuple[bulk.Event, float] | BaseException]


@dataclass(frozen=True, kw_only=True)
class DocumentJob(bulk.FileJob):
    """A job that translates documents on the stack."""

    server: ApiClient
    wanted: TranslationOptions
    documents_at_once: int = 4
    #: The documents' ids on the stack, from the journal or an upload.
    ids: dict[int, str] = field(default_factory=dict)

    unit: ClassVar[str] = "documents"
    events: ClassVar[TypeAdapter[Any]] = TypeAdapter(DocumentUpload | DocumentEnd)

    def describe(self) -> bulk.Origin:
        return {
            "url": self.server.url,
            "target": self.wanted.target,
            "source": self.wanted.source,
            "glossary": self.wanted.glossary,
        }

    def check(self) -> None:
        Translator(self.server, self.wanted).check()

    def run(self, report: bulk.Report, journal: bulk.Journal) -> None:
        self._remember(journal)
        ends, files = journal.done.ended, self.plan.files
        shares = {n: 1.0 for n in ends if ends[n].error or files[n].exists()}
        sizes = [source.size_bytes for source in self.sources]
        missing = {n for n in range(len(sizes)) if n not in shares}
        told: _Told = SimpleQueue()
        # The pool's threads are daemons: a run that stops does not wait for the stack.
        pool = ThreadPool(self.documents_at_once)
        try:
            for n in sorted(missing):
                pool.apply_async(self._translate, (n, told), error_callback=told.put)
            while missing:
                try:  # another thread may receive Ctrl-C's signal
                    item = told.get(timeout=bulk.LOOK_S)
                except Empty:
                    continue
                if isinstance(item, BaseException):
                    raise item
                event, share = item
                shares[event.source] = share
                if isinstance(event, DocumentEnd):
                    missing.remove(event.source)
                behind = sum(sizes[n] * done for n, done in shares.items())
                report(event, behind / (sum(sizes) or 1))
        finally:
            pool.terminate()  # no thread starts another document
            while not told.empty():
                item = told.get()
                # A later run then need not upload these documents again.
                if isinstance(item, tuple) and isinstance(item[0], DocumentUpload):
                    journal.append(item[0])

    def publish(self, journal: bulk.Journal, end: DocumentEnd) -> bulk.Remarks:
        """Delete the document on the stack: the journal records that its result is here."""
        self._remember(journal)
        files = [] if end.error else [self.plan.files[end.source]]
        name = self.sources[end.source].name
        said = [f"{name}: {warning}" for warning in end.warnings]
        try:
            if end.source in self.ids:
                path = f"{_PATH}/{self.ids[end.source]}"
                self.server.ask(ApiRequest("DELETE", path, most_faults=1))
        except ServerError as error:
            if error.status != 404:
                said.append(f"{name} is still on the stack: {error}")
        return bulk.Remarks((), said, files)

    def _remember(self, journal: bulk.Journal) -> None:
        for event in () if self.ids else journal.read_all():
            if isinstance(event, DocumentUpload):
                self.ids[event.source] = event.id

    def _translate(self, number: int, told: _Told) -> None:
        name = self.sources[number].name
        failure, warnings = None, list[str]()
        try:
            status = self._find_upload(number) or self._upload(number, told)
            status = self._await(number, status, told)
            if status.status == "failed":
                error = status.error or _Error()
                failure = error.detail or error.title
            else:
                warnings = status.warnings
                path = f"{_PATH}/{status.id}/result"
                with write_whole(self.plan.files[number]) as file:
                    self.server.download(ApiRequest("GET", path), file)
        except OSError as error:  # of the source
            failure = error.strerror or str(error)
        except ServerError as error:
            is_lost = error.status == 404 and number in self.ids
            if not is_lost and error.status not in _REFUSED:
                raise
            failure = error.reason
        failure = failure and f"{name}: {failure}"
        told.put((DocumentEnd(number, failure, tuple(warnings)), 1.0))

    def _find_upload(self, number: int) -> _Status | None:
        """Return the status of an earlier run's upload; None if the stack has none."""
        if number not in self.ids:
            return None
        try:
            return self._ask_status(ApiRequest("GET", f"{_PATH}/{self.ids[number]}"))
        except ServerError as error:
            if error.status != 404:
                raise
            return None

    def _upload(self, number: int, told: _Told) -> _Status:
        body, content_type = self._write_form(self.sources[number].path)
        status = self._ask_status(ApiRequest("POST", _PATH, body, content_type))
        self.ids[number] = status.id
        told.put((DocumentUpload(number, status.id), 0.0))
        return status

    def _await(self, number: int, status: _Status, told: _Told) -> _Status:
        """Wait until the document is translated or has failed, and return its status."""
        delay_s = _FIRST_DELAY_S
        while status.status in ("queued", "translating"):
            told.put((bulk.Tick(number), status.share))
            self.server.wait(delay_s)
            delay_s = min(_LONGEST_DELAY_S, 1.5 * delay_s)
            status = self._ask_status(ApiRequest("GET", f"{_PATH}/{status.id}"))
        return status

    def _ask_status(self, request: ApiRequest) -> _Status:
        try:
            return _Status.model_validate(self.server.ask(request))
        except ValidationError as error:
            place = f"{self.server.url}{request.path}"
            raise ServerError(f"{place}: expected a document's status") from error

    def _write_form(self, path: Path) -> tuple[Body, str]:
        """Return a form whose file is read from the disk as it is sent, and its type."""
        options = {
            "tgt_lang": self.wanted.target,
            "src_lang": self.wanted.source,
            "glossary": self.wanted.glossary,
        }
        fields = [(name, value) for name, value in options.items() if value]
        boundary, name = choose_boundary(), path.name.encode(errors="replace").decode()
        form, content_type = encode_multipart_formdata(
            [*fields, ("file", (name, b"", ""))], boundary
        )
        tail = f"\r\n--{boundary}--\r\n".encode()
        return (form.removesuffix(tail), _map_copy(path), tail), content_type


def _map_copy(path: Path) -> memoryview:
    # Another program may shorten the file, and then the system kills readers of its map.
    with path.open("rb") as file, TemporaryFile() as copy:
        shutil.copyfileobj(file, copy)
        size = copy.seek(0, os.SEEK_END)
        # An empty file cannot be mapped.
        return memoryview(mmap(copy.fileno(), 0, access=ACCESS_READ) if size else b"")
