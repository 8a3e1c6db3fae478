"""`python -m benchmarks microbatching`: a classifier in the gateway, with and without
batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import psutil
import typer

from benchmarks.figures import Spread, find_median, find_ratio, group, list_counts, show
from benchmarks.instruments import running
from benchmarks.instruments.load import Load, measure_closed
from benchmarks.instruments.running import Running
from benchmarks.instruments.workload import draw_requests
from benchmarks.options import (
    Bar,
    Clients,
    Out,
    console,
    explain_errors,
    publish,
    read_numbers,
    show_progress,
)
from benchmarks.report import Content, Table
from catalog import checkpoint
from contract.tasks import CLASSIFICATION

_IMAGES = 200
_WARM_S = 2.0
_TICKS_PER_S = 10
_HEADERS = (
    *("clients", "batch", "requests/s", "mean ms", "p99 ms", "errors", "CPU ms"),
    "memory MB",
)


@dataclass(frozen=True)
class Turn:
    """A load, of a batch size, in a round."""

    batch_size: int
    round: int
    load: Load


@dataclass(frozen=True)
class Gain:
    """What batches are worth for a number of clients, round by round."""

    clients: int
    throughput: Spread | None
    mean_latency: Spread | None


def command(
    *,
    clients: Clients = "64,128",
    batch_size: Annotated[int, typer.Option(help="Of the larger batches.")] = 64,
    side: Annotated[int, typer.Option(help="Pixels of an image's side.")] = 32,
    rounds: Annotated[int, typer.Option(help="Turns of each.", min=1)] = 2,
    seconds: Annotated[float, typer.Option(help="Length of each load.")] = 10,
    bound_mb: Annotated[
        int, typer.Option(help="Also: with so much memory for batches, and no more.")
    ] = 0,
    out: Out = Path("run/benchmark-microbatching.json"),
) -> None:
    """A classifier of ViT-B/16's size in the gateway's process, with batches and without.

    With --bound-mb, one more load runs with the most clients while the process may allocate
    only this much: batches that do not fit are halved, and no request may be lost.
    """
    # PyTorch takes seconds to import, and no other command needs it here.
    from benchmarks.instruments import random_model

    with explain_errors():
        model = random_model.find_classifier(
            checkpoint.default_cache() / "benchmarks", side
        )
        levels, sizes = read_numbers(clients), (1, batch_size)
        loads = rounds * len(sizes) * len(levels) + bool(bound_mb)
        with show_progress(loads * seconds * _TICKS_PER_S) as bar:
            bench = _Bench(out.parent, model, seconds, bar)
            turns = [
                Turn(size, number, load)
                for number in range(rounds)
                for size in sizes
                for load in bench.measure(size, levels)
            ]
            bounded = []
            if bound_mb:
                bounded = bench.measure(batch_size, [max(levels)], bound_mb=bound_mb)
        gains = [compare(turns, number) for number in levels]
        console.print("\n".join(map(_describe, gains)))
        for load in bounded:
            console.print(f"with {bound_mb} MB: {_describe_bounded(load)}")
        options = {"side": side, "seconds": seconds, "bound_mb": bound_mb}
        results = {"turns": turns, "gains": gains, "bounded": bounded}
        publish(out, tabulate(turns), Content("microbatching", options, results))


@dataclass(frozen=True)
class _Bench:
    """Starts gateways and asks them."""

    folder: Path
    model: Path
    seconds: float
    bar: Bar

    def measure(
        self, batch_size: int, levels: Sequence[int], *, bound_mb: int = 0
    ) -> list[Load]:
        """One load per number of clients, on a gateway with this batch size."""
        map_path = running.write_map(
            self.folder / "microbatching-map.json",
            {"model": str(self.model), "batch_size": batch_size, "queue_size": 4096},
            device="cpu",
            task=CLASSIFICATION,
        )
        self.bar.say(f"starting, batch size {batch_size}")
        requests = draw_requests(CLASSIFICATION, _IMAGES)
        with running.start_embedded(self.folder / "microbatching", map_path) as stack:
            measure_closed(stack.aim(requests), clients=batch_size, seconds=_WARM_S)
            if bound_mb:
                bound_memory(stack, bound_mb)
            target = stack.aim(requests, self.bar.tick)
            loads = []
            for number in levels:
                self.bar.say(f"{number} clients")
                loads.append(
                    measure_closed(target, clients=number, seconds=self.seconds)
                )
            return loads


def bound_memory(stack: Running, megabytes: int) -> None:
    """Limits how much each process of the gateway may allocate beyond what it has."""
    for leader in stack.leaders.values():
        for process in (leader, *leader.children(recursive=True)):
            limit = process.memory_info().vms + megabytes * 1_000_000
            process.rlimit(psutil.RLIMIT_AS, (limit, limit))


def compare(turns: Sequence[Turn], clients: int) -> Gain:
    """The larger batches divided by the smaller ones."""
    asked = [turn for turn in turns if turn.load.level == clients]
    (_, alone), (_, batched) = sorted(group(asked, lambda t: t.batch_size).items())
    sides = (batched, alone)
    return Gain(
        clients,
        find_ratio(*([turn.load.requests_per_s for turn in side] for side in sides)),
        find_ratio(*([turn.load.latencies.mean_ms for turn in side] for side in sides)),
    )


def tabulate(turns: Sequence[Turn]) -> Table:
    """A row per number of clients and batch size: medians over the rounds."""
    groups = group(turns, lambda turn: (turn.load.level, turn.batch_size))
    return Table(
        _HEADERS, tuple(_write_row(turns) for _, turns in sorted(groups.items()))
    )


def _write_row(turns: Sequence[Turn]) -> tuple[str, ...]:
    loads = [turn.load for turn in turns]
    return (
        *(f"{loads[0].level:g}", str(turns[0].batch_size)),
        show(find_median(load.requests_per_s for load in loads)),
        show(find_median(load.latencies.mean_ms for load in loads)),
        show(find_median(load.latencies.p99_ms for load in loads)),
        str(sum(load.errors for load in loads)),
        show(find_median(load.cpu_ms.get("gateway") for load in loads)),
        show(find_median(load.memory_mb.get("gateway") for load in loads)),
    )


def _describe(gain: Gain) -> str:
    return (
        f"{gain.clients} clients: {gain.throughput} times the throughput, "
        f"{gain.mean_latency} of the mean latency"
    )


def _describe_bounded(load: Load) -> str:
    counts = list_counts(load.statuses)
    return f"{load.level:g} clients: {counts}; {show(load.requests_per_s)} requests/s"
