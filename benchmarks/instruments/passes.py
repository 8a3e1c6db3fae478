"""Runs one subject at each batch size, in its own process so that its memory is measured."""

import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import catalog
from benchmarks.report import Spread, spread
from catalog import checkpoint


class MemoryEnds(RuntimeError):
    """A batch did not fit into memory as a whole."""


@dataclass(frozen=True)
class Pass:
    """One pass over some batches."""

    seconds: float
    #: In the items, without padding; 0 where they have none.
    tokens: int


#: A subject that is loaded: it does one batch after the other. Raises MemoryEnds.
Runner = Callable[[Sequence[Sequence[Any]]], Pass]
#: The subject that the measuring process has loaded.
_runners: list[Runner] = []


@dataclass(frozen=True)
class PassPlan:
    """The plan of measuring one subject, which is sent to the process that measures it."""

    model: catalog.Model
    load: Callable[[catalog.Model, Path], Runner]
    batches: tuple[int, ...]
    #: At least as many as the largest batch has.
    items: tuple[Any, ...]
    #: A pass takes this many of them, or one batch if that is larger.
    pass_items: int
    #: Passes that count; one before them warms up.
    repetitions: int
    #: No further pass of a batch size begins after so long.
    limit_s: float

    def divide(self, batch: int) -> list[tuple[Any, ...]]:
        """The batches of a pass, all full."""
        count = max(1, self.pass_items // batch)
        return [self.items[i * batch : (i + 1) * batch] for i in range(count)]


@dataclass(frozen=True)
class Measurement:
    """One subject with one batch size."""

    device: str
    batch: int
    items_per_s: Spread
    #: In the texts, without padding.
    tokens_per_s: float
    ms_per_batch: Spread
    ms_per_item: float
    #: The most that the process held while it ran this batch size, model included.
    memory_mb: float = 0.0
    #: Memory of the whole device.
    gpu_memory_mb: float | None = None


def measure_apart(plan: PassPlan) -> Iterator[Measurement]:
    """A measurement per batch size, from a process that ends afterwards; another process
    converts the model. Raises OSError, RuntimeError or ValueError for what fails: MemoryEnds
    for memory, and another one for a process that dies."""
    cache = checkpoint.default_cache()
    with _spawn() as pool:
        directory = pool.submit(checkpoint.prepare, plan.model, cache).result()
    with _spawn() as pool:
        pool.submit(_load, plan, directory).result()
        for batch in plan.batches:
            yield pool.submit(measure, plan, batch).result()


@contextmanager
def _spawn() -> Iterator[ProcessPoolExecutor]:
    """One process that leaves Ctrl-C to this one, which then kills it."""
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
    """One batch size with the subject that this process has loaded. Raises MemoryEnds."""
    _forget_peak()
    try:
        done = _repeat(_runners[0], plan, batch)
    except MemoryEnds as error:
        raise MemoryEnds(f"memory ends before batches of {batch}: {error}") from error
    memory_mb, gpu_memory_mb = _read_peak_mb(), None
    if plan.model.is_on_gpu:
        import torch

        free, total = torch.cuda.mem_get_info()
        gpu_memory_mb = (total - free) / 1e6
    found = summarize(plan.model.device, plan.divide(batch), done)
    return replace(found, memory_mb=memory_mb, gpu_memory_mb=gpu_memory_mb)


def summarize(
    device: str, batches: list[tuple[Any, ...]], done: Sequence[Pass]
) -> Measurement:
    """The figures of passes over `batches`, without memory."""
    items = sum(map(len, batches))
    rates = spread(items / one.seconds for one in done)
    return Measurement(
        device=device,
        batch=len(batches[0]),
        items_per_s=rates,
        tokens_per_s=rates.median * done[-1].tokens / items,
        ms_per_batch=spread(one.seconds * 1000 / len(batches) for one in done),
        ms_per_item=1000 / rates.median,
    )


def _repeat(runner: Runner, plan: PassPlan, batch: int) -> list[Pass]:
    """The passes that count, at least one. A pass that outlasts the limit warms itself up."""
    batches = plan.divide(batch)
    give_up_at = time.monotonic() + plan.limit_s
    warm_up = runner(batches[:1])
    if len(batches) == 1 and warm_up.seconds > plan.limit_s:
        return [warm_up]
    done = [runner(batches)]
    while len(done) < plan.repetitions and time.monotonic() < give_up_at:
        done.append(runner(batches))
    return done


def _forget_peak() -> None:
    """Resets the peak. Where that is forbidden, it covers all batch sizes so far."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _read_peak_mb() -> float:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024 / 1e6


def find_model(name: str) -> Path:
    """The directory of a path, a hub name, or `random_model.SIZE`. Raises
    ModelError."""
    cache = checkpoint.default_cache()
    if "/" not in name and not Path(name).exists():
        from benchmarks.instruments import random_model

        if name == random_model.SIZE:
            return random_model.find(cache / "benchmarks")
    return checkpoint.fetch(name, cache)
