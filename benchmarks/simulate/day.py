"""A day of a large cluster from moments of it. Each is simulated with a few replicas of each
language and their part of the traffic; the autoscaling is calculated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from benchmarks.driver import say
from benchmarks.simulate.cluster import LanguagePart, Simulation, Tally
from benchmarks.simulate.scenario import DAY_S, DayEntry, GatewayEntry, Scenario

#: Looks at the traffic within a delay.
_LOOKS = 8
#: Halvings until the rate of a replica is known well enough.
_STEPS = 8
#: Requests of each look for it, and the seconds that it lasts at least.
_LOOK_REQUESTS, _LOOK_S = 5000, 5.0


@dataclass(frozen=True)
class Moment:
    """A moment of the day, as it is simulated."""

    parts: tuple[LanguagePart, ...]
    #: Replicas of each language that each simulated one stands for.
    factors: Mapping[str, float]
    #: Replicas that are paid for.
    held: Mapping[str, int]
    gateways: GatewayEntry


class Planner:
    """Finds how many replicas each language has at each moment."""

    def __init__(self, scenario: Scenario, day: DayEntry) -> None:
        self._scenario = scenario
        self._day = day
        self._shares = scenario.traffic.find_shares()
        self._rates: dict[int, float] = {}

    def plan(self, number: int) -> Moment:
        """The moment with this number, at the middle of its part of the day."""
        at_s = (number + 0.5) * DAY_S / self._day.moments
        rate = self._scenario.traffic.find_rate(at_s)
        parts, factors, held = [], {}, {}
        for language, share in self._shares.items():
            ready, held[language] = self._find_replicas(share, at_s)
            simulated = min(ready, self._day.most_replicas)
            factors[language] = ready / simulated
            own = rate * share / factors[language]
            parts.append(make_constant(language, own, simulated))
        kept = sum(part.most_per_s for part in parts) / rate if rate else 1.0
        gateways = self._scenario.gateways
        processes = math.ceil(round(gateways.processes * kept, 6))
        gateways = gateways.model_copy(update={"processes": processes})
        return Moment(tuple(parts), factors, held, gateways)

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
        while count < most and rate > count * self._find_rate(count):
            count = max(count + 1, math.floor(rate / self._find_rate(count)))
        return min(count, most)

    def _find_rate(self, replicas: int) -> float:
        """The requests/s of a replica at which it has the requests that it should have.
        More replicas share their load a little better."""
        count = min(replicas, self._day.most_replicas)
        if count not in self._rates:
            self._rates[count] = find_rate(self._scenario, count)
        return self._rates[count]


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
    for number in range(day.moments):
        moment = planner.plan(number)
        say(f"moment {number + 1} of {day.moments}")
        tallies = Simulation(
            scenario.model_copy(update={"gateways": moment.gateways}),
            moment.parts,
            seconds=day.seconds,
            settle_s=day.settle_s,
            seed=f"{seed} {number}",
        ).run()
        span = DAY_S / day.moments / day.seconds
        for tally in tallies:
            factor, held = moment.factors[tally.language], moment.held[tally.language]
            yield replace(
                tally,
                held_s=held * day.seconds / factor,
                most_held=held,
                weight=factor * span,
                span=span,
            )


def make_constant(language: str, rate: float, replicas: int) -> LanguagePart:
    """A language with the same traffic all the time."""
    return LanguagePart(language, lambda _: rate, rate, 0.0, replicas)
