"""The cost of a batch, batch size by batch size: `python -m benchmarks engine` measures
engines alone, `study` a task's handler as TorchServe loads it, without HTTP and queues.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import catalog
from benchmarks import driver
from benchmarks.instruments import passes, running
from benchmarks.instruments.passes import Measurement, SkippedSubject
from benchmarks.instruments.workload import MeasuredTask, draw, draw_requests
from benchmarks.report import Chart, Columns, Findings, group, tabulate
from catalog import checkpoint, describe_handler
from handlers import base

#: Items in a pass of the study; a larger batch is a pass by itself.
_PASS_ITEMS = 64
#: The knee is the smallest batch that has so much of the best throughput.
_KNEE_SHARE = 0.9
_NO_MEMORY = "out-of-memory"
_COLUMNS: Columns[Measurement] = {
    "": lambda m: " ".join(m.label),
    "batch": lambda m: m.batch,
    "ms per batch": lambda m: m.ms_per_batch,
    "ms per item": lambda m: m.ms_per_item,
    "items/s": lambda m: m.items_per_s,
    "tokens/s": lambda m: m.tokens_per_s,
    "memory MB": lambda m: m.memory_mb,
    "GPU MB": lambda m: m.gpu_memory_mb,
}


def measure_engines(
    *,
    model: str,
    engines: str,
    compute_types: str,
    batches: str,
    sentences: int,
    repetitions: int,
    limit_s: float,
    device: str,
) -> Findings:
    """Sentences/s, tokens/s, time and memory of the engines alone, batch by batch.

    Each engine in each precision runs in its own process.
    """
    sizes = tuple(sorted(driver.read_numbers(batches)))
    directory, items = passes.find_model(model), draw(max(sentences, *sizes))
    pairs = product(driver.read_words(engines), driver.read_words(compute_types))
    subjects = [passes.EngineSubject(directory, *pair, device) for pair in pairs]
    return _measure_all(
        passes.PassPlan(subject, sizes, items, sentences, repetitions, limit_s)
        for subject in subjects
    )


def study(
    *,
    task: MeasuredTask,
    model: str,
    devices: str,
    batches: str,
    repetitions: int,
    limit_s: float,
    language: str,
    tokens: str,
    setting: list[str] | None,
) -> Findings:
    """Time, throughput and memory of a model's handler, batch size by batch size.

    The handler is loaded as TorchServe loads it, each device in its own process. The knee
    is the smallest batch with nine tenths of the best throughput.
    """
    sizes = tuple(sorted(driver.read_numbers(batches)))
    requests = draw_requests(
        task,
        max(_PASS_ITEMS, *sizes),
        targets=[language],
        tokens=driver.read_range(tokens),
    )
    items = tuple(request.body for request in requests)
    settings = driver.read_settings(setting) | ({"model": model} if model else {})
    subjects = [
        TaskSubject(find_model(task, language, device, settings))
        for device in driver.read_words(devices)
    ]
    return _measure_all(
        passes.PassPlan(subject, sizes, items, _PASS_ITEMS, repetitions, limit_s)
        for subject in subjects
    )


def _measure_all(plans: Iterable[passes.PassPlan]) -> Findings:
    results: list[Measurement | SkippedSubject] = []
    for plan in plans:
        driver.say(" ".join(plan.subject.label))
        results += passes.measure_apart(plan, checkpoint.default_cache())
    return describe(results)


def describe(results: Sequence[Measurement | SkippedSubject]) -> Findings:
    """A row and a point per subject and batch size; the knee of each subject is marked."""
    measured = [result for result in results if isinstance(result, Measurement)]
    skipped = [result for result in results if isinstance(result, SkippedSubject)]
    subjects = group(measured, lambda m: " ".join(m.label))
    knees = list(map(find_knee, subjects.values()))
    columns = {**_COLUMNS, "knee": lambda m: "knee" if m in knees else ""}

    def chart(title: str, unit: str) -> Chart:
        def read(m: Measurement) -> tuple[float, float]:
            return m.batch, m.ms_per_item if title == "Time" else m.items_per_s.median

        lines = {name: list(map(read, some)) for name, some in subjects.items()}
        dots = {"knee": list(map(read, knees))} if knees else {}
        return Chart(title, "batch", unit, lines, is_logarithmic=True, dots=dots)

    return Findings(
        tabulate(measured, columns),
        {"measured": measured, "skipped": skipped},
        remarks=[f"{' '.join(result.label)}: {result.reason}" for result in skipped],
        charts=[chart("Time", "ms per item"), chart("Throughput", "items/s")],
    )


def find_knee(measured: Sequence[Measurement]) -> Measurement:
    """Return the knee of one subject."""
    best = max(m.items_per_s.median for m in measured)
    return next(m for m in measured if m.items_per_s.median >= _KNEE_SHARE * best)


def find_model(
    task: str, language: str, device: str, settings: Mapping[str, Any]
) -> catalog.Model:
    """Return the model as the map would have it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "map.json"
        running.write_map(path, settings, [language], device=device, task=task)
        return running.read_map(path).models[0]


@dataclass(frozen=True)
class TaskSubject:
    """A model of the map on one of its devices; its items are bodies of requests."""

    model: catalog.Model

    @property
    def label(self) -> tuple[str, ...]:
        return (self.model.devices[0],)

    @property
    def device(self) -> str:
        return "cuda" if self.model.is_on_gpu else catalog.CPU

    def prepare(self, cache: Path) -> Path:
        try:
            return checkpoint.prepare(self.model, cache)
        except ValueError as error:
            raise passes.Unsupported(str(error)) from error

    def load(self, directory: Path) -> passes.Runner:
        handler = base.find_handler(self.model.task)()
        index = int(self.model.devices[0]) if self.model.is_on_gpu else 0
        options = describe_handler(self.model, directory)
        handler.start(base.ModelConfig(directory, self.device, index, options))
        return partial(run_handler, handler)


def run_handler(
    handler: base.TaskHandler[Any], batches: Sequence[Sequence[bytes]]
) -> passes.Pass:
    """Time `infer` alone. Raises MemoryEnds for a halved batch, else RuntimeError."""
    read = handler.preprocess
    items = [[read(base.Row(body)) for body in batch] for batch in batches]
    tokens = 0
    began = time.perf_counter()
    for batch in items:
        outcome = handler.infer(batch, math.inf)
        _check(outcome)
        tokens += outcome.counts.get("BabelgateTokens", 0)
    return passes.Pass(time.perf_counter() - began, tokens)


def _check(outcome: base.Outcome) -> None:
    errors = [one for one in outcome.results if isinstance(one, base.TaskError)]
    is_halved = outcome.counts["BabelgateHalvedPacks"] > 0
    if is_halved or any(error.slug == _NO_MEMORY for error in errors):
        raise passes.MemoryEnds("they are run in halves")
    if errors:
        raise RuntimeError(f"a row was answered {errors[0].slug}: {errors[0]}")
