"""`python -m benchmarks study`: measures the cost of a batch, by its size, in a task's handler
as TorchServe loads it, without HTTP and queues. The handler runs in a separate process so that
its memory can be measured.
"""

import math
import multiprocessing
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import catalog
from benchmarks import driver, report
from benchmarks.instruments import running, workload
from catalog import checkpoint, describe_handler
from handlers import base

#: Items in a pass of the study; a larger batch is a whole pass.
_PASS_ITEMS = 64
#: The knee is the smallest batch with this share of the best throughput.
_KNEE_SHARE = 0.9
_NO_MEMORY = "out-of-memory"


class MemoryEnds(RuntimeError):
    """The error of a batch that does not fit into memory as a whole."""


@dataclass(frozen=True)
class Pass:
    """The duration and the tokens of one pass over some batches."""

    seconds: float
    #: Tokens in the items, without padding; 0 if they have none.
    tokens: int


#: A function that runs batches one by one on a loaded model. Raises MemoryEnds.
Runner = Callable[[Sequence[Sequence[Any]]], Pass]
#: The model that the measuring process has loaded.
_runners: list[Runner] = []


@dataclass(frozen=True)
class PassPlan:
    """The plan for measuring one model, which is sent to the measuring process."""

    model: catalog.Model
    load: Callable[[catalog.Model, Path], Runner]
    batches: tuple[int, ...]
    #: At least as many items as in the largest batch.
    items: tuple[Any, ...]
    #: The number of items in a pass, or one batch if that is larger.
    pass_items: int
    #: The number of passes that count, after one for warming up.
    repetitions: int
    #: The time after which no further pass of a batch size begins.
    limit_s: float

    def divide(self, batch: int) -> list[tuple[Any, ...]]:
        """Return the batches of a pass, all full."""
        count = max(1, self.pass_items // batch)
        return [self.items[i * batch : (i + 1) * batch] for i in range(count)]


@dataclass(frozen=True)
class Measurement:
    """The figures of a model with one batch size."""

    device: str
    batch: int
    items_per_s: report.Spread
    #: Tokens in the texts, without padding.
    tokens_per_s: float
    ms_per_batch: report.Spread
    ms_per_item: float
    #: The process's peak memory with this batch size, including the model.
    memory_mb: float = 0.0
    #: The memory in use on the whole device.
    gpu_memory_mb: float | None = None


def measure_apart(plan: PassPlan) -> Iterator[Measurement]:
    """Yield a measurement per batch size, from a process that ends afterwards; another process
    converts the model. Raises OSError, RuntimeError or ValueError: MemoryEnds for lack of
    memory, another RuntimeError for a process that dies."""
    cache = checkpoint.default_cache()
    with _spawn() as pool:
        directory = pool.submit(checkpoint.prepare, plan.model, cache).result()
    with _spawn() as pool:
        pool.submit(_load, plan, directory).result()
        for batch in plan.batches:
            yield pool.submit(measure, plan, batch).result()


@contextmanager
def _spawn() -> Iterator[ProcessPoolExecutor]:
    """Start a process that ignores Ctrl-C. This one handles it, and kills the other."""
    context = multiprocessing.get_context("spawn")
    ignore = (signal.SIGINT, signal.SIG_IGN)
    pool = ProcessPoolExecutor(1, context, initializer=signal.signal, initargs=ignore)
    try:
        yield pool
    finally:
        for process in multiprocessing.active_children():
            process.kill()
        pool.shutdown()


def _load(plan: PassPlan, directory: Path) -> None:
    _runners[:] = [plan.load(plan.model, directory)]


def measure(plan: PassPlan, batch: int) -> Measurement:
    """Measure one batch size of the model that this process has loaded. Raises MemoryEnds."""
    with suppress(OSError):
        # Resets the peak. If that is forbidden, the peak covers all batch sizes so far.
        Path("/proc/self/clear_refs").write_text("5")
    try:
        done = _repeat(_runners[0], plan, batch)
    except MemoryEnds as error:
        raise MemoryEnds(f"no memory for batches of {batch}: {error}") from error
    peak_kib = Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]
    gpu_memory_mb = None
    if plan.model.is_on_gpu:
        import torch

        free, total = torch.cuda.mem_get_info()
        gpu_memory_mb = (total - free) / 1e6
    found = summarize(plan.model.device, plan.divide(batch), done)
    memory_mb = int(peak_kib) * 1024 / 1e6
    return replace(found, memory_mb=memory_mb, gpu_memory_mb=gpu_memory_mb)


def summarize(
    device: str, batches: list[tuple[Any, ...]], done: Sequence[Pass]
) -> Measurement:
    """Return the figures of passes over `batches`, without memory."""
    items = sum(map(len, batches))
    rates = report.spread(items / one.seconds for one in done)
    return Measurement(
        device=device,
        batch=len(batches[0]),
        items_per_s=rates,
        tokens_per_s=rates.median * done[-1].tokens / items,
        ms_per_batch=report.spread(one.seconds * 1000 / len(batches) for one in done),
        ms_per_item=1000 / rates.median,
    )


def _repeat(runner: Runner, plan: PassPlan, batch: int) -> list[Pass]:
    """Run the passes that count: one or more, or only the warm-up if it exceeds the limit."""
    batches = plan.divide(batch)
    give_up_at = time.monotonic() + plan.limit_s
    warm_up = runner(batches[:1])
    if len(batches) == 1 and warm_up.seconds > plan.limit_s:
        return [warm_up]
    done = [runner(batches)]
    while len(done) < plan.repetitions and time.monotonic() < give_up_at:
        done.append(runner(batches))
    return done


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
    """Measure time, throughput and memory of a model's handler, batch size by batch size.

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
        settings["model"] = str(running.find_model(model))
    measured: list[Measurement] = []
    skipped: list[str] = []
    for device in driver.read_words(devices):
        driver.say(device)
        try:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "map.json"
                running.write_map(path, settings, (language,), device=device, task=task)
                found = running.read_map(path).models[0]
            plan = PassPlan(
                found, load_handler, sizes, items, _PASS_ITEMS, repetitions, limit_s
            )
            measured += measure_apart(plan)
        except (OSError, RuntimeError, ValueError) as error:
            skipped.append(f"{device}: {error}")
    return describe(measured, skipped)


def describe(
    measured: Sequence[Measurement], skipped: Sequence[str] = ()
) -> report.Findings:
    """Make a row and a point per device and batch size, and mark the knee of each device."""
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


def load_handler(model: catalog.Model, directory: Path) -> Runner:
    """Load a model of the map on its first device; its items are request bodies."""
    gpu = int(model.devices[0]) if model.is_on_gpu else None
    options = describe_handler(model, directory)
    return partial(run_handler, base.start_handler(model.task, directory, gpu, options))


def run_handler(
    handler: base.TaskHandler[Any], batches: Sequence[Sequence[bytes]]
) -> Pass:
    """Time `infer` alone. Raises MemoryEnds for a halved batch, RuntimeError for others."""
    items = [[handler.preprocess(base.Row(body)) for body in one] for one in batches]
    tokens = 0
    began = time.perf_counter()
    for batch in items:
        outcome = handler.infer(batch, math.inf)
        errors = [one for one in outcome.results if isinstance(one, base.TaskError)]
        is_halved = outcome.counts["BabelgateHalvedPacks"] > 0
        if is_halved or any(error.slug == _NO_MEMORY for error in errors):
            raise MemoryEnds("they are run in halves")
        if errors:
            raise RuntimeError(f"a row was answered {errors[0].slug}: {errors[0]}")
        tokens += outcome.counts.get("BabelgateTokens", 0)
    return Pass(time.perf_counter() - began, tokens)
