"""`python -m benchmarks tune`: finds the most throughput within an SLA, and confirms it."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import typer
from pydantic import TypeAdapter
from requests import RequestException

from benchmarks.driver import console, read_range, say
from benchmarks.instruments import running
from benchmarks.instruments.counters import describe, read_counters
from benchmarks.instruments.load import LoadFigures, measure_closed, measure_open
from benchmarks.instruments.workload import REQUESTS, draw_requests
from benchmarks.plan_file import PlanError
from benchmarks.report import load_figure
from benchmarks.tune import report
from benchmarks.tune.plan import Combination, SlaEntry, TuningPlan, read_plan
from benchmarks.tune.report import SearchOutcome, Trial, TrialPoint
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
_TRIAL = TypeAdapter(Trial)


def answer(plan: Path, *, out: Path, fresh: bool) -> None:
    """Find the configuration that answers most within an SLA.

    Every combination is started as its own stack, warmed up, asked and stopped. Writes
    results.csv, report.md with charts, and the winner as setup_config.json.
    """
    load_figure()
    run = open_run(read_plan(plan), out.resolve(), is_fresh=fresh)
    try:
        run.search()
    except KeyboardInterrupt:
        console.print("Stopped; the same command goes on from here.")
        raise typer.Exit(_INTERRUPTED) from None
    finally:
        report.write(run.out, run.plan, run.trials, run.outcome())
    console.print(report.summarize(run.plan, run.outcome()))
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
        if winner := self.outcome().winner:
            map_path = write_map(self.winner_map, by_name[winner.name])
            self._try(len(self.rungs), by_name[winner.name], map_path, winner.rung)

    def outcome(self) -> SearchOutcome:
        """Return what the search has found so far."""
        last = max((t.rung for t in self.trials if t.rung < len(self.rungs)), default=0)
        ranked = self._rank(last)
        winner = ranked[0] if ranked and ranked[0].best else None
        by_name = {trial.name: trial for trial in ranked}
        confirmations = [t for t in self.trials if t.rung == len(self.rungs)]
        tried = {trial.name for trial in self.trials}
        return SearchOutcome(
            winner=winner,
            default=by_name.get(self.plan.default.name),
            confirmation=next(
                (t for t in confirmations if winner and t.name == winner.name), None
            ),
            untried=sum(c.name not in tried for c in self.plan.combine()),
        )

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
                workers = describe(before, read_counters(stack.metrics_url))
                points.append(TrialPoint(load, workers, keeps(load, plan.sla)))
                return points[-1].is_kept

            ask(levels[-1], plan.load.warm_up_seconds)
            find_highest(len(levels), passes, start)
    except (StackError, RequestException) as error:
        fault = str(error)
    elapsed_s = time.monotonic() - began
    return Trial(combination.name, rung, elapsed_s, tuple(points), fault)


def find_highest(
    levels: int, passes: Callable[[int], bool], start: int | None = None
) -> int | None:
    """Return the highest of `levels` numbers from 0 that passes, if all below it do; None
    if none does. Searches by bisection, or step by step from `start`."""
    passed, failed = -1, levels
    probe = levels // 2 if start is None else start
    while failed - passed > 1:
        if passes(probe):
            passed = probe
        else:
            failed = probe
        if start is None:
            probe = (passed + failed) // 2
        else:
            probe = passed + 1 if passed >= start else failed - 1
    return passed if passed >= 0 else None
