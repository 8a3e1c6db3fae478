"""`python -m benchmarks compare`: Babelgate and other systems, in turns on the same work."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.compare.contenders import Contender, Turn, Workload, choose, prepare
from benchmarks.figures import Spread, find_median, find_ratio, show, spread
from benchmarks.instruments import bare
from benchmarks.instruments.load import Load, sum_cpu, sum_memory
from benchmarks.instruments.sentences import draw
from benchmarks.measure.stack import SENTENCES
from benchmarks.options import (
    DEFAULT_RUN,
    Bar,
    Clients,
    Folder,
    Languages,
    Model,
    Out,
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


#: What is compared, in the order of the columns.
_FIGURES: Mapping[str, Callable[[Load], float | None]] = {
    "requests_per_s": lambda load: load.requests_per_s,
    "p50_ms": lambda load: load.latencies.p50_ms,
    "p95_ms": lambda load: load.latencies.p95_ms,
    "p99_ms": lambda load: load.latencies.p99_ms,
    "cpu_ms": sum_cpu,
    "memory_mb": sum_memory,
}


@dataclass(frozen=True)
class Ratio:
    """Ours divided by theirs, round by round; None if one of them has no figure."""

    against: str
    clients: int
    figures: Mapping[str, Spread | None]


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
            "per language), vocabulary (all pieces or the target language's)."
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
    languages: Languages = "",
    model: Model = "models/phrasebook",
    setting: Setting = None,
    folder: Folder = DEFAULT_RUN / "compare",
    out: Out | None = None,
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
    """Turns in rounds: what slows the machine for a while slows all contenders."""
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
            theirs.name,
            int(our[0].level),
            {
                **{
                    name: find_ratio([*map(read, our)], [*map(read, their)])
                    for name, read in _FIGURES.items()
                },
                "cold_start_s": cold_start_s,
            },
        )
        for our, their in zip(_by_clients(ours), _by_clients(theirs), strict=True)
    ]


def tabulate(ours: Turns, others: Sequence[Turns]) -> Table:
    """Our row for each number of clients, then each other one's, and the ratio."""
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


def _write_row(turns: Turns, index: int) -> tuple[str, ...]:
    """Medians of the rounds."""
    loads = _by_clients(turns)[index]
    rate = spread(load.requests_per_s for load in loads)
    values = [*([*map(read, loads)] for read in _FIGURES.values()), turns.cold_starts_s]
    _, p50, p95, p99, *costs = (show(find_median(figures)) for figures in values)
    errors = str(sum(load.errors for load in loads))
    return (f"{loads[0].level:g}", turns.name, str(rate), p50, p95, p99, errors, *costs)


def _write_ratio(ratio: Ratio) -> tuple[str, ...]:
    rate, p50, p95, p99, *costs = (str(f or "–") for f in ratio.figures.values())
    return (str(ratio.clients), "ratio", rate, p50, p95, p99, "–", *costs)
