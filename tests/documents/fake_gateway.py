"""A gateway that translates by a function, and fails as a test tells it."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from contract.problems import write_problem
from tests.scripted_server import ClosingServer, QuietHandler

Translate = Callable[[str], str]


@dataclass(frozen=True)
class Failure:
    """An answer other than 200."""

    status: int
    slug: str = "any"
    detail: str = "Any."
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Asked:
    """A request."""

    path: str
    body: dict[str, Any]
    headers: Mapping[str, str]


@dataclass
class FakeGateway:
    """Answers what `failures` does not have yet."""

    translate: Translate = lambda text: text.upper()
    failures: deque[Failure] = field(default_factory=deque)
    asked: list[Asked] = field(default_factory=list)
    #: Before each answer.
    pause: Callable[[], None] = lambda: None
    #: Writes the content of an answer.
    encode: Callable[[Any], bytes] = lambda content: json.dumps(content).encode()
    #: Called with the texts of a request; may refuse them.
    judge: Callable[[list[str]], Failure | None] = lambda texts: None

    def __post_init__(self) -> None:
        self._server = ClosingServer(("127.0.0.1", 0), partial(_Handler, self))
        self.address = self._server.url.removeprefix("http://")

    def __enter__(self) -> FakeGateway:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop()

    @property
    def texts(self) -> list[str]:
        """All texts that were to be translated, in the order of the requests."""
        return [text for asked in self.asked for text in asked.body["src_text"]]

    def answer(self, asked: Asked) -> tuple[int, Any, Mapping[str, str]]:
        texts = asked.body["src_text"]
        if asked.path == "/identify":
            return 200, {"languages": [{"language": "en", "confidence": 0.9}]}, {}
        failure = self.failures.popleft() if self.failures else self.judge(texts)
        if failure:
            problem = write_problem(failure.slug, failure.status, failure.detail)
            return failure.status, problem, failure.headers
        return 200, {"translated": [self.translate(text) for text in texts]}, {}


class _Handler(QuietHandler):
    def __init__(self, fake: FakeGateway, *args: Any) -> None:
        self._fake = fake
        super().__init__(*args)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        asked = Asked(self.path, json.loads(body), dict(self.headers))
        self._fake.asked.append(asked)
        self._fake.pause()
        status, content, headers = self._fake.answer(asked)
        data = self._fake.encode(content)
        with suppress(OSError):
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(data))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)
