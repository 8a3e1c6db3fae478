"""`python -m benchmarks simulate`: what a scenario's gateways and replicas would do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, Field, ValidationError

from benchmarks import driver
from benchmarks.instruments.load import CLOSED, OPEN
from benchmarks.report import (
    Columns,
    FigureTable,
    Findings,
    Latencies,
    group,
    show,
    tabulate,
)
from benchmarks.simulate.cluster import LanguagePart, Simulation, Tally
from benchmarks.simulate.day import simulate_day
from benchmarks.simulate.scenario import HOUR_S, Scenario, change, read_scenario

ALL = "all"
#: How far the simulated requests/s and mean batch may be from the measured ones.
TOLERANCE = 0.15
#: A simulation is cheap: it lasts this much longer than the load that it is compared with.
_LONGER = 20
_SHARES = (0.5, 0.95, 0.99, 0.9)


@dataclass(frozen=True)
class LanguageOutcome:
    """The figures of a language, or of all. None where nothing was counted."""

    language: str
    #: Answered in time.
    requests_per_s: float
    latencies: Latencies
    mean_batch: float | None
    #: Shares of all requests that ended.
    refused: float
    late: float
    #: The average and the most, with those that start or end.
    replicas: float
    most_replicas: int
    #: The share of the time that works had a batch.
    utilisation: float | None
    gpu_hours: float
    #: Per million answers, with the gateways' share for all languages.
    cost_per_million: float | None
    #: Requests that were simulated.
    simulated: int


class MeasuredLoad(BaseModel):
    """A load and its figures."""

    loop: Literal["open", "closed"]
    #: Clients of a closed loop, requests/s of an open one.
    level: float = Field(gt=0)
    requests_per_s: float = 0.0
    latencies: Latencies = Latencies(None, None, None)
    mean_batch: float | None = None
    replicas: int | None = Field(default=None, ge=1)

    @property
    def name(self) -> str:
        unit = "requests/s" if self.loop == OPEN else "clients"
        among = f", {self.replicas} replicas" if self.replicas else ""
        return f"{self.level:g} {unit}{among}"


class _Entry(BaseModel):
    """A load as `python -m benchmarks ingress` writes it."""

    load: MeasuredLoad
    batch_fill: float | None = None
    #: Each has a replica.
    machines: int | None = None


class _Loads(BaseModel):
    """Loads as `python -m benchmarks stack` writes them."""

    loads: list[MeasuredLoad] = Field(min_length=1)


class _Content(BaseModel):
    results: _Loads | Annotated[list[_Entry], Field(min_length=1)]


COLUMNS: Columns[tuple[str, LanguageOutcome]] = {
    "load": lambda row: row[0],
    "language": lambda row: row[1].language,
    "requests/s": lambda row: row[1].requests_per_s,
    "p50 ms": lambda row: row[1].latencies.p50_ms,
    "p95 ms": lambda row: row[1].latencies.p95_ms,
    "p99 ms": lambda row: row[1].latencies.p99_ms,
    "mean batch": lambda row: row[1].mean_batch,
    "refused %": lambda row: 100 * row[1].refused,
    "late %": lambda row: 100 * row[1].late,
    "replicas": lambda row: row[1].replicas,
    "at most": lambda row: row[1].most_replicas,
    "busy %": lambda row: row[1].utilisation and 100 * row[1].utilisation,
    "GPU hours": lambda row: row[1].gpu_hours,
    "cost per million": lambda row: row[1].cost_per_million,
}


def answer(
    scenario: Path,
    *,
    setting: list[str] | None,
    clients: str,
    rates: str,
    check: str,
    seed: int,
) -> Findings:
    """Latencies, batches, refusals, GPU hours and cost of a scenario, without any GPU.

    A scenario with `day` is represented by moments of the day with a part of the replicas;
    any other is simulated as it is. With --check the command fails if requests/s or the
    mean batch differ by more than 15 %.
    """
    plan = change(read_scenario(scenario), setting or ())
    if check and plan.day:
        raise ValueError("--check: expected a scenario without `day`")
    if check:
        longer = plan.stretch.seconds * _LONGER
        stretch = plan.stretch.model_copy(update={"seconds": longer})
        plan = plan.model_copy(update={"stretch": stretch})
        loads = read_measured(Path(check))
        return compare([(load, run(apply(plan, load), 0)[0]) for load in loads])
    loads = [
        *(
            MeasuredLoad(loop=CLOSED, level=number)
            for number in (driver.read_numbers(clients) if clients else ())
        ),
        *(MeasuredLoad(loop=OPEN, level=rate) for rate in driver.read_rates(rates)),
    ]
    named = [(load.name, apply(plan, load)) for load in loads] or [("", plan)]
    outcomes = [(name, run(one, seed)) for name, one in named]
    rows = [(name, outcome) for name, many in outcomes for outcome in many]
    return Findings(tabulate(rows, COLUMNS), outcomes)


def read_measured(path: Path) -> list[MeasuredLoad]:
    """Read the loads of a benchmark's file. Raises ValueError."""
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


def apply(scenario: Scenario, load: MeasuredLoad) -> Scenario:
    """Return the scenario with a load's traffic and replicas."""
    is_open, count = load.loop == OPEN, load.replicas
    update = {
        "requests_per_s": load.level if is_open else None,
        "clients": None if is_open else int(load.level),
        "wave": 0.0,
    }
    traffic = scenario.traffic.model_copy(update=update)
    replicas = (count, count) if count else scenario.replicas
    return scenario.model_copy(update={"traffic": traffic, "replicas": replicas})


def run(scenario: Scenario, seed: int) -> list[LanguageOutcome]:
    """Simulate a scenario. The first outcome is that of all languages."""
    if scenario.day:
        return summarize(
            scenario, list(simulate_day(scenario, scenario.day, seed=seed))
        )
    stretch, traffic = scenario.stretch, scenario.traffic
    least, most = scenario.replicas
    began_s = stretch.from_hour * HOUR_S
    peak = (traffic.requests_per_s or 0.0) * (1 + traffic.wave)

    def make(language: str, share: float) -> LanguagePart:
        """A language with all its replicas and its traffic."""
        return LanguagePart(
            language,
            lambda now: traffic.find_rate(began_s + now) * share,
            peak * share,
            share,
            scenario.autoscaling.initial_replicas or least,
            (least, most) if least < most else None,
        )

    parts = [make(*item) for item in traffic.find_shares().items()]
    seconds, settle_s = stretch.seconds, stretch.settle_s
    simulation = Simulation(
        scenario, parts, seconds=seconds, settle_s=settle_s, seed=str(seed)
    )
    return summarize(scenario, simulation.run())


def compare(pairs: Sequence[tuple[MeasuredLoad, LanguageOutcome]]) -> Findings:
    """A row per load as it was measured and as it is simulated, and what is far apart."""
    rows, misses, headers = [], [], ["load"]
    for measured, outcome in pairs:
        figures = {
            "requests/s": (measured.requests_per_s, outcome.requests_per_s),
            "mean batch": (measured.mean_batch, outcome.mean_batch),
            "p50 ms": (measured.latencies.p50_ms, outcome.latencies.p50_ms),
            "p99 ms": (measured.latencies.p99_ms, outcome.latencies.p99_ms),
        }
        cells = [measured.name]
        for name, (real, simulated) in figures.items():
            ratio = simulated / real if real and simulated is not None else None
            cells += map(show, (real, simulated, ratio))
            is_checked = name in ("requests/s", "mean batch") and ratio is not None
            if is_checked and abs((ratio or 0) - 1) > TOLERANCE:
                misses.append(
                    f"{measured.name}: {name} {show(simulated)} instead of {show(real)}"
                )
        rows.append(tuple(cells))
    for name in figures:
        headers += (name, f"{name}, simulated", f"{name}, ratio")
    return Findings(
        FigureTable(tuple(headers), tuple(rows)),
        [{"measured": measured, "simulated": outcome} for measured, outcome in pairs],
        remarks=misses or ["within 15 %"],
        has_failed=bool(misses),
    )


def summarize(scenario: Scenario, tallies: Sequence[Tally]) -> list[LanguageOutcome]:
    """Return all languages together, then each one if there are several."""
    whole = _summarize(scenario, ALL, tallies)
    gateways_hour = scenario.gateways.processes * scenario.price.gateway_hour
    gateways = gateways_hour / HOUR_S / (whole.requests_per_s or math.inf) * 1e6
    languages = group(tallies, lambda tally: tally.language)
    each = [_summarize(scenario, name, own) for name, own in languages.items()]
    return [
        outcome
        if outcome.cost_per_million is None
        else replace(outcome, cost_per_million=outcome.cost_per_million + gateways)
        for outcome in (whole, *(each if len(each) > 1 else ()))
    ]


def find_latencies(tallies: Sequence[Tally]) -> Latencies:
    """Return percentiles where each tally's times count with its weight."""
    times = np.concatenate([np.frombuffer(t.latencies_s) for t in tallies]) * 1000
    if not len(times):
        return Latencies(None, None, None)
    counts = [len(tally.latencies_s) for tally in tallies]
    weights = np.repeat([tally.weight for tally in tallies], counts)
    order = np.argsort(times)
    sums = np.cumsum(weights[order])
    places = np.searchsorted(sums, np.array(_SHARES) * sums[-1])
    p50, p95, p99, p90 = (float(ms) for ms in times[order][places])
    return Latencies(p50, p95, p99, p90, float(np.average(times, weights=weights)))


def _summarize(
    scenario: Scenario, name: str, tallies: Sequence[Tally]
) -> LanguageOutcome:
    def add(key: str) -> float:
        return float(sum(getattr(tally, key) * tally.weight for tally in tallies))

    languages = group(tallies, lambda tally: tally.language).values()
    seconds = sum(tally.seconds * tally.span for tally in next(iter(languages)))
    answered = sum(len(tally.latencies_s) * tally.weight for tally in tallies)
    refused, late, batches = add("refused"), add("late"), add("batches")
    ended = answered + refused + late
    hours, works_s = add("held_s") / HOUR_S, add("works_s")
    price, gpus = scenario.price, scenario.replica.gpus
    cost = hours * (gpus * price.gpu_hour + price.replica_hour)
    return LanguageOutcome(
        language=name,
        requests_per_s=answered / seconds,
        latencies=find_latencies(tallies),
        mean_batch=add("rows") / batches if batches else None,
        refused=refused / ended if ended else 0.0,
        late=late / ended if ended else 0.0,
        replicas=hours * HOUR_S / seconds,
        most_replicas=sum(max(t.most_held for t in own) for own in languages),
        utilisation=add("busy_s") / works_s if works_s else None,
        gpu_hours=hours * gpus,
        cost_per_million=cost / answered * 1e6 if answered else None,
        simulated=sum(len(tally.latencies_s) for tally in tallies),
    )
