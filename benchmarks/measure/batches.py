"""The cost of a batch, batch size by batch size, without HTTP and queues: `python -m
benchmarks engine` measures engines alone, `study` a task's handler as TorchServe loads it, and
`bulk` files in bulk on Ray against the bare engine.
"""

from __future__ import annotations

import json
import math
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count as count_up
from itertools import islice
from pathlib import Path
from typing import Any

import catalog
from benchmarks import driver, report
from benchmarks.instruments import passes, running, workload
from catalog import checkpoint, describe_handler
from clients.bulk import Remarks
from clients.files import TABLES, find_sources
from clients.tables import Column
from contract.tasks import TRANSLATION
from handlers import base
from handlers.engine.translation.engine import Sentence
from ray_backend.bulk.command import read_request
from ray_backend.bulk.executor import WorkerPool, connect
from ray_backend.bulk.job import Answerer, BulkTranslation, Chunk, run
from ray_backend.bulk.storage import ResultFolder

_SOURCE, _TARGET = "en", "fr"
_DRAWN_BYTES = 200_000
_PLAIN = re.compile("[A-Za-z' -]+")
_BULK_RATE = "sentences/s"
#: Items in a pass of the study; a larger batch is a pass by itself.
_PASS_ITEMS = 64
#: The knee is the smallest batch that has so much of the best throughput.
_KNEE_SHARE = 0.9
_NO_MEMORY = "out-of-memory"


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
) -> report.Findings:
    """Sentences/s, tokens/s, time and memory of the engines alone, batch by batch.

    Each engine in each precision runs in its own process.
    """
    sizes = tuple(sorted(driver.read_numbers(batches)))
    items, directory = workload.draw(max(sentences, *sizes)), passes.find_model(model)
    settings = {"model": str(directory)}
    return _measure_all(
        passes.PassPlan(
            f"{engine} {kind}",
            device,
            partial(_find, settings | {"engine": engine, "compute_type": kind}, device),
            passes.load_engine,
            *(sizes, items, sentences, repetitions, limit_s),
        )
        for engine in driver.read_words(engines)
        for kind in driver.read_words(compute_types)
    )


def study(
    *,
    task: workload.MeasuredTask,
    model: str,
    devices: str,
    batches: str,
    repetitions: int,
    limit_s: float,
    language: str,
    tokens: str,
    setting: list[str] | None,
) -> report.Findings:
    """Time, throughput and memory of a model's handler, batch size by batch size.

    The handler is loaded as TorchServe loads it, each device in its own process. The knee
    is the smallest batch with nine tenths of the best throughput.
    """
    sizes = tuple(sorted(driver.read_numbers(batches)))
    requests = workload.draw_requests(
        task,
        max(_PASS_ITEMS, *sizes),
        targets=[language],
        tokens=driver.read_range(tokens),
    )
    items = tuple(request.body for request in requests)
    settings = driver.read_settings(setting) | ({"model": model} if model else {})
    return _measure_all(
        passes.PassPlan(
            device,
            device,
            partial(_find, settings, device, task, (language,)),
            load_handler,
            *(sizes, items, _PASS_ITEMS, repetitions, limit_s),
        )
        for device in driver.read_words(devices)
    )


def _find(
    settings: Mapping[str, Any],
    device: str,
    task: str = TRANSLATION,
    languages: Sequence[str] = (),
) -> catalog.Model:
    """A model of a map with these settings. Raises ValueError if they make no map."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "map.json"
        running.write_map(path, settings, languages, device=device, task=task)
        return running.read_map(path).models[0]


def _measure_all(plans: Iterable[passes.PassPlan]) -> report.Findings:
    """Measure each subject as far as it goes, and say why one goes no further."""
    measured: list[passes.Measurement] = []
    skipped: list[str] = []
    for plan in plans:
        driver.say(plan.label)
        try:
            for one in passes.measure_apart(plan):
                measured.append(one)
        except (OSError, RuntimeError, ValueError) as error:
            skipped.append(f"{plan.label}: {error}")
    return describe(measured, skipped)


def describe(
    measured: Sequence[passes.Measurement], skipped: Sequence[str] = ()
) -> report.Findings:
    """A row and a point per subject and batch size; the knee of each subject is marked."""
    subjects = report.group(measured, lambda m: m.label)
    knees, at_knees = [], []
    for name, some in subjects.items():
        enough = _KNEE_SHARE * max(m.items_per_s.median for m in some)
        knee = next(m for m in some if m.items_per_s.median >= enough)
        knees.append(f"{name}: the knee is {knee.batch}")
        at_knees.append(replace(knee, label="knee"))
    charts = [
        replace(
            report.plot(measured, "batch", figure, line="label"),
            dots=report.plot(at_knees, "batch", figure, line="label").lines,
            is_logarithmic=True,
        )
        for figure in ("ms per item", "items/s")
    ]
    return report.Findings(
        report.tabulate(measured),
        {"measured": measured, "skipped": skipped},
        remarks=[*knees, *skipped],
        charts=charts,
    )


def load_handler(model: catalog.Model, directory: Path) -> passes.Runner:
    """Load a model of the map on its first device; its items are bodies of requests."""
    gpu = int(model.devices[0]) if model.is_on_gpu else None
    options = describe_handler(model, directory)
    return partial(run_handler, base.start_handler(model.task, directory, gpu, options))


def run_handler(
    handler: base.TaskHandler[Any], batches: Sequence[Sequence[bytes]]
) -> passes.Pass:
    """Time `infer` alone. Raises MemoryEnds for a halved batch, else RuntimeError."""
    items = [[handler.preprocess(base.Row(body)) for body in one] for one in batches]
    tokens = 0
    began = time.perf_counter()
    for batch in items:
        outcome = handler.infer(batch, math.inf)
        errors = [one for one in outcome.results if isinstance(one, base.TaskError)]
        is_halved = outcome.counts["BabelgateHalvedPacks"] > 0
        if is_halved or any(error.slug == _NO_MEMORY for error in errors):
            raise passes.MemoryEnds("they are run in halves")
        if errors:
            raise RuntimeError(f"a row was answered {errors[0].slug}: {errors[0]}")
        tokens += outcome.counts.get("BabelgateTokens", 0)
    return passes.Pass(time.perf_counter() - began, tokens)


def measure_bulk(
    *, model: str, chunks: int, chunk: int, phrases: int, rounds: int
) -> report.Findings:
    """Sentences/s of files in bulk, from the end of the first chunk, and of the bare engine.

    Both translate the same sentences, in chunks of the same size, on all cores.
    """
    sentences = draw_plain(chunks * chunk, phrases)
    models = catalog.load(model=str(passes.find_model(model)))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lines = (json.dumps({"text": sentence.text}) + "\n" for sentence in sentences)
        (folder / "sentences.jsonl").write_text("".join(lines), "utf-8")
        ways = {
            "files in bulk": partial(_run_bulk, folder, models, chunk),
            "the bare engine": partial(_run_bare, sentences, models, chunk),
        }
        return driver.compare(ways, rounds)


def draw_plain(count: int, phrases: int) -> list[Sentence]:
    """Draw different texts of some phrases each, which a gateway would not split: none has
    marks or digits inside."""
    found: dict[str, None] = {}
    seeds = count_up()
    while len(found) < count:
        lines = workload.write_document(
            _SOURCE, _DRAWN_BYTES, seed=next(seeds)
        ).splitlines()
        plain = [line.rstrip(".!?") for line in lines]
        plain = [line for line in plain if _PLAIN.fullmatch(line)]
        grouped = zip(*[iter(plain)] * phrases, strict=False)
        found |= dict.fromkeys(map(", ".join, grouped))
    return [Sentence(text, _SOURCE, _TARGET) for text in islice(found, count)]


def _run_bare(
    sentences: Sequence[Sentence], models: catalog.Catalog, chunk: int
) -> Mapping[str, float]:
    """Measure the engine without the first chunk, as below."""
    model = models.route(TRANSLATION, _TARGET)
    directory = checkpoint.prepare(model, checkpoint.default_cache())
    translate = passes.load_engine(model, directory)
    starts = range(0, len(sentences), chunk)
    first, *rest = [sentences[n : n + chunk] for n in starts]
    translate([first])
    return {_BULK_RATE: sum(map(len, rest)) / translate(rest).seconds}


def _run_bulk(folder: Path, models: catalog.Catalog, chunk: int) -> Mapping[str, float]:
    """Measure from the end of the first chunk to that of the last."""
    ends: list[tuple[float, int]] = []

    def execute(
        load: Callable[[], Answerer], chunks: Iterator[Chunk]
    ) -> Iterator[tuple[Chunk, Sequence[Any]]]:
        for chunk, answers in executor.run(load, chunks):
            ends.append((time.perf_counter(), len(chunk.items)))
            yield chunk, answers

    def say(remarks: Remarks) -> None:
        for line in remarks.errors:  # doubts of a translation are not shown
            driver.console.print(line)

    with (
        tempfile.TemporaryDirectory() as results,
        connect(
            WorkerPool(1, os.cpu_count() or 1, 0), driver.console.print
        ) as executor,
    ):
        job = BulkTranslation(
            store=ResultFolder(Path(results)),
            columns=(Column("text", "text_fr"),),
            has_quotes=True,
            request=read_request(models, _TARGET, _SOURCE, "text"),
            model=models.route(TRANSLATION, _TARGET),
            cache=checkpoint.default_cache(),
            most_texts=chunk,
        )
        sources = find_sources([str(folder)], TABLES)
        run(job, sources, execute, report=lambda *_: None, say=say)
    (began, _), *rest = ends
    rate = sum(count for _, count in rest) / (rest[-1][0] - began)
    return {_BULK_RATE: rate}
