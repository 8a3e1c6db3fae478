"""`python -m benchmarks study`: the cost of a batch, batch size by batch size, of a task's
handler as TorchServe loads it, without HTTP and queues.
"""

import math
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import catalog
from benchmarks import driver, report
from benchmarks.instruments import passes, running, workload
from catalog import describe_handler
from handlers import base

#: Items in a pass of the study; a larger batch is a pass by itself.
_PASS_ITEMS = 64
#: The knee is the smallest batch that has so much of the best throughput.
_KNEE_SHARE = 0.9
_NO_MEMORY = "out-of-memory"


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
    settings = driver.read_settings(setting)
    if model:
        settings["model"] = str(passes.find_model(model))
    measured: list[passes.Measurement] = []
    skipped: list[str] = []
    for device in driver.read_words(devices):
        driver.say(device)
        try:
            found = _find(settings, device, task, language)
            plan = passes.PassPlan(
                found, load_handler, sizes, items, _PASS_ITEMS, repetitions, limit_s
            )
            measured += passes.measure_apart(plan)
        except (OSError, RuntimeError, ValueError) as error:
            skipped.append(f"{device}: {error}")
    return describe(measured, skipped)


def _find(
    settings: Mapping[str, Any], device: str, task: str, language: str
) -> catalog.Model:
    """A model of a map with these settings. Raises ValueError if they make no map."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "map.json"
        running.write_map(path, settings, (language,), device=device, task=task)
        return running.read_map(path).models[0]


def describe(
    measured: Sequence[passes.Measurement], skipped: Sequence[str] = ()
) -> report.Findings:
    """A row and a point per device and batch size; the knee of each device is marked."""
    found = report.group(measured, lambda m: m.device)
    knees, at_knees = [], []
    for name, some in found.items():
        enough = _KNEE_SHARE * max(m.items_per_s.median for m in some)
        knee = next(m for m in some if m.items_per_s.median >= enough)
        knees.append(f"{name}: the knee is {knee.batch}")
        at_knees.append(replace(knee, device="knee"))
    charts = [
        replace(
            report.plot(measured, "batch", figure, line="device"),
            dots=report.plot(at_knees, "batch", figure, line="device").lines,
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
