"""A fake TorchServe on one loopback port, whose behaviour tests set."""

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import numpy as np

from contract.problems import CONTENT_TYPE, write_problem
from tests.scripted_server import (
    FAULTS,
    LIMIT_S,
    ScriptedHandler,
    ScriptedServer,
    read_frames,
    reset_when_closed,
)


@dataclass(frozen=True)
class Call:
    """One request to `/predictions`."""

    model: str
    parameters: Mapping[str, str]
    body: bytes
    headers: Mapping[str, str]
    #: The client's port: calls from the same port came over the same connection.
    port: int

    @property
    def row(self) -> Any:
        return json.loads(self.body)


def note_call(handler: ScriptedHandler, body: bytes) -> Call:
    return Call(
        model=handler.path.removeprefix("/predictions/"),
        parameters=dict(parse_qsl(handler.headers.get("X-Parameters", ""))),
        body=body,
        headers=dict(handler.headers.items()),
        port=handler.client_address[1],
    )


Behaviour = Callable[..., None]


@dataclass
class FakeTorchServe(ScriptedServer):
    """A server that answers with an echo, `ko:Hello`, unless `will` sets another behaviour."""

    key_file: Path
    keys: dict[str, str] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    #: Whether `calls` keeps their bodies.
    keeps_bodies: bool = True
    #: The number of requests for a model's state.
    looks: int = 0
    #: The page of metrics, or None to fail, and the number of requests for it.
    metrics: str | None = ""
    metrics_looks: int = 0
    #: Models that are registered but have no READY worker.
    loading: set[str] = field(default_factory=set)
    unregistered: set[str] = field(default_factory=set)
    #: Models without workers, and every change of a model's workers.
    unloaded: set[str] = field(default_factory=set)
    scaled: list[tuple[str, int]] = field(default_factory=list)
    #: Rows in the queue of each model.
    queued: int = 0
    #: The barrier at which calls with the behaviour `together` wait.
    together: threading.Barrier = field(default_factory=lambda: threading.Barrier(1))
    #: The most characters that the model accepts; each is a token.
    limit: int = 1 << 30
    #: The model's translation of a text.
    translate: Callable[[str, str], str] = lambda target, text: f"{target}:{text}"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.rotate_keys("first")

    def stop(self) -> None:
        self.together.abort()
        super().stop()

    def rotate_keys(self, name: str) -> None:
        """Replace the keys, as after a restart; the old ones are refused from now on."""
        self.keys = {kind: f"{name}-{kind}" for kind in ("inference", "management")}
        content = {kind: {"key": key} for kind, key in self.keys.items()}
        self.key_file.write_text(json.dumps(content), "utf-8")

    def wait_for_calls(self, count: int) -> None:
        """Wait until this many calls have arrived, answered or not."""
        self.wait_until(lambda: len(self.calls) >= count)


class _Handler(ScriptedHandler):
    fake: FakeTorchServe

    def do_POST(self) -> None:
        body = self.read_body()
        if not self._has_key("inference"):
            return _REFUSE_KEY(self)
        call = note_call(self, body)
        kept = call if self.fake.keeps_bodies else replace(call, body=b"")
        behave = self.fake.take(kept, self.fake.calls)
        if call.model in self.fake.unloaded | self.fake.loading:
            behave = BEHAVIOURS["unavailable"]
        try:
            return behave(self, call)
        finally:
            self.fake.leave()

    def do_GET(self) -> None:
        if self.path == "/metrics":
            self.fake.metrics_looks += 1
            code = 500 if self.fake.metrics is None else 200
            return self.answer(code, (self.fake.metrics or "").encode(), "text/plain")
        self.fake.looks += 1
        if self.path.startswith("/predictions/"):
            return self._answer_as_replica()
        name = self.path.removeprefix("/models/")
        if not self._has_key("management"):
            return _REFUSE_KEY(self)
        if name in self.fake.unregistered:
            return _fail(404, "ModelNotFoundException", f"Model {name}")(self)
        status = "UNLOADING" if name in self.fake.loading else "READY"
        is_unloaded = name in self.fake.unloaded
        model = {
            "modelName": name,
            "modelVersion": "1.0",
            "batchSize": 64,
            "maxBatchDelay": 100,
            "minWorkers": 0 if is_unloaded else 1,
            "workers": [] if is_unloaded else [{"id": "9000", "status": status}],
            "jobQueueStatus": {"pendingRequests": self.fake.queued},
        }
        return self.answer(200, json.dumps([model]).encode())

    def do_PUT(self) -> None:
        parts = urlsplit(self.path)
        name = parts.path.removeprefix("/models/")
        workers = int(dict(parse_qsl(parts.query))["min_worker"])
        self.fake.scaled.append((name, workers))
        (self.fake.unloaded.discard if workers else self.fake.unloaded.add)(name)
        self.answer(202, b"{}")

    def _answer_as_replica(self) -> None:
        state = {"is_ready": True, "batch_size": 64, "queued_rows": self.fake.queued}
        self.answer(200, json.dumps(state).encode())

    def _has_key(self, kind: str) -> bool:
        return self.headers["Authorization"] == f"Bearer {self.fake.keys[kind]}"

    def answer(
        self, status: int, body: bytes, content_type: str = "application/json"
    ) -> None:
        """Send an answer; from status 400 on, reset the connection, as TorchServe does."""
        headers = {"Content-Type": content_type}
        if status >= 400:
            headers["Connection"] = "close"
            reset_when_closed(self)
        self.reply(status, body, headers)


def _see(call: Call) -> dict[str, Any]:
    """Answer with each frame's first pixel, or with an image file's type and length."""
    if call.body.startswith(b"\x93NUMPY"):
        array = read_frames(call.body)
        frames = array if array.ndim == 4 else array[np.newaxis]
        seen = [f"pixel {' '.join(map(str, frame[0, 0]))}" for frame in frames]
    else:
        seen = [f"{call.headers['Content-Type']} of {len(call.body)} bytes"]
    match call.model:
        case "captioning":
            return {"captions": seen}
        case "classification":
            labels = [{"label": seen[0], "score": 1 / 2**n} for n in range(1, 200)]
            return {"labels": labels[: int(call.parameters["top_k"])]}
        case "detection":
            box = {"left": 1.0, "top": 2.0, "right": 3.0, "bottom": 4.5}
            least = float(call.parameters["threshold"])
            scores = [score for score in (0.9, 0.3) if score >= least]
            objects = [{"label": seen[0], "score": s, "box": box} for s in scores]
            return {"objects": objects, "width": 4, "height": 5}
    return {"bytes": len(call.body)}


def _echo(handler: _Handler, call: Call, **extra: Any) -> None:
    if call.headers["Content-Type"] != "application/json":
        handler.answer(200, json.dumps(_see(call)).encode())
        return
    source = call.row["src_text"]
    if len(source) > handler.fake.limit:
        counts = {"tokens": len(source), "limit": handler.fake.limit}
        _fail_row(422, "text-too-long", **counts)(handler)
        return
    text = handler.fake.translate(call.row["tgt_lang"], source)
    document = {"translated": text, "score": -0.1, "quality": 0.9, **extra}
    body = json.dumps(document, ensure_ascii=False).encode()
    handler.answer(200, body, "application/json; charset=utf-8")


def _choose(handler: _Handler, call: Call) -> None:
    """Answer with as many alternatives as the row requests."""
    row = call.row
    text = handler.fake.translate(row["tgt_lang"], row["src_text"])
    others = [
        {"text": f"{text} {number}", "score": -float(number)}
        for number in range(1, row["alternatives"] + 1)
    ]
    _echo(handler, call, alternatives=others)


def _together(handler: _Handler, call: Call) -> None:
    """Answer once as many calls as the barrier needs are waiting at the same time."""
    try:
        handler.fake.together.wait(LIMIT_S)
    except threading.BrokenBarrierError:
        _fail_row(500, "alone")(handler)
    else:
        _echo(handler, call)


def _fail(status: int, kind: str, message: str) -> Behaviour:
    error = json.dumps({"code": status, "type": kind, "message": message})
    return lambda handler, *_: handler.answer(status, error.encode())


def _fail_row(status: int, slug: str, **extra: int) -> Behaviour:
    problem = write_problem(slug, status, f"The handler says {slug}.", **extra)
    body = json.dumps(problem).encode()
    return lambda handler, *_: handler.answer(status, body, CONTENT_TYPE)


def _wait(handler: _Handler, call: Call) -> None:
    """Answer when the behaviour `hang` ends."""
    handler.fake.ending.wait(LIMIT_S)
    _echo(handler, call)


_REFUSE_KEY = _fail(400, "InvalidKeyException", "Token is incorrect")
#: TorchServe's answer for a full queue, and for a model without workers.
_UNAVAILABLE = "Model has no worker to serve inference request."

BEHAVIOURS: dict[str, Behaviour] = {
    "echo": _echo,
    **FAULTS,
    "doubt": partial(_echo, warnings=["The model is not sure."], quality=0.2),
    "sign": partial(_echo, model="digest"),
    "choose": _choose,
    "together": _together,
    "row-no-image": _fail_row(422, "invalid-image"),
    "miscount": lambda handler, _: handler.answer(200, b'{"captions": []}'),
    "row-too-long": _fail_row(422, "text-too-long"),
    "row-late": _fail_row(504, "deadline"),
    "row-out-of-memory": _fail_row(503, "out-of-memory"),
    "row-broken": _fail_row(500, "internal"),
    "unavailable": _fail(503, "ServiceUnavailableException", _UNAVAILABLE),
    "not-registered": _fail(404, "ModelNotFoundException", "Model not found: ko"),
    "worker-died": _fail(500, "InternalServerException", "Worker died."),
    "worker-killed": _fail(507, "InternalServerException", "Worker died."),
    "batch-failed": _fail(503, "InternalServerException", "Prediction failed"),
    "wait": _wait,
}
FakeTorchServe.handler, FakeTorchServe.behaviours = _Handler, BEHAVIOURS
