"""Compares a simulation with what was measured: of a running stack, or of `MicroBatcher`
itself with a work that sleeps.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, Field, ValidationError

from benchmarks.figures import Latencies, show, summarize_latencies
from benchmarks.instruments.load import OPEN
from benchmarks.report import Table
from benchmarks.simulate.outcome import Outcome
from benchmarks.simulate.scenario import Scenario
from handlers.microbatcher import MicroBatcher, QueueFull

#: How far the simulated requests/s and mean batch may be from the measured ones.
TOLERANCE = 0.15
_HEADERS = (
    "load",
    *(
        f"{name}{kind}"
        for name in ("requests/s", "mean batch", "p50 ms", "p99 ms")
        for kind in ("", ", simulated", ", ratio")
    ),
)


class Measured(BaseModel):
    """A load and what it made."""

    loop: Literal["open", "closed"]
    #: Clients of a closed loop, requests/s of an open one.
    level: float = Field(gt=0)
    requests_per_s: float
    latencies: Latencies
    mean_batch: float | None = None
    replicas: int | None = Field(default=None, ge=1)

    @property
    def is_open(self) -> bool:
        return self.loop == OPEN

    @property
    def name(self) -> str:
        unit = "requests/s" if self.is_open else "clients"
        among = f", {self.replicas} replicas" if self.replicas else ""
        return f"{self.level:g} {unit}{among}"


class _Entry(BaseModel):
    """A load as `python -m benchmarks ingress` writes it."""

    load: Measured
    batch_fill: float | None = None
    #: Each has a replica.
    machines: int | None = None


class _Loads(BaseModel):
    """Loads as `python -m benchmarks stack` writes them."""

    loads: list[Measured] = Field(min_length=1)


class _Content(BaseModel):
    results: _Loads | Annotated[list[_Entry], Field(min_length=1)]


def read_measured(path: Path) -> list[Measured]:
    """The loads of a benchmark's file. Raises ValueError."""
    try:
        results = _Content.model_validate_json(path.read_bytes()).results
    except (OSError, ValidationError) as error:
        raise ValueError(
            f"{path}: expected what `benchmarks stack` or `ingress` writes: {error}"
        ) from error
    if isinstance(results, _Loads):
        return results.loads
    return [
        entry.load.model_copy(
            update={"mean_batch": entry.batch_fill, "replicas": entry.machines}
        )
        for entry in results
    ]


def apply(scenario: Scenario, load: Measured) -> Scenario:
    """The scenario with a load's traffic and replicas."""
    traffic = scenario.traffic.model_copy(
        update={
            "requests_per_s": load.level if load.is_open else None,
            "clients": None if load.is_open else int(load.level),
            "wave": 0.0,
        }
    )
    count = load.replicas
    replicas = (count, count) if count else scenario.replicas
    return scenario.model_copy(update={"traffic": traffic, "replicas": replicas})


def tabulate(pairs: Sequence[tuple[Measured, Outcome]]) -> Table:
    """A row per load."""
    return Table(_HEADERS, tuple(_write_row(*pair) for pair in pairs))


def list_misses(pairs: Sequence[tuple[Measured, Outcome]]) -> list[str]:
    """The loads whose requests/s or mean batch are further apart than tolerated."""
    return [
        f"{measured.name}: {name} {show(simulated)} instead of {show(real)}"
        for measured, outcome in pairs
        for name, real, simulated in _list_figures(measured, outcome)[:2]
        if real and simulated is not None and abs(simulated / real - 1) > TOLERANCE
    ]


def _list_figures(
    measured: Measured, outcome: Outcome
) -> list[tuple[str, float | None, float | None]]:
    real, simulated = measured.latencies, outcome.latencies
    return [
        ("requests/s", measured.requests_per_s, outcome.requests_per_s),
        ("mean batch", measured.mean_batch, outcome.mean_batch),
        ("p50 ms", real.p50_ms, simulated.p50_ms),
        ("p99 ms", real.p99_ms, simulated.p99_ms),
    ]


def _write_row(measured: Measured, outcome: Outcome) -> tuple[str, ...]:
    cells = [measured.name]
    for _, real, simulated in _list_figures(measured, outcome):
        ratio = simulated / real if real and simulated is not None else None
        cells += map(show, (real, simulated, ratio))
    return tuple(cells)


@dataclass(eq=False)
class _Sleeper:
    """A `MicroBatcher` whose work sleeps as long as the scenario's batches take."""

    scenario: Scenario
    starts_at: float = field(default_factory=time.monotonic)
    sizes: list[int] = field(default_factory=list)
    #: What each answer took.
    seconds: list[float] = field(default_factory=list)
    is_over: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        replica = self.scenario.replica
        self._table = self.scenario.make_service().tabulate(self.scenario.batch_size)
        self.batcher: MicroBatcher[float, float] = MicroBatcher(
            *[self._sleep] * replica.workers,
            batch_size=replica.batch_size,
            wait_s=replica.max_batch_delay / 1000,
            queue_size=replica.queue_size,
        )

    def _sleep(self, asked: Sequence[float]) -> Sequence[float]:
        if self._counts:
            self.sizes.append(len(asked))
        time.sleep(self._table[len(asked)])
        return asked

    @property
    def _counts(self) -> bool:
        elapsed_s = time.monotonic() - self.starts_at
        return not self.is_over.is_set() and elapsed_s >= self.scenario.stretch.settle_s

    def ask(self, *, again: bool) -> None:
        """Asks, and again after each answer if that is wanted."""
        future = self.batcher.submit(time.monotonic())
        future.add_done_callback(partial(self._keep, again=again))

    def _keep(self, future: Future[float], *, again: bool) -> None:
        if self._counts:
            self.seconds.append(time.monotonic() - future.result())
        if again and not self.is_over.is_set():
            self.ask(again=True)


def measure_batcher(scenario: Scenario, load: Measured) -> Measured:
    """What one `MicroBatcher` makes of a load, for as long as the scenario's stretch.
    Raises ValueError for more than one replica."""
    if apply(scenario, load).replicas != (1, 1):
        raise ValueError("a MicroBatcher is one replica; the scenario has more")
    sleeper = _Sleeper(scenario)
    stretch = scenario.stretch
    until = sleeper.starts_at + stretch.settle_s + stretch.seconds
    with sleeper.batcher:
        if not load.is_open:
            for _ in range(int(load.level)):
                sleeper.ask(again=True)
            sleeper.is_over.wait(until - time.monotonic())
        else:
            _ask_at_random(sleeper, load.level, until)
        sleeper.is_over.set()
    sizes = sleeper.sizes
    return load.model_copy(
        update={
            "requests_per_s": len(sleeper.seconds) / stretch.seconds,
            "latencies": summarize_latencies(sleeper.seconds),
            "mean_batch": sum(sizes) / len(sizes) if sizes else None,
        }
    )


def _ask_at_random(sleeper: _Sleeper, rate: float, until: float) -> None:
    rng = random.Random(0)
    due = sleeper.starts_at
    while (due := due + rng.expovariate(rate)) < until:
        sleeper.is_over.wait(max(0.0, due - time.monotonic()))
        with suppress(QueueFull):
            sleeper.ask(again=False)
