"""What a simulation says of a language, or of all of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.figures import Latencies, group
from benchmarks.simulate.pool import Tally
from benchmarks.simulate.scenario import HOUR_S, Scenario

ALL = "all"
_SHARES = (0.5, 0.95, 0.99, 0.9)


@dataclass(frozen=True)
class Outcome:
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


def summarize(scenario: Scenario, tallies: Sequence[Tally]) -> list[Outcome]:
    """All languages together, then each one if there are several."""
    whole = _summarize(scenario, ALL, tallies)
    gateways_hour = scenario.gateways.processes * scenario.price.gateway_hour
    gateways = gateways_hour / HOUR_S / (whole.requests_per_s or math.inf) * 1e6
    languages = group(tallies, lambda tally: tally.language)
    each = [_summarize(scenario, name, own) for name, own in languages.items()]
    return [_add_cost(o, gateways) for o in (whole, *(each if len(each) > 1 else ()))]


def find_latencies(tallies: Sequence[Tally]) -> Latencies:
    """Percentiles where each tally's times count with its weight."""
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


def _summarize(scenario: Scenario, name: str, tallies: Sequence[Tally]) -> Outcome:
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
    return Outcome(
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


def _add_cost(outcome: Outcome, more: float) -> Outcome:
    cost = outcome.cost_per_million
    return outcome if cost is None else replace(outcome, cost_per_million=cost + more)
