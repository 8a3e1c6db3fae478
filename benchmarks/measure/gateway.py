"""The cost of a request in one gateway's processes: `python -m benchmarks dialects` with the
fields of other APIs and `keys` where keys are required, before a TorchServe that answers at
once; `microbatching` with a classifier in the gateway, batched or not.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from benchmarks import report
from benchmarks.driver import read_numbers, take_turns
from benchmarks.instruments.generator import Request, Target
from benchmarks.instruments.load import LoadFigures, measure_closed, split_by_level
from benchmarks.instruments.running import (
    Running,
    start_embedded,
    start_gateway,
    write_map,
)
from benchmarks.instruments.workload import draw, draw_requests, write_request
from catalog import checkpoint
from contract.dialects import DEEPL, FOREIGN, GOOGLE, OURS, Dialect
from contract.tasks import CLASSIFICATION
from deploy.stack import ROOT

#: The targets: milliseconds of CPU that another API, and a key, add to a request.
DIALECT_MS, KEY_MS = 0.1, 0.2
OFF, REQUIRED = "off", "required"
CPU_MS = "gateway's CPU ms"
_LANGUAGE, _SENTENCES = "fr", 500
#: Limits of a key that nobody reaches: each is looked at.
_GRANT = ("--characters-per-month", "1000000000000", "--requests-per-minute", "1000000")
_CPU_COLUMNS: report.Columns[LoadFigures] = {
    CPU_MS: lambda load: load.cpu_ms["gateway"],
    "requests/s": lambda load: load.requests_per_s,
    "errors": lambda load: load.errors,
}

ALONE, BATCHED = "alone", "in batches"
_IMAGES, _WARM_S = 200, 2.0
_BATCH_COLUMNS: report.Columns[LoadFigures] = {
    "requests/s": lambda load: load.requests_per_s,
    "mean ms": lambda load: load.latencies.mean_ms,
    "p99 ms": lambda load: load.latencies.p99_ms,
    "errors": lambda load: load.errors,
    "CPU ms": lambda load: load.cpu_ms.get("gateway"),
    "memory MB": lambda load: load.memory_mb.get("gateway"),
}


def compare_dialects(*, clients: int, seconds: float, rounds: int) -> report.Findings:
    """The gateway's CPU per request in each API, in turns."""
    with TemporaryDirectory() as name, _start(Path(name), {}) as running:
        targets = {
            dialect.title: running.aim(write_requests(dialect))
            for dialect in (OURS, *FOREIGN)
        }
        return _compare(targets, clients, seconds, rounds, limit_ms=DIALECT_MS)


def compare_keys(
    *, clients: int, seconds: float, rounds: int, database_url: str, limits_url: str
) -> report.Findings:
    """The gateway's CPU per request with keys and without, in turns."""
    given = {"BABELGATE_DATABASE_URL": database_url, "BABELGATE_LIMITS_URL": limits_url}
    urls = {name: url for name, url in given.items() if url}
    requests = list(map(write_request, draw(_SENTENCES, (_LANGUAGE,))))
    with TemporaryDirectory() as name, ExitStack() as gateways:
        targets = {}
        for keys in (OFF, REQUIRED):
            settings = {"BABELGATE_KEYS": keys, **urls}
            running = gateways.enter_context(_start(Path(name) / keys, settings))
            targets[keys] = running.aim(requests)
        return _compare(targets, clients, seconds, rounds, limit_ms=KEY_MS)


def write_requests(dialect: Dialect) -> list[Request]:
    """Write the same sentences for each API."""
    more = {"format": "text"} if dialect is GOOGLE else {}
    bodies = (
        {
            dialect.source_field: sentence.source,
            dialect.text_field: [sentence.text] if dialect is DEEPL else sentence.text,
            dialect.target_field: sentence.target,
            **more,
        }
        for sentence in draw(_SENTENCES, (_LANGUAGE,))
    )
    path = dialect.translating[-1]
    return [Request(json.dumps(b, ensure_ascii=False).encode(), path) for b in bodies]


def _compare(
    targets: Mapping[str, Target],
    clients: int,
    seconds: float,
    rounds: int,
    *,
    limit_ms: float,
) -> report.Findings:
    """Find what each target costs more than the first one."""

    def take_turn(name: str, _: int) -> LoadFigures:
        return measure_closed(targets[name], clients=clients, seconds=seconds)

    loads = take_turns({name: partial(take_turn, name) for name in targets}, rounds)
    goal = report.FigureGoal(CPU_MS, limit_ms)
    return report.compare_turns(
        {"": loads}, _CPU_COLUMNS, relation=report.ADDED, goal=goal
    )


@contextmanager
def _start(run: Path, settings: Mapping[str, str]) -> Iterator[Running]:
    """A gateway, and a key where it requires one."""
    map_path = write_map(run / "map.json", {}, [_LANGUAGE], device="cpu")
    settings = {**settings, "BABELGATE_RUN_DIR": str(run)}
    headers = {}
    if settings.get("BABELGATE_KEYS") == REQUIRED:
        name = f"benchmark {os.getpid()}"
        made = subprocess.run(
            [sys.executable, "-m", "gateway", "keys", "add", "--name", name, *_GRANT],
            cwd=ROOT,
            env=os.environ | settings,
            capture_output=True,
            text=True,
            check=True,
        )
        headers = {"Authorization": f"Bearer {made.stdout.strip()}"}
    with start_gateway(run, map_path, settings) as running:
        yield replace(running, headers=headers)


def compare_batching(
    *,
    clients: str,
    batch_size: int,
    side: int,
    rounds: int,
    seconds: float,
    bound_mb: int,
    folder: Path,
) -> report.Findings:
    """A classifier of ViT-B/16's size in the gateway's process, with batches and without.

    With --bound-mb, one more load runs with the most clients while the process may allocate
    only this much: batches that do not fit are halved, and no request may be lost.
    """
    # PyTorch takes seconds to import, and no other command needs it here.
    from benchmarks.instruments import random_model

    cache = checkpoint.default_cache() / "benchmarks"
    model = random_model.find_classifier(cache, side)
    levels = read_numbers(clients)

    def measure(size: int, levels: Sequence[int], bound: int = 0) -> list[LoadFigures]:
        map_path = write_map(
            folder / "map.json",
            {"model": str(model), "batch_size": size, "queue_size": 4096},
            device="cpu",
            task=CLASSIFICATION,
        )
        with start_embedded(folder / "run", map_path) as stack:
            target = stack.aim(draw_requests(CLASSIFICATION, _IMAGES))
            measure_closed(target, clients=size, seconds=_WARM_S)
            if bound:
                bound_memory(stack, bound)
            return [measure_closed(target, clients=n, seconds=seconds) for n in levels]

    sizes = {BATCHED: batch_size, ALONE: 1}
    ways = {way: lambda _, n=size: measure(n, levels) for way, size in sizes.items()}
    loads = take_turns(ways, rounds)
    bounded = measure(batch_size, [max(levels)], bound_mb) if bound_mb else []
    found = report.compare_turns(split_by_level(loads), _BATCH_COLUMNS, case="clients")
    found.results["bounded"] = bounded
    remarks = [
        f"with less memory, {load.level:g} clients: {report.list_counts(load.statuses)}; "
        f"{report.show(load.requests_per_s)} requests/s"
        for load in bounded
    ]
    return replace(found, remarks=remarks)


def bound_memory(stack: Running, megabytes: int) -> None:
    """Limit how much each process of the gateway may allocate beyond what it has."""
    for leader in stack.leaders.values():
        for process in (leader, *leader.children(recursive=True)):
            limit = process.memory_info().vms + megabytes * 1_000_000
            process.rlimit(psutil.RLIMIT_AS, (limit, limit))
