"""Writes a search's results: results.csv, report.md and plots."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.figures import show
from benchmarks.instruments.load import OPEN, sum_cpu, sum_memory
from benchmarks.tune.plan import KNOBS, Combination, TuningPlan
from benchmarks.tune.trials import Point, Trial
from catalog.map import SECTIONS

#: Lines of a picture that can be told apart.
_MOST_LINES = 6
#: The figures of a level of load: in results.csv, and, of the best level, in report.md.
_FIGURES: report.Columns[Point] = {
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


@dataclass(frozen=True)
class SearchOutcome:
    """The findings of a search so far."""

    #: None if nothing keeps the SLA.
    winner: Trial | None
    #: The map as it ships, measured for as long as the winner.
    default: Trial | None
    #: The winner once more, with its map as it was written.
    confirmation: Trial | None
    #: Combinations for which there was no time.
    untried: int


def write(
    out: Path, plan: TuningPlan, trials: Sequence[Trial], outcome: SearchOutcome
) -> None:
    """Writes results.csv, report.md, throughput.svg and batches.svg into `out`."""
    combinations = {combination.name: combination for combination in plan.combine()}
    rows = [
        _write_row(trial, point, combinations[trial.name])
        for trial in trials
        for point in trial.points
    ]
    with (out / "results.csv").open("w", encoding="utf-8", newline="") as file:
        keys = dict.fromkeys(key for row in rows for key in row)
        writer = csv.DictWriter(file, list(keys))
        writer.writeheader()
        writer.writerows(rows)
    # The last trial of each combination, those of later rungs first, then the best.
    latest = sorted(
        {trial.name: trial for trial in trials}.values(),
        key=lambda trial: (trial.rung, trial.rank),
        reverse=True,
    )
    if rows:
        curves = [join_rungs(trial.name, trials) for trial in latest]
        others = [trial for trial in curves if trial.name != plan.default.name]
        shown = [t for t in curves if t in others[:_MOST_LINES] or t not in others]
        curves_of = [_draw_curves(plan, shown), _draw_front(curves)]
        report.draw_charts(curves_of, out / "throughput.svg")
        report.draw_charts(
            [_draw_fill(shown), _draw_time(curves[0])], out / "batches.svg"
        )
    (out / "report.md").write_text(_write_report(plan, latest, outcome), "utf-8")


def summarize(plan: TuningPlan, outcome: SearchOutcome) -> str:
    """The outcome in a few lines."""
    sla = f"p99 ≤ {plan.sla.p99_ms:g} ms, errors ≤ {plan.sla.error_share:.2%}"
    if outcome.winner is None:
        return f"Nothing that was tried keeps the SLA ({sla})."
    lines = [f"Best within the SLA ({sla}): {_describe(outcome.winner)}"]
    if outcome.default:
        lines.append(f"The map {_describe(outcome.default)}")
    ratio = _divide(outcome.winner, outcome.default)
    if ratio:
        lines.append(f"{show(ratio)} times as much.")
    if outcome.confirmation:
        lines.append(f"Confirmed: {_describe(outcome.confirmation)}")
    share = _divide(outcome.confirmation, outcome.winner)
    if share:
        lines.append(f"{show(share)} of what was predicted.")
    if outcome.untried:
        lines.append(f"There was no time for {outcome.untried} combinations.")
    return "\n".join(lines)


def _describe(trial: Trial) -> str:
    best = trial.best
    if best is None:
        return f"{trial.name}: never within the SLA"
    load = best.load
    p99 = show(load.latencies.p99_ms)
    return f"{trial.name}: {show(load.requests_per_s)} requests/s, p99 {p99} ms"


def _divide(dividend: Trial | None, divisor: Trial | None) -> float | None:
    """How many times as much the first answers within the SLA."""
    best = [trial.best if trial else None for trial in (dividend, divisor)]
    first, second = (point.load.requests_per_s if point else None for point in best)
    return first / second if first and second else None


def join_rungs(name: str, trials: Sequence[Trial]) -> Trial:
    """All of a combination's points: the last for each level."""
    own = [trial for trial in trials if trial.name == name]
    points = {point.load.level: point for trial in own for point in trial.points}
    return replace(own[-1], points=tuple(points.values()))


def _write_row(trial: Trial, point: Point, combination: Combination) -> dict[str, Any]:
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
    def bind(read: Callable[[Point], Any]) -> Callable[[Trial], Any]:
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


def _draw_lines(
    trials: Sequence[Trial], read: Callable[[Point], float | None]
) -> Mapping[str, report.Points]:
    """Values over throughput, where there are any."""
    lines = {}
    for trial in trials:
        pairs = ((point.load.requests_per_s, read(point)) for point in trial.points)
        if points := sorted((x, y) for x, y in pairs if y is not None):
            lines[trial.name] = points
    return lines


def _draw_curves(plan: TuningPlan, trials: Sequence[Trial]) -> report.Chart:
    lines = dict(_draw_lines(trials, _FIGURES["p99_ms"]))
    rates = [x for points in lines.values() for x, _ in points]
    lines["SLA"] = [(x, plan.sla.p99_ms) for x in (min(rates), max(rates))]
    return report.Chart("Latency over throughput", "requests/s", "p99 ms", lines)


def _draw_front(trials: Sequence[Trial]) -> report.Chart:
    """If one point on the front is faster than another, it answers less."""
    lines = _draw_lines(trials, _FIGURES["p99_ms"])
    points = {point for line in lines.values() for point in line}
    front = {"front": sorted(find_front(points))}
    return report.Chart(
        "Pareto front", "requests/s", "p99 ms", front, dots={"all": [*points]}
    )


def find_front(points: set[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """Points that no other beats in both throughput and latency."""
    least = float("inf")
    for throughput, latency in sorted(points, key=lambda p: (-p[0], p[1])):
        if latency < least:
            least = latency
            yield throughput, latency


def _draw_fill(trials: Sequence[Trial]) -> report.Chart:
    lines = _draw_lines(trials, _FIGURES["batch_fill"])
    return report.Chart("Batch fill", "requests/s", "rows of a batch", lines)


def _draw_time(trial: Trial) -> report.Chart:
    """Where an average request's time goes: the queue, the batch, and the rest."""

    def read_rest(point: Point) -> float | None:
        mean_ms, workers = point.load.latencies.mean_ms, point.workers
        if mean_ms is None or workers.queue_ms is None or workers.handler_ms is None:
            return None
        return mean_ms - workers.queue_ms - workers.handler_ms

    parts = {
        "queue": _FIGURES["queue_ms"],
        "handler": _FIGURES["handler_ms"],
        "gateway, nginx, client": read_rest,
    }
    found = {name: _draw_lines([trial], read) for name, read in parts.items()}
    lines = {name: line[trial.name] for name, line in found.items() if line}
    return report.Chart(f"Where time goes: {trial.name}", "requests/s", "ms", lines)
