"""Measures one combination on its own stack at several levels of load."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from requests import RequestException

from benchmarks.driver import read_range, say
from benchmarks.instruments import running
from benchmarks.instruments.counters import WorkerFigures, describe, read_counters
from benchmarks.instruments.generator import Request, Target
from benchmarks.instruments.load import OPEN, LoadFigures, measure_closed, measure_open
from benchmarks.instruments.running import Running
from benchmarks.instruments.workload import REQUESTS, draw_requests
from benchmarks.tune.plan import Combination, LoadEntry, SlaEntry, TuningPlan
from deploy.stack import StackError

#: The most requests of an open loop that are under way.
_CONNECTIONS = 512
#: With fewer requests the 99th percentile is the slowest one, and a matter of chance.
_LEAST_REQUESTS = 100


@dataclass(frozen=True)
class Point:
    """One level of load."""

    load: LoadFigures
    workers: WorkerFigures
    #: Whether it keeps the SLA.
    is_kept: bool

    @property
    def rank(self) -> tuple[float, float]:
        """The larger the better: throughput (in an open loop the planned one, which all
        combinations were asked for), then a short p99."""
        load = self.load
        throughput = load.level if load.loop == OPEN else load.requests_per_s
        return throughput, -(load.latencies.p99_ms or 0.0)


@dataclass(frozen=True)
class Trial:
    """The result of a combination in one rung of the search."""

    name: str
    rung: int
    #: From its start to its end.
    seconds: float
    points: tuple[Point, ...]
    #: Why it has no more points.
    fault: str = ""

    @property
    def best(self) -> Point | None:
        """The most throughput that keeps the SLA."""
        kept = (point for point in self.points if point.is_kept)
        return max(kept, key=lambda point: point.rank, default=None)

    @property
    def rank(self) -> tuple[float, float]:
        """The larger the better. Without a load that keeps the SLA, the p99 at the lowest
        load decides."""
        if self.best:
            return self.best.rank
        lowest = min(self.points, key=lambda point: point.load.level, default=None)
        p99_ms = lowest.load.latencies.p99_ms if lowest else None
        return 0.0, -(p99_ms or float("inf"))


def write_map(path: Path, combination: Combination) -> Path:
    """Writes the combination for `make up CONFIG=…`. Raises ValueError if it makes no map."""
    running.write_map(
        path,
        {"model": combination.model, **dict(combination.settings)},
        combination.languages,
        device=combination.device,
        task=combination.task,
    )
    running.read_map(path)
    return path


def keeps(load: LoadFigures, sla: SlaEntry) -> bool:
    """Whether a load keeps the promise. A load without a good answer does not."""
    p99_ms = load.latencies.p99_ms
    is_fast = p99_ms is not None and p99_ms <= sla.p99_ms
    return is_fast and load.errors <= sla.error_share * load.answers


def list_requests(load: LoadEntry, combination: Combination) -> list[Request]:
    """A plan's requests: images, or texts into the combination's or the plan's languages."""
    targets = [target for target, n in load.targets.items() for _ in range(n)]
    return draw_requests(
        combination.task,
        REQUESTS,
        targets=targets or combination.languages,
        tokens=read_range(load.tokens),
    )


def run_trial(
    run_dir: Path,
    map_path: Path,
    combination: Combination,
    plan: TuningPlan,
    *,
    rung: int,
    seconds: float,
    start: int | None = None,
) -> Trial:
    """Finds the highest level that keeps the SLA; without a stack, a trial has a fault."""
    began = time.monotonic()
    points: list[Point] = []
    fault = ""
    try:
        say(f"starting {combination.name}")
        with running.start(run_dir, map_path) as stack:
            requests = list_requests(plan.load, combination)
            measure = _Measure(stack, plan, stack.aim(requests))
            measure.ask(plan.load.levels[-1], plan.load.warm_up_seconds)

            def passes(number: int) -> bool:
                level = plan.load.levels[number]
                say(f"{combination.name}, {level:g} {plan.load.unit}")
                points.append(measure(level, seconds))
                return points[-1].is_kept

            find_highest(len(plan.load.levels), passes, start)
    except (StackError, RequestException) as error:
        fault = str(error)
    elapsed_s = time.monotonic() - began
    return Trial(combination.name, rung, elapsed_s, tuple(points), fault)


def find_highest(
    levels: int, passes: Callable[[int], bool], start: int | None = None
) -> int | None:
    """The highest of `levels` numbers from 0 that passes, if all below it do; None if
    none does. Searches by bisection, or step by step from `start`."""
    passed, failed = -1, levels
    probe = levels // 2 if start is None else start
    while failed - passed > 1:
        if passes(probe):
            passed = probe
        else:
            failed = probe
        if start is None:
            probe = (passed + failed) // 2
        else:
            probe = passed + 1 if passed >= start else failed - 1
    return passed if passed >= 0 else None


@dataclass(frozen=True)
class _Measure:
    """Asks one stack."""

    stack: Running
    plan: TuningPlan
    target: Target

    def __call__(self, level: float, seconds: float) -> Point:
        before = read_counters(self.stack.metrics_url)
        load = self.ask(level, seconds)
        workers = describe(before, read_counters(self.stack.metrics_url))
        return Point(load, workers, keeps(load, self.plan.sla))

    def ask(self, level: float, seconds: float) -> LoadFigures:
        if not self.plan.load.is_open:
            return measure_closed(self.target, clients=int(level), seconds=seconds)
        return measure_open(
            self.target,
            rate=level,
            seconds=max(seconds, _LEAST_REQUESTS / level),
            connections=_CONNECTIONS,
        )
