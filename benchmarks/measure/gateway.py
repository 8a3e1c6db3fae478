"""The cost of a request in one gateway's processes: `python -m benchmarks dialects` with the
fields of other APIs and `keys` where keys are required, before a TorchServe that answers at
once, and `profile` with the packages that it goes to; `microbatching` with a classifier in
the gateway, batched or not.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from deploy.stack import ROOT, StackError

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

_SAMPLES_PER_S = 200
#: The time that py-spy may take beyond its recording.
_WRITE_S = 60

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
    return report.compare_turns({"": loads}, _CPU_COLUMNS, is_added=True, goal=goal)


def profile(*, clients: int, seconds: float, flame: Path | None) -> report.Findings:
    """The packages that the gateway's CPU goes to, by samples of py-spy."""
    with TemporaryDirectory() as name, _start(Path(name), {}) as running:
        target = running.aim(write_requests(OURS))
        measure_closed(target, clients=clients, seconds=_WARM_S)
        worker = running.leaders["gateway"].children()[0].pid
        stacks = Path(name) / "stacks"
        ways = {"raw": stacks, "flamegraph": flame} if flame else {"raw": stacks}
        for kind, out in ways.items():
            with _record(worker, kind, out, seconds):
                load = measure_closed(target, clients=clients, seconds=seconds)
        samples = count_samples(stacks.read_text("utf-8").splitlines())
    cpu_ms, total = load.cpu_ms["gateway"], samples.total()
    shares = {package: count / total for package, count in samples.most_common()}
    columns: report.Columns[str] = {
        "package": str,
        "share %": lambda package: 100 * shares[package],
        CPU_MS: lambda package: cpu_ms * shares[package],
    }
    return report.Findings(report.tabulate(shares, columns), {"load": load, **shares})


@contextmanager
def _record(worker: int, kind: str, out: Path, seconds: float) -> Iterator[None]:
    """Write the stacks of a process that hold Python's lock. Raises StackError."""
    options = f"--gil --full-filenames --rate {_SAMPLES_PER_S} --format {kind}".split()
    place = ("--pid", str(worker), "--duration", str(round(seconds)), "--output", out)
    spy = Path(sys.executable).with_name("py-spy")
    with subprocess.Popen(
        [spy, "record", *options, *place],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as recorder:
        yield
        _, said = recorder.communicate(timeout=_WRITE_S)
    if recorder.returncode:
        raise StackError(f"py-spy cannot look into the gateway: {said.strip()}")


def count_samples(lines: Iterable[str]) -> Counter[str]:
    """Count the samples of each package from lines such as `run (a.py:3);call (b.py:7) 12`,
    which end with the number of samples. Python's own modules, and gevent as their
    replacement, count for the package that calls them."""
    counts: Counter[str] = Counter()
    for line in lines:
        frames, _, count = line.rpartition(" ")
        files = (frame.rpartition("(")[2] for frame in reversed(frames.split(";")))
        packages = filter(None, map(_find_package, files))
        counts[next(packages, "Python")] += int(count)
    return counts


def _find_package(file: str) -> str:
    _, is_library, library = file.partition("/site-packages/")
    if is_library:
        name = library.partition("/")[0]
        return "" if name == "gevent" else name
    own = Path(file).parent
    return ".".join(own.relative_to(ROOT).parts) if own.is_relative_to(ROOT) else ""


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
