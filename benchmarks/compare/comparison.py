"""`python -m benchmarks compare`: compares Babelgate with other systems under the same load."""

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from benchmarks import driver, report
from benchmarks.compare.baseline import launch
from benchmarks.compare.peers.launch import PEERS, prepare_peer, start_peer
from benchmarks.driver import say
from benchmarks.instruments import load, running
from benchmarks.instruments.generator import ask_once
from benchmarks.instruments.load import LoadFigures
from benchmarks.instruments.workload import REQUESTS, draw, write_request
from catalog import TranslationSection, checkpoint
from deploy.stack import ROOT, StackError
from handlers.engine.translation.batching import Batcher
from handlers.engine.translation.engine import Sentence
from handlers.engine.translation.loading import load_engine


@dataclass(frozen=True)
class Workload:
    """The load, map and model of every contender."""

    #: For run directories and maps.
    folder: Path
    model: Path
    sentences: tuple[Sentence, ...]
    #: Numbers of clients, with a closed loop for each.
    clients: tuple[int, ...]
    seconds: float
    warm_s: float
    #: The map's languages to serve; all if empty.
    languages: tuple[str, ...] = ()
    #: Keys of the map's translation section, for every contender.
    settings: Mapping[str, Any] | None = None


#: A function that measures a contender by name: a load per number of clients.
TakeTurn = Callable[[str, Workload], Mapping[str, LoadFigures]]


def choose(names: Sequence[str]) -> Mapping[str, TakeTurn]:
    """Return ours and the named others, or a pair. Raises ValueError for any other names."""
    if len(names) == 1 and names[0] in PAIRS:
        return PAIRS[names[0]]
    unknown = [name for name in names if name not in OTHERS]
    if unknown or not names:
        raise ValueError(
            f"{', '.join(unknown)!r}: expected some of {', '.join(OTHERS)} to compare "
            f"with, or one of {', '.join(PAIRS)} alone"
        )
    return {OURS: _start_with(running.start), **{name: OTHERS[name] for name in names}}


def _start_with(start: running.Start, **settings: Any) -> TakeTurn:
    """Return a function that measures a stack with these settings of the map."""

    def take_turn(name: str, workload: Workload) -> dict[str, LoadFigures]:
        map_path = _write_map(workload, name, settings)
        began = time.perf_counter()
        with start(workload.folder / name, map_path, workload.model) as stack:
            paths = [stack.paths.get(one.target, "/") for one in workload.sentences]
            asked = stack.aim(list(map(write_request, workload.sentences, paths)))
            cold_start_s = time.perf_counter() - began
            status = ask_once(asked).status
            if status != "200":
                raise StackError(f"{name} has come up, but answers {status}.")
            loads = load.measure_levels(
                asked,
                workload.clients,
                seconds=workload.seconds,
                warm_s=workload.warm_s,
            )
        return {n: replace(one, cold_start_s=cold_start_s) for n, one in loads.items()}

    return take_turn


def _run_engine(
    name: str,
    workload: Workload,
    *,
    threads: int | None = None,
    size: int | None = None,
) -> dict[str, LoadFigures]:
    """Run the map's engine in this process, with batches of the map's size or of `size`, on
    `threads` threads or all cores. Without clients, its figures are the same for any number."""
    map_path = _write_map(workload, name, {})
    model = running.merge(running.read_map(map_path, workload.model))
    directory = checkpoint.prepare(model, checkpoint.default_cache())
    engine = load_engine(
        model.settings.engine,
        directory,
        gpu=int(model.devices[0]) if model.is_on_gpu else None,
        compute_type=model.compute_type,
    )
    engine.translators = threads or engine.translators
    most = TranslationSection().max_batch_tokens
    batcher = Batcher(engine, max_tokens=most, is_guarded=False)
    each = size or model.settings.batch_size
    sentences = workload.sentences
    batches = [sentences[at : at + each] for at in range(0, len(sentences), each)]
    batcher.translate(batches[0])
    count = 0
    ends = [time.perf_counter()]
    for batch in itertools.cycle(batches):
        _, counts = batcher.translate(batch)
        if counts["BabelgateHalvedPacks"]:
            raise ValueError("no memory for batches of this size")
        count += len(batch)
        ends.append(time.perf_counter())
        if (elapsed_s := ends[-1] - ends[0]) >= workload.seconds:
            break
    rate = count / elapsed_s
    took_s = np.diff(ends).tolist()
    # The duration of a larger batch is not the latency of one of its sentences.
    latencies = report.summarize_latencies(took_s if size == 1 else ())
    return {
        str(n): LoadFigures("engine", n, elapsed_s, count, rate, 0, latencies, {})
        for n in workload.clients
    }


def _write_map(workload: Workload, name: str, settings: Mapping[str, Any]) -> Path:
    """Write a contender's map; its own settings override those for all contenders."""
    return running.write_map(
        workload.folder / f"{name}.json",
        {**(workload.settings or {}), **settings},
        workload.languages,
    )


OURS = "babelgate"
_LISTED = yaml.safe_load(driver.QUESTIONS.read_text("utf-8"))
#: The contenders that are ours.
OWN = (OURS, "interactive", "embedded")
#: The differences of torchserve_backend/interactive.json from the shipped map.
INTERACTIVE = {"max_batch_delay": 2, "placement": "device"}
#: The contenders to compare ours with, by their names for `--against`.
OTHERS: Mapping[str, TakeTurn] = {
    "baseline": _start_with(launch.start),
    "interactive": _start_with(running.start, **INTERACTIVE),
    "embedded": _start_with(running.start_embedded),
    **{name: _start_with(partial(start_peer, name)) for name in PEERS},
    "engine": _run_engine,
    "thread": partial(_run_engine, threads=1),
    "sentence": partial(_run_engine, threads=1, size=1),
    "torchserve": _start_with(running.start_torchserve),
}
#: Pairs of settings of our stack, to compare with each other.
PAIRS: Mapping[str, Mapping[str, TakeTurn]] = {
    pair: {name: _start_with(running.start, **some) for name, some in ways.items()}
    for pair, ways in _LISTED["pairs"].items()
}

CPU, MEMORY = "CPU ms", "memory MB"
FIGURES = (*load.LOAD_COLUMNS, CPU, MEMORY, "cold start s")


def answer(
    *,
    against: str,
    rounds: int,
    clients: str,
    seconds: float,
    warm_s: float,
    tokens: str,
    languages: str,
    model: str,
    setting: list[str] | None,
) -> report.Findings:
    """Compare ours with others in alternating rounds (A B C A B C …).

    Each turn starts a stack on its own ports, warms it up, measures it and stops it.
    """
    names, served = driver.read_words(against), driver.read_words(languages)
    contenders = choose(names)
    workload = Workload(
        folder=ROOT / "run/compare",
        model=running.find_model(model),
        sentences=draw(REQUESTS, served, tokens=driver.read_range(tokens)),
        clients=tuple(driver.read_numbers(clients)),
        seconds=seconds,
        warm_s=warm_s,
        languages=tuple(served),
        settings=driver.read_settings(setting),
    )
    # Install packages and convert the model first, so that the first starts are not slower.
    for name in set(PEERS) & set(names):
        say(f"preparing {name}")
        prepare_peer(name)
    map_path = _write_map(workload, "prepared", {})
    for one in running.read_map(map_path, workload.model).models:
        checkpoint.prepare(one, checkpoint.default_cache())
    ways = {
        name: partial(take_turn, name, workload)
        for name, take_turn in contenders.items()
    }
    return describe(driver.take_turns(ways, rounds))


def describe(
    turns: Mapping[str, Sequence[Mapping[str, LoadFigures]]],
) -> report.Findings:
    """Compare the first contender with the others per level, and ours with the best peer."""
    loads = {
        level: {way: [_add_up(t[level]) for t in some] for way, some in turns.items()}
        for level in next(iter(turns.values()))[0]
    }
    found = report.compare_turns(loads, FIGURES, case="clients")
    leads = [
        report.compare_turns({level: pair}, FIGURES, case="clients")
        for level, ways in loads.items()
        for pair in _pair_with_best(ways)
    ]
    return report.Findings(
        [*found.table, *(lead.table[-1] for lead in leads)],
        {
            "leads": [lead.results["relations"][0] for lead in leads],
            "relations": found.results["relations"],
            "turns": turns,
        },
    )


def _add_up(figures: LoadFigures) -> Mapping[str, Any]:
    """Add the total CPU and memory of the stack's programs; None if they were not measured."""
    cpu_ms = sum(ms for name, ms in figures.cpu_ms.items() if name != load.CLIENT)
    memory_mb = sum(figures.memory_mb.values())
    return report.flatten(figures) | {CPU: cpu_ms or None, MEMORY: memory_mb or None}


def _pair_with_best(
    ways: Mapping[str, Sequence[Mapping[str, Any]]],
) -> Iterator[dict[str, Sequence[Mapping[str, Any]]]]:
    """Pair each way of running ours with each round's best peer: the most requests/s, and the
    lowest p99, perhaps of another peer. Only other serving systems count as peers."""
    rounds = zip(*(ways[name] for name in ways if name in PEERS), strict=True)
    best = [
        {
            figure: choose_best(
                (one[figure] for one in some if one[figure]), default=None
            )
            for figure, choose_best in (("requests/s", max), ("p99 ms", min))
        }
        for some in rounds
    ]
    for name in (way for way in ways if way in OWN and best):
        yield {name: ways[name], "best peer": best}
