"""Passes of one engine over the same sentences, batch size by batch size, in a process of
its own: what its memory holds is then this engine's.
"""

from __future__ import annotations

import multiprocessing
import resource
import signal
import time
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from benchmarks import bare
from benchmarks.bare import Configuration, Unsupported
from benchmarks.figures import Spread, spread
from handlers.engine.m2m100 import Engine, Sentence

_END_S = 10


@dataclass(frozen=True)
class Plan:
    """How one configuration is measured."""

    configuration: Configuration
    batches: tuple[int, ...]
    #: At least as many as the largest batch has.
    sentences: tuple[Sentence, ...]
    #: The first so many of them are a pass; of a larger batch one is a pass.
    pass_sentences: int
    #: Passes that count; one before them warms up.
    repetitions: int
    #: No further pass of a batch size begins after so long.
    limit_s: float

    def divide(self, batch: int) -> list[tuple[Sentence, ...]]:
        """The batches of a pass, all full."""
        count = max(1, self.pass_sentences // batch)
        return [self.sentences[i * batch : (i + 1) * batch] for i in range(count)]


@dataclass(frozen=True)
class Measurement:
    """One engine in one precision with one batch size."""

    engine: str
    compute_type: str
    batch: int
    sentences: int
    repetitions: int
    sentences_per_s: Spread
    #: Of the texts, without padding.
    tokens_per_s: float
    ms_per_batch: Spread
    ms_per_item: float
    #: The most that the process held while it ran this batch size, model included.
    memory_mb: float
    #: Of the whole device.
    gpu_memory_mb: float | None = None


@dataclass(frozen=True)
class Skipped:
    """Why a configuration has no figures."""

    engine: str
    compute_type: str
    reason: str


def measure_apart(plan: Plan, cache: Path) -> Iterator[Measurement | Skipped]:
    """What `measure` gives, from a process that ends with it; the model is converted in
    another. A process that dies has skipped what is missing."""
    context = multiprocessing.get_context("spawn")
    try:
        with ProcessPoolExecutor(1, context) as pool:
            directory = pool.submit(bare.prepare, plan.configuration, cache).result()
    except (Unsupported, BrokenExecutor) as error:
        yield _skip(plan.configuration, str(error))
        return
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(plan, directory, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        with suppress(EOFError):
            while True:
                yield ours.recv()
        process.join(_END_S)
        if process.exitcode:
            reason = f"the process ended with {process.exitcode}"
            yield _skip(plan.configuration, reason)
    finally:
        process.kill()
        process.join(_END_S)
        ours.close()


def measure(plan: Plan, directory: Path) -> Iterator[Measurement]:
    """One measurement per batch size, of what `bare.prepare` gave."""
    configuration = plan.configuration
    engine = bare.load(configuration, directory)
    for batch in plan.batches:
        _forget_peak()
        seconds = _repeat(engine, plan, batch)
        yield summarize(
            configuration,
            batches=plan.divide(batch),
            seconds=seconds,
            tokens=sum(bare.count_tokens(engine, b) for b in plan.divide(batch)),
            memory_mb=_read_peak_mb(),
            gpu_memory_mb=_read_gpu_mb(configuration.device),
        )


def summarize(
    configuration: Configuration,
    *,
    batches: list[tuple[Sentence, ...]],
    seconds: list[float],
    tokens: int,
    memory_mb: float,
    gpu_memory_mb: float | None = None,
) -> Measurement:
    """Passes over `batches`, which have so many tokens, in figures."""
    sentences = sum(map(len, batches))
    rates = spread(sentences / s for s in seconds)
    return Measurement(
        engine=configuration.engine,
        compute_type=configuration.compute_type,
        batch=len(batches[0]),
        sentences=sentences,
        repetitions=len(seconds),
        sentences_per_s=rates,
        tokens_per_s=rates.median * tokens / sentences,
        ms_per_batch=spread(s * 1000 / len(batches) for s in seconds),
        ms_per_item=1000 / rates.median,
        memory_mb=memory_mb,
        gpu_memory_mb=gpu_memory_mb,
    )


def _repeat(engine: Engine, plan: Plan, batch: int) -> list[float]:
    """Seconds of each pass, one at least; one that takes longer than the limit has warmed
    itself up."""
    batches = plan.divide(batch)
    give_up_at = time.monotonic() + plan.limit_s
    warm_up_s = bare.translate(engine, batches[:1])
    if len(batches) == 1 and warm_up_s > plan.limit_s:
        return [warm_up_s]
    seconds = [bare.translate(engine, batches)]
    while len(seconds) < plan.repetitions and time.monotonic() < give_up_at:
        seconds.append(bare.translate(engine, batches))
    return seconds


def _send(plan: Plan, directory: Path, pipe: Connection) -> None:
    """Runs in the process; Ctrl-C is its parent's business."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for result in measure(plan, directory):
        pipe.send(result)
    pipe.close()


def _skip(configuration: Configuration, reason: str) -> Skipped:
    return Skipped(configuration.engine, configuration.compute_type, reason)


def _forget_peak() -> None:
    """Linux only; elsewhere the peak is that of all batch sizes so far."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _read_peak_mb() -> float:
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def _read_gpu_mb(device: str) -> float | None:
    if device == "cpu":
        return None
    import torch

    free, total = torch.cuda.mem_get_info()
    return float(total - free) / 1e6
