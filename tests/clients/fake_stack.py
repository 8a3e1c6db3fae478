"""A stack that puts texts into brackets and documents after a mark, and fails as it is
told: `POST /translate`, `GET /readyz` and everything below `/documents`.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from functools import partial
from typing import Any

from tests.clients.fake_server import LIMIT_S
from tests.closing_server import ClosingServer, QuietHandler

MARK = b"translated: "


@dataclass
class Document:
    """A document that was uploaded, and how often its status was asked for."""

    id: str
    name: str
    content: bytes
    fields: dict[str, str]
    asked: int = 0
    is_deleted: bool = False


@dataclass
class FakeStack:
    """Translates "Yes" to "[Yes]"."""

    translate: Callable[[str], str] = lambda text: f"[{text}]"
    warn: Callable[[str], str | None] = lambda text: None
    #: The statuses of the next requests for translations; None is answered.
    script: list[int | None] = field(default_factory=list)
    #: Instead of translations.
    answer: Any = None
    #: The status of every request with this text.
    poison: dict[str, int] = field(default_factory=dict)
    is_ready: bool = True
    #: The bodies of all requests for translations, without the first, which has no text.
    bodies: list[dict[str, Any]] = field(default_factory=list)
    keys: set[str | None] = field(default_factory=set)
    at_once: int = 0
    most_at_once: int = 0
    #: Requests for translations, and statuses that are not final, wait while it is not set.
    is_open: threading.Event = field(default_factory=threading.Event)
    #: Requests for translations that are answered, whether it is open or not.
    free_requests: int = 0

    documents: list[Document] = field(default_factory=list)
    #: How often a document is under way.
    polls: int = 2
    #: The stack's answer to documents with these names: a status, or why they fail.
    refused: dict[str, int] = field(default_factory=dict)
    failing: dict[str, str] = field(default_factory=dict)
    #: Instead of deleting.
    deleting: int | None = None
    #: The most documents that were under way.
    most_documents: int = 0
    requests: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.arrival = threading.Condition()
        self.is_open.set()
        self._server = _Server(("127.0.0.1", 0), partial(_Handler, self))
        self.is_ending = False

    def __enter__(self) -> FakeStack:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.is_ending = True
        self.is_open.set()
        self._server.stop()

    @property
    def url(self) -> str:
        return self._server.url

    @property
    def texts(self) -> list[str]:
        """Everything that was to be translated."""
        return [text for body in self.bodies for text in body["src_text"]]

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Returns when it is true after a request."""
        with self.arrival:
            assert self.arrival.wait_for(condition, LIMIT_S)

    def list_under_way(self) -> list[Document]:
        return [d for d in self.documents if d.asked <= self.polls and not d.is_deleted]


class _Server(ClosingServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed is no error of ours."""


class _Handler(QuietHandler):
    def __init__(self, fake: FakeStack, *args: Any) -> None:
        self.fake = fake
        with suppress(ConnectionError):
            super().__init__(*args)

    def do_GET(self) -> None:
        if self.path == "/readyz":
            self.answer(200 if self.fake.is_ready else 503, {"detail": "Not ready."})
            return
        with self._count() as document:
            if document is None:
                self.answer(404, {"detail": "There is no such document."})
            elif self.path.endswith("/result"):
                self.reply(200, MARK + document.content)
            else:
                self.answer(200, self._describe(document))

    def do_DELETE(self) -> None:
        with self._count() as document:
            if document is None:
                self.answer(404, {"detail": "There is no such document."})
            elif self.fake.deleting:
                self.answer(self.fake.deleting, {"detail": "It stays."})
            else:
                document.is_deleted = True
                self.reply(204, b"")

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/documents":
            self._upload(content)
        else:
            assert self.path == "/translate"
            self._translate(json.loads(content))

    def answer(self, status: int, content: Any) -> None:
        """JSON; a refusal may be repeated at once."""
        self.reply(status, json.dumps(content).encode(), {"Retry-After": "0"})

    def _translate(self, body: dict[str, Any]) -> None:
        fake, texts = self.fake, body["src_text"]
        if texts == [""]:
            is_known = body["tgt_lang"] != "xx"
            content = {"translated": [""]} if is_known else {"detail": "No xx here."}
            self.answer(200 if is_known else 422, content)
            return
        with fake.arrival:
            fake.bodies.append(body)
            fake.keys.add(self.headers["Authorization"])
            fake.at_once += 1
            fake.most_at_once = max(fake.most_at_once, fake.at_once)
            status = fake.script.pop(0) if fake.script else None
            is_free = len(fake.bodies) <= fake.free_requests
            fake.arrival.notify_all()
        if not is_free:
            assert fake.is_open.wait(LIMIT_S)
        with fake.arrival:
            fake.at_once -= 1
        bad = next((fake.poison[text] for text in texts if text in fake.poison), None)
        if status := status or bad:
            self.answer(status, {"detail": f"src_text[0]: because of {status}"})
            return
        if fake.answer is not None:
            self.answer(200, fake.answer)
            return
        warned = [(n, fake.warn(text)) for n, text in enumerate(texts)]
        warnings = [f"src_text[{n}]: {said}" for n, said in warned if said]
        translated = [fake.translate(text) for text in texts]
        self.answer(200, {"translated": translated, "warnings": warnings})

    def _upload(self, content: bytes) -> None:
        head = f"Content-Type: {self.headers['Content-Type']}\r\n\r\n".encode()
        fields: dict[str, str] = {}
        for part in message_from_bytes(head + content, policy=policy.HTTP).iter_parts():
            name = part.get_param("name", header="content-disposition")
            value = part.get_payload(decode=True)
            assert isinstance(value, bytes)
            if part.get_filename() is None:
                fields[str(name)] = value.decode()
            else:
                file = (str(part.get_filename()), value)
        fake = self.fake
        with fake.arrival:
            fake.requests["POST"] += 1
            if status := fake.refused.get(file[0]):
                self.answer(status, {"detail": f"{file[0]} is refused."})
                return
            document = Document(f"d{len(fake.documents)}", *file, fields)
            fake.documents.append(document)
            fake.most_documents = max(fake.most_documents, len(fake.list_under_way()))
            fake.arrival.notify_all()
        self.answer(202, self._describe(document))

    def _describe(self, document: Document) -> dict[str, Any]:
        fake = self.fake
        document.asked += fake.is_open.is_set()
        status, error = "translating", None
        if document.asked > fake.polls:
            status = "done"
            if detail := fake.failing.get(document.name):
                status, error = "failed", {"detail": detail, "status": 422}
        return {
            "id": document.id,
            "name": document.name,
            "status": status,
            "src_lang": None,
            "tgt_lang": document.fields["tgt_lang"],
            "texts": 10,
            "texts_done": document.asked,
            "error": error,
        }

    @contextmanager
    def _count(self) -> Iterator[Document | None]:
        """The document that the path names, while its request is counted."""
        fake = self.fake
        _, _, name, *rest = self.path.split("/")
        with fake.arrival:
            fake.requests[" ".join([self.command, *rest])] += 1
            found = (d for d in fake.documents if d.id == name and not d.is_deleted)
            yield next(found, None)
            fake.arrival.notify_all()
