"""A scripted fake of our API: it brackets texts, marks documents, and reads drawn numbers."""

from __future__ import annotations

import json
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from typing import Any

import numpy as np

from contract.dialects import EVENT_STREAM
from contract.problems import write_problem
from tests.clients.drawing import read_number
from tests.scripted_server import (
    FAULTS,
    LIMIT_S,
    ScriptedHandler,
    ScriptedServer,
    read_frames,
)

MARK = b"translated: "
TASKS = [
    {"task": "translation", "route": "POST /translate", "ready": True},
    {
        "task": "captioning",
        "route": "POST /caption",
        "ready": True,
        "input": {"height": 32, "width": 64},
    },
]


@dataclass
class Document:
    """An uploaded document, and the number of requests for its status."""

    id: str
    name: str
    content: bytes
    fields: dict[str, str]
    asked: int = 0
    is_deleted: bool = False


@dataclass(frozen=True)
class Failure:
    """An answer other than 200."""

    status: int
    slug: str = "any"
    detail: str = "Any."
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ApiCall:
    """A request with texts, or with an array to be captioned."""

    path: str
    body: Any
    headers: Mapping[str, str]


@dataclass
class FakeApi(ScriptedServer):
    """A server that translates "Yes" to "[Yes]". Behaviours apply to texts and captions."""

    translate: Callable[[str], str] = lambda text: f"[{text}]"
    warn: Callable[[str], str | None] = lambda text: None
    caption: Callable[[Any], str] = lambda pixels: f"number {read_number(pixels)}"
    #: The content of the answer, instead of translations.
    answer: Any = None
    #: The chunks of the next event streams. The last chunk of a complete one is empty.
    streams: deque[list[bytes]] = field(default_factory=deque)
    #: The failures that answer the next requests with texts.
    failures: deque[Failure] = field(default_factory=deque)
    #: Called with the texts of every other request, which it may refuse.
    judge: Callable[[list[str]], Failure | None] = lambda texts: None
    #: Called before each answer to texts.
    pause: Callable[[], None] = lambda: None
    #: Encodes the content of an answer to texts.
    encode: Callable[[Any], bytes] = lambda content: json.dumps(content).encode()
    is_ready: bool = True
    tasks: Any = field(default_factory=lambda: TASKS)
    tasks_status: int = 200
    #: Every request with texts or an array, except checks of a language (an empty text).
    asked: list[ApiCall] = field(default_factory=list)
    #: While it is not set, requests wait and documents make no progress.
    is_open: threading.Event = field(default_factory=threading.Event)
    #: The number of first requests that are answered even while `is_open` is not set.
    free_requests: int = 0

    documents: list[Document] = field(default_factory=list)
    #: The warnings of documents, by name.
    warnings: dict[str, list[str]] = field(default_factory=dict)
    #: The number of statuses before a document is done.
    polls: int = 2
    #: By a document's name: the status that refuses its upload, and the detail of its failure.
    refused: dict[str, int] = field(default_factory=dict)
    failing: dict[str, str] = field(default_factory=dict)
    #: The status that refuses deletions, if any.
    deleting: int | None = None
    #: The most documents under way at once.
    most_documents: int = 0
    requests: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.is_open.set()

    def stop(self) -> None:
        self.is_open.set()
        super().stop()

    @property
    def address(self) -> str:
        return self.url.removeprefix("http://")

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """The bodies of requests for translations."""
        return [call.body for call in self.asked if call.path == "/translate"]

    @property
    def arrays(self) -> list[Any]:
        return [call.body for call in self.asked if call.path == "/caption"]

    @property
    def texts(self) -> list[str]:
        """All texts sent for translation."""
        return [text for body in self.bodies for text in body["src_text"]]

    @property
    def keys(self) -> list[str | None]:
        """The `Authorization` header of each request."""
        return [call.headers.get("Authorization") for call in self.asked]

    def list_under_way(self) -> list[Document]:
        return [d for d in self.documents if d.asked <= self.polls and not d.is_deleted]


class _Handler(ScriptedHandler):
    fake: FakeApi

    def do_GET(self) -> None:
        if self.path == "/readyz":
            self.answer(200 if self.fake.is_ready else 503, {"detail": "Not ready."})
            return
        if self.path == "/tasks":
            self.answer(self.fake.tasks_status, self.fake.tasks)
            return
        with self._count() as document:
            if document is None:
                self.answer(404, {"detail": "There is no such document."})
            elif self.command == "DELETE" and self.fake.deleting:
                self.answer(self.fake.deleting, {"detail": "It stays."})
            elif self.command == "DELETE":
                document.is_deleted = True
                self.reply(204, b"")
            elif self.path.endswith("/result"):
                self.reply(200, MARK + document.content)
            else:
                self.answer(200, self._describe(document))

    do_DELETE = do_GET

    def do_POST(self) -> None:
        content = self.read_body()
        match self.path:
            case "/documents":
                self._upload(content)
            case "/caption":
                self._do(read_frames(content))
            case _:
                self._take_texts(json.loads(content))

    def _do(self, body: Any) -> None:
        """Answer a request by the script, once the fake is open."""
        fake = self.fake
        call = ApiCall(self.path, body, dict(self.headers.items()))
        with fake.arrival:
            behave = fake.take(call, fake.asked)
            is_free = len(fake.asked) <= fake.free_requests
        try:
            assert is_free or fake.is_open.wait(LIMIT_S)
            behave(self, call)
        finally:
            fake.leave()

    def answer(self, status: int, content: Any, retry_after: str = "0") -> None:
        """Reply in JSON. A refusal may be repeated at once; without `retry_after`, at will."""
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.reply(status, body, {"Retry-After": retry_after} if retry_after else {})

    def _take_texts(self, body: dict[str, Any]) -> None:
        if body["src_text"] == [""]:
            is_known = (target := body["tgt_lang"]) not in ("xx", "x/y")
            said = {"detail": f"No {target} here."}
            content = {"translated": [""]} if is_known else said
            self.answer(200 if is_known else 422, content)
        else:
            self._do(body)

    def fail(self, failure: Failure) -> None:
        problem = write_problem(failure.slug, failure.status, failure.detail)
        self.reply(failure.status, self.fake.encode(problem), failure.headers)

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
            fake.arrival.notify_all()
            if status := fake.refused.get(file[0]):
                self.answer(status, {"detail": f"{file[0]} is refused."})
                return
            document = Document(f"d{len(fake.documents)}", *file, fields)
            fake.documents.append(document)
            fake.most_documents = max(fake.most_documents, len(fake.list_under_way()))
        self.answer(202, self._describe(document))

    def _describe(self, document: Document) -> dict[str, Any]:
        fake = self.fake
        document.asked += fake.is_open.is_set()
        status, error = "translating", None
        if document.asked > fake.polls:
            status = "done"
            if detail := fake.failing.get(document.name):
                status, error = "failed", {"detail": detail}
        return {
            "id": document.id,
            "name": document.name,
            "status": status,
            "texts": 10,
            "texts_done": document.asked,
            "warnings": fake.warnings.get(document.name, []),
            "error": error,
        }

    @contextmanager
    def _count(self) -> Iterator[Document | None]:
        """Count a request, and yield the document that its path names."""
        fake = self.fake
        _, _, name, *rest = self.path.split("/")
        with fake.arrival:
            fake.requests[" ".join([self.command, *rest])] += 1
            found = (d for d in fake.documents if d.id == name and not d.is_deleted)
            yield next(found, None)
            fake.arrival.notify_all()


def _answer(handler: _Handler, call: ApiCall) -> None:
    """Answer with the language or translations of texts, or with captions of an array."""
    fake, body = handler.fake, call.body
    if call.path == "/caption":
        assert (body.dtype, body.shape[-1]) == (np.uint8, 3)
        handler.answer(200, {"captions": [fake.caption(pixels) for pixels in body]})
        return
    fake.pause()
    texts, content = body["src_text"], fake.answer
    if call.headers["Accept"] == EVENT_STREAM:
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for piece in fake.streams.popleft():
            handler.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        handler.close_connection = True
        return
    if call.path == "/identify":
        content = {"languages": [{"language": "en", "confidence": 0.9}]}
    elif failure := fake.failures.popleft() if fake.failures else fake.judge(texts):
        handler.fail(failure)
        return
    elif content is None:
        assert call.path == "/translate"
        warned = [(n, fake.warn(text)) for n, text in enumerate(texts)]
        warnings = [f"src_text[{n}]: {said}" for n, said in warned if said]
        translated = [fake.translate(text) for text in texts]
        content = {"translated": translated, "warnings": warnings}
    handler.reply(200, fake.encode(content))


def _answer_last(handler: _Handler, call: ApiCall) -> None:
    """Answer once a later request has arrived and all other requests are answered."""
    fake = handler.fake
    mine = len(fake.arrays)
    fake.wait_until(
        lambda: fake.ending.is_set() or (fake.at_once == 1 and len(fake.arrays) > mine)
    )
    _answer(handler, call)


def write_event(name: str, **content: object) -> bytes:
    """Return a server-sent event."""
    data = json.dumps(content, ensure_ascii=False)
    return f"event: {name}\ndata: {data}\n\n".encode()


def blame(status: int) -> Failure:
    """Return a refusal that blames the first text and may be repeated at once."""
    said = f"src_text[0]: because of {status}"
    return Failure(status, "any", said, {"Retry-After": "0"})


def blame_text(text: str, status: int) -> Callable[[list[str]], Failure | None]:
    """Return a judge that refuses every request with this text."""
    return lambda texts: blame(status) if text in texts else None


def _refuse(status: int, detail: str, retry_after: str = "") -> Behaviour:
    headers = {"Retry-After": retry_after} if retry_after else {}
    return lambda handler, _: handler.fail(Failure(status, "any", detail, headers))


Behaviour = Callable[[_Handler, ApiCall], None]

BEHAVIOURS: dict[str, Behaviour] = {
    "answer": _answer,
    "answer-last": _answer_last,
    **FAULTS,
    "unavailable": _refuse(503, "No worker is READY."),
    "unavailable-60s": _refuse(503, "Come back later.", "60"),
    "queue-full": _refuse(429, "The queue is full.", "0"),
    "queue-full-60s": _refuse(429, "The queue is full.", "60"),
    "retry-nonsense": _refuse(503, "Later.", "soon"),
    "retry-far": _refuse(503, "Later.", "Fri, 31 Dec 99999 23:59:59 GMT"),
    "deep-fault": lambda handler, _: handler.answer(500, b"[" * 100_000),
    "half-pair": lambda handler, _: handler.answer(200, ["\ud83d"]),
    "not-utf-8": lambda handler, _: handler.answer(200, b"\xe9"),
    "invalid": _refuse(422, "Expected uint8, found float32."),
    "too-large": lambda handler, _: handler.answer(413, b"<html>too large</html>", ""),
    "few": lambda handler, _: handler.answer(200, {"captions": ["one"]}),
}
FakeApi.handler, FakeApi.behaviours = _Handler, BEHAVIOURS
