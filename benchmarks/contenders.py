"""Who is compared with whom, and one turn of each: brought up, warmed up, measured, taken
down.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import bare, running
from benchmarks.bare import Configuration
from benchmarks.baseline import launch
from benchmarks.figures import Latencies
from benchmarks.load import Load, Target, measure_closed
from benchmarks.options import Bar
from benchmarks.processes import measure_cost
from benchmarks.running import Start
from benchmarks.sentences import write_request
from handlers.engine.m2m100 import Sentence
from torchserve_backend import catalog, checkpoint
from torchserve_backend.devices import count_gpus


@dataclass(frozen=True)
class Workload:
    """What every contender is given."""

    #: For run directories and maps.
    folder: Path
    model: Path
    sentences: tuple[Sentence, ...]
    #: One closed loop each.
    clients: tuple[int, ...]
    seconds: float
    warm_s: float
    #: Of the map; all where none are named.
    languages: tuple[str, ...] = ()
    #: Of the map's translation section, for every contender.
    settings: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Contender:
    """One side of a comparison; a turn gives a load per number of clients."""

    name: str
    take_turn: Callable[[Workload, Bar], list[Load]]


def pair(against: str) -> tuple[Contender, Contender]:
    """Ours, and the one that it is compared with. Raises ValueError for an unknown one."""
    if against not in PAIRS:
        raise ValueError(
            f"{against!r}: expected one of {', '.join(PAIRS)} to compare with"
        )
    return PAIRS[against]


def _make_stack(name: str, start: Start, **settings: Any) -> Contender:
    """A stack that is started with these settings of the map."""

    def take_turn(workload: Workload, bar: Bar) -> list[Load]:
        map_path = _write_map(workload, name, settings)
        run = workload.folder / name
        bar.say(f"starting {name}")
        with start(run, map_path, workload.model) as stack:
            requests = [
                write_request(sentence, stack.paths.get(sentence.target, "/"))
                for sentence in workload.sentences
            ]
            asked = Target(stack.url, requests, headers=stack.headers)
            bar.say(f"warming {name} up")
            measure_closed(
                asked, clients=max(workload.clients), seconds=workload.warm_s
            )
            loads = []
            for clients in workload.clients:
                bar.say(f"{name}, {clients} clients")
                loads.append(_measure(stack, asked, clients, workload.seconds))
                bar.tick()
            bar.say(f"stopping {name}")
        return loads

    return Contender(name, take_turn)


def _measure(
    stack: running.Running, asked: Target, clients: int, seconds: float
) -> Load:
    return measure_cost(
        stack.leaders, lambda: measure_closed(asked, clients=clients, seconds=seconds)
    )


def _run_engine(
    workload: Workload, bar: Bar, *, threads: int | None = None
) -> list[Load]:
    """The engine that the map asks for, in this process, with batches of the same size, on
    so many `threads`, or on all cores. It has no clients: its figure stands for every
    number of them."""
    map_path = _write_map(workload, "engine", {})
    model = catalog.load(map_path, gpus=count_gpus()).models[0]
    bar.say("loading the engine")
    configuration = Configuration(
        workload.model,
        model.settings.engine,
        model.compute_type,
        "cuda" if model.is_on_gpu else "cpu",
    )
    directory = bare.prepare(configuration, checkpoint.default_cache())
    engine = bare.load(configuration, directory)
    batches = divide(workload.sentences, model.settings.batch_size)
    bar.say("the engine alone")
    bare.translate(engine, batches[:1], threads)
    count, began = 0, time.perf_counter()
    for batch in itertools.cycle(batches):
        bare.translate(engine, [batch], threads)
        count += len(batch)
        if time.perf_counter() - began >= workload.seconds:
            break
    elapsed_s = time.perf_counter() - began
    loads = [
        _describe_engine(count, elapsed_s, clients) for clients in workload.clients
    ]
    for _ in loads:
        bar.tick()
    return loads


def divide(sentences: Sequence[Sentence], size: int) -> list[tuple[Sentence, ...]]:
    """Batches of this size; the last may be smaller."""
    return [
        tuple(sentences[start : start + size])
        for start in range(0, len(sentences), size)
    ]


def _describe_engine(sentences: int, seconds: float, clients: int) -> Load:
    return Load(
        loop="engine",
        level=clients,
        seconds=seconds,
        answers=sentences,
        requests_per_s=sentences / seconds,
        errors=0,
        latencies=Latencies(None, None, None),
        statuses={},
    )


def _write_map(workload: Workload, name: str, settings: Mapping[str, Any]) -> Path:
    """What a contender is made of wins over what all of them have."""
    return running.write_map(
        workload.folder / f"{name}.json",
        {**(workload.settings or {}), **settings},
        workload.languages,
    )


#: By what `--against` takes: ours and the other.
PAIRS: Mapping[str, tuple[Contender, Contender]] = {
    "baseline": (
        _make_stack("babelgate", running.start),
        _make_stack("baseline", launch.start),
    ),
    "packing": (
        _make_stack("packed", running.start),
        _make_stack("unpacked", running.start, max_batch_tokens=0),
    ),
    "placement": (
        _make_stack("by-device", running.start, placement="device"),
        _make_stack("by-language", running.start, placement="language"),
    ),
    "engine": (
        _make_stack("stack", running.start),
        Contender("engine", _run_engine),
    ),
    "thread": (
        _make_stack("stack", running.start),
        Contender("engine-thread", partial(_run_engine, threads=1)),
    ),
    "torchserve": (
        _make_stack("stack", running.start),
        _make_stack("torchserve", running.start_torchserve),
    ),
}
