"""A stack that captions by what frames show, and fails as it is told: `POST /caption` with
`.npy` bodies, `GET /tasks`.
"""

from __future__ import annotations

import io
import json
import socket
import struct
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler
from typing import Any

import numpy as np

from tests.clients.drawing import read_number
from tests.closing_server import ClosingServer

#: No test waits longer for the fake than this.
LIMIT_S = 120
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
class FakeServer:
    """Captions a frame with the number that it shows, unless `will` has told it otherwise."""

    tasks: Any = field(default_factory=lambda: TASKS)
    tasks_status: int = 200
    #: Every array that was asked about, in the order of arrival.
    arrays: list[Any] = field(default_factory=list)
    caption: Callable[[Any], str] = lambda pixels: f"number {read_number(pixels)}"
    headers: list[Mapping[str, str]] = field(default_factory=list)
    #: The connections that clients have made.
    connections: int = 0
    #: Requests that are being answered now, and the most so far.
    at_once: int = 0
    most_at_once: int = 0
    #: Requests are answered only while this is set.
    is_open: threading.Event = field(default_factory=threading.Event)
    ending: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._script: list[str] = []
        self.arrival = threading.Condition()
        self.is_open.set()
        self._server = _Server(("127.0.0.1", 0), partial(_Handler, self))

    def __enter__(self) -> FakeServer:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ending.set()
        self.is_open.set()
        with self.arrival:
            self.arrival.notify_all()
        self._server.stop()

    @property
    def url(self) -> str:
        """Where it is."""
        return self._server.url

    def will(self, *behaviours: str) -> None:
        """Answers the next requests so, one each; those after them get captions."""
        unknown = set(behaviours) - set(BEHAVIOURS)
        assert not unknown, f"{unknown} is none of {sorted(BEHAVIOURS)}"
        self._script = list(behaviours)

    def wait_for_requests(self, count: int) -> None:
        """Returns when this many requests have arrived, answered or not."""
        with self.arrival:
            assert self.arrival.wait_for(lambda: len(self.arrays) >= count, LIMIT_S)

    def take(self, array: Any, headers: Mapping[str, str]) -> str:
        """Writes the request down and says how to answer it."""
        with self.arrival:
            self.arrays.append(array)
            self.headers.append(headers)
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            self.arrival.notify_all()
            return self._script.pop(0) if self._script else "caption"

    def leave(self) -> None:
        """A request has its captions."""
        with self.arrival:
            self.at_once -= 1
            self.arrival.notify_all()


class _Server(ClosingServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed is no error of ours."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def __init__(self, fake: FakeServer, *args: Any) -> None:
        self.fake = fake
        fake.connections += 1
        with suppress(ConnectionError):
            super().__init__(*args)

    def do_GET(self) -> None:
        if self.path == "/tasks":
            self.answer(self.fake.tasks_status, self.fake.tasks)
        else:
            self.answer(404, {"detail": "There is no such route."})

    def do_POST(self) -> None:
        assert self.path == "/caption"
        body = self.rfile.read(int(self.headers["Content-Length"]))
        array = np.load(io.BytesIO(body), allow_pickle=False)
        behave = BEHAVIOURS[self.fake.take(array, dict(self.headers.items()))]
        try:
            assert self.fake.is_open.wait(LIMIT_S)
            behave(self, array)
        finally:
            self.fake.leave()

    def answer(self, status: int, content: Any, **headers: str) -> None:
        """JSON, and the connection stays open."""
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


def _caption(handler: _Handler, array: Any) -> None:
    assert array.dtype == np.uint8
    assert array.shape[-1] == 3
    captions = [handler.fake.caption(pixels) for pixels in array]
    handler.answer(200, {"captions": captions})


def _caption_last(handler: _Handler, array: Any) -> None:
    """Answers when nobody else waits for an answer and others have come after it."""
    fake = handler.fake
    with fake.arrival:
        mine = len(fake.arrays)
        assert fake.arrival.wait_for(
            lambda: (
                (fake.at_once == 1 and len(fake.arrays) > mine) or fake.ending.is_set()
            ),
            LIMIT_S,
        )
    _caption(handler, array)


def _refuse(status: int, detail: str, **headers: str) -> Behaviour:
    problem = {"type": "urn:babelgate:x", "title": "X", "status": status}
    return lambda handler, _: handler.answer(
        status, {**problem, "detail": detail}, **headers
    )


def _reset(handler: _Handler, _: Any) -> None:
    linger = struct.pack("ii", 1, 0)
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    handler.close_connection = True


def _cut(handler: _Handler, _: Any) -> None:
    """Dies in the middle of its answer."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"captions": ["num')
    handler.close_connection = True


def _hang(handler: _Handler, _: Any) -> None:
    handler.fake.ending.wait(LIMIT_S)
    handler.close_connection = True


def _drip(handler: _Handler, _: Any) -> None:
    """Sends a byte now and then, so that no single wait is long."""
    handler.send_response(200)
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    handler.close_connection = True
    with suppress(OSError):
        while not handler.fake.ending.wait(0.02):
            handler.wfile.write(b" ")


Behaviour = Callable[[_Handler, Any], None]

BEHAVIOURS: dict[str, Behaviour] = {
    "caption": _caption,
    "caption-last": _caption_last,
    "unavailable": _refuse(503, "No worker is READY."),
    "unavailable-60s": _refuse(503, "Come back later.", Retry_After="60"),
    "queue-full": _refuse(429, "The queue is full.", Retry_After="0"),
    "queue-full-60s": _refuse(429, "The queue is full.", Retry_After="60"),
    "retry-nonsense": _refuse(503, "Later.", Retry_After="soon"),
    "invalid": _refuse(422, "Expected uint8, found float32."),
    "too-large": lambda handler, _: handler.answer(413, b"<html>too large</html>"),
    "few": lambda handler, _: handler.answer(200, {"captions": ["one"]}),
    "not-json": lambda handler, _: handler.answer(200, b"surprise"),
    "reset": _reset,
    "cut": _cut,
    "hang": _hang,
    "drip": _drip,
}
