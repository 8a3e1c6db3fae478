"""The whole stack under stress: `python -m benchmarks overload` sends more requests with time
limits than a server can answer, and `soak` an hour of the same mixed load, with mistakes, slow
clients and clients that hang up.
"""

from __future__ import annotations

import math
import random
import re
import socket
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from urllib.parse import urlsplit

import numpy as np
import psutil

from benchmarks import driver, report
from benchmarks.compare.peers.launch import PEERS, start_peer
from benchmarks.instruments import generator, load, passes, running
from benchmarks.instruments.load import CLIENT, CLOSED, OPEN, LoadFigures
from benchmarks.instruments.running import Running
from benchmarks.instruments.workload import (
    REQUESTS,
    draw,
    write_document,
    write_request,
)
from deploy import stack as stacks
from handlers.engine.translation.engine import Sentence

OURS, TARGET = "babelgate", "fr"
ANSWERED, REFUSED = "200", "429"
_FOLDER = stacks.ROOT / "run/overload"
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


def overload(
    *,
    loads: str,
    limits: str,
    seconds: float,
    clients: str,
    peak_s: float,
    model: str,
    against: str,
) -> report.Findings:
    """Goodput, refusals and rows of clients that have left, at multiples of the capacity.

    Each limit has its own stack. Its peak is found with clients that wait; then requests
    arrive at random, whatever happens to the others. The capacity is our peak within the
    longest limit; others get the same load.
    """
    multiples, sizes = driver.read_numbers(loads, float), driver.read_numbers(clients)
    limits_ms = sorted(driver.read_numbers(limits), reverse=True)
    servers: dict[str, running.Start] = {OURS: running.start}
    for name in driver.read_words(against, PEERS):
        servers[name] = partial(start_peer, name)
    directory = passes.find_model(model)
    map_path = running.write_map(_FOLDER / "map.json", {}, (TARGET,))
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
    return describe(steps)


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
        self._ask_load(CLOSED, max(self.clients))
        probes = [generator.ask_once(self.target) for _ in range(_PROBES)]
        times_s = (probe.latency_s for probe in probes if probe.is_good)
        self._idle_s = min(times_s, default=math.inf)
        peaks = [(self._ask_load(CLOSED, number), number) for number in self.clients]
        first, clients = max(peaks, key=lambda peak: peak[0].good_per_s)
        capacity = capacity or first.good_per_s
        if not capacity:
            raise ValueError(f"no request is answered within {self.limit_ms} ms")
        steps = [
            replace(self._ask_load(OPEN, times * capacity), times=times)
            for times in self.loads
        ]
        last = self._ask_load(CLOSED, clients)
        mean = (first.good_per_s + last.good_per_s) / 2
        peak = max([mean, *(step.good_per_s for step in steps)])

        def compare(step: LoadStep) -> LoadStep:
            most = min(peak, step.offered_per_s)
            return replace(step, share=step.good_per_s / most if most else None)

        return [first, last, *map(compare, steps)]

    def _ask_load(self, loop: str, level: float) -> LoadStep:
        """A load of clients that wait for their answers, or that come by themselves."""
        manner = generator.ask_within(self.limit_ms, addresses=_ADDRESSES)
        seconds = self.seconds if loop == OPEN else self.peak_s
        driver.say(f"{loop} loop, {level:.0f}, within {self.limit_ms} ms")
        before = self._count_rows()
        figures, replies = load.measure(
            self.target, loop, level, seconds=seconds, manner=manner, pause_s=_PAUSE_S
        )
        step = summarize(replies, self.limit_ms, seconds, figures)
        probes = self._settle()
        rows = self._count_rows() - before - probes
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
        counters = load.read_counters(self.running.metrics_url)
        dropped = (n for name, n in counters.items() if name.startswith("dropped"))
        return counters["rows"] - sum(dropped)


def summarize(
    replies: Sequence[generator.LoadReply],
    limit_ms: int,
    seconds: float,
    figures: LoadFigures,
) -> LoadStep:
    """Describe the replies to a load that took `seconds` beyond its usual figures."""
    refused_s = [reply.latency_s for reply in replies if reply.status == REFUSED]
    answered = [reply for reply in replies if reply.is_good]
    good = [reply for reply in answered if reply.latency_s * 1000 <= limit_ms]
    sent = [reply for reply in replies if reply.status != generator.UNSENT]
    sent_s = max((r.ended_s - r.latency_s + r.lag_s for r in sent), default=0.0)
    return LoadStep(
        limit_ms=limit_ms,
        offered_per_s=len(sent) / max(seconds, sent_s),
        good_per_s=sum(reply.ended_s <= seconds for reply in good) / seconds,
        late=len(answered) - len(good),
        refusal_p99_ms=report.summarize_latencies(refused_s).p99_ms,
        figures=figures,
    )


def describe(steps: Sequence[LoadStep]) -> report.Findings:
    """A row per server, limit and load, and goodput over offered load."""
    own = [step for step in steps if step.server == OURS]
    costs = find_refusal_cost([step.figures for step in own])
    remarks = [
        f"CPU ms per refusal: {name} {report.show(costs[name])}" for name in costs
    ]
    results = {"steps": steps, "refusal_cpu_ms": costs}
    limits = report.group(filter(lambda step: step.times, steps), lambda s: s.limit_ms)
    charts = [
        replace(
            report.plot(some, "offered/s", "good/s", line="server"),
            title=f"Limit {limit_ms / 1000:g} s",
        )
        for limit_ms, some in limits.items()
    ]
    return report.Findings(report.tabulate(steps), results, remarks, charts)


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
    programs = sorted(set(loads[0].cpu_ms) - {CLIENT})
    spent_ms = [
        [one.cpu_ms.get(name, 0.0) * one.answers for name in programs] for one in loads
    ]
    solution, *_ = np.linalg.lstsq(np.array(counts, float), np.array(spent_ms))
    return dict(zip(programs, solution[0].tolist(), strict=True))


_RUN = stacks.ROOT / "run/soak/run"
SENTENCE = "sentence"
#: The share of each, of a hundred requests.
SHARES = {SENTENCE: 75, "list": 8, "document": 2, "HTML": 7, "mistake": 8}
_LIST_TEXTS, _DOCUMENT_BYTES = 5, 2000
_PATIENCE_S = 40.0
_SLOW_PARTS = 5
#: The target: nothing grows by more, from the first quarter to the last.
GROWTH = 0.02
#: MB, files, threads or milliseconds that are too few to be called growth, such as a pool's
#: next thread.
SLACK = 2.0
#: Samples before this share of the time do not count: caches fill, code is compiled.
WARM_UP = 0.2
_FEWEST = 8
_PIECES = 5000
#: Clients and length of the look for the capacity, and its share that is asked for.
_MANY, _PEAK_S, _SHARE = 64, 10.0, 0.5
_MANNER = generator.Manner(addresses=50, patience_s=_PATIENCE_S)
#: Between two looks at memory, two reloads, and two visits of bad clients.
_EVERY_S, _RELOAD_S, _VISIT_S = 10.0, 600.0, 1.0


@dataclass(frozen=True)
class MedleyPiece:
    """A request, and the status that it is to get."""

    kind: str
    request: generator.Request
    status: str = "200"


def draw_medley(count: int) -> list[MedleyPiece]:
    """`count` requests of all kinds in random order, the same in every run."""
    rng = random.Random(0)
    kinds = rng.choices(list(SHARES), list(SHARES.values()), k=count)
    return list(map(_make_piece, [rng] * count, kinds, draw(count)))


def _make_piece(rng: random.Random, kind: str, sentence: Sentence) -> MedleyPiece:
    text, write = sentence.text, partial(write_request, sentence, "/translate")
    request, status = write(), "200"
    match kind:
        case "list":
            request = write(src_text=[text] * _LIST_TEXTS)
        case "document":
            seed = rng.randrange(2**32)
            document = write_document(sentence.source, _DOCUMENT_BYTES, seed=seed)
            request = write(src_text=document)
        case "HTML":
            html = f"<ul><li>{text}</li><li><b>1</b></li></ul>"
            request = write(src_text=html, format="html")
        case "mistake":
            mistakes = [
                (write(tgt_lang="xx"), "422"),
                (write(src_text=7), "422"),
                (replace(request, body=request.body[:-2]), "400"),
                (replace(request, path="/no/such/path"), "404"),
                (write(src_text="a" * (1 << 20)), "413"),
            ]
            request, status = rng.choice(mistakes)
    return MedleyPiece(kind, request, status)


def ask_badly(url: str, pieces: Sequence[MedleyPiece]) -> None:
    """One client sends slowly, and one hangs up before its answer."""
    parts = urlsplit(url)
    address = (parts.hostname or "", parts.port or 80)
    for is_slow in (True, False):
        target = generator.Target(url, [random.choice(pieces).request])
        (message,) = generator.write_messages(target, None)
        size = len(message) // _SLOW_PARTS + 1 if is_slow else len(message)
        with (
            suppress(OSError),
            socket.create_connection(address, _PATIENCE_S) as client,
        ):
            for start in range(0, len(message), size):
                client.sendall(message[start : start + size])
                time.sleep(0.2 if is_slow else 0.02)
            if is_slow:
                client.recv(1 << 16)


@dataclass(frozen=True)
class Trend:
    """The medians of a measure's first and last quarter after warming up."""

    part: str
    unit: str
    first: float
    last: float
    change: str
    #: Whether it grew by at most 2 %, or by little of something small.
    is_flat: bool


@dataclass
class Diary:
    """A diary of the events during the load."""

    pieces: Sequence[MedleyPiece]
    #: The measures of each program, and percentiles of the sentences' latencies since the
    #: last look, by unit: pairs of minutes since the start and value.
    series: dict[tuple[str, str], list[tuple[float, float]]] = field(
        default_factory=dict
    )
    #: The counts of unexpected answers, by kind and status.
    surprises: Counter[str] = field(default_factory=Counter)
    answers: int = 0
    _began: float = field(default_factory=time.monotonic)
    _recent_s: list[float] = field(default_factory=list)

    def keep(self, reply: generator.LoadReply) -> None:
        piece = self.pieces[reply.number % len(self.pieces)]
        self.answers += 1
        if reply.status != piece.status:
            self.surprises[f"{piece.kind}: {reply.status}"] += 1
        elif piece.kind == SENTENCE:
            self._recent_s.append(reply.latency_s)

    def look(self) -> None:
        """Note the state of the stack."""
        recent, self._recent_s = report.summarize_latencies(self._recent_s), []
        minutes = (time.monotonic() - self._began) / 60
        values: dict[tuple[str, str], float | None] = {
            ("p50", "ms"): recent.p50_ms,
            ("p95", "ms"): recent.p95_ms,
        }
        # A program that is being started again is seen the next time.
        with suppress(psutil.Error, OSError, ValueError, KeyError):
            stack = stacks.read(_RUN)
            holdings = load.measure_holdings(load.find_leaders(stack)) if stack else {}
            for program, held in holdings.items():
                values |= {(program, unit): value for unit, value in held.items()}
        for key, value in values.items():
            if value is not None:
                self.series.setdefault(key, []).append((minutes, value))

    def reload(self) -> None:
        """Take over the edited configuration, as an operator does."""
        try:
            running.reload(_RUN)
        except stacks.StackError:
            self.surprises["reload: refused"] += 1


def soak(*, minutes: float) -> report.Findings:
    """Memory, open files, threads and latency of a stack under a steady load.

    Sentences, lists, documents, HTML and mistakes arrive at random, beside clients that
    send slowly or hang up, and a reload now and then. A measure is flat if it grew by at
    most 2 % from the first quarter to the last, after a warm-up of a fifth.
    """
    pieces = draw_medley(_PIECES)
    map_path = running.write_map(_RUN.with_name("map.json"), {})
    with running.start(_RUN, map_path, passes.find_model("models/phrasebook")) as stack:
        target = stack.aim([piece.request for piece in pieces])
        replies = generator.ask_again(target, _MANNER, clients=_MANY, seconds=_PEAK_S)
        lasted_s = max(_PEAK_S, *(reply.ended_s for reply in replies))
        rate = _SHARE * len(replies) / lasted_s
        driver.say(f"{report.show(rate)} requests/s for {minutes:g} minutes")
        arrivals = generator.draw_arrivals(rate, minutes * 60, 0)
        diary = Diary(pieces)
        with (
            repeat(diary.look, _EVERY_S),
            repeat(diary.reload, _RELOAD_S),
            repeat(lambda: ask_badly(stack.url, pieces), _VISIT_S),
        ):
            generator.Generator(target, _MANNER).run(arrivals, diary.keep)
    return describe_soak(diary, rate)


@contextmanager
def repeat(act: Callable[[], object], pause_s: float) -> Iterator[None]:
    """Repeats it in a thread while the block lasts, with a pause before each time."""
    stop = threading.Event()

    def run() -> None:
        while not stop.wait(pause_s):
            act()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def describe_soak(diary: Diary, rate: float) -> report.Findings:
    """A row per measure of each program, a chart per unit, and what is not as it should be."""
    trends = [find_trend(*key, points) for key, points in diary.series.items()]
    known = [trend for trend in trends if trend]
    grown = [
        f"{trend.part}, {trend.unit}: grown by {trend.change}"
        for trend in known
        if not trend.is_flat
    ]
    counts = diary.surprises.most_common()
    surprises = ", ".join(f"{count} x {name}" for name, count in counts)
    lines: dict[str, dict[str, Sequence[tuple[float, float]]]] = {}
    for (part, unit), points in diary.series.items():
        lines.setdefault(unit, {})[part] = points
    return report.Findings(
        report.tabulate(known),
        {"rate": rate, "trends": known, "surprises": diary.surprises},
        remarks=[
            f"{diary.answers} answers; not as expected: {surprises or 'none'}",
            *(grown or ["Everything is flat."]),
        ],
        charts=[report.Chart(unit, "minutes", unit, lines[unit]) for unit in lines],
    )


def find_trend(
    part: str, unit: str, series: Sequence[tuple[float, float]]
) -> Trend | None:
    """The trend of a measure; None with few points."""
    begins = WARM_UP * max(at for at, _ in series)
    values = [value for at, value in series if at >= begins]
    if len(values) < _FEWEST:
        return None
    quarter = len(values) // 4
    first, last = map(statistics.median, (values[:quarter], values[-quarter:]))
    grown, change = last - first, f"{(last - first) / (first or 1):+.1%}"
    return Trend(part, unit, first, last, change, grown <= max(GROWTH * first, SLACK))
