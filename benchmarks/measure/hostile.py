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
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import requests
import yaml

from benchmarks.driver import say
from benchmarks.instruments.generator import (
    Manner,
    Request,
    Target,
    ask_again,
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
#: Clients that send forms, and for how long.
FORM_CLIENTS, FORMS_S = 20, 30.0
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

    shape: TextShape
    half_s: float
    whole_s: float
    #: HTTP's statuses.
    status: str

    @property
    def ratio(self) -> float:
        """The cost of the whole text divided by that of half; 1 if it costs almost nothing."""
        return self.whole_s / self.half_s if self.whole_s > NOISE_S else 1.0


@dataclass(frozen=True)
class Waits:
    """The waits of others beside hostile requests: the longest, and for the gateway's
    health what 99 % did not exceed."""

    hostile: int
    seconds: float
    asked: int
    health_ms: float
    health_p99_ms: float
    sentence_ms: float


def answer(*, kilobytes: int, rounds: int, at_once: int) -> Findings:
    """The gateway's CPU for hostile texts, and how long others wait meanwhile."""
    size_bytes = kilobytes * 1000
    with TemporaryDirectory() as name:
        map_path = write_map(Path(name) / "map.json", {}, [_TARGET], device="cpu")
        with start_gateway(Path(name) / "run", map_path) as running:
            ask_once(_aim(running, SHAPES[0], size_bytes))  # starts the readers
            costs = []
            for shape in SHAPES:
                say(shape.name)
                costs.append(measure(running, shape, size_bytes, rounds))
            costs.sort(key=lambda cost: -cost.whole_s)
            worst = [cost.shape for cost in costs[:at_once]]
            chosen = [worst[number % len(worst)] for number in range(at_once)]
            waits = measure_waits(running, chosen, size_bytes)
            beside_forms = measure_beside_forms(running, FORM_CLIENTS, FORMS_S)
    return describe(costs, waits, beside_forms)


def measure(
    running: Running, shape: TextShape, size_bytes: int, rounds: int
) -> HostileCost:
    """Requests with half of the text, and with all of it."""
    statuses: set[str] = set()

    def spend(size: int) -> float:
        target = _aim(running, shape, size)
        reply, spent = measure_cpu(running.leaders, lambda: ask_once(target))
        statuses.add(reply.status)
        return spent["gateway"]

    half_s, whole_s = (
        min(spend(size) for _ in range(rounds))
        for size in (size_bytes // 2, size_bytes)
    )
    return HostileCost(shape, half_s, whole_s, " ".join(sorted(statuses)))


def measure_waits(
    running: Running, shapes: Sequence[TextShape], size_bytes: int
) -> Waits:
    """Others' waits while all texts are answered, which are sent at once."""
    targets = [_aim(running, shape, size_bytes) for shape in shapes]
    with ThreadPoolExecutor(len(targets)) as pool:
        return _wait_beside(running, [pool.submit(ask_once, one) for one in targets])


def measure_beside_forms(running: Running, clients: int, seconds: float) -> Waits:
    """Others' waits while clients send hostile forms and packed bodies for so long."""
    targets = aim(running.url)
    each, more = divmod(clients, len(targets))
    ask = partial(ask_again, seconds=seconds)
    with ThreadPoolExecutor(len(targets)) as pool:
        under_way = [
            pool.submit(ask, target, Manner(), clients=each + (number < more))
            for number, target in enumerate(targets)
        ]
        waits = _wait_beside(running, under_way)
        sent = sum(len(replies.result()) for replies in under_way)
    return replace(waits, hostile=sent)


def _wait_beside(running: Running, under_way: Sequence[Future[Any]]) -> Waits:
    """Asks for the gateway's health and a sentence until all is done."""
    began, url = time.perf_counter(), running.url
    health: list[float] = []
    sentence: list[float] = []
    with requests.Session() as session:
        session.headers.update(running.headers)
        while not all(answer.done() for answer in under_way):
            health.append(_measure_ms(lambda: session.get(f"{url}/healthz")))
            sentence.append(_measure_ms(lambda: session.post(url, json=_SENTENCE)))
            time.sleep(_PAUSE_S)
    return Waits(
        len(under_way),
        time.perf_counter() - began,
        len(health),
        max(health, default=0.0),
        percentile(health, 0.99) or 0.0,
        max(sentence, default=0.0),
    )


def describe(
    costs: Sequence[HostileCost], waits: Waits, beside_forms: Waits
) -> Findings:
    """A row per shape, and which promises are kept."""
    ratio, cpu_s = max(c.ratio for c in costs), max(c.whole_s for c in costs)
    wait_ms = max(waits.health_ms, waits.sentence_ms)
    texts, forms = f"{waits.hostile} texts", f"{beside_forms.hostile} forms"
    promises = (
        ("CPU of a text against half of it, at most", ratio, RATIO),
        ("CPU s of a text, at most", cpu_s, CPU_S),
        (f"ms of others beside {texts}, at most", wait_ms, WAIT_MS),
        (f"ms of health p99 beside {forms}", beside_forms.health_p99_ms, WAIT_MS),
        (f"ms of sentences beside {forms}", beside_forms.sentence_ms, SENTENCE_MS),
    )
    table = tabulate(
        costs,
        {
            "shape": lambda cost: cost.shape.name,
            "format": lambda cost: cost.shape.format,
            "status": lambda cost: cost.status,
            "half, CPU s": lambda cost: cost.half_s,
            "whole, CPU s": lambda cost: cost.whole_s,
            "ratio": lambda cost: cost.ratio,
        },
    )
    return Findings(
        table,
        {"costs": costs, "waits": waits, "beside_forms": beside_forms},
        [f"{name}: {show(it)}: {judge(it, limit)}" for name, it, limit in promises],
    )


def _aim(running: Running, shape: TextShape, size_bytes: int) -> Target:
    sentence = Sentence(shape.write(size_bytes), "en", _TARGET)
    return Target(running.url, [write_request(sentence, format=shape.format)])


def _measure_ms(ask: Callable[[], requests.Response]) -> float:
    began = time.perf_counter()
    ask().raise_for_status()
    return (time.perf_counter() - began) * 1000
