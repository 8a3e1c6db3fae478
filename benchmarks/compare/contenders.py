"""The systems in a comparison, and one turn of each: start, warm up, measure, stop."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.compare.baseline import launch
from benchmarks.compare.peers.launch import PEERS
from benchmarks.figures import summarize_latencies
from benchmarks.instruments import bare, running
from benchmarks.instruments.generator import ask_once
from benchmarks.instruments.load import Load, measure_closed
from benchmarks.instruments.running import Start
from benchmarks.instruments.sentences import write_request
from benchmarks.options import Bar
from catalog import checkpoint
from contract.tasks import TRANSLATION
from deploy.stack import ROOT, StackError
from handlers.engine.translation.loading import load_engine
from handlers.engine.translation.m2m100 import Engine, Sentence


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
    #: The map's languages to serve; all where none are named.
    languages: tuple[str, ...] = ()
    #: Keys of the map's translation section, for every contender.
    settings: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Turn:
    """What a contender did in one turn."""

    #: One per number of clients.
    loads: Sequence[Load]
    #: From the start command to the first answer; None of what is not started.
    cold_start_s: float | None = None


@dataclass(frozen=True)
class Contender:
    """One side of a comparison."""

    name: str
    take_turn: Callable[[Workload, Bar], Turn]
    #: Installs what it needs, before the first turn.
    prepare: Callable[[], object] = lambda: None


@dataclass(frozen=True)
class Comparison:
    """What a name after `--against` stands for: `theirs`, and the side it is compared with."""

    theirs: Contender
    ours: Contender


def choose(names: Sequence[str]) -> tuple[Contender, ...]:
    """Ours, then the named others. Raises ValueError for unknown and unlike ones."""
    unknown = [name for name in names if name not in COMPARISONS]
    if unknown or not names:
        raise ValueError(
            f"{', '.join(unknown)!r}: expected some of {', '.join(COMPARISONS)} to "
            "compare with"
        )
    chosen = [COMPARISONS[name] for name in dict.fromkeys(names)]
    own = [name for name in names if COMPARISONS[name].ours is not OURS]
    if own and len(chosen) > 1:
        raise ValueError(
            f"{own[0]!r} is compared with {COMPARISONS[own[0]].ours.name}, not with "
            f"{OURS.name}: compare it alone"
        )
    return (chosen[0].ours, *(comparison.theirs for comparison in chosen))


def prepare(contenders: Sequence[Contender], workload: Workload, bar: Bar) -> None:
    """Installs packages and converts the model, so that no first start is slower."""
    for contender in contenders:
        bar.say(f"preparing {contender.name}")
        contender.prepare()
    bar.say("preparing the model")
    map_path = _write_map(workload, "prepared", {})
    for model in running.read_map(map_path, workload.model).models:
        checkpoint.prepare(model, checkpoint.default_cache())


def _make_stack(
    name: str,
    start: Start,
    *,
    prepare: Callable[[], object] = lambda: None,
    **settings: Any,
) -> Contender:
    """Starts a stack with these settings of the map."""

    def take_turn(workload: Workload, bar: Bar) -> Turn:
        map_path = _write_map(workload, name, settings)
        bar.say(f"starting {name}")
        began = time.perf_counter()
        with start(workload.folder / name, map_path, workload.model) as stack:
            requests = [
                write_request(sentence, stack.paths.get(sentence.target, "/"))
                for sentence in workload.sentences
            ]
            asked = stack.aim(requests)
            status = ask_once(asked).status
            if status != "200":
                raise StackError(f"{name} has come up, but answers {status}.")
            cold_start_s = time.perf_counter() - began
            bar.say(f"warming {name} up")
            measure_closed(
                asked, clients=max(workload.clients), seconds=workload.warm_s
            )
            loads = []
            for clients in workload.clients:
                bar.say(f"{name}, {clients} clients")
                loads.append(
                    measure_closed(asked, clients=clients, seconds=workload.seconds)
                )
                bar.tick()
            bar.say(f"stopping {name}")
        return Turn(loads, cold_start_s)

    return Contender(name, take_turn, prepare)


def _run_engine(
    workload: Workload, bar: Bar, *, threads: int | None = None, size: int | None = None
) -> Turn:
    """Runs the map's engine in this process, with batches of the map's size or of `size`, on
    `threads` threads or all cores. It has no clients, so its figures stand for every number
    of them."""
    bar.say("loading the engine")
    engine, batch_size = _load_engine(workload)
    batches = divide(workload.sentences, size or batch_size)
    bar.say("the engine alone")
    bare.translate(engine, batches[:1], threads)
    count, took_s, began = 0, [], time.perf_counter()
    for batch in itertools.cycle(batches):
        took_s.append(bare.translate(engine, [batch], threads))
        count += len(batch)
        if time.perf_counter() - began >= workload.seconds:
            break
    elapsed_s = time.perf_counter() - began
    load = Load(
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
    for _ in workload.clients:
        bar.tick()
    return Turn([replace(load, level=clients) for clients in workload.clients])


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


OURS = _make_stack("babelgate", running.start)
_INTERACTIVE = _make_stack(
    "interactive", running.start, **_read_differences("interactive.json")
)
_EMBEDDED = _make_stack("embedded", running.start_embedded)
#: The ways in which ours runs.
OWN = (OURS.name, _INTERACTIVE.name, _EMBEDDED.name)
#: By what `--against` takes.
COMPARISONS: Mapping[str, Comparison] = {
    "baseline": Comparison(_make_stack("baseline", launch.start), OURS),
    "interactive": Comparison(_INTERACTIVE, OURS),
    "embedded": Comparison(_EMBEDDED, OURS),
    **{
        name: Comparison(_make_stack(name, peer.start, prepare=peer.prepare), OURS)
        for name, peer in PEERS.items()
    },
    "packing": Comparison(
        _make_stack("unpacked", running.start, max_batch_tokens=0),
        _make_stack("packed", running.start),
    ),
    "vocabulary": Comparison(
        _make_stack("all-pieces", running.start, vocabulary="all"),
        _make_stack("listed", running.start, vocabulary="language"),
    ),
    "placement": Comparison(
        _make_stack("by-language", running.start, placement="language"),
        _make_stack("by-device", running.start, placement="device"),
    ),
    "engine": Comparison(Contender("engine", _run_engine), OURS),
    "thread": Comparison(
        Contender("engine-thread", partial(_run_engine, threads=1)), OURS
    ),
    "sentence": Comparison(
        Contender("engine-sentence", partial(_run_engine, threads=1, size=1)), OURS
    ),
    "torchserve": Comparison(_make_stack("torchserve", running.start_torchserve), OURS),
}
