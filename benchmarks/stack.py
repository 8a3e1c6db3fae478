"""A closed loop against port 7777: so many clients that each wait for their answer before
they ask again. Requests per second and latencies out.
"""

from __future__ import annotations

import http.client
import json
import random
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from urllib.parse import urlsplit

import psutil

from deploy.stack import Stack
from models.phrasebook_recipe import phrasebook
from models.phrasebook_recipe.corpus import Corpus, Pair

_TIMEOUT_S = 60


@dataclass(frozen=True)
class Measurement:
    """One closed loop: throughput, latency percentiles, answers by status."""

    clients: int
    seconds: float
    requests_per_s: float
    p50_ms: float
    p99_ms: float
    statuses: dict[str, int]

    def to_row(self) -> list[str]:
        """The cells of a table."""
        statuses = " ".join(
            f"{count}x{status}" for status, count in self.statuses.items()
        )
        figures = (self.requests_per_s, self.p50_ms, self.p99_ms)
        return [str(self.clients), *(f"{figure:.0f}" for figure in figures), statuses]


def draw_bodies(count: int, target: str | None = None) -> list[bytes]:
    """Phrasebook sentences as request bodies, in random directions or into one language."""
    corpus, rng = Corpus(phrasebook.load()), random.Random(0)
    pairs: list[Pair] = []
    while len(pairs) < count:
        pair = corpus.draw(rng)
        if target in (None, pair.target_language):
            pairs.append(pair)
    return [
        json.dumps(
            {
                "src_lang": pair.source_language,
                "src_text": pair.source,
                "tgt_lang": pair.target_language,
            }
        ).encode()
        for pair in pairs
    ]


def measure(
    url: str,
    bodies: list[bytes],
    *,
    clients: int,
    seconds: float,
    tick: Callable[[], None],
) -> Measurement:
    """Runs the loop; `tick` is called about ten times a second, for a progress bar."""
    latencies: list[float] = []
    statuses: Counter[str] = Counter()
    stop = threading.Event()

    def ask(number: int) -> None:
        for latency, status in _ask(url, bodies, number):
            latencies.append(latency)
            statuses[status] += 1
            if stop.is_set():
                return

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(clients)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    while time.perf_counter() - started < seconds:
        time.sleep(0.1)
        tick()
    stop.set()
    for thread in threads:
        thread.join(_TIMEOUT_S)
    elapsed = time.perf_counter() - started
    cuts = statistics.quantiles(latencies, n=100)
    return Measurement(
        clients=clients,
        seconds=elapsed,
        requests_per_s=len(latencies) / elapsed,
        p50_ms=cuts[49] * 1000,
        p99_ms=cuts[98] * 1000,
        statuses=dict(statuses),
    )


def _ask(url: str, bodies: list[bytes], number: int) -> Iterator[tuple[float, str]]:
    """Asks for ever on one keep-alive connection; yields seconds and status."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=_TIMEOUT_S)
    for index in range(number, 1 << 62, 7):
        started = time.perf_counter()
        try:
            connection.request("POST", "/", bodies[index % len(bodies)])
            response = connection.getresponse()
            response.read()
            status = str(response.status)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            status = type(error).__name__
        yield time.perf_counter() - started, status


def measure_memory(stack: Stack) -> dict[str, float]:
    """Megabytes of each program and its children: proportional set size, in which memory
    shared by several processes is counted once."""
    return {
        program: sum(_read_pss(process) for process in _family(stack, program)) / 1e6
        for program in ("nginx", "gateway", "registrar", "torchserve")
    }


def _family(stack: Stack, program: str) -> list[psutil.Process]:
    record = json.loads((stack.run / f"{program}.group").read_text())
    leader = psutil.Process(record["group"])
    return [leader, *leader.children(recursive=True)]


def _read_pss(process: psutil.Process) -> int:
    return int(process.memory_full_info().pss)


def to_json(measurements: list[Measurement]) -> str:
    """All figures, for a file."""
    return json.dumps([asdict(m) for m in measurements], indent=2)
