"""`python -m benchmarks microbatching`: a classifier in the gateway, batched or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import psutil

from benchmarks import driver
from benchmarks.instruments import running
from benchmarks.instruments.load import LoadFigures, measure_closed, split_by_level
from benchmarks.instruments.running import Running
from benchmarks.instruments.workload import draw_requests
from benchmarks.report import Columns, Findings, compare_turns, list_counts, show
from catalog import checkpoint
from contract.tasks import CLASSIFICATION

ALONE, BATCHED = "alone", "in batches"
_IMAGES, _WARM_S = 200, 2.0
_FIGURES: Columns[LoadFigures] = {
    "requests/s": lambda load: load.requests_per_s,
    "mean ms": lambda load: load.latencies.mean_ms,
    "p99 ms": lambda load: load.latencies.p99_ms,
    "errors": lambda load: load.errors,
    "CPU ms": lambda load: load.cpu_ms.get("gateway"),
    "memory MB": lambda load: load.memory_mb.get("gateway"),
}


def answer(
    *,
    clients: str,
    batch_size: int,
    side: int,
    rounds: int,
    seconds: float,
    bound_mb: int,
    folder: Path,
) -> Findings:
    """A classifier of ViT-B/16's size in the gateway's process, with batches and without.

    With --bound-mb, one more load runs with the most clients while the process may allocate
    only this much: batches that do not fit are halved, and no request may be lost.
    """
    # PyTorch takes seconds to import, and no other command needs it here.
    from benchmarks.instruments import random_model

    cache = checkpoint.default_cache() / "benchmarks"
    model = random_model.find_classifier(cache, side)
    levels = driver.read_numbers(clients)

    def measure(
        size: int, levels: Sequence[int], bound_mb: int = 0
    ) -> list[LoadFigures]:
        map_path = running.write_map(
            folder / "map.json",
            {"model": str(model), "batch_size": size, "queue_size": 4096},
            device="cpu",
            task=CLASSIFICATION,
        )
        with running.start_embedded(folder / "run", map_path) as stack:
            target = stack.aim(draw_requests(CLASSIFICATION, _IMAGES))
            measure_closed(target, clients=size, seconds=_WARM_S)
            if bound_mb:
                bound_memory(stack, bound_mb)
            return [measure_closed(target, clients=n, seconds=seconds) for n in levels]

    sizes = {BATCHED: batch_size, ALONE: 1}
    ways = {way: lambda _, n=size: measure(n, levels) for way, size in sizes.items()}
    loads = driver.take_turns(ways, rounds)
    bounded = measure(batch_size, [max(levels)], bound_mb) if bound_mb else []
    return describe(loads, bounded)


def bound_memory(stack: Running, megabytes: int) -> None:
    """Limit how much each process of the gateway may allocate beyond what it has."""
    for leader in stack.leaders.values():
        for process in (leader, *leader.children(recursive=True)):
            limit = process.memory_info().vms + megabytes * 1_000_000
            process.rlimit(psutil.RLIMIT_AS, (limit, limit))


def describe(
    loads: Mapping[str, Sequence[Sequence[LoadFigures]]],
    bounded: Sequence[LoadFigures] = (),
) -> Findings:
    """Compare both ways at each number of clients."""
    found = compare_turns(split_by_level(loads), _FIGURES, case="clients")
    found.results["bounded"] = bounded
    remarks = [
        f"with less memory, {load.level:g} clients: {list_counts(load.statuses)}; "
        f"{show(load.requests_per_s)} requests/s"
        for load in bounded
    ]
    return replace(found, remarks=remarks)
