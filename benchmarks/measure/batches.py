"""The cost of a batch, batch size by batch size: `python -m benchmarks engine` measures
engines alone, `study` a task's handler as TorchServe loads it, without HTTP and queues.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import typer

import catalog
from benchmarks import driver
from benchmarks.figures import group
from benchmarks.instruments import bare, passes, running
from benchmarks.instruments.bare import Configuration
from benchmarks.instruments.sentences import draw
from benchmarks.instruments.workload import draw_requests
from benchmarks.report import Chart, Columns, tabulate
from catalog import checkpoint, describe_handler
from contract.tasks import TRANSLATION
from handlers import base

#: Items in a pass of the study; a larger batch is a pass by itself.
_PASS_ITEMS = 64
#: The knee is the smallest batch that has so much of the best throughput.
_KNEE_SHARE = 0.9
_NO_MEMORY = "out-of-memory"
_COLUMNS: Columns[passes.Measurement] = {
    "": lambda m: " ".join(m.label),
    "batch": lambda m: m.batch,
    "ms per batch": lambda m: m.ms_per_batch,
    "ms per item": lambda m: m.ms_per_item,
    "items/s": lambda m: m.items_per_s,
    "tokens/s": lambda m: m.tokens_per_s,
    "memory MB": lambda m: m.memory_mb,
    "GPU MB": lambda m: m.gpu_memory_mb,
}

Batches = Annotated[str, typer.Option(help="Numbers of items in a batch.")]
Repetitions = Annotated[int, typer.Option(help="Passes that count.", min=1)]
Limit = Annotated[
    float, typer.Option(help="No pass of a batch size begins after this many seconds.")
]


def measure_engines(
    *,
    model: driver.Model = "models/phrasebook",
    engines: Annotated[
        str, typer.Option(help="ctranslate2, transformers or both.")
    ] = "ctranslate2,transformers",
    compute_types: Annotated[
        str, typer.Option(help="Precisions; an engine skips those that it has not.")
    ] = "float32,bfloat16,float16,int8",
    batches: Batches = "1,2,4,8,16,32,64,128,256",
    sentences: Annotated[
        int, typer.Option(help="Sentences of a pass; of a larger batch one is a pass.")
    ] = 64,
    repetitions: Repetitions = 5,
    limit_s: Limit = 60,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
) -> driver.Findings:
    """Sentences/s, tokens/s, time and memory of the engines alone, batch by batch.

    Each engine in each precision runs in its own process.
    """
    sizes = tuple(sorted(driver.read_numbers(batches)))
    directory = bare.find_model(model)
    return _measure_all(
        passes.PassPlan(
            Configuration(directory, engine, compute_type, device),
            batches=sizes,
            items=draw(max(sentences, *sizes)),
            pass_items=sentences,
            repetitions=repetitions,
            limit_s=limit_s,
        )
        for engine, compute_type in product(
            driver.read_words(engines), driver.read_words(compute_types)
        )
    )


def study(
    *,
    task: driver.Task = TRANSLATION,
    model: Annotated[
        str, typer.Option(help="A directory or hub name; the task's own otherwise.")
    ] = "",
    devices: Annotated[
        str, typer.Option(help="`cpu` and numbers of GPUs, with commas between.")
    ] = "cpu",
    batches: Batches = "1,2,4,8,16,32,64,128,256",
    repetitions: Repetitions = 10,
    limit_s: Limit = 30,
    language: Annotated[str, typer.Option(help="To translate into.")] = "fr",
    tokens: Annotated[
        str, typer.Option(help="LEAST-MOST: texts with about this many tokens.")
    ] = "",
    setting: driver.Setting = None,
) -> driver.Findings:
    """Time, throughput and memory of a model's handler, batch size by batch size.

    The handler is loaded as TorchServe loads it, each device in its own process. The knee
    is the smallest batch with nine tenths of the best throughput.
    """
    sizes = tuple(sorted(driver.read_numbers(batches)))
    count = max(_PASS_ITEMS, *sizes)
    lengths = driver.read_range(tokens)
    requests = draw_requests(task, count, targets=[language], tokens=lengths)
    settings = driver.read_settings(setting) | ({"model": model} if model else {})
    models = [
        find_model(task, language, device, settings)
        for device in driver.read_words(devices)
    ]
    return _measure_all(
        passes.PassPlan(
            TaskSubject(one),
            batches=sizes,
            items=tuple(request.body for request in requests),
            pass_items=_PASS_ITEMS,
            repetitions=repetitions,
            limit_s=limit_s,
        )
        for one in models
    )


def _measure_all(plans: Iterator[passes.PassPlan]) -> driver.Findings:
    results: list[passes.Measurement | passes.Skipped] = []
    for plan in plans:
        driver.say(" ".join(plan.subject.label))
        results += passes.measure_apart(plan, checkpoint.default_cache())
    return describe(results)


def describe(results: Sequence[passes.Measurement | passes.Skipped]) -> driver.Findings:
    """A row and a point per subject and batch size; the knee of each subject is marked."""
    measured = [result for result in results if isinstance(result, passes.Measurement)]
    skipped = [result for result in results if isinstance(result, passes.Skipped)]
    subjects = group(measured, lambda m: " ".join(m.label))
    knees = list(map(find_knee, subjects.values()))
    columns = {**_COLUMNS, "knee": lambda m: "knee" if m in knees else ""}

    def chart(title: str, unit: str) -> Chart:
        def read(m: passes.Measurement) -> tuple[float, float]:
            return m.batch, m.ms_per_item if title == "Time" else m.items_per_s.median

        lines = {name: list(map(read, some)) for name, some in subjects.items()}
        dots = {"knee": list(map(read, knees))} if knees else {}
        return Chart(title, "batch", unit, lines, is_logarithmic=True, dots=dots)

    return driver.Findings(
        tabulate(measured, columns),
        {"measured": measured, "skipped": skipped},
        remarks=[f"{' '.join(result.label)}: {result.reason}" for result in skipped],
        charts=[chart("Time", "ms per item"), chart("Throughput", "items/s")],
    )


def find_knee(measured: Sequence[passes.Measurement]) -> passes.Measurement:
    """The knee of one subject."""
    best = max(m.items_per_s.median for m in measured)
    return next(m for m in measured if m.items_per_s.median >= _KNEE_SHARE * best)


def find_model(
    task: str, language: str, device: str, settings: Mapping[str, Any]
) -> catalog.Model:
    """The model as the map would have it."""
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

    def load(self, directory: Path) -> TaskRunner:
        handler = base.find_handler(self.model.task)()
        index = int(self.model.devices[0]) if self.model.is_on_gpu else 0
        options = describe_handler(self.model, directory)
        handler.start(base.ModelConfig(directory, self.device, index, options))
        return TaskRunner(handler)


@dataclass(frozen=True)
class TaskRunner:
    """A handler that is ready."""

    handler: base.TaskHandler[Any]

    def run(self, batches: Sequence[Sequence[bytes]]) -> passes.Pass:
        """Times `infer` alone. Raises MemoryEnds for a halved batch, else RuntimeError."""
        read = self.handler.preprocess
        items = [[read(base.Row(body)) for body in batch] for batch in batches]
        tokens = 0
        began = time.perf_counter()
        for batch in items:
            outcome = self.handler.infer(batch, math.inf)
            _check(outcome)
            tokens += outcome.counts.get("BabelgateTokens", 0)
        return passes.Pass(time.perf_counter() - began, tokens)


def _check(outcome: base.Outcome) -> None:
    errors = [
        result for result in outcome.results if isinstance(result, base.TaskError)
    ]
    is_halved = outcome.counts["BabelgateHalvedPacks"] > 0
    if is_halved or any(error.slug == _NO_MEMORY for error in errors):
        raise passes.MemoryEnds("they are run in halves")
    if errors:
        raise RuntimeError(f"a row was answered {errors[0].slug}: {errors[0]}")
