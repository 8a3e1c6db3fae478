"""Writes a search's results: results.csv, report.md and plots."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.instruments.counters import WorkerFigures
from benchmarks.instruments.load import OPEN, LoadFigures, sum_cpu, sum_memory
from benchmarks.report import Chart, show
from benchmarks.tune.plan import KNOBS, Combination, TuningPlan
from catalog.map import SECTIONS

#: Lines of a picture that can be told apart.
_MOST_LINES = 6


@dataclass(frozen=True)
class TrialPoint:
    """One level of load."""

    load: LoadFigures
    workers: WorkerFigures
    #: Whether it keeps the SLA.
    is_kept: bool

    @property
    def rank(self) -> tuple[float, float]:
        """The larger the better: throughput (in an open loop the planned one, which all
        combinations were asked for), then a short p99."""
        load = self.load
        throughput = load.level if load.loop == OPEN else load.requests_per_s
        return throughput, -(load.latencies.p99_ms or 0.0)


@dataclass(frozen=True)
class Trial:
    """The levels that one rung of the search measured of a combination."""

    name: str
    rung: int
    #: From its start to its end.
    seconds: float
    points: tuple[TrialPoint, ...]
    #: The reason why it has no more points.
    fault: str = ""

    @property
    def best(self) -> TrialPoint | None:
        """The most throughput that keeps the SLA."""
        kept = (point for point in self.points if point.is_kept)
        return max(kept, key=lambda point: point.rank, default=None)

    @property
    def rank(self) -> tuple[float, float]:
        """The larger the better. Without a load that keeps the SLA, the p99 at the lowest
        load decides."""
        if self.best:
            return self.best.rank
        lowest = min(self.points, key=lambda point: point.load.level, default=None)
        p99_ms = lowest.load.latencies.p99_ms if lowest else None
        return 0.0, -(p99_ms or float("inf"))


@dataclass(frozen=True)
class SearchOutcome:
    """The results of a search so far."""

    #: None if nothing keeps the SLA.
    winner: Trial | None
    #: The map as it ships, measured for as long as the winner.
    default: Trial | None
    #: The winner once more, with its map as it was written.
    confirmation: Trial | None
    #: Combinations for which there was no time.
    untried: int


#: The figures of a level of load: in results.csv, and, of the best level, in report.md.
_FIGURES: report.Columns[TrialPoint] = {
    "throughput": lambda point: point.load.requests_per_s,
    "average_ms": lambda point: point.load.latencies.mean_ms,
    "p50_ms": lambda point: point.load.latencies.p50_ms,
    "p90_ms": lambda point: point.load.latencies.p90_ms,
    "p99_ms": lambda point: point.load.latencies.p99_ms,
    "queue_ms": lambda point: point.workers.queue_ms,
    "handler_ms": lambda point: point.workers.handler_ms,
    "batch_fill": lambda point: point.workers.batch_fill,
    "padding_share": lambda point: point.workers.padding_share,
    "cpu_ms": lambda point: sum_cpu(point.load),
    "memory_mb": lambda point: sum_memory(point.load),
}


def write(
    out: Path, plan: TuningPlan, trials: Sequence[Trial], outcome: SearchOutcome
) -> None:
    """Write results.csv, report.md, throughput.svg and batches.svg into `out`."""
    combinations = {combination.name: combination for combination in plan.combine()}
    rows = [
        _write_row(trial, point, combinations[trial.name])
        for trial in trials
        for point in trial.points
    ]
    with (out / "results.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(
            file, list(dict.fromkeys(k for row in rows for k in row))
        )
        writer.writeheader()
        writer.writerows(rows)
    # The last trial of each combination, those of later rungs first, then the best.
    latest = sorted(
        {trial.name: trial for trial in trials}.values(),
        key=lambda trial: (trial.rung, trial.rank),
        reverse=True,
    )
    if rows:
        throughput, batches = draw(plan, [trial.name for trial in latest], trials)
        report.draw_charts(throughput, out / "throughput.svg")
        report.draw_charts(batches, out / "batches.svg")
    (out / "report.md").write_text(_write_report(plan, latest, outcome), "utf-8")


def summarize(plan: TuningPlan, outcome: SearchOutcome) -> str:
    """Return the outcome in a few lines."""
    sla = f"p99 ≤ {plan.sla.p99_ms:g} ms, errors ≤ {plan.sla.error_share:.2%}"
    if outcome.winner is None:
        return f"Nothing that was tried keeps the SLA ({sla})."
    ratio = _divide(outcome.winner, outcome.default)
    share = _divide(outcome.confirmation, outcome.winner)
    lines = (
        f"Best within the SLA ({sla}): {_describe(outcome.winner)}",
        outcome.default and f"The map {_describe(outcome.default)}",
        ratio and f"{show(ratio)} times as much.",
        outcome.confirmation and f"Confirmed: {_describe(outcome.confirmation)}",
        share and f"{show(share)} of what was predicted.",
        outcome.untried and f"There was no time for {outcome.untried} combinations.",
    )
    return "\n".join(line for line in lines if line)


def _describe(trial: Trial) -> str:
    if trial.best is None:
        return f"{trial.name}: never within the SLA"
    load = trial.best.load
    p99 = show(load.latencies.p99_ms)
    return f"{trial.name}: {show(load.requests_per_s)} requests/s, p99 {p99} ms"


def _divide(dividend: Trial | None, divisor: Trial | None) -> float | None:
    """Divide the first one's answers within the SLA by the second one's."""
    best = [trial.best if trial else None for trial in (dividend, divisor)]
    first, second = (point.load.requests_per_s if point else None for point in best)
    return first / second if first and second else None


def _write_row(
    trial: Trial, point: TrialPoint, combination: Combination
) -> dict[str, Any]:
    load = point.load
    section = SECTIONS[combination.task].model_fields
    settings = {key: section[key].default for key in KNOBS if key in section}
    figures = {name: read(point) for name, read in _FIGURES.items()}
    return {
        "rung": trial.rung,
        "task": combination.task,
        "model": combination.model,
        "languages": " ".join(combination.languages),
        "device": combination.device,
        **(settings | dict(combination.settings)),
        "rate" if load.loop == OPEN else "concurrency": load.level,
        "requests": load.answers,
        "errors": load.errors,
        "is_within_sla": point.is_kept,
        **{k: value and round(value, 3) for k, value in figures.items()},
    }


def _write_report(
    plan: TuningPlan, latest: Sequence[Trial], outcome: SearchOutcome
) -> str:
    def bind(read: Callable[[TrialPoint], Any]) -> Callable[[Trial], Any]:
        return lambda trial: read(trial.best) if trial.best else None

    machine = report.describe_machine()
    faults = "".join(f"- {t.name}: {t.fault}\n" for t in latest if t.fault)
    columns: report.Columns[Trial] = {
        "configuration": lambda trial: trial.name,
        **{name.replace("_", " "): bind(read) for name, read in _FIGURES.items()},
    }
    parts = (
        "# Tuning\n",
        summarize(plan, outcome).replace("\n", "\n\n") + "\n",
        f"{machine['cores']} cores of {machine['processor']}, "
        f"{machine['memory_gb']} GB; {plan.load.seconds:g} s at each level, twice as "
        "long in each further rung of the search. Figures are those of the highest load "
        "within the SLA.\n",
        report.to_markdown(report.tabulate(latest, columns)),
        "![Latency and throughput](throughput.svg)\n\n![Batches](batches.svg)\n",
        f"## Faults\n\n{faults}" if faults else "",
    )
    return "\n".join(parts)


def draw(
    plan: TuningPlan, names: Sequence[str], trials: Sequence[Trial]
) -> tuple[list[Chart], list[Chart]]:
    """Draw latency over throughput with its Pareto front, and what batches are like. The
    combinations have their last point of each level; the first one is the best."""
    points = {name: list_points(name, trials) for name in names}
    others = [name for name in names if name != plan.default.name]
    shown = {n: points[n] for n in names if n not in others[_MOST_LINES:]}
    p99s = _draw_lines(points, _FIGURES["p99_ms"])
    every = {point for line in p99s.values() for point in line}
    curves = {name: line for name, line in p99s.items() if name in shown}
    rates = [x for line in curves.values() for x, _ in line]
    if rates:
        curves["SLA"] = [(x, plan.sla.p99_ms) for x in (min(rates), max(rates))]
    front = {"front": sorted(find_front(every))}
    fills = _draw_lines(shown, _FIGURES["batch_fill"])
    parts = {
        "queue": _FIGURES["queue_ms"],
        "handler": _FIGURES["handler_ms"],
        "gateway, nginx, client": _read_rest,
    }
    best = names[0]
    drawn = {
        part: _draw_lines({part: points[best]}, read) for part, read in parts.items()
    }
    spent = {part: lines[part] for part, lines in drawn.items() if lines}
    rate = "requests/s"
    return (
        [
            Chart("Latency over throughput", rate, "p99 ms", curves),
            Chart("Pareto front", rate, "p99 ms", front, dots={"all": [*every]}),
        ],
        [
            Chart("Batch fill", rate, "rows of a batch", fills),
            Chart(f"Where time goes: {best}", rate, "ms", spent),
        ],
    )


def list_points(name: str, trials: Sequence[Trial]) -> list[TrialPoint]:
    """Return the last point of each level of a combination."""
    own = (trial for trial in trials if trial.name == name)
    return list(
        {point.load.level: point for trial in own for point in trial.points}.values()
    )


def _draw_lines(
    points: Mapping[str, Sequence[TrialPoint]],
    read: Callable[[TrialPoint], float | None],
) -> dict[str, report.Points]:
    """Values over throughput, where there are any."""
    lines: dict[str, report.Points] = {}
    for name, some in points.items():
        pairs = ((point.load.requests_per_s, read(point)) for point in some)
        if line := sorted((x, y) for x, y in pairs if y is not None):
            lines[name] = line
    return lines


def _read_rest(point: TrialPoint) -> float | None:
    """Return the mean time of a request outside of the queue and the batch."""
    mean_ms, workers = point.load.latencies.mean_ms, point.workers
    if mean_ms is None or workers.queue_ms is None or workers.handler_ms is None:
        return None
    return mean_ms - workers.queue_ms - workers.handler_ms


def find_front(points: set[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """Yield the points that no other beats in both throughput and latency."""
    least = float("inf")
    for throughput, latency in sorted(points, key=lambda p: (-p[0], p[1])):
        if latency < least:
            least = latency
            yield throughput, latency
