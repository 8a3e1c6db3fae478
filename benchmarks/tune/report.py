"""Writes a search's results: results.csv, report.md and plots."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks import plots
from benchmarks.figures import show
from benchmarks.instruments.load import sum_cpu, sum_memory
from benchmarks.plots import Chart
from benchmarks.report import Table, describe_machine, to_markdown
from benchmarks.tune.plan import KNOBS, Combination, Plan
from benchmarks.tune.trials import Point, Trial
from catalog.map import SECTIONS

#: Lines of a picture that can be told apart.
_MOST_LINES = 6
_COLUMNS = (
    *("rung", "task", "model", "languages", "device", *KNOBS),
    *("concurrency", "rate", "requests", "errors", "throughput", "average_ms"),
    *("p50_ms", "p90_ms", "p99_ms", "is_within_sla", "queue_ms", "handler_ms"),
    *("batch_fill", "padding_share", "tokens", "cpu_ms", "memory_mb"),
)
_HEADERS = (
    *("configuration", "requests/s within the SLA", "p50 ms", "p90 ms", "p99 ms"),
    *("batch fill", "queue ms", "handler ms", "CPU ms", "memory MB"),
)


@dataclass(frozen=True)
class Outcome:
    """What a search has found so far."""

    #: None if nothing keeps the SLA.
    winner: Trial | None
    #: The map as it ships, measured for as long as the winner.
    default: Trial | None
    #: The winner once more, with its map as it was written.
    confirmation: Trial | None
    #: Combinations for which there was no time.
    untried: int


def write(out: Path, plan: Plan, trials: Sequence[Trial], outcome: Outcome) -> None:
    """Writes results.csv, report.md, throughput.svg and batches.svg into `out`."""
    combinations = {combination.name: combination for combination in plan.combine()}
    with (out / "results.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, _COLUMNS)
        writer.writeheader()
        for trial in trials:
            for point in trial.points:
                writer.writerow(_write_row(trial, point, combinations[trial.name]))
    latest = _find_latest(trials)
    curves = [_join_rungs(trial.name, trials) for trial in latest]
    if any(trial.points for trial in curves):
        others = [trial for trial in curves if trial.name != plan.default.name]
        shown = [t for t in curves if t in others[:_MOST_LINES] or t not in others]
        pictures = {
            "throughput.svg": [_draw_curves(plan, shown), _draw_front(curves)],
            "batches.svg": [_draw_fill(shown), _draw_time(curves[0])],
        }
        for name, charts in pictures.items():
            plots.draw(charts, out / name)
    (out / "report.md").write_text(_write_report(plan, latest, outcome), "utf-8")


def summarize(plan: Plan, outcome: Outcome) -> str:
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


def _find_latest(trials: Sequence[Trial]) -> list[Trial]:
    """The last trial of each combination, those of later rungs first, then the best."""
    latest = {trial.name: trial for trial in trials}
    return sorted(latest.values(), key=lambda t: (t.rung, t.rank), reverse=True)


def _join_rungs(name: str, trials: Sequence[Trial]) -> Trial:
    """All of a combination's points: the last for each level."""
    own = [trial for trial in trials if trial.name == name]
    points = {point.load.level: point for trial in own for point in trial.points}
    return replace(own[-1], points=tuple(points.values()))


def _write_row(trial: Trial, point: Point, combination: Combination) -> dict[str, Any]:
    load, workers = point.load, point.workers
    section = SECTIONS[combination.task].model_fields
    settings = {key: section[key].default for key in KNOBS if key in section}
    return {
        "rung": trial.rung,
        "task": combination.task,
        "model": combination.model,
        "languages": " ".join(combination.languages),
        "device": combination.device,
        **(settings | dict(combination.settings)),
        "concurrency": load.level if load.loop == "closed" else None,
        "rate": load.level if load.loop == "open" else None,
        "requests": load.answers,
        "errors": load.errors,
        "throughput": _round(load.requests_per_s),
        "average_ms": _round(load.latencies.mean_ms),
        "p50_ms": _round(load.latencies.p50_ms),
        "p90_ms": _round(load.latencies.p90_ms),
        "p99_ms": _round(load.latencies.p99_ms),
        "is_within_sla": point.is_kept,
        "queue_ms": _round(workers.queue_ms),
        "handler_ms": _round(workers.handler_ms),
        "batch_fill": _round(workers.batch_fill),
        "padding_share": _round(workers.padding_share, 3),
        "tokens": workers.tokens,
        "cpu_ms": _round(sum_cpu(load)),
        "memory_mb": _round(sum_memory(load)),
    }


def _round(value: float | None, digits: int = 2) -> float | None:
    return None if value is None else round(value, digits)


def _write_report(plan: Plan, latest: Sequence[Trial], outcome: Outcome) -> str:
    machine = describe_machine()
    faults = "".join(f"- {t.name}: {t.fault}\n" for t in latest if t.fault)
    table = to_markdown(Table(_HEADERS, tuple(map(_tabulate, latest))))
    pictures = "![Latency and throughput](throughput.svg)\n\n![Batches](batches.svg)\n"
    return "\n".join(
        (
            "# Tuning\n",
            summarize(plan, outcome).replace("\n", "\n\n") + "\n",
            f"{machine['cores']} cores of {machine['processor']}, "
            f"{machine['memory_gb']} GB; {plan.load.seconds:g} s at each level, twice as "
            "long in each further rung of the search.\n",
            table,
            pictures,
            f"## Faults\n\n{faults}" if faults else "",
        )
    )


def _tabulate(trial: Trial) -> tuple[str, ...]:
    best = trial.best
    if best is None:
        return (trial.name, *["–"] * (len(_HEADERS) - 1))
    load, workers = best.load, best.workers
    figures = (
        *(load.requests_per_s, load.latencies.p50_ms, load.latencies.p90_ms),
        *(load.latencies.p99_ms, workers.batch_fill, workers.queue_ms),
        *(workers.handler_ms, sum_cpu(load), sum_memory(load)),
    )
    return (trial.name, *map(show, figures))


def _read_points(
    trial: Trial, read: Callable[[Point], float | None]
) -> list[tuple[float, float]]:
    """Values over throughput, where there are any."""
    pairs = ((point.load.requests_per_s, read(point)) for point in trial.points)
    return sorted((x, y) for x, y in pairs if y is not None)


def _draw_lines(
    trials: Sequence[Trial], read: Callable[[Point], float | None]
) -> Mapping[str, list[tuple[float, float]]]:
    lines = {trial.name: _read_points(trial, read) for trial in trials}
    return {name: points for name, points in lines.items() if points}


def _draw_curves(plan: Plan, trials: Sequence[Trial]) -> Chart:
    lines = dict(_draw_lines(trials, lambda point: point.load.latencies.p99_ms))
    rates = [x for points in lines.values() for x, _ in points]
    lines["SLA"] = [(x, plan.sla.p99_ms) for x in (min(rates), max(rates))]
    return Chart("Latency over throughput", "requests/s", "p99 ms", lines)


def _draw_front(trials: Sequence[Trial]) -> Chart:
    """If one point on the front is faster than another, it answers less."""
    points = {
        pair
        for trial in trials
        for pair in _read_points(trial, lambda p: p.load.latencies.p99_ms)
    }
    front = sorted(_find_front(points))
    return Chart(
        "Pareto front",
        "requests/s",
        "p99 ms",
        {"front": front},
        dots={"all": [*points]},
    )


def _find_front(points: set[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """Points that no other beats in both throughput and latency."""
    least = float("inf")
    for throughput, latency in sorted(points, key=lambda p: (-p[0], p[1])):
        if latency < least:
            least = latency
            yield throughput, latency


def _draw_fill(trials: Sequence[Trial]) -> Chart:
    lines = _draw_lines(trials, lambda point: point.workers.batch_fill)
    return Chart("Batch fill", "requests/s", "rows of a batch", lines)


def _draw_time(trial: Trial) -> Chart:
    """Where an average request's time goes: the queue, the batch, and the rest."""

    def read_rest(point: Point) -> float | None:
        mean_ms, workers = point.load.latencies.mean_ms, point.workers
        if None in (mean_ms, workers.queue_ms, workers.handler_ms):
            return None
        return (mean_ms or 0) - (workers.queue_ms or 0) - (workers.handler_ms or 0)

    lines = {
        "queue": _read_points(trial, lambda point: point.workers.queue_ms),
        "handler": _read_points(trial, lambda point: point.workers.handler_ms),
        "gateway, nginx, client": _read_points(trial, read_rest),
    }
    lines = {name: points for name, points in lines.items() if points}
    return Chart(f"Where time goes: {trial.name}", "requests/s", "ms", lines)
