"""`python -m benchmarks overload`: more requests with time limits than a server can answer.
It counts answers in time, refusals, and rows that are computed for nobody.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks import driver, report
from benchmarks.compare.peers.launch import PEERS
from benchmarks.instruments import generator, passes, running
from benchmarks.instruments.load import CLIENT, measure_cpu, read_counters
from benchmarks.instruments.running import Running
from benchmarks.instruments.workload import REQUESTS, draw, write_request
from catalog import checkpoint

OURS, TARGET = "babelgate", "fr"
ANSWERED, REFUSED = "200", "429"
#: The targets for refusals and for rows computed for nobody.
REFUSAL_MS, LATE_ROWS = 100.0, 0.05
#: The promised share of the peak, by the highest multiple of the capacity: where a refusal
#: costs nothing beside an answer, and with the phrasebook, where it does.
LARGE, SMALL = {10.0: 0.9}, {2.0: 0.9, 4.0: 0.75}
#: A sentence's end in a text that goes on.
_INNER_END = re.compile(r"[.!?。！？।؟…:;]\s*\S")
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
    """The answers of a server under a load. Rates are per second of the load's length."""

    limit_ms: int
    #: Times the capacity; 0 of a closed loop, which looks for the peak.
    load: float
    #: Requests that were sent, and how late 1 % of them were at least.
    offered_per_s: float
    lag_p99_ms: float | None
    #: Answered with 200 within the limit while the load lasted.
    good_per_s: float
    #: Times of the answers with 200, those after their limit included.
    p50_ms: float | None
    p99_ms: float | None
    #: Answered with 200, but after the limit.
    late: int
    refused: int
    refusal_p99_ms: float | None
    #: All other ends of a request, by status, the generator's own words among them.
    others: Mapping[str, int]
    answered: int
    #: Until the last client had its answer, or had given up.
    lasted_s: float = 0.0
    #: Computed by the workers, and the share of them that no client got in time; None
    #: where the server does not count.
    rows: int | None = None
    late_rows_share: float | None = None
    #: CPU seconds by program, the client's as `client`.
    cpu_s: Mapping[str, float] = field(default_factory=dict)
    #: Share of the peak within the same limit, or of the offer where that is less.
    share: float | None = None


def answer(
    *,
    loads: str,
    limits: str,
    seconds: float,
    clients: str,
    peak_s: float,
    addresses: int,
    model: str,
    against: str,
    folder: Path,
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
    map_path = folder.resolve() / "map.json"
    running.write_map(map_path, {}, (TARGET,))
    for served in running.read_map(map_path, directory).models:
        checkpoint.prepare(served, checkpoint.default_cache())
    # One sentence each, so that a request is one row.
    sentences = (s for s in draw(REQUESTS, (TARGET,)) if not _INNER_END.search(s.text))
    requests = list(map(write_request, sentences))
    capacity = None
    pressed: dict[str, list[LoadStep]] = {}
    for name, start in servers.items():
        steps = pressed[name] = []
        for limit_ms in limits_ms:
            driver.say(f"{name} within {limit_ms} ms")
            with start(folder.resolve() / name, map_path, directory) as stack:
                target = stack.aim(requests)
                bench = Bench(
                    stack, target, multiples, seconds, sizes, peak_s, addresses
                )
                steps += bench.press(limit_ms, capacity)
            capacity = capacity or steps[0].good_per_s
    return describe(pressed, LARGE if model == passes.RANDOM else SMALL)


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
    """A running server, its requests, and the loads that it is put under for each limit."""

    running: Running
    target: generator.Target
    #: Times the capacity.
    loads: Sequence[float]
    seconds: float
    #: Numbers of clients among which the peak is looked for, and for how long each.
    clients: Sequence[int]
    peak_s: float
    #: That the clients have: a server may bound what it does for one.
    addresses: int = 1
    #: The time of a request that is alone.
    _idle_s: float = math.inf

    def press(self, limit_ms: int, capacity: float | None) -> list[LoadStep]:
        """The peak within a limit, then the ladder's multiples of `capacity` or of that
        peak, and the peak again, because a machine's speed varies. Shares are relative
        to the mean of both peaks, or to the best load if that is more. Raises ValueError if
        nothing is answered in time."""
        first, clients = self.find_peak(limit_ms)
        capacity = capacity or first.good_per_s
        if not capacity:
            raise ValueError(f"no request is answered within {limit_ms} ms")
        steps = []
        for load in self.loads:
            driver.say(f"{load:g} x {capacity:.0f} requests/s within {limit_ms} ms")
            step = self.measure_open(limit_ms, load * capacity)
            steps.append(replace(step, load=load))
        driver.say(f"the peak within {limit_ms} ms again")
        last = self.measure_closed(limit_ms, clients)
        mean = (first.good_per_s + last.good_per_s) / 2
        peak = max([mean, *(step.good_per_s for step in steps)])
        possible = [min(peak, step.offered_per_s) for step in steps]
        shares = [
            replace(step, share=step.good_per_s / most if most else None)
            for step, most in zip(steps, possible, strict=True)
        ]
        return [first, last, *shares]

    def find_peak(self, limit_ms: int) -> tuple[LoadStep, int]:
        """The best closed loop and its clients, after one that warms the server up."""
        driver.say("warming up")
        self.measure_closed(limit_ms, max(self.clients))
        probes = [self._probe() for _ in range(_PROBES)]
        answered = (lasted_s for is_answered, lasted_s in probes if is_answered)
        self._idle_s = min(answered, default=math.inf)
        found = []
        for clients in self.clients:
            driver.say(f"the peak within {limit_ms} ms: {clients} clients")
            found.append((self.measure_closed(limit_ms, clients), clients))
        return max(found, key=lambda step: step[0].good_per_s)

    def measure_closed(self, limit_ms: int, clients: int) -> LoadStep:
        """Clients that wait for their answers."""
        ask = partial(
            generator.ask_again,
            self.target,
            generator.ask_within(limit_ms, addresses=self.addresses),
            clients=clients,
            seconds=self.peak_s,
            pause_s=_PAUSE_S,
        )
        return self._measure(ask, limit_ms, self.peak_s)

    def measure_open(self, limit_ms: int, rate: float) -> LoadStep:
        """Clients that come by themselves, whatever happens to the others."""
        manner = generator.ask_within(limit_ms, addresses=self.addresses)
        arrivals = generator.draw_arrivals(rate, self.seconds, seed=0)
        ask = partial(generator.ask_at, self.target, arrivals, manner)
        return self._measure(ask, limit_ms, self.seconds)

    def _measure(
        self,
        ask: Callable[[], list[generator.LoadReply]],
        limit_ms: int,
        seconds: float,
    ) -> LoadStep:
        before = self._count_rows()
        replies, cpu_s = measure_cpu(self.running.leaders, ask)
        step = replace(summarize(replies, limit_ms, seconds), cpu_s=cpu_s)
        probes = self._settle()
        after = self._count_rows()
        if before is None or after is None:
            return step
        rows = after - before - probes
        good = step.answered - step.late
        late_share = max(0, rows - good) / rows if rows > 0 else None
        return replace(step, rows=rows, late_rows_share=late_share)

    def _settle(self) -> int:
        """Waits until a single request is fast. Returns how many were answered."""
        give_up_at = time.monotonic() + _SETTLE_S
        answered = 0
        while time.monotonic() < give_up_at:
            is_answered, lasted_s = self._probe()
            answered += is_answered
            if is_answered and lasted_s <= _NEARLY * self._idle_s + _NOISE_S:
                break
            time.sleep(_LOOK_S)
        time.sleep(_LOOK_S)
        return answered

    def _probe(self) -> tuple[bool, float]:
        """Whether one request gets 200, and how long it takes."""
        reply = generator.ask_once(self.target)
        return reply.is_good, reply.latency_s

    def _count_rows(self) -> int | None:
        """Rows that the workers have computed; None if they do not count."""
        if not self.running.metrics_url:
            return None
        counters = read_counters(self.running.metrics_url)
        dropped = (n for name, n in counters.items() if name.startswith("Dropped"))
        return counters["Rows"] - sum(dropped)


def summarize(
    replies: Sequence[generator.LoadReply], limit_ms: int, seconds: float
) -> LoadStep:
    """The figures of the replies to a load that took `seconds`."""
    times_ms = {
        status: [reply.latency_s * 1000 for reply in some]
        for status, some in report.group(replies, lambda reply: reply.status).items()
    }
    answered, refusals = times_ms.pop(ANSWERED, []), times_ms.pop(REFUSED, [])
    good = [r for r in replies if r.is_good and r.latency_s * 1000 <= limit_ms]
    sent = [reply for reply in replies if reply.status != generator.UNSENT]
    sent_s = max((r.ended_s - r.latency_s + r.lag_s for r in sent), default=0.0)
    return LoadStep(
        limit_ms=limit_ms,
        load=0.0,
        offered_per_s=len(sent) / max(seconds, sent_s),
        lag_p99_ms=report.percentile([reply.lag_s * 1000 for reply in replies], 0.99),
        good_per_s=sum(reply.ended_s <= seconds for reply in good) / seconds,
        p50_ms=report.percentile(answered, 0.5),
        p99_ms=report.percentile(answered, 0.99),
        late=len(answered) - len(good),
        refused=len(refusals),
        refusal_p99_ms=report.percentile(refusals, 0.99),
        others={status: len(some) for status, some in times_ms.items()},
        answered=len(answered),
        lasted_s=max((reply.ended_s for reply in replies), default=seconds),
    )


def find_misses(steps: Sequence[LoadStep], goals: Mapping[float, float]) -> list[str]:
    """Name the promises that were not kept; `goals` are shares of the peak, by the highest
    load."""
    return [
        f"{step.limit_ms} ms, {step.load:g} times: {miss}"
        for step in steps
        if step.load
        for miss in _find_misses(step, goals)
    ]


def _find_misses(step: LoadStep, goals: Mapping[float, float]) -> Iterator[str]:
    goal = next((goals[most] for most in sorted(goals) if step.load <= most), 0.0)
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


_COLUMNS: report.Columns[LoadStep] = {
    "limit s": lambda step: f"{step.limit_ms / 1000:g}",
    "load": lambda step: f"{step.load:g}" if step.load else "peak",
    "offered/s": lambda step: step.offered_per_s,
    "good/s": lambda step: step.good_per_s,
    "of the peak": lambda step: _show_share(step.share),
    "p50 ms": lambda step: step.p50_ms,
    "p99 ms": lambda step: step.p99_ms,
    "refused": lambda step: step.refused,
    "429 p99 ms": lambda step: step.refusal_p99_ms,
    "others": lambda step: report.list_counts(step.others) or "–",
    "late rows": lambda step: _show_share(step.late_rows_share),
    "lag p99 ms": lambda step: step.lag_p99_ms,
}


def _show_share(share: float | None) -> str:
    return "–" if share is None else f"{share:.0%}"


def describe(
    pressed: Mapping[str, Sequence[LoadStep]], goals: Mapping[float, float]
) -> report.Findings:
    """A row per server, limit and load, goodput over offered load, and which promises the
    first server has not kept."""
    columns: report.Columns[tuple[str, LoadStep]] = {
        "": lambda row: row[0],
        **report.nest(_COLUMNS, lambda row: row[1]),
    }
    rows = [(name, step) for name, steps in pressed.items() for step in steps]
    costs = {name: find_refusal_cost(steps) for name, steps in pressed.items()}
    remarks = [
        f"{name}, CPU ms per refusal: {program} {report.show(ms)}"
        for name, cost in costs.items()
        for program, ms in cost.items()
    ]
    misses = find_misses(next(iter(pressed.values())), goals)
    charts = []
    for limit_ms, some in report.group(rows, lambda row: row[1].limit_ms).items():
        lines = {name: [(0.0, 0.0)] for name in pressed}
        for name, step in some:
            if step.load:
                lines[name].append((step.offered_per_s, step.good_per_s))
        title, unit = (
            f"Limit {limit_ms / 1000:g} s",
            "requests/s answered within the limit",
        )
        charts.append(report.Chart(title, "requests/s offered", unit, lines))
    return report.Findings(
        report.tabulate(rows, columns),
        {"servers": pressed, "refusal_cpu_ms": costs},
        remarks=[*remarks, *(misses or ["All promises are held."])],
        charts=charts,
    )


def find_refusal_cost(steps: Sequence[LoadStep]) -> dict[str, float]:
    """Milliseconds of CPU per refusal by program, by least squares: a program spends a
    fixed amount per refusal, other request and second. Empty if few were refused."""
    if sum(step.refused for step in steps) < _FEWEST_REFUSALS:
        return {}
    counts = [
        (step.refused, step.answered + sum(step.others.values()), step.lasted_s)
        for step in steps
    ]
    costs = {}
    for program in sorted(set(steps[0].cpu_s) - {CLIENT}):
        spent_ms = [step.cpu_s.get(program, 0.0) * 1000 for step in steps]
        solution, *_ = np.linalg.lstsq(np.array(counts, float), np.array(spent_ms))
        costs[program] = float(solution[0])
    return costs
