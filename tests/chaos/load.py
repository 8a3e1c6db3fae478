"""Clients with known right answers, a record of their requests, and hostile requests."""

import gzip
import http.client
import json
import random
import string
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from benchmarks.instruments.generator import (
    Request,
    Target,
    TimedSocket,
    write_messages,
)
from tests.hostile import SHAPES, TextShape

CLIENTS = 8
#: Pauses before the next request: after a right answer, and after any other.
PAUSE_S, LONG_PAUSE_S = 0.03, 0.3
#: The time limits of requests.
LIMITS_MS = (2000, 4000, 8000)
#: The time that a client waits beyond its limit, to measure how late an answer is.
PATIENCE_S = 6.0

#: The largest body: just under nginx's limit.
_LARGEST_BYTES = 1_000_000
_SIZES = (16_000, 64_000, 256_000, _LARGEST_BYTES)

#: The detail of a connection that broke during an answer.
CUT = http.client.IncompleteRead.__name__
RIGHT, WRONG, PROBLEM, BROKEN, HUNG = "right", "wrong", "problem", "broken", "hung"


@dataclass(frozen=True)
class Question:
    """A request, and its right answer: `translated`, or the type of a problem."""

    kind: str
    body: bytes
    right: Any = None
    path: str = "/translate"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Exchange:
    """A request and its answer; times are of the monotonic clock."""

    kind: str
    began: float
    ended: float
    limit_s: float
    outcome: str
    status: int = 0
    slug: str = ""
    detail: str = ""

    @property
    def lasted_s(self) -> float:
        """The seconds from sending the request to the end of the answer."""
        return self.ended - self.began


def write_body(text: str | list[str], target: str = "fr", kind: str = "text") -> bytes:
    body = {"src_lang": "en", "src_text": text, "tgt_lang": target, "format": kind}
    return json.dumps(body, ensure_ascii=False).encode()


def write_questions(marker: str) -> list[Question]:
    """Return requests of every shape, each with a word that is in no other text."""
    masked = "My name is {" + marker + "}."
    page = f'<p id="{marker}">My name is <b>Anna</b>.</p>'
    bodies = {
        "sentence": write_body(masked),
        "list": write_body(["See you tomorrow", masked], "de"),
        "document": write_body(f"- Good morning\n- See you tomorrow\n\n`{marker}`\n"),
        "html": write_body(page, "de", "html"),
        "unknown language": write_body(marker, "xx"),
    }
    return [Question(kind, body) for kind, body in bodies.items()]


def learn(url: str, questions: Sequence[Question]) -> list[Question]:
    learned = []
    for question in questions:
        with _connect(url, 30.0) as client:
            status, _, document = _exchange(client, question, 30.0)
        assert status in (200, 422), document
        right = document["translated"] if status == 200 else document["type"]
        learned.append(replace(question, right=right))
    return learned


def ask(url: str, question: Question, limit_s: float) -> Exchange:
    """Ask on a new connection. Without a right answer, any 200 is `right`."""
    began, client = time.monotonic(), None
    status, slug, detail = 0, "", ""
    try:
        with _connect(url, limit_s + PATIENCE_S) as client:
            status, content_type, document = _exchange(client, question, limit_s)
    except TimeoutError:
        outcome = HUNG
    except (OSError, http.client.HTTPException) as error:
        outcome, detail = BROKEN, type(error).__name__
    except ValueError as error:
        outcome, detail = WRONG, type(error).__name__
    else:
        outcome = _judge(status, content_type, document, question.right)
        slug = str(document.get("type", "")).rpartition(":")[2]
    ended = client.arrived_at if client and status else time.monotonic()
    return Exchange(
        question.kind,
        client.sent_at if client else began,
        ended,
        limit_s,
        outcome,
        status,
        slug,
        detail,
    )


class _Client(TimedSocket):
    #: The time at which sending began.
    sent_at = 0.0


@contextmanager
def _connect(url: str, patience_s: float) -> Iterator[_Client]:
    parts = urlsplit(url)
    with _Client() as client:
        client.settimeout(patience_s)
        client.connect((parts.hostname or "", parts.port or 80))
        yield client


def _exchange(
    client: _Client, question: Question, limit_s: float
) -> tuple[int, str, dict[str, Any]]:
    host, port = client.getpeername()
    request = Request(question.body, question.path)
    headers = {"Connection": "close", **question.headers}
    target = Target(f"http://{host}:{port}", [request], headers=headers)
    (message,) = write_messages(target, round(limit_s * 1000))
    client.sent_at = time.monotonic()
    client.sendall(message)
    with http.client.HTTPResponse(client, method="POST") as response:
        response.begin()
        content_type = response.headers.get_content_type()
        return response.status, content_type, json.loads(response.read())


def _judge(
    status: int, content_type: str, document: Mapping[str, Any], right: Any
) -> str:
    if status == 200:
        is_right = right is None or document.get("translated") == right
        return RIGHT if is_right else WRONG
    if content_type != "application/problem+json":
        return WRONG
    return RIGHT if document.get("type") == right else PROBLEM


@contextmanager
def keep_asking(
    url: str, questions: Sequence[Question], seed: int
) -> Iterator[list[Exchange]]:
    """Let clients ask repeatedly during the block; the yielded list is complete after it."""
    exchanges: list[Exchange] = []
    stop = threading.Event()

    def run(number: int) -> None:
        rng = random.Random(f"{seed} {number}")
        pause_s = PAUSE_S
        while not stop.wait(pause_s):
            limit_s = rng.choice(LIMITS_MS) / 1000
            exchange = ask(url, rng.choice(questions), limit_s)
            exchanges.append(exchange)
            pause_s = PAUSE_S if exchange.outcome == RIGHT else LONG_PAUSE_S

    with ThreadPoolExecutor(CLIENTS) as clients:
        runs = clients.map(run, range(CLIENTS))
        try:
            yield exchanges
        finally:
            stop.set()
        list(runs)


def draw_text(rng: random.Random, marker: str) -> Question:
    """Draw a text that repeats a hostile unit, or one of up to six random characters."""
    alphabet = string.ascii_letters + string.digits + string.punctuation + " \n\t中あ가"
    drawn = "".join(rng.choices(alphabet, k=rng.randint(1, 6)))
    kind = "html" if drawn[0] in "<&" else "text"
    shape = rng.choice([*SHAPES, TextShape("drawn", drawn, kind)])
    size = rng.choice(_SIZES)
    body = write_body(marker + shape.write(size), kind=shape.format)
    return Question(f"text of {shape.unit!r}, {size} bytes", body)


def draw_junk(rng: random.Random, marker: str) -> Question:
    name, path = marker.encode(), rng.choice(["/", "/translate", "/identify"])
    headers = {}
    kind = rng.choice(["bytes", "depth", "numbers", "gzip", "list", "cut", "path"])
    match kind:
        case "depth":
            body = b'{"src_text": "%s", "x": ' % name + b"[" * 100_000
        case "numbers":
            body = b'{"src_text": "%s", "beam_size": %s}' % (name, b"9" * 5000)
        case "gzip":
            body = gzip.compress(name + b" " * 20_000_000, 9, mtime=0)
            headers = {"Content-Encoding": "gzip"}
        case "list":
            body = json.dumps({"src_text": [marker] * 1001, "tgt_lang": "fr"}).encode()
        case "cut":
            whole = json.dumps({"src_text": marker, "tgt_lang": "fr"}).encode()
            body = whole[: rng.randrange(len(whole))]
        case "path":
            body, path = name, f"/no/such/path/{rng.randrange(10)}"
        case _:
            body = name + rng.randbytes(rng.randint(0, 10_000))
    return Question(f"junk: {kind}", body, path=path, headers=headers)


def write_message(body: bytes) -> bytes:
    """Return a request as it is sent over the wire."""
    head = f"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def draw_beginning(rng: random.Random, marker: str) -> bytes:
    """Draw a request that ends early: in its line, its headers or its body."""
    whole = write_message(json.dumps({"src_text": marker * 100}).encode())
    return whole[: rng.randrange(1, len(whole) - 1)]
