"""`python -m benchmarks tune`: finds the most throughput within an SLA, and confirms it."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import typer
from pydantic import TypeAdapter

from benchmarks.driver import console, say
from benchmarks.plan_file import PlanError
from benchmarks.report import load_figure
from benchmarks.tune import report as tuning_report
from benchmarks.tune.plan import Combination, TuningPlan, read_plan
from benchmarks.tune.report import SearchOutcome
from benchmarks.tune.trials import Trial, run_trial, write_map

#: Successive halving (Jamieson and Talwalkar, arXiv:1502.07943): all combinations are measured
#: briefly, the best one of this many twice as long, and so on.
_ETA = 3
#: The first rung's share of the time: what it has not come to by then is not tried.
_FIRST_SHARE = 0.6
_INTERRUPTED = 130
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
        tuning_report.write(run.out, run.plan, run.trials, run.outcome())
    console.print(tuning_report.summarize(run.plan, run.outcome()))
    say(f"written: {out}/results.csv, report.md, setup_config.json")


def open_run(plan: TuningPlan, out: Path, *, is_fresh: bool = False) -> TuningRun:
    """The run in a folder, with its trials. Raises PlanError, and ValueError for no map."""
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
        """How many combinations each rung measures, the default aside in all but the first."""
        rungs = [len(self.plan.combine())]
        while self.plan.search.method == "halving" and rungs[-1] > _ETA:
            rungs.append(math.ceil(rungs[-1] / _ETA))
        return rungs

    def search(self) -> None:
        """Goes rung by rung, then once more with the winner's map as it was written."""
        default, limit_s = self.plan.default, self.plan.search.minutes * 60
        _, *others = self.plan.combine()
        random.Random(0).shuffle(others)
        combinations = [default, *others]
        for rung, count in enumerate(self.rungs):
            if rung:
                best = self._rank(rung - 1)[:count]
                combinations = list(dict.fromkeys([*best[:1], default, *best[1:]]))
            share = _FIRST_SHARE if rung == 0 and len(self.rungs) > 1 else 1
            self._climb(rung, combinations, limit_s * share)
        self._confirm()

    def outcome(self) -> SearchOutcome:
        last = max((t.rung for t in self.trials if t.rung < len(self.rungs)), default=0)
        of_last = {t.name: t for t in self.trials if t.rung == last}
        ranked = sorted(of_last.values(), key=lambda trial: trial.rank, reverse=True)
        winner = ranked[0] if ranked and ranked[0].best else None
        name = winner.name if winner else None
        confirmations = [t for t in self.trials if t.rung == len(self.rungs)]
        tried = {trial.name for trial in self.trials}
        return SearchOutcome(
            winner=winner,
            default=of_last.get(self.plan.default.name),
            confirmation=next((t for t in confirmations if t.name == name), None),
            untried=sum(c.name not in tried for c in self.plan.combine()),
        )

    def _climb(
        self, rung: int, combinations: Sequence[Combination], limit_s: float
    ) -> None:
        """One rung. It stops if there is no time for another trial and the confirmation."""
        for combination in combinations:
            spent = [trial.seconds for trial in self.trials]
            if sum(spent) + 2 * max(spent, default=0) > limit_s:
                return
            map_path = write_map(self.out / "map.json", combination)
            self._try(rung, combination, map_path)

    def _confirm(self) -> None:
        """Measures the winner's map for as long as the winner."""
        winner = self.outcome().winner
        if winner is None:
            return
        combination = next(c for c in self.plan.combine() if c.name == winner.name)
        write_map(self.winner_map, combination)
        rungs = len(self.rungs)
        self._try(rungs, combination, self.winner_map, like=winner.rung)

    def _try(
        self,
        rung: int,
        combination: Combination,
        map_path: Path,
        *,
        like: int | None = None,
    ) -> None:
        """Each level is measured twice as long as in the rung before, or `like` another."""
        done = {(trial.rung, trial.name) for trial in self.trials}
        if (rung, combination.name) not in done:
            trial = run_trial(
                self.out / "stack",
                map_path,
                combination,
                self.plan,
                rung=rung,
                seconds=self.plan.load.seconds
                * 2.0 ** (rung if like is None else like),
                start=self._find_start(rung, combination),
            )
            self.trials.append(trial)
            with self.journal.open("a", encoding="utf-8") as file:
                file.write(_TRIAL.dump_json(trial).decode() + "\n")

    def _find_start(self, rung: int, combination: Combination) -> int | None:
        """The best level in the rung before; the lowest if there was none."""
        own = [trial for trial in self.trials if trial.name == combination.name]
        before = [trial for trial in own if trial.rung < rung]
        if not before:
            return None
        best = before[-1].best
        return self.plan.load.levels.index(best.load.level) if best else 0

    def _rank(self, rung: int) -> list[Combination]:
        trials = [trial for trial in self.trials if trial.rung == rung]
        by_name = {combination.name: combination for combination in self.plan.combine()}
        ranked = sorted(trials, key=lambda trial: trial.rank, reverse=True)
        return [by_name[trial.name] for trial in ranked]
