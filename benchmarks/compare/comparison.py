"""`python -m benchmarks compare`: Babelgate and other systems, in turns on the same work."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks import driver
from benchmarks.compare.contenders import OWN, ContenderTurn, Workload, choose, prepare
from benchmarks.compare.peers.launch import PEERS
from benchmarks.figures import Spread, find_ratio
from benchmarks.instruments import bare
from benchmarks.instruments.load import LoadFigures, sum_cpu, sum_memory
from benchmarks.instruments.sentences import draw
from benchmarks.instruments.workload import REQUESTS
from benchmarks.report import Columns, FigureTable, Findings, compare_turns

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
