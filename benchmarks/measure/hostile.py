"""`python -m benchmarks hostile`: what hostile texts cost the gateway and its other clients."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import requests

from benchmarks.driver import say
from benchmarks.instruments.generator import Manner, Target, ask_again, ask_once
from benchmarks.instruments.processes import measure_cpu
from benchmarks.instruments.running import (
    Running,
    find_running,
    start_gateway,
    write_map,
)
from benchmarks.instruments.workload import write_request
from benchmarks.measure.hostile_inputs import SHAPES, TextShape, aim
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


@dataclass(frozen=True)
class HostileCost:
    """CPU seconds of the gateway and its readers for half of a text and for all of it."""

    shape: str
    format: str
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


def answer(
    *, kilobytes: int, rounds: int, at_once: int, run_dir: Path | None
) -> Findings:
    """The gateway's CPU for hostile texts, and how long others wait meanwhile."""
    size_bytes = kilobytes * 1000
    with TemporaryDirectory() as folder, _find(run_dir, Path(folder)) as running:
        _ask(running.url, SHAPES[0], size_bytes)  # starts the readers
        costs = []
        for shape in SHAPES:
            say(shape.name)
            costs.append(measure(running, shape, size_bytes, rounds))
        costs.sort(key=lambda cost: -cost.whole_s)
        waits = measure_waits(running, choose(costs, at_once), size_bytes)
        beside_forms = measure_beside_forms(running, FORM_CLIENTS, FORMS_S)
    return describe(costs, waits, beside_forms)


def measure(
    running: Running, shape: TextShape, size_bytes: int, rounds: int
) -> HostileCost:
    """Requests with half of the text, and with all of it."""
    statuses: set[str] = set()

    def spend(size: int) -> float:
        _, spent = measure_cpu(
            running.leaders, lambda: statuses.add(_ask(running.url, shape, size))
        )
        return spent["gateway"]

    return HostileCost(
        shape.name,
        shape.format,
        min(spend(size_bytes // 2) for _ in range(rounds)),
        min(spend(size_bytes) for _ in range(rounds)),
        " ".join(sorted(statuses)),
    )


def choose(costs: Sequence[HostileCost], number: int) -> list[TextShape]:
    """The first shapes, repeated until there are enough."""
    by_name = {shape.name: shape for shape in SHAPES}
    chosen = [by_name[cost.shape] for cost in costs[:number]]
    return [chosen[i % len(chosen)] for i in range(number)]


def measure_waits(
    running: Running, shapes: Sequence[TextShape], size_bytes: int
) -> Waits:
    """Others' waits while all texts are answered, which are sent at once."""
    targets = [_aim(running.url, shape, size_bytes) for shape in shapes]
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
            "shape": lambda cost: cost.shape,
            "format": lambda cost: cost.format,
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


@contextmanager
def _find(run_dir: Path | None, folder: Path) -> Iterator[Running]:
    if run_dir:
        yield find_running(run_dir)
        return
    map_path = write_map(folder / "map.json", {}, [_TARGET], device="cpu")
    with start_gateway(folder / "run", map_path) as running:
        yield running


def _aim(url: str, shape: TextShape, size_bytes: int) -> Target:
    sentence = Sentence(shape.write(size_bytes), "en", _TARGET)
    return Target(url, [write_request(sentence, format=shape.format)])


def _ask(url: str, shape: TextShape, size_bytes: int) -> str:
    return ask_once(_aim(url, shape, size_bytes)).status


def _measure_ms(ask: Callable[[], requests.Response]) -> float:
    began = time.perf_counter()
    ask().raise_for_status()
    return (time.perf_counter() - began) * 1000
