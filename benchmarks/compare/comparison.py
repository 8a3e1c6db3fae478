"""`python -m benchmarks compare`: Babelgate and other systems, in turns on the same work."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import driver
from benchmarks.compare.baseline import launch
from benchmarks.compare.peers.launch import PEERS
from benchmarks.driver import say
from benchmarks.instruments import passes, running
from benchmarks.instruments.generator import ask_once
from benchmarks.instruments.load import LoadFigures, measure_closed, sum_cpu, sum_memory
from benchmarks.instruments.workload import REQUESTS, draw, write_request
from benchmarks.report import (
    Columns,
    FigureTable,
    Findings,
    Spread,
    compare_turns,
    find_ratio,
    summarize_latencies,
)
from catalog import checkpoint
from contract.tasks import TRANSLATION
from deploy.stack import ROOT, StackError
from handlers.engine.translation.loading import load_engine
from handlers.engine.translation.m2m100 import Engine, Sentence


@dataclass(frozen=True)
class Workload:
    """The load, map and model that every contender gets."""

    #: For run directories and maps.
    folder: Path
    model: Path
    sentences: tuple[Sentence, ...]
    #: One closed loop each.
    clients: tuple[int, ...]
    seconds: float
    warm_s: float
    #: The map's languages to serve; all where none are named.
    languages: tuple[str, ...] = ()
    #: Keys of the map's translation section, for every contender.
    settings: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class ContenderTurn:
    """The results of a contender in one turn."""

    #: One per number of clients.
    loads: Sequence[LoadFigures]
    #: From the start command to the first answer; None of what is not started.
    cold_start_s: float | None = None


@dataclass(frozen=True)
class Contender:
    """One side of a comparison."""

    name: str
    take_turn: Callable[[Workload], ContenderTurn]
    #: Installs what it needs, before the first turn.
    prepare: Callable[[], object] = lambda: None


def choose(names: Sequence[str]) -> tuple[Contender, ...]:
    """Ours, then the named others. Raises ValueError for unknown and unlike ones."""
    if len(names) == 1 and names[0] in PAIRS:
        return PAIRS[names[0]]
    unknown = [name for name in names if name not in OTHERS]
    if unknown or not names:
        raise ValueError(
            f"{', '.join(unknown)!r}: expected some of {', '.join(OTHERS)} to compare "
            f"with, or one of {', '.join(PAIRS)} alone"
        )
    return (OURS, *(OTHERS[name] for name in dict.fromkeys(names)))


def prepare(contenders: Sequence[Contender], workload: Workload) -> None:
    """Installs packages and converts the model, so that no first start is slower."""
    for contender in contenders:
        say(f"preparing {contender.name}")
        contender.prepare()
    map_path = _write_map(workload, "prepared", {})
    for model in running.read_map(map_path, workload.model).models:
        checkpoint.prepare(model, checkpoint.default_cache())


def _make_stack(
    name: str,
    start: running.Start,
    *,
    prepare: Callable[[], object] = lambda: None,
    **settings: Any,
) -> Contender:
    """Starts a stack with these settings of the map."""

    def take_turn(workload: Workload) -> ContenderTurn:
        map_path = _write_map(workload, name, settings)
        began = time.perf_counter()
        with start(workload.folder / name, map_path, workload.model) as stack:
            asked = stack.aim(
                [
                    write_request(sentence, stack.paths.get(sentence.target, "/"))
                    for sentence in workload.sentences
                ]
            )
            status = ask_once(asked).status
            if status != "200":
                raise StackError(f"{name} has come up, but answers {status}.")
            cold_start_s = time.perf_counter() - began
            most = max(workload.clients)
            measure_closed(asked, clients=most, seconds=workload.warm_s)
            loads = [
                measure_closed(asked, clients=clients, seconds=workload.seconds)
                for clients in workload.clients
            ]
        return ContenderTurn(loads, cold_start_s)

    return Contender(name, take_turn, prepare)


def _run_engine(
    workload: Workload, *, threads: int | None = None, size: int | None = None
) -> ContenderTurn:
    """Runs the map's engine in this process, with batches of the map's size or of `size`, on
    `threads` threads or all cores. It has no clients: its figures stand for any number."""
    engine, batch_size = _load_engine(workload)
    batches = divide(workload.sentences, size or batch_size)
    passes.translate(engine, batches[:1], threads)
    count, took_s, began = 0, [], time.perf_counter()
    for batch in itertools.cycle(batches):
        took_s.append(passes.translate(engine, [batch], threads))
        count += len(batch)
        if time.perf_counter() - began >= workload.seconds:
            break
    elapsed_s = time.perf_counter() - began
    load = LoadFigures(
        loop="engine",
        level=0,
        seconds=elapsed_s,
        answers=count,
        requests_per_s=count / elapsed_s,
        errors=0,
        # A batch's time would tell nothing about one of its sentences.
        latencies=summarize_latencies(took_s if size == 1 else ()),
        statuses={},
    )
    return ContenderTurn([replace(load, level=clients) for clients in workload.clients])


def _load_engine(workload: Workload) -> tuple[Engine, int]:
    """The map's engine, and the size of its batches."""
    map_path = _write_map(workload, "engine", {})
    model = running.merge(running.read_map(map_path, workload.model))
    engine = load_engine(
        model.settings.engine,
        checkpoint.prepare(model, checkpoint.default_cache()),
        device="cuda" if model.is_on_gpu else "cpu",
        compute_type=model.compute_type,
    )
    return engine, model.settings.batch_size


def divide(sentences: Sequence[Sentence], size: int) -> list[tuple[Sentence, ...]]:
    """Batches of this size; the last may be smaller."""
    return [
        tuple(sentences[start : start + size])
        for start in range(0, len(sentences), size)
    ]


def _read_differences(name: str) -> dict[str, Any]:
    """The translation settings in which a map differs from the one that `make up` takes."""
    usual, other = (
        json.loads((ROOT / "torchserve_backend" / map_name).read_text("utf-8"))[
            TRANSLATION
        ]
        for map_name in ("setup_config.json", name)
    )
    return {key: value for key, value in other.items() if usual.get(key) != value}


def _write_map(workload: Workload, name: str, settings: Mapping[str, Any]) -> Path:
    """A contender's own settings win over those of all."""
    return running.write_map(
        workload.folder / f"{name}.json",
        {**(workload.settings or {}), **settings},
        workload.languages,
    )


#: The ways in which ours runs.
OURS = _make_stack("babelgate", running.start)
_INTERACTIVE = _make_stack(
    "interactive", running.start, **_read_differences("interactive.json")
)
_EMBEDDED = _make_stack("embedded", running.start_embedded)
OWN = (OURS.name, _INTERACTIVE.name, _EMBEDDED.name)
#: The contenders that ours is compared with, by their names for `--against`.
OTHERS: Mapping[str, Contender] = {
    "baseline": _make_stack("baseline", launch.start),
    "interactive": _INTERACTIVE,
    "embedded": _EMBEDDED,
    **{
        name: _make_stack(name, peer.start, prepare=peer.prepare)
        for name, peer in PEERS.items()
    },
    "engine": Contender("engine", _run_engine),
    "thread": Contender("engine-thread", partial(_run_engine, threads=1)),
    "sentence": Contender("engine-sentence", partial(_run_engine, threads=1, size=1)),
    "torchserve": _make_stack("torchserve", running.start_torchserve),
}
#: Our stack with two settings, to compare with each other.
PAIRS: Mapping[str, tuple[Contender, Contender]] = {
    "packing": (
        _make_stack("packed", running.start),
        _make_stack("unpacked", running.start, max_batch_tokens=0),
    ),
    "vocabulary": (
        _make_stack("listed", running.start, vocabulary="language"),
        _make_stack("all-pieces", running.start, vocabulary="all"),
    ),
    "placement": (
        _make_stack("by-device", running.start, placement="device"),
        _make_stack("by-language", running.start, placement="language"),
    ),
}


#: A contender's load with one number of clients, and its turn.
TurnLoad = tuple[LoadFigures, ContenderTurn]
RATE, P99 = "requests/s", "p99 ms"
FIGURES: Columns[TurnLoad] = {
    RATE: lambda it: it[0].requests_per_s,
    "p50 ms": lambda it: it[0].latencies.p50_ms,
    "p95 ms": lambda it: it[0].latencies.p95_ms,
    P99: lambda it: it[0].latencies.p99_ms,
    "errors": lambda it: it[0].errors,
    "CPU ms": lambda it: sum_cpu(it[0]),
    "memory MB": lambda it: sum_memory(it[0]),
    "cold start s": lambda it: it[1].cold_start_s,
}


@dataclass(frozen=True)
class Lead:
    """One way of running ours, divided by each round's best peer."""

    ours: str
    clients: str
    #: Over the most requests/s of a peer.
    requests_per_s: Spread | None
    #: Over the smallest p99 of a peer, which can be another one.
    p99_ms: Spread | None


def answer(
    *,
    against: str,
    rounds: int,
    clients: str,
    seconds: float,
    warm_s: float,
    target: str,
    tokens: str,
    languages: str,
    model: str,
    setting: list[str] | None,
    folder: Path,
) -> Findings:
    """Start ours and others in turns, A B C A B C …, and report how they compare.

    Each turn starts its stack on ports of its own, warms it up, measures it and stops it.
    """
    names, served = driver.read_words(against), driver.read_words(languages)
    contenders = choose(names)
    lengths = driver.read_range(tokens or ("3-200" if names == ["packing"] else ""))
    workload = Workload(
        folder=folder.resolve(),
        model=passes.find_model(model),
        sentences=draw(REQUESTS, driver.read_words(target) or served, tokens=lengths),
        clients=tuple(driver.read_numbers(clients)),
        seconds=seconds,
        warm_s=warm_s,
        languages=tuple(served),
        settings=driver.read_settings(setting),
    )
    prepare(contenders, workload)
    ways = {
        one.name: partial(_take_turn, one.take_turn, workload) for one in contenders
    }
    return describe(driver.take_turns(ways, rounds))


def _take_turn(
    take: Callable[[Workload], ContenderTurn], workload: Workload, _: int
) -> ContenderTurn:
    return take(workload)


def describe(turns: Mapping[str, Sequence[ContenderTurn]]) -> Findings:
    """Compare the first contender with the others at each number of clients. At the end,
    ours over the best peer."""
    first = next(iter(turns.values()))[0]
    loads = {
        f"{load.level:g}": {
            name: [(turn.loads[place], turn) for turn in some]
            for name, some in turns.items()
        }
        for place, load in enumerate(first.loads)
    }
    found = compare_turns(loads, FIGURES, case="clients")
    leads = find_leads(loads)
    rows = [
        (lead.clients, f"{lead.ours} / best peer", *_write_cells(lead))
        for lead in leads
    ]
    return Findings(
        FigureTable(found.table.headers, (*found.table.rows, *rows)),
        {
            "leads": leads,
            "relations": found.results["relations"],
            "turns": turns,
        },
    )


def _write_cells(lead: Lead) -> list[str]:
    figures = {RATE: lead.requests_per_s, P99: lead.p99_ms}
    return [str(figures.get(name) or "–") for name in FIGURES]


def find_leads(
    loads: Mapping[str, Mapping[str, Sequence[TurnLoad]]],
) -> list[Lead]:
    """For each number of clients, a lead per way in which ours runs; none without peers.
    Only other serving systems count as peers."""

    def find(
        ways: Mapping[str, Sequence[TurnLoad]], name: str, figure: str
    ) -> Spread | None:
        read, best = FIGURES[figure], max if figure == RATE else min
        rounds = zip(*(ways[peer] for peer in ways if peer in PEERS), strict=True)
        rivals = [best(filter(None, map(read, one)), default=None) for one in rounds]
        return find_ratio(list(map(read, ways[name])), rivals)

    return [
        Lead(name, clients, find(ways, name, RATE), find(ways, name, P99))
        for clients, ways in loads.items()
        for name in ways
        if name in OWN and not PEERS.keys().isdisjoint(ways)
    ]
