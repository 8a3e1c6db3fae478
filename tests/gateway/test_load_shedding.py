"""Requests that are refused before Gunicorn reads them, and those that must not be."""

import json
import socket
import time
from types import SimpleNamespace
from typing import Any, cast

import gevent
import pytest
from flask.testing import FlaskClient

from contract.dialects import DEEPL, FOREIGN, LIBRETRANSLATE, OURS, Dialect
from gateway.admission.dispatcher import ModelDispatcher
from gateway.app import GatewayApp
from gateway.errors import Overloaded
from gateway.http.connection import Connection, is_readable
from gateway.http.message import read_message
from gateway.http.worker import ProblemWorker
from gateway.load_shedding import LoadShedder

WANTED = {"src_lang": "en", "src_text": "Hello", "tgt_lang": "ko"}


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, int]]:
    """Make every dispatcher refuse; list the work and rows of each refusal."""
    found: list[tuple[float, int]] = []

    def refuse(self: Any, client: object, cost: float, rows: int, _: object) -> None:
        found.append((cost, rows))
        self.refused_at = time.monotonic()
        raise Overloaded("Too much.", retry_after_s=2.5)

    monkeypatch.setattr(ModelDispatcher, "check", refuse)
    return found


@pytest.fixture
def refusal(client: FlaskClient) -> LoadShedder:
    return cast(GatewayApp, client.application).load_shedder


def write(*headers: str, line: str = "POST /translate", body: Any = WANTED) -> bytes:
    """Write a request as nginx forwards it."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = f"{line} HTTP/1.1", "Host: a", f"Content-Length: {len(content)}", *headers
    return "\r\n".join((*lines, "", "")).encode() + content


def refuse(refusal: LoadShedder, data: bytes) -> bytes | None:
    message = read_message(data)
    return refusal.answer(message) if message else None


def read(answer: bytes) -> tuple[str, dict[str, str], dict[str, Any]]:
    head, _, body = answer.partition(b"\r\n\r\n")
    line, *headers = head.decode().split("\r\n")
    document = json.loads(body)
    assert f"Content-Length: {len(body)}" in headers
    return line, dict(header.split(": ", 1) for header in headers), document


def translate(api: Dialect) -> dict[str, Any]:
    """Return the fields of WANTED under their names in an API."""
    return dict(zip(api.fields, ("Hello", "en", "ko"), strict=True))


@pytest.mark.parametrize(
    ("api", "options", "beams"),
    [
        *(pytest.param(api, {}, 2, id=api.name) for api in (OURS, *FOREIGN)),
        pytest.param(OURS, {"beam_size": 8}, 8, id="wide beam"),
        pytest.param(LIBRETRANSLATE, {"alternatives": 3}, 4, id="its alternatives"),
        pytest.param(LIBRETRANSLATE, {"beam_size": 8}, 2, id="field of ours"),
        pytest.param(DEEPL, {"model_type": "quality_optimized"}, 5, id="quality"),
    ],
)
def test_both_ways_weigh_and_say_the_same_in_each_api(
    client, refused, refusal, api, options, beams
):
    for path in api.translating:
        wanted = translate(api) | options
        routed = client.post(path, json=wanted)
        asked = write("X-Request-ID: abc", line=f"POST {path}", body=wanted)
        line, headers, document = read(refuse(refusal, asked) or b"")
        assert line == "HTTP/1.1 429 Too Many Requests"
        without = {name: document[name] for name in document if name != "request_id"}
        assert routed.json | without == routed.json
        assert headers["X-Request-ID"] == "abc" == document.get("request_id", "abc")
        for name in ("Retry-After", "Content-Type"):
            assert headers[name] == routed.headers[name]
        assert refused[-2] == refused[-1] == ((len("Hello") + 20) * beams / 2, 1)
        metrics = client.get("/metrics").text
        assert f'requests_total{{route="{path}",status="429"}} 2.0' in metrics
        assert 'translation_requests_total{status="429",target="ko"}' in metrics


def test_a_list_weighs_as_its_texts(refused, refusal):
    texts = ["Hello", "Good morning", "Hello", "", "9:30"]
    refuse(refusal, write(body=WANTED | {"src_text": texts}))
    assert refused[-1] == (len("Hello") + len("Good morning") + 40, 2)


def test_what_was_refused_makes_the_next_refusal_likely(client, refused, refusal):
    assert not refusal.is_likely
    client.post("/", data=json.dumps(WANTED))
    assert refusal.is_likely


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(write(body=WANTED | {"tgt_lang": "xx"}), id="language"),
        pytest.param(write(body=WANTED | {"tgt_lang": 7}), id="no language"),
        pytest.param(write(body=WANTED | {"src_text": [7]}), id="no text"),
        pytest.param(write(body=WANTED | {"src_text": []}), id="empty list"),
        pytest.param(write(body=WANTED | {"src_text": " "}), id="blank"),
        pytest.param(write(body=WANTED | {"src_text": "9:30"}), id="no letters"),
        pytest.param(write(body=WANTED | {"src_lang": "ko"}), id="same language"),
        pytest.param(write(body=WANTED | {"beam_size": 9}), id="too wide a beam"),
        pytest.param(write(body=WANTED | {"beam_size": 1e999}), id="endless beam"),
        pytest.param(write(body=b"{"), id="no JSON"),
        pytest.param(write(body=b"[" * 4000), id="brackets"),
        pytest.param(write(body=WANTED | {"src_text": "a" * 5000}), id="long"),
        pytest.param(write("X-Timeout-Ms: soon"), id="time"),
        pytest.param(write("Content-Encoding: gzip"), id="packed"),
        pytest.param(write("Origin: https://a.org"), id="page"),
        pytest.param(b"\0\1\2\r\n\r\n", id="no HTTP"),
    ],
)
def test_what_its_route_must_judge_gets_there(refused, refusal, data):
    assert refuse(refusal, data) is None


def make_worker(refusal: Any) -> Any:
    return SimpleNamespace(
        alive=True,
        cfg=SimpleNamespace(keepalive=5),
        wsgi=SimpleNamespace(load_shedder=refusal),
        _is_direct=True,
        _answer_request=lambda message, *_: b"served",
    )


def serve(refusal: Any, *pieces: bytes) -> tuple[bytes, bytes]:
    """Return a worker's answers to pieces of a connection, and the bytes left to Gunicorn."""
    near, far = socket.socketpair()
    sock, worker = Connection(fileno=near.detach()), make_worker(refusal)
    waiter = gevent.spawn(ProblemWorker._serve_next, worker, sock, ("127.0.0.1", 1))
    with sock, far:
        for piece in pieces:
            far.sendall(piece)
            # Wait until the worker has read this piece, or the next one would arrive with it.
            while is_readable(sock) and not waiter.ready():
                gevent.sleep(0.001)
        waiter.join(5)
        sock.setblocking(False)
        rest = sock.recv(100_000)
        sock.close()
        return far.recv(100_000), rest


#: A load shedder that refuses all requests for a translation.
STRICT = SimpleNamespace(
    is_likely=True, answer=lambda message: b"no" if b"ko" in message.body else None
)
HEALTH = write(line="GET /healthz", body=b"")
HEAD, GAP, BODY = write().partition(b"\r\n\r\n")


@pytest.mark.parametrize(
    "pieces", [[write()], [HEAD + GAP, BODY]], ids=["whole", "head, then body"]
)
def test_a_connection_goes_on_after_an_answer(pieces):
    quiet = SimpleNamespace(is_likely=False)
    assert serve(quiet, *pieces, HEALTH) == (b"served", HEALTH)
    assert serve(STRICT, *pieces, HEALTH) == (b"no", HEALTH)


def test_in_a_flood_what_nobody_waits_for_is_not_read(client, refused, refusal):
    client.post("/", data=json.dumps(WANTED))
    near, far = socket.socketpair()
    with far:
        far.sendall(write())
    with Connection(fileno=near.detach()) as sock, pytest.raises(StopIteration):
        ProblemWorker._serve_next(make_worker(refusal), sock, None)
    assert len(refused) == 1
