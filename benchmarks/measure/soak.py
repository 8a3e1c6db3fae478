"""`python -m benchmarks soak`: an hour of the same mixed load, with mistakes, slow clients and
clients that hang up, and whether anything grows.
"""

from __future__ import annotations

import json
import random
import socket
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import psutil

from benchmarks import driver
from benchmarks.instruments import generator, passes, running
from benchmarks.instruments.generator import Request, Target, write_messages
from benchmarks.instruments.load import ProcessUsage, find_leaders, measure_holdings
from benchmarks.instruments.workload import draw, write_document
from benchmarks.report import Chart, Findings, list_counts, percentile, show, tabulate
from deploy import stack as stacks
from handlers.engine.translation.m2m100 import Sentence

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
#: Clients and length of the look for the capacity.
_CLIENTS, _LOOK_S = 64, 10.0
_MANNER = generator.Manner(addresses=50, patience_s=_PATIENCE_S)
#: Between two looks at memory, two reloads, and two visits of bad clients.
_EVERY_S, _RELOAD_S, _VISIT_S = 10.0, 600.0, 1.0
#: The values of one measure, in pairs of seconds since the start and value.
Series = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class MedleyPiece:
    """A request, and the status that it is to get."""

    kind: str
    request: Request
    status: str = "200"


def draw_medley(
    count: int, languages: Sequence[str] = (), *, seed: int = 0
) -> list[MedleyPiece]:
    """`count` requests of all kinds in random order, into these languages or any."""
    rng = random.Random(seed)
    kinds = rng.choices(list(SHARES), list(SHARES.values()), k=count)
    sentences = iter(draw(count * _LIST_TEXTS, languages, seed=seed))
    return [_make_piece(rng, kind, sentences) for kind in kinds]


def _make_piece(
    rng: random.Random, kind: str, sentences: Iterator[Sentence]
) -> MedleyPiece:
    sentence = next(sentences)
    body: dict[str, Any] = {
        "src_lang": sentence.source,
        "src_text": sentence.text,
        "tgt_lang": sentence.target,
    }
    match kind:
        case "list":
            body["src_text"] = [sentence.text] * _LIST_TEXTS
        case "document":
            body["src_text"] = write_document(
                sentence.source, _DOCUMENT_BYTES, seed=rng.randrange(2**32)
            )
        case "HTML":
            body["src_text"] = f"<ul><li>{sentence.text}</li><li><b>1</b></li></ul>"
            body["format"] = "html"
        case "mistake":
            return _make_mistake(rng, body)
    return MedleyPiece(kind, Request(_encode(body), "/translate"))


def _make_mistake(rng: random.Random, body: Mapping[str, Any]) -> MedleyPiece:
    content, path, status = rng.choice(
        [
            (_encode({**body, "tgt_lang": "xx"}), "/translate", "422"),
            (_encode({**body, "src_text": 7}), "/translate", "422"),
            (_encode(body)[:-2], "/translate", "400"),
            (_encode(body), "/no/such/path", "404"),
            (_encode({**body, "src_text": "a" * (1 << 20)}), "/translate", "413"),
        ]
    )
    return MedleyPiece("mistake", Request(content, path), status)


def _encode(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False).encode()


def ask_badly(url: str, pieces: Sequence[MedleyPiece]) -> None:
    """One client sends slowly, and one hangs up before its answer."""
    parts = urlsplit(url)
    address = (parts.hostname or "", parts.port or 80)
    for is_slow in (True, False):
        target = Target(url, [random.choice(pieces).request])
        (message,) = write_messages(target, None)
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
    #: The slope of a straight line through all points after warming up.
    slope_per_hour: float

    @property
    def is_flat(self) -> bool:
        """Whether it grew by at most 2 %, or by little of something small."""
        return self.last - self.first <= max(GROWTH * self.first, SLACK)

    @property
    def change(self) -> float:
        """The last quarter's growth as a share of the first quarter."""
        return (self.last - self.first) / self.first if self.first else 0.0


@dataclass
class Diary:
    """A diary of the events during the load."""

    pieces: Sequence[MedleyPiece]
    #: The measures of each program, and percentiles of the sentences' latencies since the
    #: last look, by unit.
    series: dict[tuple[str, str], list[tuple[float, float]]] = field(
        default_factory=dict
    )
    #: The counts of unexpected answers, by kind and status.
    surprises: Counter[str] = field(default_factory=Counter)
    answers: int = 0
    _recent_ms: list[float] = field(default_factory=list)

    def keep(self, reply: generator.LoadReply) -> None:
        piece = self.pieces[reply.number % len(self.pieces)]
        self.answers += 1
        if reply.status != piece.status:
            self.surprises[f"{piece.kind}: {reply.status}"] += 1
        elif piece.kind == SENTENCE:
            self._recent_ms.append(reply.latency_s * 1000)

    def sample(self, at_s: float, holdings: Mapping[str, ProcessUsage]) -> None:
        """Note the state of a stack at a time in seconds since the start of the load."""
        recent, self._recent_ms = self._recent_ms, []
        values: dict[tuple[str, str], float | None] = {
            ("p50", "ms"): percentile(recent, 0.5),
            ("p95", "ms"): percentile(recent, 0.95),
        }
        for program, held in holdings.items():
            values[program, "PSS MB"] = held.pss_mb
            values[program, "RSS MB"] = held.rss_mb
            values[program, "files"] = held.files
            values[program, "threads"] = held.threads
        for key, value in values.items():
            if value is not None:
                self.series.setdefault(key, []).append((at_s, value))


def answer(*, minutes: float, share: float, model: str, folder: Path) -> Findings:
    """Memory, open files, threads and latency of a stack under a steady load.

    Sentences, lists, documents, HTML and mistakes arrive at random, beside clients that
    send slowly or hang up, and a reload now and then. A measure is flat if it grew by at
    most 2 % from the first quarter to the last, after a warm-up of a fifth.
    """
    diary = Diary(draw_medley(_PIECES))
    map_path = running.write_map(folder.resolve() / "map.json", {})
    run = folder.resolve() / "run"
    with running.start(run, map_path, passes.find_model(model)) as stack:
        target = stack.aim([piece.request for piece in diary.pieces])
        rate = share * _find_capacity(target)
        driver.say(f"{show(rate)} requests/s for {minutes:g} minutes")
        began = time.monotonic()
        arrivals = generator.draw_arrivals(rate, minutes * 60, 0)
        with (
            repeat(lambda: _look(run, diary, began), _EVERY_S),
            repeat(lambda: _reload(run, diary), _RELOAD_S),
            repeat(lambda: ask_badly(stack.url, diary.pieces), _VISIT_S),
        ):
            generator.Generator(target, _MANNER).run(arrivals, diary.keep)
    return describe(diary, rate)


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


def describe(diary: Diary, rate: float) -> Findings:
    """A row per measure of each program, a chart per unit, and what is not as it should be."""
    series = diary.series
    trends = [find_trend(*key, points) for key, points in series.items()]
    known = [trend for trend in trends if trend]
    grown = [
        f"{trend.part}, {trend.unit}: grown by {trend.change:.1%}"
        for trend in known
        if not trend.is_flat
    ]
    surprises = list_counts(dict(diary.surprises.most_common()))
    lines: dict[str, dict[str, Series]] = {}
    for (part, unit), points in series.items():
        in_minutes = [(at_s / 60, value) for at_s, value in points]
        lines.setdefault(unit, {})[part] = in_minutes
    table = tabulate(
        known,
        {
            "program": lambda trend: trend.part,
            "measure": lambda trend: trend.unit,
            "first quarter": lambda trend: trend.first,
            "last quarter": lambda trend: trend.last,
            "change": lambda trend: f"{trend.change:+.1%}",
            "per hour": lambda trend: f"{trend.slope_per_hour:+.2f}",
            "flat": lambda trend: "yes" if trend.is_flat else "no",
        },
    )
    return Findings(
        table,
        {
            "rate": rate,
            "trends": known,
            "surprises": diary.surprises,
            "series": [(*key, points) for key, points in series.items()],
        },
        remarks=[
            f"{diary.answers} answers; not as expected: {surprises or 'none'}",
            *(grown or ["Everything is flat."]),
        ],
        charts=[Chart(unit, "minutes", unit, parts) for unit, parts in lines.items()],
    )


def find_trend(part: str, unit: str, series: Series) -> Trend | None:
    """The trend of a measure; None with few points."""
    end_s = max((at_s for at_s, _ in series), default=0.0)
    points = [point for point in series if point[0] >= WARM_UP * end_s]
    if len(points) < _FEWEST:
        return None
    times, values = zip(*points, strict=True)
    quarter = len(values) // 4
    first, last = map(statistics.median, (values[:quarter], values[-quarter:]))
    slope_per_s = np.polyfit(times, values, 1)[0]
    return Trend(part, unit, first, last, float(slope_per_s) * 3600)


def _find_capacity(target: generator.Target) -> float:
    """Requests/s of clients that wait for their answers."""
    replies = generator.ask_again(target, _MANNER, clients=_CLIENTS, seconds=_LOOK_S)
    return len(replies) / max(_LOOK_S, max(reply.ended_s for reply in replies))


def _look(run: Path, diary: Diary, began: float) -> None:
    stack = stacks.read(run)
    # A program that is being started again is seen the next time.
    with suppress(psutil.Error, OSError, ValueError, KeyError):
        holdings = measure_holdings(find_leaders(stack)) if stack else {}
        diary.sample(time.monotonic() - began, holdings)


def _reload(run: Path, diary: Diary) -> None:
    try:
        running.reload(run)
    except stacks.StackError:
        diary.surprises["reload: refused"] += 1
