"""`python -m benchmarks hostile`: the cost of hostile requests for the gateway and its other
clients. Texts make a careless reader take quadratic time; forms, arrays and packed bodies
once held the gateway's loop for up to a second each.
"""

from __future__ import annotations

import gzip
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import requests
import yaml

from benchmarks.driver import say
from benchmarks.instruments.generator import (
    LoadReply,
    Manner,
    Request,
    Target,
    ask_again,
    ask_at,
    ask_once,
)
from benchmarks.instruments.load import measure_cpu
from benchmarks.instruments.running import Running, start_gateway, write_map
from benchmarks.instruments.workload import write_request
from benchmarks.report import Findings, judge, percentile, show, tabulate
from handlers.engine.translation.m2m100 import Sentence

#: The targets: the CPU of a whole text, against that of half of it, and in seconds;
#: the longest that others wait beside texts, and beside forms 99 % of the looks at the health
#: and the slowest sentence.
RATIO, CPU_S, WAIT_MS, SENTENCE_MS = 2.2, 3.0, 250.0, 1000.0
#: Slow texts that are sent at once, and clients that send forms, and for how long.
_AT_ONCE, FORM_CLIENTS, FORMS_S = 10, 20, 30.0
#: The cheapest of the rounds counts.
_ROUNDS = 2
#: Less CPU than that is no measure of a ratio: the system counts hundredths of a second.
NOISE_S = 0.25
_TARGET = "fr"
_PAUSE_S = 0.01
_SENTENCE = {"src_lang": "en", "src_text": "Good morning.", "tgt_lang": _TARGET}

_FORM, _JSON = "application/x-www-form-urlencoded", "application/json"
_MULTIPART = "multipart/form-data; boundary=x"
_PART = b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\n'
ROUTES = ("/translate", "/v2/translate", "/language/translate/v2", "/identify")
#: Content types and bodies.
FORMS = (
    (_FORM, b"key&" + b"%41&" * ((1 << 18) - 2)),
    (_FORM, b"q=" + b"%41" * 349_000),
    (_FORM, b"q=a&" * 1000 + b"%41" * 300_000),
    (_JSON, b'{"q": [' + b"[]," * 340_000 + b"[]]}"),
    (_JSON, b'{"q": "a", "source": "auto"' + b" " * 1_000_000),
    (_MULTIPART, _PART * 2000 + b"--x--"),
    (_MULTIPART, _PART + b"\r\n--" * 200_000 + b"--x--"),
)
#: Sends some hostile requests.
SentLoad = Callable[[], list[LoadReply]]


@dataclass(frozen=True)
class TextShape:
    """A unit that is repeated, between a head and a tail."""

    name: str
    unit: str
    #: `text` or `html`.
    format: str = "text"
    head: str = ""
    tail: str = ""

    def write(self, size_bytes: int) -> str:
        """Write a text that takes about `size` bytes in a request's body."""
        times = (size_bytes - _measure(self.head + self.tail)) // _measure(self.unit)
        return self.head + self.unit * times + self.tail


def _measure(text: str) -> int:
    return len(json.dumps(text, ensure_ascii=False).encode()) - len('""')


def _read_shapes() -> Iterator[TextShape]:
    formats = yaml.safe_load(Path(__file__).with_name("hostile.yaml").read_text())
    for kind, shapes in formats.items():
        for name, shape in shapes.items():
            parts = {"unit": shape} if isinstance(shape, str) else shape
            yield TextShape(name=name, format=kind, **parts)


SHAPES = tuple(_read_shapes())


def aim(url: str) -> list[Target]:
    """Return every form on every route, plain and packed; a target per kind of headers."""
    asked: dict[tuple[str, str], list[Request]] = defaultdict(list)
    for kind, body in FORMS:
        packed = gzip.compress(body)
        for route in ROUTES:
            asked[kind, "identity"].append(Request(body, route))
            asked[kind, "gzip"].append(Request(packed, route))
    return [
        Target(url, some, headers={"Content-Type": kind, "Content-Encoding": encoding})
        for (kind, encoding), some in asked.items()
    ]


@dataclass(frozen=True)
class HostileCost:
    """CPU seconds of the gateway and its readers for half of a text and for all of it."""

    shape: str
    format: str
    #: HTTP's statuses.
    status: str
    half_s: float
    whole_s: float
    #: The whole text's cost divided by that of half; 1 if it costs almost nothing.
    ratio: float


@dataclass(frozen=True)
class Waits:
    """The waits of others beside hostile requests, in milliseconds."""

    hostile: int
    health_ms: Sequence[float]
    sentence_ms: Sequence[float]


def answer(*, kilobytes: int) -> Findings:
    """The gateway's CPU for hostile texts, and how long others wait meanwhile."""
    size_bytes = kilobytes * 1000
    with TemporaryDirectory() as name:
        map_path = write_map(Path(name) / "map.json", {}, [_TARGET], device="cpu")
        with start_gateway(Path(name) / "run", map_path) as running:
            ask_once(_aim(running, SHAPES[0], size_bytes))  # starts the readers
            measured = []
            for shape in SHAPES:
                say(shape.name)
                measured.append((measure(running, shape, size_bytes), shape))
            measured.sort(key=lambda pair: -pair[0].whole_s)
            slowest = [shape for _, shape in measured[:_AT_ONCE]]
            texts = wait_beside(running.url, send_texts(running, slowest, size_bytes))
            sent = send_forms(running.url, FORM_CLIENTS, FORMS_S)
            forms = wait_beside(running.url, sent)
    return describe([cost for cost, _ in measured], texts, forms)


def measure(running: Running, shape: TextShape, size_bytes: int) -> HostileCost:
    """Requests with half of the text, and with all of it."""
    statuses: set[str] = set()

    def spend(size: int) -> float:
        target = _aim(running, shape, size)
        reply, spent = measure_cpu(running.leaders, lambda: ask_once(target))
        statuses.add(reply.status)
        return spent["gateway"]

    half_s, whole_s = (
        min(spend(size) for _ in range(_ROUNDS))
        for size in (size_bytes // 2, size_bytes)
    )
    ratio = whole_s / half_s if whole_s > NOISE_S else 1.0
    said = " ".join(sorted(statuses))
    return HostileCost(shape.name, shape.format, said, half_s, whole_s, ratio)


def send_texts(
    running: Running, shapes: Sequence[TextShape], size_bytes: int
) -> list[SentLoad]:
    """Return loads of one text each."""
    targets = (_aim(running, shape, size_bytes) for shape in shapes)
    return [partial(ask_at, target, [0.0], Manner()) for target in targets]


def send_forms(url: str, clients: int, seconds: float) -> list[SentLoad]:
    """Return loads of clients that send hostile forms and packed bodies for so long."""
    targets = aim(url)
    each, more = divmod(clients, len(targets))
    send = partial(ask_again, manner=Manner(), seconds=seconds)
    return [
        partial(send, target, clients=each + (number < more))
        for number, target in enumerate(targets)
    ]


def wait_beside(url: str, loads: Sequence[SentLoad]) -> Waits:
    """Asks for the gateway's health and a sentence until all loads are done."""
    health: list[float] = []
    sentence: list[float] = []
    with ThreadPoolExecutor(len(loads)) as pool, requests.Session() as session:
        under_way = [pool.submit(load) for load in loads]
        while not all(load.done() for load in under_way):
            health.append(_measure_ms(lambda: session.get(f"{url}/healthz")))
            sentence.append(_measure_ms(lambda: session.post(url, json=_SENTENCE)))
            time.sleep(_PAUSE_S)
    return Waits(sum(len(load.result()) for load in under_way), health, sentence)


def describe(costs: Sequence[HostileCost], texts: Waits, forms: Waits) -> Findings:
    """A row per shape, and which promises are kept."""
    wait_ms = max((*texts.health_ms, *texts.sentence_ms), default=0.0)
    health_ms = percentile(forms.health_ms, 0.99) or 0.0
    sentence_ms = max(forms.sentence_ms, default=0.0)
    promises = (
        ("CPU of a text against half of it", max(c.ratio for c in costs), RATIO),
        ("CPU s of a text", max(c.whole_s for c in costs), CPU_S),
        (f"ms of others beside {texts.hostile} texts", wait_ms, WAIT_MS),
        (f"ms of health p99 beside {forms.hostile} forms", health_ms, WAIT_MS),
        (f"ms of sentences beside {forms.hostile} forms", sentence_ms, SENTENCE_MS),
    )
    return Findings(
        tabulate(costs),
        {"costs": costs, "beside_texts": texts, "beside_forms": forms},
        [f"{name}: {show(it)}: {judge(it, limit)}" for name, it, limit in promises],
    )


def _aim(running: Running, shape: TextShape, size_bytes: int) -> Target:
    sentence = Sentence(shape.write(size_bytes), "en", _TARGET)
    return Target(running.url, [write_request(sentence, format=shape.format)])


def _measure_ms(ask: Callable[[], requests.Response]) -> float:
    began = time.perf_counter()
    ask().raise_for_status()
    return (time.perf_counter() - began) * 1000
