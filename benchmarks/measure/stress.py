"""Puts the whole stack under stress: `python -m benchmarks overload` sends more requests with
time limits than a server can answer, and `soak` sends the same mixed load for an hour, with
mistakes, slow clients and clients that hang up.
"""

import math
import random
import re
import socket
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from urllib.parse import urlsplit

import numpy as np

from benchmarks import driver, report
from benchmarks.compare.peers.launch import PEERS, start_peer
from benchmarks.instruments import generator, load, running
from benchmarks.instruments.load import CLIENT, CLOSED, OPEN, LoadFigures
from benchmarks.instruments.workload import (
    REQUESTS,
    draw,
    write_document,
    write_request,
)
from deploy import stack as stacks
from handlers.engine.translation.engine import Sentence

OURS, TARGET = "babelgate", "fr"
REFUSED = "429"
_FOLDER = stacks.ROOT / "run/overload"
#: The end of a sentence inside a text.
_INNER_END = re.compile(r"[.!?。！？।؟…:;]\s*\S")
#: The number of the clients' addresses: a server may limit the requests of each.
_ADDRESSES = 256
#: The pause of a client of the closed loop after a refusal.
_PAUSE_S = 0.05
#: The longest wait for a server to finish abandoned requests, and the interval of probes.
_SETTLE_S, _LOOK_S = 600.0, 1.0
#: Probes for the latency of an idle server, and the factor and excess that count as idle too.
_PROBES, _NEARLY, _NOISE_S = 3, 2.0, 0.05
#: With fewer refusals, the cost of one cannot be estimated.
_FEWEST_REFUSALS = 200


@dataclass(frozen=True)
class LoadStep:
    """The figures of a server under a load whose requests have a time limit."""

    limit_ms: int
    #: Requests that were sent.
    offered_per_s: float
    #: Requests answered with 200 within the limit while the load lasted.
    good_per_s: float
    #: Requests answered with 200, but after the limit.
    late: int
    refusal_p99_ms: float | None
    figures: LoadFigures
    server: str = OURS
    #: The load as a multiple of the capacity; 0 for a closed loop, which searches for the peak.
    times: float = 0.0
    #: `good_per_s` divided by the peak within the same limit, or by the offer if that is less.
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
    """Measure goodput and refusals at multiples of the capacity.

    Each limit has its own stack. Its peak is found with clients that wait for answers; then
    requests arrive at random, independently of other requests. The capacity is our peak within
    the longest limit; other servers get the same load.
    """
    multiples = driver.read_numbers(loads, float)
    sizes = driver.read_numbers(clients)
    limits_ms = sorted(driver.read_numbers(limits), reverse=True)
    servers: dict[str, running.Start] = {OURS: running.start}
    for name in driver.read_words(against, PEERS):
        servers[name] = partial(start_peer, name)
    directory = running.find_model(model)
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
                bench = Bench(target, limit_ms, multiples, seconds, sizes, peak_s)
                capacity = steps[0].good_per_s if steps else None
                steps += [replace(step, server=name) for step in bench.press(capacity)]
    return describe(steps)


@dataclass
class Bench:
    """The requests for a running server, and its loads."""

    target: generator.Target
    limit_ms: int
    #: Multiples of the capacity.
    loads: Sequence[float]
    seconds: float
    #: Numbers of clients to try for the peak, and the length of each try.
    clients: Sequence[int]
    peak_s: float
    #: The latency of a request to an idle server.
    _idle_s: float = math.inf

    def press(self, capacity: float | None) -> list[LoadStep]:
        """Measure the peak, the multiples of `capacity` or of that peak, and the peak again,
        because a machine's speed varies. Shares are relative to the mean of both peaks, or to
        the best load if that is more. Raises ValueError if no answer is in time."""
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
        """Measure a closed or an open loop, then wait until the server is idle."""
        manner = generator.ask_within(self.limit_ms, addresses=_ADDRESSES)
        seconds = self.seconds if loop == OPEN else self.peak_s
        driver.say(f"{loop} loop, {level:.0f}, within {self.limit_ms} ms")
        figures, replies = load.measure(
            self.target, loop, level, seconds=seconds, manner=manner, pause_s=_PAUSE_S
        )
        self._settle()
        return summarize(replies, self.limit_ms, seconds, figures)

    def _settle(self) -> None:
        """Wait until a single request is as fast as on an idle server."""
        give_up_at = time.monotonic() + _SETTLE_S
        while time.monotonic() < give_up_at:
            probe = generator.ask_once(self.target)
            if probe.is_good and probe.latency_s <= _NEARLY * self._idle_s + _NOISE_S:
                return
            time.sleep(_LOOK_S)


def summarize(
    replies: Sequence[generator.LoadReply],
    limit_ms: int,
    seconds: float,
    figures: LoadFigures,
) -> LoadStep:
    """Return the usual figures of a load of `seconds` with those of its time limit."""
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
    """Make a row per server, limit and load, and plot goodput over offered load."""
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
    """Estimate milliseconds of CPU per refusal by program, by least squares: a program spends a
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
#: The number of requests of each kind, out of a hundred.
SHARES = {SENTENCE: 75, "list": 8, "document": 2, "HTML": 7, "mistake": 8}
_LIST_TEXTS, _DOCUMENT_BYTES = 5, 2000
_PATIENCE_S = 40.0
_SLOW_PARTS = 5
#: The target: the most that a measure may grow from the first quarter to the last.
GROWTH = 0.02
#: MB, files, threads or milliseconds too few to be growth, such as another thread of a pool.
SLACK = 2.0
#: The share of samples at the start that do not count: caches fill, code is compiled.
WARM_UP = 0.2
_PIECES = 5000
#: Clients and length of the search for the capacity, and the share of it that is requested.
_MANY, _PEAK_S, _SHARE = 64, 10.0, 0.5
_MANNER = generator.Manner(addresses=50, patience_s=_PATIENCE_S)
#: The number of samples, and the pauses between reloads and between visits of bad clients.
_LOOKS, _RELOAD_S, _VISIT_S = 60, 600.0, 1.0


@dataclass(frozen=True)
class MedleyPiece:
    """A request, and its expected status."""

    kind: str
    request: generator.Request
    status: str = "200"


def draw_medley(count: int) -> list[MedleyPiece]:
    """Draw `count` requests of all kinds in random order, the same in every run."""
    rng = random.Random(0)
    kinds = rng.choices(list(SHARES), list(SHARES.values()), k=count)
    return list(map(_make_piece, [rng] * count, kinds, draw(count)))


def _make_piece(rng: random.Random, kind: str, sentence: Sentence) -> MedleyPiece:
    text = sentence.text
    write = partial(write_request, sentence, "/translate")
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
    """Send one request slowly, and hang up before the answer to another."""
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
    #: Whether it grew by at most 2 %, or by at most `SLACK`.
    is_flat: bool


#: A sample: values by part of the stack and unit.
Look = Mapping[tuple[str, str], float | None]


def soak(*, minutes: float) -> report.Findings:
    """Measure memory, open files, threads and latency of a stack under a steady load.

    Sentences, lists, documents, HTML and mistakes arrive at random, together with clients that
    send slowly or hang up, and a reload every ten minutes. A measure is flat if it grew by at
    most 2 % from the first quarter to the last, after a warm-up of a fifth.
    """
    pieces = draw_medley(_PIECES)
    looks = list[Look]()
    surprises: Counter[str] = Counter()
    map_path = running.write_map(_RUN.with_name("map.json"), {})
    with running.start(
        _RUN, map_path, running.find_model("models/phrasebook")
    ) as stack:
        target = stack.aim([piece.request for piece in pieces])
        ask = partial(load.measure, target, manner=_MANNER)
        peak, _ = ask(CLOSED, _MANY, seconds=_PEAK_S)
        rate = _SHARE * peak.answers / peak.seconds
        driver.say(f"{report.show(rate)} requests/s for {minutes:g} minutes")
        with (
            repeat(lambda: ask_badly(stack.url, pieces), _VISIT_S),
            repeat(lambda: running.reload(_RUN), _RELOAD_S),
        ):
            for _ in range(_LOOKS):
                _, replies = ask(OPEN, rate, seconds=minutes * 60 / _LOOKS)
                wrong, latencies = judge(pieces, replies)
                surprises += wrong
                looks.append(look(stack, latencies))
    return describe_soak(looks, surprises, rate)


def judge(
    pieces: Sequence[MedleyPiece], replies: Sequence[generator.LoadReply]
) -> tuple[Counter[str], report.Latencies]:
    """Count unexpected answers by kind and status, and summarize the latencies of sentences."""
    wrong: Counter[str] = Counter()
    times_s = []
    for reply in replies:
        piece = pieces[reply.number % len(pieces)]
        if reply.status != piece.status:
            wrong[f"{piece.kind}: {reply.status}"] += 1
        elif piece.kind == SENTENCE:
            times_s.append(reply.latency_s)
    return wrong, report.summarize_latencies(times_s)


def look(stack: running.Running, latencies: report.Latencies) -> Look:
    """Sample the latencies, and the memory, files and threads of each program."""
    held = {
        (program, unit): value
        for program, some in load.measure_holdings(stack.leaders).items()
        for unit, value in some.items()
    }
    return {("p50", "ms"): latencies.p50_ms, ("p95", "ms"): latencies.p95_ms, **held}


@contextmanager
def repeat(act: Callable[[], object], pause_s: float) -> Iterator[None]:
    """Repeat a call in a thread while the block lasts, with a pause before each one."""
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


def describe_soak(
    looks: Sequence[Look], surprises: Counter[str], rate: float
) -> report.Findings:
    """Make a row per measure of each program, and report growth and unexpected answers."""
    trends = [find_trend(*key, [one[key] for one in looks]) for key in looks[0]]
    grown = [
        f"{trend.part}, {trend.unit}: grown by {trend.change}"
        for trend in trends
        if not trend.is_flat
    ]
    counts = ", ".join(f"{count} x {name}" for name, count in surprises.most_common())
    return report.Findings(
        report.tabulate(trends),
        {"rate": rate, "trends": trends, "surprises": surprises},
        remarks=[
            f"not as expected: {counts or 'none'}",
            *(grown or ["Everything is flat."]),
        ],
    )


def find_trend(part: str, unit: str, values: Sequence[float | None]) -> Trend:
    """Return the trend of a measure from its samples."""
    known = [one for one in values[int(WARM_UP * len(values)) :] if one is not None]
    quarter = len(known) // 4
    first, last = map(statistics.median, (known[:quarter], known[-quarter:]))
    grown = last - first
    change = f"{(last - first) / (first or 1):+.1%}"
    return Trend(part, unit, first, last, change, grown <= max(GROWTH * first, SLACK))
