"""`python -m benchmarks microbatching`: a classifier in the gateway, with and without
batches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import psutil
import typer

from benchmarks import driver
from benchmarks.figures import Spread, find_median, find_ratio, list_counts, show
from benchmarks.instruments import running
from benchmarks.instruments.load import LoadFigures, measure_closed
from benchmarks.instruments.running import Running
from benchmarks.instruments.workload import draw_requests
from benchmarks.report import tabulate
from catalog import checkpoint
from contract.tasks import CLASSIFICATION

ALONE, BATCHED = "alone", "in batches"
_IMAGES, _WARM_S = 200, 2.0


@dataclass(frozen=True)
class Gain:
    """The gain by batches for a number of clients, round by round."""

    clients: float
    throughput: Spread | None
    mean_latency: Spread | None


def answer(
    *,
    clients: driver.Clients = "64,128",
    batch_size: Annotated[int, typer.Option(help="Of the larger batches.")] = 64,
    side: Annotated[int, typer.Option(help="Pixels of an image's side.")] = 32,
    rounds: driver.Rounds = 2,
    seconds: driver.Seconds = 10,
    bound_mb: Annotated[
        int, typer.Option(help="Also: with so much memory for batches, and no more.")
    ] = 0,
    folder: driver.Folder = driver.DEFAULT_RUN / "microbatching",
) -> driver.Findings:
    """A classifier of ViT-B/16's size in the gateway's process, with batches and without.

    With --bound-mb, one more load runs with the most clients while the process may allocate
    only this much: batches that do not fit are halved, and no request may be lost.
    """
    # PyTorch takes seconds to import, and no other command needs it here.
    from benchmarks.instruments import random_model

    model = random_model.find_classifier(
        checkpoint.default_cache() / "benchmarks", side
    )
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

    loads = driver.take_turns(
        {
            ALONE: lambda _: measure(1, levels),
            BATCHED: lambda _: measure(batch_size, levels),
        },
        rounds,
    )
    bounded = measure(batch_size, [max(levels)], bound_mb) if bound_mb else []
    return describe(loads, bounded)


def bound_memory(stack: Running, megabytes: int) -> None:
    """Limits how much each process of the gateway may allocate beyond what it has."""
    for leader in stack.leaders.values():
        for process in (leader, *leader.children(recursive=True)):
            limit = process.memory_info().vms + megabytes * 1_000_000
            process.rlimit(psutil.RLIMIT_AS, (limit, limit))


def describe(
    loads: Mapping[str, Sequence[Sequence[LoadFigures]]],
    bounded: Sequence[LoadFigures] = (),
) -> driver.Findings:
    """A row per number of clients and way, medians over the rounds, and what batches gain."""
    by_clients = {way: list(zip(*loads[way], strict=True)) for way in (ALONE, BATCHED)}
    rows = [
        (way, same)
        for pair in zip(*by_clients.values(), strict=True)
        for way, same in zip(by_clients, pair, strict=True)
    ]
    gains = list(map(compare, by_clients[ALONE], by_clients[BATCHED]))
    return driver.Findings(
        tabulate(
            rows,
            {
                "clients": lambda row: f"{row[1][0].level:g}",
                "": lambda row: row[0],
                "requests/s": lambda row: find_median(x.requests_per_s for x in row[1]),
                "mean ms": lambda row: find_median(x.latencies.mean_ms for x in row[1]),
                "p99 ms": lambda row: find_median(x.latencies.p99_ms for x in row[1]),
                "errors": lambda row: sum(x.errors for x in row[1]),
                "CPU ms": lambda row: find_median(
                    x.cpu_ms.get("gateway") for x in row[1]
                ),
                "memory MB": lambda row: find_median(
                    x.memory_mb.get("gateway") for x in row[1]
                ),
            },
        ),
        {"loads": loads, "gains": gains, "bounded": bounded},
        [
            *(
                f"{gain.clients:g} clients: {gain.throughput} times the throughput, "
                f"{gain.mean_latency} of the mean latency"
                for gain in gains
            ),
            *(
                f"with less memory, {load.level:g} clients: {list_counts(load.statuses)}; "
                f"{show(load.requests_per_s)} requests/s"
                for load in bounded
            ),
        ],
    )


def compare(alone: Sequence[LoadFigures], batched: Sequence[LoadFigures]) -> Gain:
    """The larger batches divided by the smaller ones, with the same number of clients."""
    sides = (batched, alone)
    return Gain(
        alone[0].level,
        find_ratio(*([load.requests_per_s for load in side] for side in sides)),
        find_ratio(*([load.latencies.mean_ms for load in side] for side in sides)),
    )
