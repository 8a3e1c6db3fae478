"""`python -m benchmarks overload`: more requests with time limits than a server can answer.
It counts answers in time, refusals, and rows that are computed for nobody.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from benchmarks import driver, report
from benchmarks.compare.peers.launch import PEERS
from benchmarks.instruments import generator, load, passes, running
from benchmarks.instruments.load import (
    CLIENT,
    CLOSED,
    OPEN,
    LoadFigures,
    measure_cpu,
    read_counters,
)
from benchmarks.instruments.running import Running
from benchmarks.instruments.workload import REQUESTS, draw, write_request
from catalog import checkpoint
from deploy.stack import ROOT

OURS, TARGET = "babelgate", "fr"
ANSWERED, REFUSED = "200", "429"
_FOLDER = ROOT / "run/overload"
#: The targets for refusals and for rows computed for nobody.
REFUSAL_MS, LATE_ROWS = 100.0, 0.05
#: The promised share of the peak, by the highest multiple of the capacity: where a refusal
#: costs nothing beside an answer, and with the phrasebook, where it does.
LARGE, SMALL = {10.0: 0.9}, {2.0: 0.9, 4.0: 0.75}
#: A sentence's end in a text that goes on.
_INNER_END = re.compile(r"[.!?。！？।؟…:;]\s*\S")
#: The clients' addresses: a server may bound what it does for one.
_ADDRESSES = 256
#: A client of the closed loop waits so long before it asks again for what it was refused.
_PAUSE_S = 0.05
#: The longest time for which work that no client waits for goes on; a batch's counters
#: are on TorchServe's page a moment after its answers.
_SETTLE_S, _LOOK_S = 600.0, 1.0
#: Requests by which a server's idle time is found, and how much longer than that is idle still.
_PROBES, _NEARLY, _NOISE_S = 3, 2.0, 0.05
#: Fewer refusals say nothing about what one costs.
_FEWEST_REFUSALS = 200


@dataclass(frozen=True)
class LoadStep:
    """A server under a load whose requests have a time limit."""

    limit_ms: int
    #: Requests that were sent.
    offered_per_s: float
    #: Answered with 200 within the limit while the load lasted.
    good_per_s: float
    #: Answered with 200, but after the limit.
    late: int
    refusal_p99_ms: float | None
    figures: LoadFigures
    server: str = OURS
    #: Times the capacity; 0 of a closed loop, which looks for the peak.
    times: float = 0.0
    #: Share of the workers' rows that no client got in time; None where they do not count.
    late_rows_share: float | None = None
    #: Share of the peak within the same limit, or of the offer where that is less.
    share: float | None = None

    @property
    def others(self) -> Mapping[str, int]:
        """All ends of a request but 200 and 429, by status or the generator's words."""
        known, statuses = (ANSWERED, REFUSED), self.figures.statuses
        return {name: statuses[name] for name in statuses if name not in known}


def answer(
    *,
    loads: str,
    limits: str,
    seconds: float,
    clients: str,
    peak_s: float,
    model: str,
    against: str,
) -> report.Findings:
    """Goodput, refusals and rows computed for nobody, at multiples of the capacity.

    Each limit has its own stack. Its peak is found with clients that wait; then requests
    arrive at random, whatever happens to the others. The capacity is our peak within the
    longest limit; others get the same load.
    """
    multiples, sizes = driver.read_rates(loads), driver.read_numbers(clients)
    limits_ms = sorted(driver.read_numbers(limits), reverse=True)
    servers = choose(driver.read_words(against))
    directory = passes.find_model(model)
    map_path = running.write_map(_FOLDER / "map.json", {}, (TARGET,))
    for served in running.read_map(map_path, directory).models:
        checkpoint.prepare(served, checkpoint.default_cache())
    # One sentence each, so that a request is one row.
    sentences = (s for s in draw(REQUESTS, (TARGET,)) if not _INNER_END.search(s.text))
    requests = list(map(write_request, sentences))
    steps: list[LoadStep] = []
    for name, start in servers.items():
        for limit_ms in limits_ms:
            driver.say(f"{name} within {limit_ms} ms")
            with start(_FOLDER / name, map_path, directory) as stack:
                target = stack.aim(requests)
                bench = Bench(
                    stack, target, limit_ms, multiples, seconds, sizes, peak_s
                )
                capacity = steps[0].good_per_s if steps else None
                steps += [replace(step, server=name) for step in bench.press(capacity)]
    return describe(steps, LARGE if model == passes.RANDOM else SMALL)


def choose(names: Sequence[str]) -> dict[str, running.Start]:
    """Choose ours and the named peers. Raises ValueError for an unknown one."""
    unknown = [name for name in names if name not in PEERS]
    if unknown:
        raise ValueError(f"{', '.join(unknown)!r}: expected some of {', '.join(PEERS)}")
    for name in names:
        PEERS[name].prepare()
    return {OURS: running.start, **{name: PEERS[name].start for name in names}}


@dataclass
class Bench:
    """A running server, its requests, and the loads that it is put under."""

    running: Running
    target: generator.Target
    limit_ms: int
    #: Times the capacity.
    loads: Sequence[float]
    seconds: float
    #: Numbers of clients among which the peak is looked for, and for how long each.
    clients: Sequence[int]
    peak_s: float
    #: The time of a request that is alone.
    _idle_s: float = math.inf

    def press(self, capacity: float | None) -> list[LoadStep]:
        """The peak, then the multiples of `capacity` or of that peak, and the peak again,
        because a machine's speed varies. Shares are relative to the mean of both peaks, or to
        the best load if that is more. Raises ValueError if nothing is answered in time."""
        self._ask(clients=max(self.clients))
        probes = [generator.ask_once(self.target) for _ in range(_PROBES)]
        times_s = (probe.latency_s for probe in probes if probe.is_good)
        self._idle_s = min(times_s, default=math.inf)
        peaks = [(self._ask(clients=number), number) for number in self.clients]
        first, clients = max(peaks, key=lambda peak: peak[0].good_per_s)
        capacity = capacity or first.good_per_s
        if not capacity:
            raise ValueError(f"no request is answered within {self.limit_ms} ms")
        steps = [replace(self._ask(rate=n * capacity), times=n) for n in self.loads]
        last = self._ask(clients=clients)
        mean = (first.good_per_s + last.good_per_s) / 2
        peak = max([mean, *(step.good_per_s for step in steps)])
        possible = [min(peak, step.offered_per_s) for step in steps]
        shares = [
            replace(step, share=step.good_per_s / most if most else None)
            for step, most in zip(steps, possible, strict=True)
        ]
        return [first, last, *shares]

    def _ask(self, *, clients: int = 0, rate: float = 0.0) -> LoadStep:
        """Clients that wait for their answers, or that come by themselves at a rate, whatever
        happens to the others."""
        manner = generator.ask_within(self.limit_ms, addresses=_ADDRESSES)
        loop, level, seconds = CLOSED, float(clients), self.peak_s
        ask = partial(generator.ask_again, clients=clients, pause_s=_PAUSE_S)
        ask = partial(ask, self.target, manner, seconds=seconds)
        if rate:
            loop, level, seconds = OPEN, rate, self.seconds
            arrivals = generator.draw_arrivals(rate, seconds, seed=0)
            ask = partial(generator.ask_at, self.target, arrivals, manner)
        driver.say(f"{loop} loop, {level:.0f}, within {self.limit_ms} ms")
        before = self._count_rows()
        replies, cpu_s = measure_cpu(self.running.leaders, ask)
        lasted_s = max((reply.ended_s for reply in replies), default=0.0)
        figures = load.summarize(loop, level, max(seconds, lasted_s), replies)
        figures = replace(figures, cpu_ms=load.divide(cpu_s, len(replies)))
        step = summarize(replies, self.limit_ms, seconds, figures)
        rows = -self._settle() - before + self._count_rows()
        good = figures.statuses.get(ANSWERED, 0) - step.late
        return replace(
            step, late_rows_share=max(0, rows - good) / rows if rows > 0 else None
        )

    def _settle(self) -> int:
        """Waits until a single request is fast. Returns how many were answered."""
        give_up_at = time.monotonic() + _SETTLE_S
        answered = 0
        while time.monotonic() < give_up_at:
            probe = generator.ask_once(self.target)
            answered += probe.is_good
            if probe.is_good and probe.latency_s <= _NEARLY * self._idle_s + _NOISE_S:
                break
            time.sleep(_LOOK_S)
        time.sleep(_LOOK_S)
        return answered

    def _count_rows(self) -> int:
        """Rows that the workers have computed; 0 if they do not count."""
        if not self.running.metrics_url:
            return 0
        counters = read_counters(self.running.metrics_url)
        dropped = (n for name, n in counters.items() if name.startswith("Dropped"))
        return counters["Rows"] - sum(dropped)


def summarize(
    replies: Sequence[generator.LoadReply],
    limit_ms: int,
    seconds: float,
    figures: LoadFigures,
) -> LoadStep:
    """Describe the replies to a load that took `seconds` beyond its usual figures."""
    refusals = [r.latency_s * 1000 for r in replies if r.status == REFUSED]
    answered = [reply for reply in replies if reply.is_good]
    good = [reply for reply in answered if reply.latency_s * 1000 <= limit_ms]
    sent = [reply for reply in replies if reply.status != generator.UNSENT]
    sent_s = max((r.ended_s - r.latency_s + r.lag_s for r in sent), default=0.0)
    return LoadStep(
        limit_ms=limit_ms,
        offered_per_s=len(sent) / max(seconds, sent_s),
        good_per_s=sum(reply.ended_s <= seconds for reply in good) / seconds,
        late=len(answered) - len(good),
        refusal_p99_ms=report.percentile(refusals, 0.99),
        figures=figures,
    )


def find_misses(step: LoadStep, goals: Mapping[float, float]) -> Iterator[str]:
    """Name the promises that were not kept; `goals` are shares of the peak, by the highest
    load."""
    goal = next((goals[most] for most in sorted(goals) if step.times <= most), 0.0)
    late_rows, refusal_ms = step.late_rows_share or 0.0, step.refusal_p99_ms or 0.0
    if step.share is not None and step.share < goal:
        yield f"{step.share:.0%} of the peak, not {goal:.0%}"
    if step.late:
        yield f"{step.late} answers after their limit"
    if refusal_ms > REFUSAL_MS:
        yield f"429 after {report.show(refusal_ms)} ms, not {REFUSAL_MS:g}"
    if step.others:
        yield f"neither 200 nor 429: {report.list_counts(step.others)}"
    if late_rows > LATE_ROWS:
        yield f"{late_rows:.0%} of the rows for nobody, not {LATE_ROWS:.0%}"


def describe(
    steps: Sequence[LoadStep], goals: Mapping[float, float]
) -> report.Findings:
    """A row per server, limit and load, goodput over offered load, and which promises ours
    has not kept."""
    own = [step for step in steps if step.server == OURS]
    costs = find_refusal_cost([step.figures for step in own])
    remarks = [
        f"CPU ms per refusal: {name} {report.show(costs[name])}" for name in costs
    ]
    pressed = [step for step in steps if step.times]
    misses = [
        f"{step.limit_ms} ms, {step.times:g} times: {miss}"
        for step in pressed
        if step.server == OURS
        for miss in find_misses(step, goals)
    ]
    charts = [
        replace(
            report.plot(some, "offered/s", "good/s", line="server"),
            title=f"Limit {limit_ms / 1000:g} s",
        )
        for limit_ms, some in report.group(pressed, lambda step: step.limit_ms).items()
    ]
    return report.Findings(
        report.tabulate(steps),
        {"steps": steps, "refusal_cpu_ms": costs},
        remarks=[*remarks, *(misses or ["All promises are held."])],
        charts=charts,
    )


def find_refusal_cost(loads: Sequence[LoadFigures]) -> dict[str, float]:
    """Milliseconds of CPU per refusal by program, by least squares: a program spends a
    fixed amount per refusal, other request and second. Empty if few were refused."""
    refused = [one.statuses.get(REFUSED, 0) for one in loads]
    if sum(refused) < _FEWEST_REFUSALS:
        return {}
    counts = [
        (count, one.answers - count, one.seconds)
        for count, one in zip(refused, loads, strict=True)
    ]
    costs = {}
    for program in sorted(set(loads[0].cpu_ms) - {CLIENT}):
        spent_ms = [one.cpu_ms.get(program, 0.0) * one.answers for one in loads]
        solution, *_ = np.linalg.lstsq(np.array(counts, float), np.array(spent_ms))
        costs[program] = float(solution[0])
    return costs
