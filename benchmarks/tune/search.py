"""`python -m benchmarks tune`: finds the most throughput within an SLA, confirms it, and writes
results.csv, report.md with pictures, and the winner's map.
"""

from __future__ import annotations

import csv
import math
import random
import time
from bisect import bisect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer
from pydantic import TypeAdapter
from requests import RequestException

from benchmarks import report
from benchmarks.driver import PlanError, console, read_range, say
from benchmarks.instruments import running
from benchmarks.instruments.load import (
    OPEN,
    LoadFigures,
    WorkerFigures,
    describe_workers,
    measure_closed,
    measure_open,
    read_counters,
    sum_cpu,
    sum_memory,
)
from benchmarks.instruments.workload import REQUESTS, draw_requests
from benchmarks.report import Chart, show
from benchmarks.tune.plan import KNOBS, Combination, SlaEntry, TuningPlan, read_plan
from catalog.map import SECTIONS
from deploy.stack import StackError

#: Successive halving (Jamieson and Talwalkar, arXiv:1502.07943): all combinations are measured
#: briefly, the best third of them twice as long, and so on.
_ETA = 3
#: The first rung's share of the time: what it has not come to by then is not tried.
_FIRST_SHARE = 0.6
_INTERRUPTED = 130
#: The most requests of an open loop that are under way.
_CONNECTIONS = 512
#: With fewer requests the 99th percentile is the slowest one, and a matter of chance.
_LEAST_REQUESTS = 100
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


_TRIAL = TypeAdapter(Trial)


def _read_rest(point: TrialPoint) -> float | None:
    """Return the mean time of a request outside of the queue and the batch."""
    mean_ms, workers = point.load.latencies.mean_ms, point.workers
    if mean_ms is None or workers.queue_ms is None or workers.handler_ms is None:
        return None
    return mean_ms - workers.queue_ms - workers.handler_ms


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
#: The parts of a request's time.
_PARTS: report.Columns[TrialPoint] = {
    "queue": _FIGURES["queue_ms"],
    "handler": _FIGURES["handler_ms"],
    "gateway, nginx, client": _read_rest,
}


def answer(plan: Path, *, out: Path, fresh: bool) -> None:
    """Find the configuration that answers most within an SLA.

    Every combination is started as its own stack, warmed up, asked and stopped. Writes
    results.csv, report.md with charts, and the winner as setup_config.json.
    """
    report.load_figure()
    run = open_run(read_plan(plan), out.resolve(), is_fresh=fresh)
    try:
        run.search()
    except KeyboardInterrupt:
        console.print("Stopped; the same command goes on from here.")
        raise typer.Exit(_INTERRUPTED) from None
    finally:
        write_results(run)
    console.print(summarize(run))
    say(f"written: {out}/results.csv, report.md, setup_config.json")


def open_run(plan: TuningPlan, out: Path, *, is_fresh: bool = False) -> TuningRun:
    """Return the run in a folder, with its trials. Raises PlanError, and ValueError for no
    map."""
    run = TuningRun(plan, out)
    mark = out / "plan.sha256"
    if is_fresh:
        for path in (mark, run.journal, run.winner_map):
            path.unlink(missing_ok=True)
    out.mkdir(parents=True, exist_ok=True)
    if mark.exists() and mark.read_text() != plan.fingerprint:
        raise PlanError(
            f"{out} has another plan's results: take another --out, or --fresh"
        )
    mark.write_text(plan.fingerprint)
    for combination in plan.combine():
        write_map(out / "map.json", combination)
    if run.journal.exists():
        lines = run.journal.read_text("utf-8").splitlines()
        run.trials += map(_TRIAL.validate_json, lines)
    return run


@dataclass
class TuningRun:
    """A search so far; each trial is written down as soon as it is done."""

    plan: TuningPlan
    out: Path
    trials: list[Trial] = field(default_factory=list)

    @property
    def journal(self) -> Path:
        return self.out / "trials.jsonl"

    @property
    def winner_map(self) -> Path:
        return self.out / "setup_config.json"

    @property
    def rungs(self) -> list[int]:
        """The number of combinations of each rung, without the default in all but the first."""
        rungs = [len(self.plan.combine())]
        while self.plan.search.method == "halving" and rungs[-1] > _ETA:
            rungs.append(math.ceil(rungs[-1] / _ETA))
        return rungs

    @property
    def finalists(self) -> list[Trial]:
        """The trials of the last rung before the confirmation, the best first."""
        last = max((t.rung for t in self.trials if t.rung < len(self.rungs)), default=0)
        return self._rank(last)

    @property
    def winner(self) -> Trial | None:
        """None if nothing keeps the SLA."""
        return next((trial for trial in self.finalists[:1] if trial.best), None)

    def search(self) -> None:
        """Go rung by rung, then once more with the winner's map as it was written."""
        default, limit_s = self.plan.default, self.plan.search.minutes * 60
        _, *others = self.plan.combine()
        random.Random(0).shuffle(others)
        combinations = [default, *others]
        by_name = {combination.name: combination for combination in combinations}
        for rung, count in enumerate(self.rungs):
            if rung:
                best = [by_name[trial.name] for trial in self._rank(rung - 1)[:count]]
                combinations = list(dict.fromkeys([*best[:1], default, *best[1:]]))
            share = _FIRST_SHARE if rung == 0 and len(self.rungs) > 1 else 1
            self._climb(rung, combinations, limit_s * share)
        if winner := self.winner:
            map_path = write_map(self.winner_map, by_name[winner.name])
            self._try(len(self.rungs), by_name[winner.name], map_path, winner.rung)

    def _rank(self, rung: int) -> list[Trial]:
        trials = (trial for trial in self.trials if trial.rung == rung)
        return sorted(trials, key=lambda trial: trial.rank, reverse=True)

    def _climb(
        self, rung: int, combinations: Sequence[Combination], limit_s: float
    ) -> None:
        """Try one rung. It stops if there is no time for another trial and the confirmation."""
        for combination in combinations:
            spent = [trial.seconds for trial in self.trials]
            if sum(spent) + 2 * max(spent, default=0) > limit_s:
                return
            map_path = write_map(self.out / "map.json", combination)
            self._try(rung, combination, map_path, rung)

    def _try(
        self, rung: int, combination: Combination, map_path: Path, like: int
    ) -> None:
        """Measure each level twice as long as in the rung before the one that it is `like`."""
        own = [trial for trial in self.trials if trial.name == combination.name]
        if any(trial.rung == rung for trial in own):
            return
        # The search goes on at the best level of the rung before, or at the lowest.
        start = None
        if before := [trial for trial in own if trial.rung < rung]:
            best = before[-1].best
            start = self.plan.load.levels.index(best.load.level) if best else 0
        trial = run_trial(
            self.out / "stack",
            map_path,
            combination,
            self.plan,
            rung=rung,
            seconds=self.plan.load.seconds * 2.0**like,
            start=start,
        )
        self.trials.append(trial)
        with self.journal.open("a", encoding="utf-8") as file:
            file.write(_TRIAL.dump_json(trial).decode() + "\n")


def write_map(path: Path, combination: Combination) -> Path:
    """Write the combination for `make up CONFIG=…`. Raises ValueError if it makes no map."""
    running.write_map(
        path,
        {"model": combination.model, **dict(combination.settings)},
        combination.languages,
        device=combination.device,
        task=combination.task,
    )
    running.read_map(path)
    return path


def keeps(load: LoadFigures, sla: SlaEntry) -> bool:
    """Whether a load keeps the promise. A load without a good answer does not."""
    p99_ms = load.latencies.p99_ms
    is_fast = p99_ms is not None and p99_ms <= sla.p99_ms
    return is_fast and load.errors <= sla.error_share * load.answers


def run_trial(
    run_dir: Path,
    map_path: Path,
    combination: Combination,
    plan: TuningPlan,
    *,
    rung: int,
    seconds: float,
    start: int | None = None,
) -> Trial:
    """Find the highest level that keeps the SLA; without a stack, a trial has a fault."""
    began = time.monotonic()
    points: list[TrialPoint] = []
    fault, levels = "", plan.load.levels
    # Images, or texts into the combination's or the plan's languages.
    targets = [target for target, n in plan.load.targets.items() for _ in range(n)]
    requests = draw_requests(
        combination.task,
        REQUESTS,
        targets=targets or combination.languages,
        tokens=read_range(plan.load.tokens),
    )
    try:
        say(f"starting {combination.name}")
        with running.start(run_dir, map_path) as stack:
            target = stack.aim(requests)

            def ask(level: float, seconds: float) -> LoadFigures:
                if not plan.load.is_open:
                    return measure_closed(target, clients=int(level), seconds=seconds)
                seconds = max(seconds, _LEAST_REQUESTS / level)
                return measure_open(
                    target, rate=level, seconds=seconds, connections=_CONNECTIONS
                )

            def passes(number: int) -> bool:
                say(f"{combination.name}, {levels[number]:g} {plan.load.unit}")
                before = read_counters(stack.metrics_url)
                load = ask(levels[number], seconds)
                workers = describe_workers(before, read_counters(stack.metrics_url))
                points.append(TrialPoint(load, workers, keeps(load, plan.sla)))
                return points[-1].is_kept

            ask(levels[-1], plan.load.warm_up_seconds)
            count_passing(len(levels), passes, start)
    except (StackError, RequestException) as error:
        fault = str(error)
    elapsed_s = time.monotonic() - began
    return Trial(combination.name, rung, elapsed_s, tuple(points), fault)


def count_passing(
    levels: int, passes: Callable[[int], bool], start: int | None = None
) -> int:
    """Return how many numbers from 0 to below `levels` pass, if none does after one that does
    not. Searches by bisection, or step by step from `start`."""
    if start is None:
        return bisect(range(levels), False, key=lambda number: not passes(number))
    if passes(start):
        return next((n for n in range(start + 1, levels) if not passes(n)), levels)
    return next((n + 1 for n in reversed(range(start)) if passes(n)), 0)


def write_results(run: TuningRun) -> None:
    """Write results.csv, report.md, throughput.svg and batches.svg into the run's folder."""
    combinations = {each.name: each for each in run.plan.combine()}
    rows = [
        _write_row(trial, point, combinations[trial.name])
        for trial in run.trials
        for point in trial.points
    ]
    with (run.out / "results.csv").open("w", encoding="utf-8", newline="") as file:
        keys = list(dict.fromkeys(key for row in rows for key in row))
        writer = csv.DictWriter(file, keys)
        writer.writeheader()
        writer.writerows(rows)
    # The last trial of each combination, those of later rungs first, then the best.
    latest = sorted(
        {trial.name: trial for trial in run.trials}.values(),
        key=lambda trial: (trial.rung, trial.rank),
        reverse=True,
    )
    if rows:
        names = [trial.name for trial in latest]
        throughput, batches = draw(run.plan, names, run.trials)
        report.draw_charts(throughput, run.out / "throughput.svg")
        report.draw_charts(batches, run.out / "batches.svg")
    (run.out / "report.md").write_text(_write_report(run, latest), "utf-8")


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


def _write_report(run: TuningRun, latest: Sequence[Trial]) -> str:
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
        summarize(run).replace("\n", "\n\n") + "\n",
        f"{machine['cores']} cores of {machine['processor']}, "
        f"{machine['memory_gb']} GB; {run.plan.load.seconds:g} s at each level, twice "
        "as long in each further rung of the search. Figures are those of the highest "
        "load within the SLA.\n",
        report.to_markdown(report.tabulate(latest, columns)),
        "![Latency and throughput](throughput.svg)\n\n![Batches](batches.svg)\n",
        f"## Faults\n\n{faults}" if faults else "",
    )
    return "\n".join(parts)


def summarize(run: TuningRun) -> str:
    """Return the outcome in a few lines."""
    sla, winner = run.plan.sla, run.winner
    promise = f"p99 ≤ {sla.p99_ms:g} ms, errors ≤ {sla.error_share:.2%}"
    if winner is None:
        return f"Nothing that was tried keeps the SLA ({promise})."
    default = run.plan.default.name
    shipped = next((trial for trial in run.finalists if trial.name == default), None)
    last = (trial for trial in run.trials if trial.rung == len(run.rungs))
    confirmed = next((trial for trial in last if trial.name == winner.name), None)
    ratio, share = _divide(winner, shipped), _divide(confirmed, winner)
    tried = {trial.name for trial in run.trials}
    untried = sum(each.name not in tried for each in run.plan.combine())
    lines = (
        f"Best within the SLA ({promise}): {_describe(winner)}",
        shipped and f"The map {_describe(shipped)}",
        ratio and f"{show(ratio)} times as much.",
        confirmed and f"Confirmed: {_describe(confirmed)}",
        share and f"{show(share)} of what was predicted.",
        untried and f"There was no time for {untried} combinations.",
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


def draw(
    plan: TuningPlan, names: Sequence[str], trials: Sequence[Trial]
) -> tuple[list[Chart], list[Chart]]:
    """Draw latency over throughput with its Pareto front, and what batches are like. The
    combinations have their last point of each level; the first one is the best."""
    best, *_ = names
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
    spent: dict[str, report.Points] = {}
    for part, read in _PARTS.items():
        spent |= _draw_lines({part: points[best]}, read)
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
    return list({p.load.level: p for trial in own for p in trial.points}.values())


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


def find_front(points: set[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """Yield the points that no other beats in both throughput and latency."""
    least = float("inf")
    for throughput, latency in sorted(points, key=lambda p: (-p[0], p[1])):
        if latency < least:
            least = latency
            yield throughput, latency
