"""A fake of a cluster's ingress (HAProxy and replicas) on loopback; tests set its behaviour."""

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from contract.problems import CONTENT_TYPE, write_problem
from tests.gateway.fake_torchserve import Call, note_call
from tests.scripted_server import FAULTS, LIMIT_S, ScriptedHandler, ScriptedServer


@dataclass
class FakeIngress(ScriptedServer):
    """An address that answers each row with an echo, unless `will` sets another behaviour."""

    key: str = "first"
    calls: list[Call] = field(default_factory=list)
    #: The answer to requests for a model's state: a key of `STATES`.
    state: str = "ready"
    looks: int = 0
    #: The name of the replica that answers, if it sends one.
    replica: str = ""
    #: Set once a model's state has been requested.
    has_looked: threading.Event = field(default_factory=threading.Event)
    #: Set once the client has closed a connection on which `wait` waits.
    has_left: threading.Event = field(default_factory=threading.Event)


class _Handler(ScriptedHandler):
    fake: FakeIngress

    def do_POST(self) -> None:
        call = note_call(self, self.read_body())
        behave = self.fake.take(call, self.fake.calls)
        try:
            if not self._has_key():
                return BEHAVIOURS["refuse-key"](self)
            return behave(self, call)
        finally:
            self.fake.leave()

    def do_GET(self) -> None:
        self.fake.looks += 1
        self.fake.has_looked.set()
        if not self._has_key():
            return BEHAVIOURS["refuse-key"](self)
        return STATES[self.fake.state](self)

    def _has_key(self) -> bool:
        return self.headers["Authorization"] == f"Bearer {self.fake.key}"

    def echo(self, call: Call) -> None:
        row = call.row
        content = {"translated": f"{row['tgt_lang']}:{row['src_text']}"}
        named = {"X-Replica": self.fake.replica} if self.fake.replica else {}
        self.reply(200, json.dumps(content).encode(), named)


def _wait_for_look(handler: _Handler, call: Call) -> None:
    assert handler.fake.has_looked.wait(LIMIT_S)
    handler.echo(call)


def _wait(handler: _Handler, _: Call) -> None:
    with suppress(ConnectionError):
        assert not handler.rfile.read(1)
    handler.fake.has_left.set()
    handler.close_connection = True


def _refuse(status: int, slug: str, **headers: str) -> Callable[..., None]:
    """A behaviour that answers with a replica's problem document."""
    problem = write_problem(slug, status, f"The replica says {slug}.")
    headers = {"Content-Type": CONTENT_TYPE, "X-Replica": "r", **headers}
    body = json.dumps(problem).encode()
    return lambda handler, *_: handler.reply(status, body, headers)


def _fail(status: int, text: bytes) -> Callable[..., None]:
    """A behaviour that answers with an error from outside the replicas."""
    headers = {"Content-Type": "text/plain"}
    return lambda handler, *_: handler.reply(status, text, headers)


_UNSERVED = _fail(404, b"Path '/predictions/ko' not found.")

BEHAVIOURS: dict[str, Callable[..., None]] = {
    "echo": _Handler.echo,
    **FAULTS,
    "crash": _fail(500, b"Internal Server Error"),
    "busy": _fail(503, b"Request dropped due to backpressure"),
    "unserved": _UNSERVED,
    "wait": _wait,
    "wait-for-look": _wait_for_look,
    "loading": _refuse(503, "not-ready"),
    "refuse-key": _refuse(401, "invalid-key"),
    "full": _refuse(429, "queue-full", **{"Retry-After": "7"}),
    "unloaded": _refuse(429, "unloaded", **{"Retry-After": "9"}),
    "late": _refuse(504, "deadline"),
}
FakeIngress.handler, FakeIngress.behaviours = _Handler, BEHAVIOURS


def _tell(content: object) -> Callable[[_Handler], None]:
    return lambda handler: handler.reply(200, json.dumps(content).encode())


STATES: dict[str, Callable[[_Handler], None]] = {
    "ready": _tell({"is_ready": True, "batch_size": 8, "queued_rows": 3, "more": 1}),
    "not-ready": _tell({"is_ready": False, "batch_size": 8, "queued_rows": 0}),
    "loading": BEHAVIOURS["loading"],
    "crash": _fail(500, b"Internal Server Error"),
    "unserved": _UNSERVED,
    "other": _tell({"is_ready": "perhaps"}),
    "hang": FAULTS["hang"],
}


def write_key(path: Path, key: str) -> Path:
    path.write_text(key + "\n", "utf-8")
    return path
