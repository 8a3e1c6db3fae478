"""`python -m benchmarks soak`: an hour of the same mixed load, and whether anything grows."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import psutil
import typer

from benchmarks.figures import list_counts, percentile, show
from benchmarks.instruments import bare, running
from benchmarks.instruments.beside import repeat
from benchmarks.instruments.generator import (
    Generator,
    Manner,
    Reply,
    Target,
    ask_again,
    draw_arrivals,
)
from benchmarks.instruments.processes import Holding, find_leaders, measure_holdings
from benchmarks.measure.medley import SENTENCE, Piece, draw_medley, visit
from benchmarks.measure.trend import Series, Trend, find_trend
from benchmarks.options import (
    DEFAULT_RUN,
    Folder,
    Languages,
    Model,
    Out,
    Plot,
    Setting,
    check_plot,
    console,
    explain_errors,
    publish,
    publish_plot,
    read_settings,
    read_words,
    show_progress,
)
from benchmarks.plots import Chart
from benchmarks.report import Content, Table
from deploy import stack as stacks

_PIECES = 5000
#: Clients and length of the look for the capacity.
_CLIENTS, _LOOK_S = 64, 10.0
_ADDRESSES, _PATIENCE_S, _VISIT_S = 50, 40.0, 1.0
_TICKS_PER_S = 10
#: By unit, what is too little to be called growth, such as a pool's next thread.
SLACK = {"PSS MB": 2.0, "RSS MB": 2.0, "files": 2.0, "threads": 2.0, "ms": 2.0}
_HEADERS = ("", "", "first quarter", "last quarter", "change", "per hour", "flat")


@dataclass(frozen=True)
class Sample:
    """The state of a stack at one moment."""

    #: Since the start of the load.
    at_s: float
    holdings: Mapping[str, Holding]
    #: Latencies of the sentences answered since the last look.
    p50_ms: float | None
    p95_ms: float | None


@dataclass
class Diary:
    """What happens during the load."""

    pieces: Sequence[Piece]
    samples: list[Sample] = field(default_factory=list)
    #: How often what was not expected came, by kind and status.
    surprises: Counter[str] = field(default_factory=Counter)
    answers: int = 0
    _recent_ms: list[float] = field(default_factory=list)

    def keep(self, reply: Reply) -> None:
        piece = self.pieces[reply.number % len(self.pieces)]
        self.answers += 1
        if reply.status != piece.status:
            self.surprises[f"{piece.kind}: {reply.status}"] += 1
        elif piece.kind == SENTENCE:
            self._recent_ms.append(reply.latency_s * 1000)

    def sample(self, at_s: float, holdings: Mapping[str, Holding]) -> None:
        recent, self._recent_ms = self._recent_ms, []
        self.samples.append(
            Sample(at_s, holdings, percentile(recent, 0.5), percentile(recent, 0.95))
        )


def command(
    *,
    minutes: Annotated[float, typer.Option(help="Length of the load.")] = 60,
    share: Annotated[
        float, typer.Option(help="Of the capacity.", min=0.01, max=1)
    ] = 0.5,
    every_s: Annotated[float, typer.Option(help="Between two looks.")] = 10,
    reload_minutes: Annotated[
        float, typer.Option(help="Between two reloads; 0 for none.", min=0)
    ] = 10,
    languages: Languages = "",
    model: Model = "models/phrasebook",
    setting: Setting = None,
    folder: Folder = DEFAULT_RUN / "soak",
    out: Out = Path("run/benchmark-soak.json"),
    plot: Plot = None,
) -> None:
    """Memory, open files, threads and latency of a stack under a steady load.

    Sentences, lists, documents, HTML and mistakes arrive at random, beside clients that
    send slowly or hang up, and a reload now and then. A measure is flat if it grew by at
    most 2 % from the first quarter to the last, after a warm-up of a fifth.
    """
    with explain_errors():
        check_plot(plot)
        served = read_words(languages)
        settings = read_settings(setting or ())
        diary = Diary(draw_medley(_PIECES, served))
        map_path = running.write_map(folder.resolve() / "map.json", settings, served)
        run = folder.resolve() / "run"
        with running.start(run, map_path, bare.find_model(model)) as stack:
            target = stack.aim([piece.request for piece in diary.pieces])
            rate = share * _find_capacity(target)
            console.print(f"{show(rate)} requests/s for {minutes:g} minutes")
            began, reload_s = time.monotonic(), reload_minutes * 60 or math.inf
            with (
                repeat(lambda: _look(run, diary, began), every_s),
                repeat(lambda: _reload(run, diary), reload_s),
                visit(stack.url, diary.pieces, _VISIT_S),
            ):
                _load(target, diary, rate, minutes * 60)
        trends = find_trends(diary.samples)
        console.print(*describe(diary, trends), sep="\n", markup=False, soft_wrap=True)
        options = {"minutes": minutes, "rate": rate, "map": settings, "model": model}
        results = {
            "trends": trends,
            "surprises": diary.surprises,
            "samples": diary.samples,
        }
        publish(out, tabulate(trends), Content("soak", options, results))
        publish_plot(plot, chart(diary.samples))


def find_trends(samples: Sequence[Sample]) -> list[Trend]:
    """Trends of every program's measures and of the latency; none with too few samples."""
    trends = (find_trend(series, SLACK[series.unit]) for series in list_series(samples))
    return [trend for trend in trends if trend]


def list_series(samples: Sequence[Sample]) -> list[Series]:
    """The samples, by measure."""
    points: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for sample in samples:
        for part, unit, value in _list_values(sample):
            points.setdefault((part, unit), []).append((sample.at_s, value))
    return [Series(part, unit, values) for (part, unit), values in points.items()]


def _list_values(sample: Sample) -> Iterator[tuple[str, str, float]]:
    for program, held in sample.holdings.items():
        yield program, "PSS MB", held.pss_mb
        yield program, "RSS MB", held.rss_mb
        yield program, "files", held.files
        yield program, "threads", held.threads
    for name, value in (("p50", sample.p50_ms), ("p95", sample.p95_ms)):
        if value is not None:
            yield name, "ms", value


def describe(diary: Diary, trends: Sequence[Trend]) -> list[str]:
    """What is not flat, and unexpected answers."""
    grown = [
        f"{trend.part}, {trend.unit}: grown by {trend.change:.1%}"
        for trend in trends
        if not trend.is_flat
    ]
    surprises = list_counts(dict(diary.surprises.most_common()))
    return [
        f"{diary.answers} answers; not as expected: {surprises or 'none'}",
        *(grown or ["Everything is flat."]),
    ]


def tabulate(trends: Sequence[Trend]) -> Table:
    """A row per measure."""
    return Table(
        _HEADERS,
        tuple(
            (
                *(trend.part, trend.unit, show(trend.first), show(trend.last)),
                *(f"{trend.change:+.1%}", f"{trend.slope_per_hour:+.2f}"),
                "yes" if trend.is_flat else "no",
            )
            for trend in trends
        ),
    )


def chart(samples: Sequence[Sample]) -> list[Chart]:
    """A chart per unit, over minutes."""
    lines: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for series in list_series(samples):
        points = [(time_s / 60, value) for time_s, value in series.points]
        lines.setdefault(series.unit, {})[series.part] = points
    return [Chart(unit, "minutes", unit, parts) for unit, parts in lines.items()]


def _find_capacity(target: Target) -> float:
    """Requests/s of clients that wait for their answers."""
    manner = Manner(None, _ADDRESSES, _PATIENCE_S)
    replies = ask_again(target, manner, clients=_CLIENTS, seconds=_LOOK_S)
    return len(replies) / max(_LOOK_S, max(reply.ended_s for reply in replies))


def _load(target: Target, diary: Diary, rate: float, seconds: float) -> None:
    with show_progress(seconds * _TICKS_PER_S) as bar:
        asked = replace(target, tick=bar.tick)
        manner = Manner(None, _ADDRESSES, _PATIENCE_S)
        Generator(asked, manner).run(draw_arrivals(rate, seconds, 0), diary.keep)


def _look(run: Path, diary: Diary, began: float) -> None:
    stack = stacks.read(run)
    # A program that is being started anew is seen the next time.
    with suppress(psutil.Error, OSError, ValueError, KeyError):
        holdings = measure_holdings(find_leaders(stack)) if stack else {}
        diary.sample(time.monotonic() - began, holdings)


def _reload(run: Path, diary: Diary) -> None:
    try:
        running.reload(run)
    except stacks.StackError:
        diary.surprises["reload: refused"] += 1
