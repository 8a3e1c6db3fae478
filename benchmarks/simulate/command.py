"""`python -m benchmarks simulate`: the figures of a scenario's gateways and replicas.

A day of a large cluster is made of moments: each is simulated with a few replicas of each
language and their part of the traffic, and the autoscaling is calculated.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, Field, TypeAdapter

from benchmarks import driver, report
from benchmarks.driver import say
from benchmarks.instruments.load import CLOSED, OPEN
from benchmarks.simulate.cluster import LanguagePart, Simulation, Tally
from benchmarks.simulate.scenario import (
    DAY_S,
    HOUR_S,
    DayEntry,
    Scenario,
    change,
    read_scenario,
)

#: Looks at the traffic within a delay.
_LOOKS = 8
#: Halvings until the rate of a replica is known well enough.
_STEPS = 8
#: Requests of each look for it, and the seconds that it lasts at least.
_LOOK_REQUESTS, _LOOK_S = 5000, 5.0


class Planner:
    """Finds how many replicas each language has at each moment."""

    def __init__(self, scenario: Scenario, day: DayEntry) -> None:
        self._scenario = scenario
        self._day = day
        #: More replicas share their load a little better.
        self._find_rate = cache(partial(find_rate, scenario))

    def plan(self, number: int) -> tuple[Scenario, list[LanguagePart]]:
        """The moment with this number, at the middle of its part of the day, with as many
        gateways as its parts need."""
        at_s = (number + 0.5) * DAY_S / self._day.moments
        traffic, gateways = self._scenario.traffic, self._scenario.gateways
        rate = traffic.find_rate(at_s)
        parts = []
        for language, share in traffic.find_shares().items():
            ready, held = self._find_replicas(share, at_s)
            simulated = min(ready, self._day.most_replicas)
            factor = ready / simulated
            own = rate * share / factor
            part = make_constant(language, own, simulated)
            parts.append(replace(part, factor=factor, held=held))
        kept = sum(part.most_per_s for part in parts) / rate if rate else 1.0
        processes = math.ceil(round(gateways.processes * kept, 6))
        gateways = gateways.model_copy(update={"processes": processes})
        return self._scenario.model_copy(update={"gateways": gateways}), parts

    def _find_replicas(self, share: float, at_s: float) -> tuple[int, int]:
        """Replicas that answer and those that are paid for. Serve keeps what was wanted
        within a delay, and a new replica answers when it has started."""
        scaling = self._scenario.autoscaling
        seen_s = at_s - scaling.look_back_period_s / 2
        wanted_s = seen_s - scaling.upscale_delay_s
        started_s = wanted_s - self._scenario.replica.start_s
        kept_s = min(seen_s - scaling.downscale_delay_s, started_s)
        ready = self._count_wanted(share, self._find_highest(kept_s, started_s))
        return ready, self._count_wanted(share, self._find_highest(kept_s, wanted_s))

    def _find_highest(self, since_s: float, until_s: float) -> float:
        times = (since_s + (until_s - since_s) * n / _LOOKS for n in range(_LOOKS + 1))
        return max(map(self._scenario.traffic.find_rate, times))

    def _count_wanted(self, share: float, requests_per_s: float) -> int:
        """Count the replicas that Serve wants where such traffic lasts."""
        least, most = self._scenario.replicas
        rate = requests_per_s * share
        count = least
        while count < most:
            each = self._find_rate(min(count, self._day.most_replicas))
            if rate <= count * each:
                break
            count = max(count + 1, math.floor(rate / each))
        return min(count, most)


def find_rate(scenario: Scenario, replicas: int) -> float:
    """The requests/s of one of `replicas` at which it has `target_ongoing_requests`."""
    full_s = scenario.tabulate()[-1]
    low, high = 0.0, scenario.batch_size / full_s * scenario.replica.workers
    gateways = scenario.gateways.model_copy(update={"request_ms": 0.0})
    scenario = scenario.model_copy(update={"gateways": gateways})
    for _ in range(_STEPS):
        middle = (low + high) / 2
        seconds = max(_LOOK_S, _LOOK_REQUESTS / (middle * replicas))
        part = make_constant("", middle * replicas, replicas)
        (tally,) = Simulation(
            scenario, [part], seconds=seconds, settle_s=_LOOK_S, seed="rate"
        ).run()
        # Little's law: requests there are arrivals times the time that each stays.
        ongoing = sum(tally.latencies_s) / seconds / replicas
        is_too_much = tally.refused or tally.late
        if is_too_much or ongoing > scenario.target_ongoing_requests:
            high = middle
        else:
            low = middle
    return (low + high) / 2


def simulate_day(scenario: Scenario, day: DayEntry, *, seed: int) -> Iterator[Tally]:
    """A tally for each moment and language, weighted as its part of the day."""
    planner = Planner(scenario, day)
    span = DAY_S / day.moments / day.seconds
    for number in range(day.moments):
        moment, parts = planner.plan(number)
        say(f"moment {number + 1} of {day.moments}")
        tallies = Simulation(
            moment,
            parts,
            seconds=day.seconds,
            settle_s=day.settle_s,
            seed=f"{seed} {number}",
        ).run()
        for part, tally in zip(parts, tallies, strict=True):
            yield replace(
                tally,
                held_s=part.held * day.seconds / part.factor,
                most_held=part.held,
                weight=part.factor * span,
                span=span,
            )


def make_constant(language: str, rate: float, replicas: int) -> LanguagePart:
    """A language with the same traffic all the time."""
    return LanguagePart(language, lambda _: rate, rate, 0.0, replicas)


ALL = "all"
#: The tolerance between simulated and measured requests/s and mean batches.
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
    latencies: report.Latencies
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
    latencies: report.Latencies = report.Latencies(None, None, None)
    mean_batch: float | None = None
    replicas: int | None = Field(default=None, ge=1)

    @property
    def name(self) -> str:
        unit = "requests/s" if self.loop == OPEN else "clients"
        among = f", {self.replicas} replicas" if self.replicas else ""
        return f"{self.level:g} {unit}{among}"


_LOADS = TypeAdapter(Annotated[list[MeasuredLoad], Field(min_length=1)])

COLUMNS: report.Columns[tuple[str, LanguageOutcome]] = {
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
#: The figures that `--check` compares, and those that must agree.
_COMPARED: report.Columns[MeasuredLoad | LanguageOutcome] = {
    "requests/s": lambda load: load.requests_per_s,
    "mean batch": lambda load: load.mean_batch,
    "p50 ms": lambda load: load.latencies.p50_ms,
    "p99 ms": lambda load: load.latencies.p99_ms,
}
_CHECKED = ("requests/s", "mean batch")


def answer(
    scenario: Path,
    *,
    setting: list[str] | None,
    clients: str,
    rates: str,
    check: str,
    seed: int,
) -> report.Findings:
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
    numbers = driver.read_numbers(clients) if clients else []
    loads = [MeasuredLoad(loop=CLOSED, level=number) for number in numbers]
    loads += [MeasuredLoad(loop=OPEN, level=one) for one in driver.read_rates(rates)]
    named = [(load.name, apply(plan, load)) for load in loads] or [("", plan)]
    outcomes = [(name, run(one, seed)) for name, one in named]
    rows = [(name, outcome) for name, many in outcomes for outcome in many]
    return report.Findings(report.tabulate(rows, COLUMNS), outcomes)


def read_measured(path: Path) -> list[MeasuredLoad]:
    """Read the loads of a benchmark's file. Raises ValueError."""
    try:
        results = json.loads(path.read_bytes())["results"]
        if isinstance(results, list):  # as `ingress` writes them
            counts = {"mean_batch": "batch_fill", "replicas": "machines"}
            loads = [
                each["load"] | {key: each.get(name) for key, name in counts.items()}
                for each in results
            ]
        else:
            loads = results["loads"]
        return _LOADS.validate_python(loads)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path}: expected what `benchmarks stack` or `ingress` writes: {error}"
        ) from error


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
    if day := scenario.day:
        return summarize(scenario, list(simulate_day(scenario, day, seed=seed)))
    stretch, traffic = scenario.stretch, scenario.traffic
    began_s = stretch.from_hour * HOUR_S
    peak = (traffic.requests_per_s or 0.0) * (1 + traffic.wave)

    def make(language: str, share: float) -> LanguagePart:
        """A language with all its replicas and its traffic."""
        return LanguagePart(
            language,
            lambda now: traffic.find_rate(began_s + now) * share,
            peak * share,
            share,
            scenario.replicas[0],
        )

    parts = [make(*item) for item in traffic.find_shares().items()]
    seconds, settle_s = stretch.seconds, stretch.settle_s
    simulation = Simulation(
        scenario, parts, seconds=seconds, settle_s=settle_s, seed=str(seed)
    )
    return summarize(scenario, simulation.run())


def compare(pairs: Sequence[tuple[MeasuredLoad, LanguageOutcome]]) -> report.Findings:
    """A row per load as it was measured and as it is simulated, and what is far apart."""
    rows, misses = [], []
    for measured, outcome in pairs:
        cells = [measured.name]
        for name, read in _COMPARED.items():
            real, simulated = read(measured), read(outcome)
            ratio = simulated / real if real and simulated is not None else None
            cells += map(report.show, (real, simulated, ratio))
            if name in _CHECKED and ratio is not None and abs(ratio - 1) > TOLERANCE:
                found, wanted = report.show(simulated), report.show(real)
                misses.append(f"{measured.name}: {name} {found} instead of {wanted}")
        rows.append(tuple(cells))
    ends = ("", ", simulated", ", ratio")
    headers = ("load", *(name + end for name in _COMPARED for end in ends))
    return report.Findings(
        report.FigureTable(headers, tuple(rows)),
        [{"measured": measured, "simulated": outcome} for measured, outcome in pairs],
        remarks=misses or ["within 15 %"],
        has_failed=bool(misses),
    )


def summarize(scenario: Scenario, tallies: Sequence[Tally]) -> list[LanguageOutcome]:
    """Return all languages together, then each one if there are several."""
    whole = _summarize(scenario, ALL, tallies)
    gateways_hour = scenario.gateways.processes * scenario.price.gateway_hour
    gateways = gateways_hour / HOUR_S / (whole.requests_per_s or math.inf) * 1e6
    languages = report.group(tallies, lambda tally: tally.language)
    each = [_summarize(scenario, name, own) for name, own in languages.items()]
    return [
        outcome
        if outcome.cost_per_million is None
        else replace(outcome, cost_per_million=outcome.cost_per_million + gateways)
        for outcome in (whole, *(each if len(each) > 1 else ()))
    ]


def find_latencies(tallies: Sequence[Tally]) -> report.Latencies:
    """Return percentiles where each tally's times count with its weight."""
    times = np.concatenate([np.frombuffer(t.latencies_s) for t in tallies]) * 1000
    if not len(times):
        return report.Latencies(None, None, None)
    counts = [len(tally.latencies_s) for tally in tallies]
    weights = np.repeat([tally.weight for tally in tallies], counts)
    ms = np.quantile(times, _SHARES, weights=weights, method="inverted_cdf")
    p50, p95, p99, p90 = map(float, ms)
    mean_ms = float(np.average(times, weights=weights))
    return report.Latencies(p50, p95, p99, p90, mean_ms)


def _summarize(
    scenario: Scenario, name: str, tallies: Sequence[Tally]
) -> LanguageOutcome:
    def add(key: str) -> float:
        return float(sum(getattr(tally, key) * tally.weight for tally in tallies))

    languages = report.group(tallies, lambda tally: tally.language).values()
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
