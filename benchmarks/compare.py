"""`python -m benchmarks compare`: two ways of working in turns, on the same machine, model
and sentences.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks import bare
from benchmarks.contenders import Contender, Workload, pair
from benchmarks.figures import Spread, find_ratio, show, spread
from benchmarks.load import Load
from benchmarks.options import (
    DEFAULT_RUN,
    Bar,
    Clients,
    Model,
    Target,
    explain_errors,
    publish,
    read_numbers,
    read_words,
    show_progress,
)
from benchmarks.report import Content, Table
from benchmarks.sentences import draw
from benchmarks.stack import SENTENCES

_HEADERS = (
    *("clients", "", "requests/s", "p50 ms", "p95 ms", "p99 ms"),
    *("errors", "CPU ms", "memory MB"),
)


@dataclass(frozen=True)
class Ratio:
    """How many times theirs ours is, round by round; None where one of them has none."""

    clients: int
    requests_per_s: Spread | None
    p50_ms: Spread | None
    p95_ms: Spread | None
    memory_mb: Spread | None


@dataclass(frozen=True)
class Turns:
    """What one contender did: a list of loads, one per number of clients, per round."""

    name: str
    rounds: Sequence[Sequence[Load]]


def command(
    *,
    against: Annotated[
        str,
        typer.Option(
            help="baseline: the original's way of working. packing: batches packed by "
            "tokens or as they come. placement: a model per device or per language. "
            "engine, thread: the engine alone, on all cores or in one thread. torchserve: "
            "the same stack without nginx and the gateway."
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
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", help="KEY=VALUE in the maps' translation section."),
    ] = None,
    folder: Annotated[
        Path, typer.Option(help="For the stacks' run directories.")
    ] = DEFAULT_RUN / "compare",
    out: Annotated[Path | None, typer.Option(help="Where the figures go.")] = None,
) -> None:
    """Start two ways of working in turns, A B A B …, and report how they compare.

    Each turn starts its stack on ports of its own, warms it up, measures it and stops it.
    """
    with explain_errors():
        contenders = pair(against)
        served = tuple(read_words(languages))
        lengths = read_range(tokens or ("3-200" if against == "packing" else ""))
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
        with show_progress(2 * rounds * len(workload.clients)) as bar:
            ours, theirs = alternate(contenders, workload, rounds, bar)
        ratios = compare(ours, theirs)
        options = {
            "against": against,
            "model": model,
            "target": target,
            "tokens": lengths,
            "languages": languages,
            "settings": workload.settings,
            "seconds": seconds,
        }
        results = {"ratios": ratios, "turns": (ours, theirs)}
        publish(
            out or Path(f"run/benchmark-compare-{against}.json"),
            tabulate(ours, theirs),
            Content("compare", options, results),
        )


def read_range(text: str) -> tuple[int, int] | None:
    """`3-200` as two numbers; None of an empty text. Raises ValueError."""
    if not text:
        return None
    least, dash, most = text.partition("-")
    if not (dash and least.isdecimal() and most.isdecimal()) or int(least) > int(most):
        raise ValueError(f"{text!r}: expected LEAST-MOST, two numbers of tokens")
    return int(least), int(most)


def read_settings(texts: Iterable[str]) -> dict[str, Any]:
    """`placement=device` and `max_batch_delay=5` as keys with values. Raises ValueError."""
    settings = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"{text!r}: expected KEY=VALUE")
        settings[key] = int(value) if value.isdigit() else value
    return settings


def alternate(
    contenders: tuple[Contender, Contender], workload: Workload, rounds: int, bar: Bar
) -> tuple[Turns, Turns]:
    """One after the other, so often: what slows the machine for a while slows both."""
    done: tuple[list[list[Load]], list[list[Load]]] = ([], [])
    for _ in range(rounds):
        for contender, loads in zip(contenders, done, strict=True):
            loads.append(contender.take_turn(workload, bar))
    ours, theirs = (
        Turns(contender.name, loads)
        for contender, loads in zip(contenders, done, strict=True)
    )
    return ours, theirs


def compare(ours: Turns, theirs: Turns) -> list[Ratio]:
    """One ratio per number of clients."""
    return [
        Ratio(
            int(our[0].level),
            find_ratio(
                [load.requests_per_s for load in our],
                [load.requests_per_s for load in their],
            ),
            find_ratio(_read_times(our, "p50_ms"), _read_times(their, "p50_ms")),
            find_ratio(_read_times(our, "p95_ms"), _read_times(their, "p95_ms")),
            find_ratio(_sum_memory(our), _sum_memory(their)),
        )
        for our, their in zip(_by_clients(ours), _by_clients(theirs), strict=True)
    ]


def tabulate(ours: Turns, theirs: Turns) -> Table:
    """Three rows per number of clients: ours, theirs, and how they compare."""
    rows = []
    for ratio, our, their in zip(
        compare(ours, theirs), _by_clients(ours), _by_clients(theirs), strict=True
    ):
        rows.append(_write_row(ours.name, our))
        rows.append(_write_row(theirs.name, their))
        figures = (ratio.requests_per_s, ratio.p50_ms, ratio.p95_ms)
        cells = (*map(_show, figures), "–", "–", "–", _show(ratio.memory_mb))
        rows.append((str(ratio.clients), "ratio", *cells))
    return Table(_HEADERS, tuple(rows))


def _by_clients(turns: Turns) -> list[tuple[Load, ...]]:
    """The rounds of each number of clients."""
    return list(zip(*turns.rounds, strict=True))


def _read_times(loads: Iterable[Load], name: str) -> list[float | None]:
    return [getattr(load.latencies, name) for load in loads]


def _write_row(name: str, loads: Sequence[Load]) -> tuple[str, ...]:
    """Medians of the rounds; the client's CPU is not the contender's."""
    cpu_ms = [
        sum(ms for program, ms in load.cpu_ms.items() if program != "client")
        for load in loads
    ]
    return (
        *(f"{loads[0].level:g}", name),
        str(spread(load.requests_per_s for load in loads)),
        *(
            show(_find_median(_read_times(loads, time)))
            for time in ("p50_ms", "p95_ms", "p99_ms")
        ),
        str(sum(load.errors for load in loads)),
        show(statistics.median(cpu_ms) or None),
        show(_find_median(_sum_memory(loads))),
    )


def _show(figure: Spread | None) -> str:
    return str(figure) if figure else "–"


def _sum_memory(loads: Iterable[Load]) -> list[float | None]:
    return [sum(load.memory_mb.values()) or None for load in loads]


def _find_median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
