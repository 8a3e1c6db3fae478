"""`python -m benchmarks compare`: Babelgate and other systems in turns, on the same
machine, model and sentences.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.compare.contenders import Contender, Turn, Workload, choose, prepare
from benchmarks.figures import Spread, find_ratio, show, spread
from benchmarks.instruments import bare
from benchmarks.instruments.load import Load, sum_cpu, sum_memory
from benchmarks.instruments.sentences import draw
from benchmarks.measure.stack import SENTENCES
from benchmarks.options import (
    DEFAULT_RUN,
    Bar,
    Clients,
    Model,
    Setting,
    Target,
    explain_errors,
    publish,
    read_numbers,
    read_range,
    read_settings,
    read_words,
    show_progress,
)
from benchmarks.report import Content, Table

_HEADERS = (
    *("clients", "", "requests/s", "p50 ms", "p95 ms", "p99 ms"),
    *("errors", "CPU ms", "memory MB", "cold start s"),
)


@dataclass(frozen=True)
class Ratio:
    """Ours divided by theirs, round by round; None if one of them has no figure."""

    against: str
    clients: int
    requests_per_s: Spread | None
    p50_ms: Spread | None
    p95_ms: Spread | None
    p99_ms: Spread | None
    cpu_ms: Spread | None
    memory_mb: Spread | None
    cold_start_s: Spread | None


@dataclass(frozen=True)
class Turns:
    """What one contender did: a list of loads, one per number of clients, per round."""

    name: str
    rounds: Sequence[Sequence[Load]]
    #: From the start command to the first answer, per round.
    cold_starts_s: Sequence[float | None]


def command(
    *,
    against: Annotated[
        str,
        typer.Option(
            help="One or several, with commas between. baseline: the original's way of "
            "working. window: our stack that waits 5 ms for a batch to fill. litserve, "
            "rayserve: the same engine behind other serving systems. flask: the same in "
            "one process. engine, thread: the engine alone, on all cores or in one thread. "
            "torchserve: our stack without nginx and the gateway. Alone only: packing "
            "(batches packed by tokens or as they come), placement (a model per device or "
            "per language)."
        ),
    ],
    rounds: Annotated[int, typer.Option(help="Turns of each.", min=1)] = 5,
    clients: Clients = "1,64,128",
    seconds: Annotated[float, typer.Option(help="Length of each loop.")] = 15,
    warm_s: Annotated[float, typer.Option(help="Load that does not count.")] = 5,
    target: Target = "",
    tokens: Annotated[
        str,
        typer.Option(
            help="LEAST-MOST: texts of about so many tokens, phrases with commas between; "
            "empty: the phrasebook's own. Against packing 3-200."
        ),
    ] = "",
    languages: Annotated[
        str, typer.Option(help="Serve these languages only, and no other of the map.")
    ] = "",
    model: Model = "models/phrasebook",
    setting: Setting = None,
    folder: Annotated[
        Path, typer.Option(help="For the stacks' run directories.")
    ] = DEFAULT_RUN / "compare",
    out: Annotated[Path | None, typer.Option(help="Where the figures go.")] = None,
) -> None:
    """Start ours and others in turns, A B C A B C …, and report how they compare.

    Each turn starts its stack on ports of its own, warms it up, measures it and stops it.
    """
    with explain_errors():
        names = read_words(against)
        contenders = choose(names)
        served = tuple(read_words(languages))
        lengths = read_range(tokens or ("3-200" if names == ["packing"] else ""))
        workload = Workload(
            folder=folder.resolve(),
            model=bare.find_model(model),
            sentences=draw(SENTENCES, read_words(target) or served, tokens=lengths),
            clients=tuple(read_numbers(clients)),
            seconds=seconds,
            warm_s=warm_s,
            languages=served,
            settings=read_settings(setting or ()),
        )
        steps = len(contenders) * rounds * len(workload.clients)
        with show_progress(steps) as bar:
            prepare(contenders, workload, bar)
            ours, *others = alternate(contenders, workload, rounds, bar)
        ratios = [ratio for theirs in others for ratio in compare(ours, theirs)]
        options = {
            "against": against,
            "model": model,
            "target": target,
            "tokens": lengths,
            "languages": languages,
            "settings": workload.settings,
            "seconds": seconds,
        }
        results = {"ratios": ratios, "turns": (ours, *others)}
        publish(
            out or Path(f"run/benchmark-compare-{'-'.join(names)}.json"),
            tabulate(ours, others),
            Content("compare", options, results),
        )


def alternate(
    contenders: Sequence[Contender], workload: Workload, rounds: int, bar: Bar
) -> list[Turns]:
    """One contender after the other, in rounds. What slows the machine for a while slows
    all."""
    done: list[list[Turn]] = [[] for _ in contenders]
    for _ in range(rounds):
        for contender, turns in zip(contenders, done, strict=True):
            turns.append(contender.take_turn(workload, bar))
    return [
        Turns(
            contender.name,
            [turn.loads for turn in turns],
            [turn.cold_start_s for turn in turns],
        )
        for contender, turns in zip(contenders, done, strict=True)
    ]


def compare(ours: Turns, theirs: Turns) -> list[Ratio]:
    """One ratio per number of clients."""
    cold_start_s = find_ratio(ours.cold_starts_s, theirs.cold_starts_s)
    return [
        Ratio(
            against=theirs.name,
            clients=int(our[0].level),
            requests_per_s=find_ratio(
                [load.requests_per_s for load in our],
                [load.requests_per_s for load in their],
            ),
            p50_ms=find_ratio(_read_times(our, "p50_ms"), _read_times(their, "p50_ms")),
            p95_ms=find_ratio(_read_times(our, "p95_ms"), _read_times(their, "p95_ms")),
            p99_ms=find_ratio(_read_times(our, "p99_ms"), _read_times(their, "p99_ms")),
            cpu_ms=find_ratio([*map(sum_cpu, our)], [*map(sum_cpu, their)]),
            memory_mb=find_ratio([*map(sum_memory, our)], [*map(sum_memory, their)]),
            cold_start_s=cold_start_s,
        )
        for our, their in zip(_by_clients(ours), _by_clients(theirs), strict=True)
    ]


def tabulate(ours: Turns, others: Sequence[Turns]) -> Table:
    """A row of ours per number of clients, then a row for each other one and how ours
    compares."""
    ratios = [compare(ours, theirs) for theirs in others]
    rows = []
    for index in range(len(_by_clients(ours))):
        rows.append(_write_row(ours, index))
        for theirs, compared in zip(others, ratios, strict=True):
            rows.append(_write_row(theirs, index))
            rows.append(_write_ratio(compared[index]))
    return Table(_HEADERS, tuple(rows))


def _by_clients(turns: Turns) -> list[tuple[Load, ...]]:
    """The rounds of each number of clients."""
    return list(zip(*turns.rounds, strict=True))


def _read_times(loads: Iterable[Load], name: str) -> list[float | None]:
    return [getattr(load.latencies, name) for load in loads]


def _write_row(turns: Turns, index: int) -> tuple[str, ...]:
    """Medians of the rounds."""
    loads = _by_clients(turns)[index]
    return (
        *(f"{loads[0].level:g}", turns.name),
        str(spread(load.requests_per_s for load in loads)),
        *(
            show(_find_median(_read_times(loads, time)))
            for time in ("p50_ms", "p95_ms", "p99_ms")
        ),
        str(sum(load.errors for load in loads)),
        show(_find_median(map(sum_cpu, loads))),
        show(_find_median(map(sum_memory, loads))),
        show(_find_median(turns.cold_starts_s)),
    )


def _write_ratio(ratio: Ratio) -> tuple[str, ...]:
    times = (ratio.p50_ms, ratio.p95_ms, ratio.p99_ms)
    costs = (ratio.cpu_ms, ratio.memory_mb, ratio.cold_start_s)
    return (
        *(str(ratio.clients), "ratio", _show(ratio.requests_per_s)),
        *(*map(_show, times), "–", *map(_show, costs)),
    )


def _show(figure: Spread | None) -> str:
    return str(figure) if figure else "–"


def _find_median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
