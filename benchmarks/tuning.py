"""`python -m benchmarks tune`: finds the settings with the highest throughput within an SLA,
confirms them, and writes results.csv, report.md with a chart, and the winner's map.
"""

from __future__ import annotations

import csv
import itertools
import json
import math
import os
import random
import time
from bisect import bisect
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic
import typer
from requests import RequestException

from benchmarks import driver, report
from benchmarks.instruments import running
from benchmarks.instruments.load import (
    CLOSED,
    OPEN,
    LoadFigures,
    WorkerFigures,
    describe_workers,
    measure,
    read_counters,
)
from benchmarks.instruments.workload import REQUESTS, MeasuredTask, draw_requests
from catalog.display import console
from catalog.map import SECTIONS, check
from catalog.sections import Shape
from contract import durable
from contract.tasks import TRANSLATION
from deploy.stack import StackError
from handlers.base import COUNT_S

#: Successive halving (Jamieson and Talwalkar, arXiv:1502.07943): all combinations are measured
#: briefly, the best third of them twice as long, and so on.
_ETA = 3
#: The first rung's share of the search time. Combinations not reached by then are not tried.
_FIRST_SHARE = 0.6
_INTERRUPTED = 130
#: With fewer requests, the 99th percentile is that of the slowest one, which is random.
_LEAST_REQUESTS = 100


def _make_list(value: Any) -> Any:
    values = value if isinstance(value, list) else [value]
    return tuple(tuple(v) if isinstance(v, list) else v for v in values)


Values = Annotated[tuple[Any, ...], pydantic.BeforeValidator(_make_list)]
Levels = Annotated[tuple[driver.Positive, ...], pydantic.Field(strict=False)]


class ModelEntry(Shape):
    """A model and the values to try; a missing key keeps the map's default."""

    task: MeasuredTask = TRANSLATION
    #: The task's own model if empty.
    model: str = ""
    languages: Values = ()
    device: Values = ()
    engine: Values = ()
    compute_type: Values = ()
    placement: Values = ()
    workers: Values = ()
    batch_size: Values = ()
    max_batch_delay: Values = ()
    max_batch_tokens: Values = ()
    max_batch_frames: Values = ()
    threads: Values = ()

    @pydantic.field_validator("*")
    @classmethod
    def _check_values(cls, values: Any, info: pydantic.ValidationInfo) -> Any:
        key = str(info.field_name)
        task = info.data.get("task", TRANSLATION)
        if key == "languages" and values and task != TRANSLATION:
            raise ValueError("only translation has languages")
        if key in TRIED and key != "device":
            for value in values:
                check(SECTIONS[task], {key: value})
        return values

    def combine(self) -> Iterator[ModelEntry]:
        """Yield the model with one value per key, in every combination."""
        tried = [key for key in TRIED if getattr(self, key)]
        for values in itertools.product(*(getattr(self, key) for key in tried)):
            update = zip(tried, ((value,) for value in values), strict=True)
            yield self.model_copy(update=dict(update))

    @property
    def values(self) -> dict[str, Any]:
        """The model of a combination, and the value of each other key that has one."""
        model = self.model or SECTIONS[self.task].model_fields["model"].default
        found = {key: getattr(self, key) for key in TRIED}
        chosen = {key: values[0] for key, values in found.items() if values}
        return {"model": str(model), **chosen}

    @property
    def name(self) -> str:
        """The name of a combination: its differences from the shipped map."""
        model = SECTIONS[self.task].model_fields["model"].default
        usual = {"task": TRANSLATION, "model": str(model)}
        told = {"task": self.task, **self.values}.items()
        differences = (f"{k}={v}" for k, v in told if usual.get(k) != v)
        return " ".join(differences) or "as it ships"

    def write_map(self, path: Path) -> Path:
        """Write a combination's map for `make up CONFIG=…`. Raises ValueError if invalid."""
        settings = self.values
        device = settings.pop("device", None)
        running.write_map(path, settings, self.languages, device=device, task=self.task)
        running.read_map(path)
        return path


class LoadEntry(Shape):
    """The load for each combination: clients of a closed loop, or rates of an open one."""

    rates: Levels = ()
    clients: Annotated[
        tuple[pydantic.PositiveInt, ...], pydantic.Field(strict=False)
    ] = ()
    seconds: driver.Positive = 6
    warm_up_seconds: driver.Positive = 3
    tokens: str = ""

    @pydantic.model_validator(mode="after")
    def _check_levels(self) -> LoadEntry:
        if bool(self.rates) == bool(self.clients):
            raise ValueError("expected either rates or clients")
        driver.read_range(self.tokens)
        return self

    @property
    def levels(self) -> tuple[float, ...]:
        """The rates or numbers of clients, in ascending order."""
        return tuple(sorted(set(self.rates or self.clients)))


class SlaEntry(Shape):
    """The service level that a load must meet."""

    p99_ms: driver.Positive
    error_share: Annotated[float, pydantic.Field(ge=0, lt=1, strict=False)] = 0.0

    def is_kept(self, load: LoadFigures) -> bool:
        """Whether a load meets the SLA. A load without a good answer does not."""
        p99_ms = load.latencies.p99_ms
        is_fast = p99_ms is not None and p99_ms <= self.p99_ms
        return is_fast and load.errors <= self.error_share * load.answers


class SearchEntry(Shape):
    """The search method and its time limit."""

    method: Literal["halving", "grid"] = "halving"
    minutes: driver.Positive = 15


#: The keys that may have several values to try.
TRIED = tuple(list(ModelEntry.model_fields)[3:])


class TuningPlan(Shape):
    """The content of a plan file."""

    models: Annotated[
        tuple[ModelEntry, ...], pydantic.Field(min_length=1, strict=False)
    ]
    load: LoadEntry
    sla: SlaEntry
    search: SearchEntry = SearchEntry()

    def combine(self) -> dict[str, ModelEntry]:
        """Return every combination by name, the default first."""
        default = self.models[0].model_copy(update=dict.fromkeys(TRIED, ()))
        tried = itertools.chain.from_iterable(map(ModelEntry.combine, self.models))
        return {each.name: each for each in (default, *tried)}

    @property
    def fingerprint(self) -> str:
        """A text that identifies this plan's results. The search time is not part of it."""
        return self.model_dump_json(exclude={"search": {"minutes"}})


@dataclass(frozen=True)
class TrialPoint:
    """The figures of one level of load: a row of results.csv and report.md."""

    configuration: str
    rung: int
    load: LoadFigures
    workers: WorkerFigures
    #: Whether the load meets the SLA.
    is_kept: bool

    @property
    def rank(self) -> tuple[float, float]:
        """A sort key, larger is better: throughput (the planned one of an open loop, which is
        equal for all combinations), then a lower p99."""
        load = self.load
        throughput = load.level if load.loop == OPEN else load.requests_per_s
        return throughput, -(load.latencies.p99_ms or 0.0)


@dataclass
class Trial:
    """The measurements of a combination in one rung of the search."""

    name: str
    rung: int
    #: The duration of the trial.
    seconds: float = 0.0
    points: list[TrialPoint] = field(default_factory=list)
    #: The error that ended it early, if any.
    fault: str = ""

    @property
    def best(self) -> TrialPoint | None:
        """The point with the highest throughput within the SLA."""
        kept = (point for point in self.points if point.is_kept)
        return max(kept, key=lambda point: point.rank, default=None)

    @property
    def rank(self) -> tuple[float, float]:
        """A sort key, larger is better: `best`'s, or else the p99 of the lowest load."""
        if self.best:
            return self.best.rank
        lowest = min(self.points, key=lambda point: point.load.level, default=None)
        p99_ms = lowest.load.latencies.p99_ms if lowest else None
        return 0.0, -(p99_ms or float("inf"))

    @property
    def rate(self) -> float:
        """The requests/s of `best`; 0 if no load meets the SLA."""
        return self.best.load.requests_per_s if self.best else 0.0

    def __str__(self) -> str:
        if self.best is None:
            return f"{self.name}: never within the SLA"
        p99 = report.show(self.best.load.latencies.p99_ms)
        return f"{self.name}: {report.show(self.rate)} requests/s, p99 {p99} ms"


_TRIAL = pydantic.TypeAdapter(Trial)


def answer(plan: Path, *, out: Path, fresh: bool) -> None:
    """Find the configuration with the highest throughput within an SLA.

    Start a stack for each combination, warm it up, measure it and stop it. Write
    results.csv, report.md with a chart, and the winner as setup_config.json.
    """
    run = open_run(driver.load_plan(plan, TuningPlan), out.resolve(), is_fresh=fresh)
    try:
        run.search()
    except KeyboardInterrupt:
        console.print("Stopped. Rerun the command to resume.")
        raise typer.Exit(_INTERRUPTED) from None
    finally:
        write_results(run)
    console.print(summarize(run))
    driver.say(f"written: {out}/results.csv, report.md, setup_config.json")


def open_run(plan: TuningPlan, out: Path, *, is_fresh: bool = False) -> TuningRun:
    """Open the run in a folder with its previous trials. Raises ValueError for another plan's
    results and for a combination that makes an invalid map."""
    run = TuningRun(plan, out)
    out.mkdir(parents=True, exist_ok=True)
    for combination in run.combinations.values():
        combination.write_map(run.tried_map)
    if is_fresh:
        run.winner_map.unlink(missing_ok=True)
    if is_fresh or not run.journal.exists():
        durable.write(run.journal, f"{plan.fingerprint}\n", mode=0o666)
    ends, (mark, *trials) = zip(*durable.read_lines(run.journal), strict=True)
    if mark != json.loads(plan.fingerprint):
        raise ValueError(
            f"{out} has another plan's results: choose another --out, or use --fresh"
        )
    os.truncate(run.journal, ends[-1])  # a kill may have torn the next line
    run.trials += map(_TRIAL.validate_python, trials)
    return run


@dataclass
class TuningRun:
    """A search so far. The journal has the plan's fingerprint and each finished trial."""

    plan: TuningPlan
    out: Path
    trials: list[Trial] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.journal = self.out / "trials.jsonl"
        self.tried_map = self.out / "map.json"
        self.winner_map = self.out / "setup_config.json"
        self.combinations = self.plan.combine()
        #: The name of the combination that is the shipped map.
        self.default = next(iter(self.combinations))
        #: The number of combinations of each rung; the default is counted only in the first.
        self.rungs = [len(self.combinations)]
        while self.plan.search.method == "halving" and self.rungs[-1] > _ETA:
            self.rungs.append(math.ceil(self.rungs[-1] / _ETA))

    @property
    def finalists(self) -> list[Trial]:
        """The last rung's trials before confirming, best first; none if all miss the SLA."""
        last = max((t.rung for t in self.trials if t.rung < len(self.rungs)), default=0)
        ranked = self._rank(last)
        return ranked if ranked and ranked[0].best else []

    def search(self) -> None:
        """Measure rung by rung, then confirm the winner with its map as written."""
        limit_s = self.plan.search.minutes * 60
        names = list(self.combinations)[1:]
        random.Random(0).shuffle(names)
        names.insert(0, self.default)
        for rung, count in enumerate(self.rungs):
            if rung:
                best = [trial.name for trial in self._rank(rung - 1)[:count]]
                names = list(dict.fromkeys([*best[:1], self.default, *best[1:]]))
            share = _FIRST_SHARE if rung == 0 and len(self.rungs) > 1 else 1
            for name in names:
                # Is there time for another trial and the confirmation?
                spent = [trial.seconds for trial in self.trials]
                if sum(spent) + 2 * max(spent, default=0) > limit_s * share:
                    break
                self._try(name, self.tried_map, rung, like=rung)
        for winner in self.finalists[:1]:
            self._try(winner.name, self.winner_map, len(self.rungs), like=winner.rung)

    def _rank(self, rung: int) -> list[Trial]:
        trials = (trial for trial in self.trials if trial.rung == rung)
        return sorted(trials, key=lambda trial: trial.rank, reverse=True)

    def _try(self, name: str, map_path: Path, rung: int, *, like: int) -> None:
        """Measure a combination, each level for as long as in rung `like`: doubled per rung."""
        self.combinations[name].write_map(map_path)
        if any((trial.name, trial.rung) == (name, rung) for trial in self.trials):
            return
        trial = Trial(name, rung)
        began = time.monotonic()
        try:
            driver.say(f"starting {name}")
            with running.start(self.out / "stack", map_path) as stack:
                self._climb(stack, trial, self.plan.load.seconds * 2.0**like)
        except (StackError, RequestException) as error:
            trial.fault = str(error)
        trial.seconds = time.monotonic() - began
        self.trials.append(trial)
        with closing(durable.AppendLog(self.journal)) as log:
            log.append_lines([_TRIAL.dump_python(trial, mode="json")])
            log.sync()

    def _climb(self, stack: running.Running, trial: Trial, seconds: float) -> None:
        """Bisect for the highest level within the SLA, and add a point for each measurement."""
        load, levels = self.plan.load, self.plan.load.levels
        combination = self.combinations[trial.name]
        requests = draw_requests(
            combination.task,
            REQUESTS,
            targets=combination.languages,
            tokens=driver.read_range(load.tokens),
        )
        aimed = stack.aim(requests)

        def ask(level: float, seconds: float) -> LoadFigures:
            least_s = 0 if load.clients else _LEAST_REQUESTS / level
            loop = CLOSED if load.clients else OPEN
            seconds = max(seconds, least_s)
            figures, _ = measure(aimed, loop, level, seconds=seconds)
            time.sleep(2 * COUNT_S)  # until the handlers have written their counts
            return figures

        def fails(level: float) -> bool:
            unit = "clients" if load.clients else "requests/s"
            driver.say(f"{trial.name}, {level:g} {unit}")
            before = read_counters(stack.metrics_url)
            found = ask(level, seconds)
            workers = describe_workers(before, read_counters(stack.metrics_url))
            is_kept = self.plan.sla.is_kept(found)
            point = TrialPoint(trial.name, trial.rung, found, workers, is_kept)
            trial.points.append(point)
            return not is_kept

        ask(levels[-1], load.warm_up_seconds)
        bisect(levels, False, key=fails)


def write_results(run: TuningRun) -> None:
    """Write results.csv, report.md and throughput.svg into the run's folder."""
    rows = [report.flatten(point) for trial in run.trials for point in trial.points]
    with (run.out / "results.csv").open("w", encoding="utf-8", newline="") as file:
        keys = list(dict.fromkeys(key for row in rows for key in row))
        writer = csv.DictWriter(file, keys)
        writer.writeheader()
        writer.writerows(rows)
    # The last trial of each combination, sorted by rung and rank, the highest first.
    latest = sorted(
        {trial.name: trial for trial in run.trials}.values(),
        key=lambda trial: (trial.rung, trial.rank),
        reverse=True,
    )
    report.draw_charts([draw(run)], run.out / "throughput.svg")
    (run.out / "report.md").write_text(_write_report(run, latest), "utf-8")


def _write_report(run: TuningRun, latest: Sequence[Trial]) -> str:
    # The cost of each program is in results.csv.
    best = [
        replace(b, load=replace(b.load, cpu_ms={}, memory_mb={}, statuses={}))
        for b in (trial.best for trial in latest)
        if b
    ]
    faulty = (trial for trial in latest if trial.fault or not trial.best)
    faults = "".join(
        f"- {': '.join(filter(None, (str(t), t.fault)))}\n" for t in faulty
    )
    parts = (
        "# Tuning\n",
        summarize(run).replace("\n", "\n\n") + "\n",
        "Figures are those of the highest load within the SLA.\n",
        report.to_markdown(report.tabulate(best)),
        "![Latency and throughput](throughput.svg)\n",
        f"## Without such a load, or with a fault\n\n{faults}" if faults else "",
    )
    return "\n".join(parts)


def summarize(run: TuningRun) -> str:
    """Return the outcome as a few lines of text."""
    sla = run.plan.sla
    promise = f"p99 ≤ {sla.p99_ms:g} ms, errors ≤ {sla.error_share:.2%}"
    if not run.finalists:
        return f"No tried combination keeps the SLA ({promise})."
    winner = run.finalists[0]
    lines = [f"Best within the SLA ({promise}): {winner}"]
    for trial in run.finalists:
        if trial.name == run.default:
            lines.append(f"The map {trial}")
            if trial.rate:
                lines.append(f"{report.show(winner.rate / trial.rate)} times as much.")
    for trial in run.trials:
        if (trial.name, trial.rung) == (winner.name, len(run.rungs)):
            share = report.show(trial.rate / winner.rate)
            lines += [f"Confirmed: {trial}", f"{share} of what was predicted."]
    if untried := run.combinations.keys() - {trial.name for trial in run.trials}:
        lines.append(f"There was no time for {len(untried)} combinations.")
    return "\n".join(lines)


def draw(run: TuningRun) -> report.Chart:
    """Draw p99 over throughput: the last point of each level of each combination, the SLA, and
    the Pareto front, which no other point beats in both."""
    last = {(t.name, p.load.level): p.load for t in run.trials for p in t.points}
    points = [
        (load.requests_per_s, load.latencies.p99_ms)
        for load in last.values()
        if load.latencies.p99_ms is not None
    ]
    front: list[tuple[float, float]] = []
    for point in sorted(points, key=lambda point: (-point[0], point[1])):
        if not front or point[1] < front[-1][1]:
            front.append(point)
    sla = [(rate, run.plan.sla.p99_ms) for rate, _ in front[:1] + front[-1:]]
    lines = {"front": front, "SLA": sla} if front else {}
    dots = {"all": points} if front else {}
    return report.Chart("Latency over throughput", "requests/s", "p99 ms", lines, dots)
