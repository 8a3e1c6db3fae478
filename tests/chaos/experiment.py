"""One chaos: a stack is measured under load, harmed, and measured again once it is ready."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import SubprocessError

import psutil

from benchmarks.instruments.generator import Target, ask_again, ask_within
from benchmarks.instruments.load import find_leaders, measure_memory
from deploy.stack import Stack
from tests.chaos import traces
from tests.chaos.faults import FAULTS, flood, write_flood
from tests.chaos.load import RIGHT, Question, ask, keep_asking, learn, write_questions
from tests.chaos.scene import Scene, watch_nginx
from tests.chaos.verdicts import list_faults
from tests.e2e.real_stack import is_ready

#: Clients, length and limit of the look for the capacity.
_PEAK_CLIENTS, _PEAK_S, _PEAK_LIMIT_MS = 32, 2.0, 5000
_LOAD_S, _CALM_S = 1.5, 1.0
#: Between two faults, in seconds: some come while the last one is being healed.
_PAUSE_S = (0.1, 0.6)


@dataclass
class Report:
    """A report of the actions, and of violations."""

    seed: int
    #: Seconds since the first fault, and its name.
    schedule: list[str] = field(default_factory=list)
    #: Answers to the clients who asked all the time.
    outcomes: Counter[str] = field(default_factory=Counter)
    #: When the first fault came, by the monotonic clock.
    began: float = 0.0
    wrong_answers: list[str] = field(default_factory=list)
    #: The violations that the faults themselves saw.
    violations: list[str] = field(default_factory=list)
    ready_after_s: float = 0.0
    #: Megabytes by program under the same load, before the faults and after them.
    memory_mb: tuple[dict[str, float], dict[str, float]] = ({}, {})
    hurt_strangers: list[str] = field(default_factory=list)
    traces: list[str] = field(default_factory=list)

    def explain(self, *found: str) -> str:
        """The message of a failed test."""
        return "\n".join(
            [
                *found,
                f"Repeat with CHAOS_SEED={self.seed}. The faults, in seconds:",
                *self.schedule,
                f"answers: {dict(self.outcomes)}",
                f"ready after {self.ready_after_s:.1f} s",
                *(f"MB: {_round(megabytes)}" for megabytes in self.memory_mb),
            ]
        )


def _round(megabytes: Mapping[str, float]) -> dict[str, int]:
    return {name: round(mb) for name, mb in megabytes.items()}


def run(stack: Stack, cache: Path, seed: int, start_s: float) -> Report:
    """All of it, with a stack that needed `start_s` to start."""
    scene = Scene(stack, cache, marker=f"zq{seed}qz", start_s=start_s)
    report = Report(seed)
    questions = learn(stack.url, write_questions(scene.marker))
    try:
        with (
            traces.watch_open_files(stack, scene.marker) as open_files,
            watch_nginx(scene),
        ):
            scene.capacity = _find_capacity(scene)
            # The first time batches of every length make their buffers.
            _measure_under_load(scene, questions, seed)
            before = _measure_under_load(scene, questions, seed)
            processes = _count_processes(stack)
            scene.start_strangers()
            _harm(scene, questions, report)
            _await_ready(scene, questions, processes, report)
            after = _measure_under_load(scene, questions, seed)
        report.memory_mb = (before, after)
        report.hurt_strangers = scene.find_hurt_strangers()
        report.traces = [
            *traces.find_in_files(stack.run, scene.marker),
            *sorted(open_files),
        ]
    finally:
        scene.end_strangers()
    report.wrong_answers = list_faults(scene)
    report.violations = scene.violations
    return report


def _find_capacity(scene: Scene) -> float:
    target = Target(scene.stack.url, write_flood(scene.marker))
    replies = ask_again(
        target,
        ask_within(_PEAK_LIMIT_MS),
        clients=_PEAK_CLIENTS,
        seconds=_PEAK_S,
        pause_s=0.1,
    )
    return sum(reply.status == "200" for reply in replies) / _PEAK_S


def _measure_under_load(
    scene: Scene, questions: list[Question], seed: int
) -> dict[str, float]:
    """Megabytes by program after some seconds of the clients and one flood."""
    with keep_asking(scene.stack.url, questions, seed) as exchanges:
        flood(scene, random.Random(seed))
        time.sleep(_LOAD_S)
    scene.exchanges += exchanges
    time.sleep(_CALM_S)
    return scene.read(
        "every program", lambda: measure_memory(find_leaders(scene.stack)), default={}
    )


def _harm(scene: Scene, questions: list[Question], report: Report) -> None:
    report.began = time.monotonic()
    rng = random.Random(report.seed)
    with keep_asking(scene.stack.url, questions, report.seed) as exchanges:
        for fault in rng.sample(list(FAULTS), len(FAULTS)):
            time.sleep(rng.uniform(*_PAUSE_S))
            _do(fault, rng.randrange(2**32), scene, report)
    report.outcomes = Counter(
        e.outcome if e.outcome == RIGHT else f"{e.outcome} {e.status} {e.slug}".strip()
        for e in exchanges
    )
    scene.exchanges += exchanges


def _do(fault: str, seed: int, scene: Scene, report: Report) -> None:
    at_s = time.monotonic() - report.began
    try:
        FAULTS[fault](scene, random.Random(seed))
    except (psutil.Error, OSError, ValueError, SubprocessError) as error:
        # The victim may have gone by itself; what remains of the faults is still to come.
        scene.violations.append(f"{fault}: {type(error).__name__} {error}")
    lasted_s = time.monotonic() - report.began - at_s
    report.schedule.append(f"{at_s:6.1f} {fault}, {lasted_s:.1f} s")


def _count_processes(stack: Stack) -> Mapping[str, int]:
    """Each program's, but for its main one."""
    leaders = find_leaders(stack)
    return {program: len(leader.children()) for program, leader in leaders.items()}


def _await_ready(
    scene: Scene,
    questions: list[Question],
    processes: Mapping[str, int],
    report: Report,
) -> None:
    """A killed master's processes still answer for a while, so that all must be there."""
    began = time.monotonic()

    def is_whole() -> bool:
        found = _count_processes(scene.stack)
        answers = [ask(scene.stack.url, each, scene.back_s) for each in questions]
        return (
            all(found[program] >= count for program, count in processes.items())
            and all(answer.outcome == RIGHT for answer in answers)
            and is_ready(scene.stack.url)
        )

    if not scene.wait("ready again after the last fault", is_whole):
        scene.wait("ready again at all", is_whole)
    report.ready_after_s = time.monotonic() - began
