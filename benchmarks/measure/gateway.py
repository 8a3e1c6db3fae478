"""The cost of a request in one gateway's processes: `python -m benchmarks dialects` with the
fields of other APIs and `keys` where keys are required, before a TorchServe that answers at
once; `microbatching` with a classifier in the gateway, batched or not.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

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

CPU_MS = "gateway's CPU ms"
#: The targets: milliseconds of CPU that another API, and a key, add to a request.
_DIALECT_GOAL = report.FigureGoal(CPU_MS, 0.1)
_KEY_GOAL = report.FigureGoal(CPU_MS, 0.2)
OFF, REQUIRED = "off", "required"
_LANGUAGE, _SENTENCES = "fr", 500
#: Limits of a key that nobody reaches: each is looked at.
_GRANT = ("--characters-per-month", "1000000000000", "--requests-per-minute", "1000000")
_CPU_COLUMNS: report.Columns[LoadFigures] = {
    CPU_MS: lambda load: load.cpu_ms["gateway"],
    "requests/s": lambda load: load.requests_per_s,
    "errors": lambda load: load.errors,
}
_SIZES = {"in batches": 64, "alone": 1}
_IMAGES, _SIDE_PIXELS, _WARM_S = 200, 32, 2.0
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
        return _compare(targets, clients, seconds, rounds, goal=_DIALECT_GOAL)


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
        return _compare(targets, clients, seconds, rounds, goal=_KEY_GOAL)


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
    goal: report.FigureGoal,
) -> report.Findings:
    """Find what each target costs more than the first one."""

    def take_turn(name: str, _: int) -> LoadFigures:
        return measure_closed(targets[name], clients=clients, seconds=seconds)

    loads = take_turns({name: partial(take_turn, name) for name in targets}, rounds)
    return report.compare_turns({"": loads}, _CPU_COLUMNS, is_added=True, goal=goal)


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


def compare_batching(*, clients: str, rounds: int, seconds: float) -> report.Findings:
    """A classifier of ViT-B/16's size in the gateway's process, with batches and without."""
    # PyTorch takes seconds to import, and no other command needs it here.
    from benchmarks.instruments import random_model

    cache = checkpoint.default_cache() / "benchmarks"
    model = random_model.find_classifier(cache, _SIDE_PIXELS)
    levels = read_numbers(clients)

    def measure(size: int, _: int) -> list[LoadFigures]:
        settings = {"model": str(model), "batch_size": size, "queue_size": 4096}
        with TemporaryDirectory() as name:
            path, run = Path(name) / "map.json", Path(name) / "run"
            write_map(path, settings, device="cpu", task=CLASSIFICATION)
            with start_embedded(run, path) as stack:
                target = stack.aim(draw_requests(CLASSIFICATION, _IMAGES))
                measure_closed(target, clients=size, seconds=_WARM_S)
                return [
                    measure_closed(target, clients=number, seconds=seconds)
                    for number in levels
                ]

    ways = {way: partial(measure, size) for way, size in _SIZES.items()}
    loads = split_by_level(take_turns(ways, rounds))
    return report.compare_turns(loads, _BATCH_COLUMNS, case="clients")
