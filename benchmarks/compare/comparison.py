"""`python -m benchmarks compare`: Babelgate and other systems, in turns on the same work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import typer

from benchmarks import driver
from benchmarks.compare.contenders import OWN, ContenderTurn, Workload, choose, prepare
from benchmarks.compare.peers.launch import PEERS
from benchmarks.figures import Spread, find_median, find_ratio, show, spread
from benchmarks.instruments import bare
from benchmarks.instruments.load import LoadFigures, sum_cpu, sum_memory
from benchmarks.instruments.sentences import draw
from benchmarks.instruments.workload import REQUESTS
from benchmarks.report import FigureTable

RATE, P99, ERRORS = "requests/s", "p99 ms", "errors"
#: The figures to compare, in the order of the columns.
FIGURES: Mapping[str, Callable[[LoadFigures, ContenderTurn], float | None]] = {
    RATE: lambda load, _: load.requests_per_s,
    "p50 ms": lambda load, _: load.latencies.p50_ms,
    "p95 ms": lambda load, _: load.latencies.p95_ms,
    P99: lambda load, _: load.latencies.p99_ms,
    ERRORS: lambda load, _: load.errors,
    "CPU ms": lambda load, _: sum_cpu(load),
    "memory MB": lambda load, _: sum_memory(load),
    "cold start s": lambda _, turn: turn.cold_start_s,
}
#: The turns of each contender, ours first.
Turns = Mapping[str, Sequence[ContenderTurn]]


@dataclass(frozen=True)
class Ratio:
    """Ours divided by theirs, round by round; None if one of them has no figure."""

    against: str
    clients: float
    figures: Mapping[str, Spread | None]


@dataclass(frozen=True)
class Lead:
    """One way of running ours, divided by each round's best peer."""

    ours: str
    clients: float
    #: Over the most requests/s of a peer.
    requests_per_s: Spread | None
    #: Over the smallest p99 of a peer, which can be another one.
    p99_ms: Spread | None


def answer(
    *,
    against: Annotated[
        str,
        typer.Option(
            help="One or several, with commas between. baseline: the original's way of "
            "working. interactive: our stack for people who wait. embedded: our gateway "
            "with the models in its process. litserve, rayserve: the same engine behind "
            "other serving systems. flask: the same in one process. engine, thread: the "
            "engine alone, on all cores or in one thread. sentence: one sentence at a time "
            "in one thread. torchserve: our stack without nginx and the gateway. Alone "
            "only: packing "
            "(batches packed by tokens or as they come), placement (a model per device or "
            "per language), vocabulary (all pieces or the target language's)."
        ),
    ],
    rounds: driver.Rounds = 5,
    clients: driver.Clients = "1,64,128",
    seconds: driver.Seconds = 15,
    warm_s: Annotated[float, typer.Option(help="Load that does not count.")] = 5,
    target: driver.Target = "",
    tokens: Annotated[
        str,
        typer.Option(
            help="LEAST-MOST: texts of about this many tokens, phrases with commas between; "
            "empty: the phrasebook's own. Against packing 3-200."
        ),
    ] = "",
    languages: driver.Languages = "",
    model: driver.Model = "models/phrasebook",
    setting: driver.Setting = None,
    folder: driver.Folder = driver.DEFAULT_RUN / "compare",
) -> driver.Findings:
    """Start ours and others in turns, A B C A B C …, and report how they compare.

    Each turn starts its stack on ports of its own, warms it up, measures it and stops it.
    """
    names, served = driver.read_words(against), driver.read_words(languages)
    contenders = choose(names)
    lengths = driver.read_range(tokens or ("3-200" if names == ["packing"] else ""))
    workload = Workload(
        folder=folder.resolve(),
        model=bare.find_model(model),
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


def describe(turns: Turns) -> driver.Findings:
    """Our row for each number of clients, then each other one's, and the ratio. At the end,
    ours over the best peer."""
    ours, *others = turns
    ratios = {their: compare(turns[ours], their, turns[their]) for their in others}
    leads = find_leads(turns)
    rows = []
    for index, load in enumerate(turns[ours][0].loads):
        rows.append(_write_row(ours, turns[ours], index))
        for their in others:
            rows.append(_write_row(their, turns[their], index))
            figures = ratios[their][index].figures
            cells = (str(figures.get(name) or "–") for name in FIGURES)
            rows.append((f"{load.level:g}", "ratio", *cells))
    for lead in leads:
        figures = {RATE: lead.requests_per_s, P99: lead.p99_ms}
        cells = (str(figures.get(name) or "–") for name in FIGURES)
        rows.append((f"{lead.clients:g}", f"{lead.ours} / best peer", *cells))
    return driver.Findings(
        FigureTable(("clients", "", *FIGURES), tuple(rows)),
        {
            "leads": leads,
            "ratios": [ratio for many in ratios.values() for ratio in many],
            "turns": turns,
        },
    )


def compare(
    ours: Sequence[ContenderTurn], name: str, theirs: Sequence[ContenderTurn]
) -> list[Ratio]:
    """One ratio per number of clients."""
    return [
        Ratio(
            name,
            load.level,
            {
                figure: find_ratio(_read(ours, i, figure), _read(theirs, i, figure))
                for figure in FIGURES
                if figure != ERRORS
            },
        )
        for i, load in enumerate(ours[0].loads)
    ]


def find_leads(turns: Turns) -> list[Lead]:
    """For each number of clients, a lead per way in which ours runs; none without peers.
    Only other serving systems count as peers."""
    peers = [turns[name] for name in turns if name in PEERS]
    own = [name for name in turns if name in OWN]
    if not peers:
        return []

    def lead(
        name: str, index: int, figure: str, best: Callable[..., float | None]
    ) -> Spread | None:
        rounds = zip(*(_read(peer, index, figure) for peer in peers), strict=True)
        rivals = [best(filter(None, values), default=None) for values in rounds]
        return find_ratio(_read(turns[name], index, figure), rivals)

    return [
        Lead(name, load.level, lead(name, i, RATE, max), lead(name, i, P99, min))
        for i, load in enumerate(peers[0][0].loads)
        for name in own
    ]


def _read(
    turns: Iterable[ContenderTurn], index: int, figure: str
) -> list[float | None]:
    """A figure of each round, at the number of clients with this index."""
    return [FIGURES[figure](turn.loads[index], turn) for turn in turns]


def _write_row(
    name: str, turns: Sequence[ContenderTurn], index: int
) -> tuple[str, ...]:
    """Medians of the rounds, but the sum of errors and the spread of requests/s."""
    loads = [turn.loads[index] for turn in turns]
    cells = {
        figure: show(find_median(_read(turns, index, figure))) for figure in FIGURES
    }
    cells[RATE] = str(spread(load.requests_per_s for load in loads))
    cells[ERRORS] = str(sum(load.errors for load in loads))
    return (f"{loads[0].level:g}", name, *cells.values())
