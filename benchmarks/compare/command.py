"""`python -m benchmarks compare`: Babelgate and other systems, in turns on the same work."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.compare.contenders import Contender, Turn, Workload, choose, prepare
from benchmarks.compare.ratios import (
    FIGURES,
    Lead,
    Ratio,
    Turns,
    compare,
    find_leads,
)
from benchmarks.figures import find_median, show, spread
from benchmarks.instruments import bare
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


def command(
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
        results = {
            "leads": find_leads((ours, *others)),
            "ratios": ratios,
            "turns": (ours, *others),
        }
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


def tabulate(ours: Turns, others: Sequence[Turns]) -> Table:
    """Our row for each number of clients, then each other one's, and the ratio. At the end,
    ours over the best peer."""
    ratios = [compare(ours, theirs) for theirs in others]
    rows = []
    for index in range(len(ours.by_clients)):
        rows.append(_write_row(ours, index))
        for theirs, compared in zip(others, ratios, strict=True):
            rows.append(_write_row(theirs, index))
            rows.append(_write_ratio(compared[index]))
    rows += map(_write_lead, find_leads((ours, *others)))
    return Table(_HEADERS, tuple(rows))


def _write_row(turns: Turns, index: int) -> tuple[str, ...]:
    """Medians of the rounds."""
    loads = turns.by_clients[index]
    rate = spread(load.requests_per_s for load in loads)
    values = [*([*map(read, loads)] for read in FIGURES.values()), turns.cold_starts_s]
    _, p50, p95, p99, *costs = (show(find_median(figures)) for figures in values)
    errors = str(sum(load.errors for load in loads))
    return (f"{loads[0].level:g}", turns.name, str(rate), p50, p95, p99, errors, *costs)


def _write_ratio(ratio: Ratio) -> tuple[str, ...]:
    rate, p50, p95, p99, *costs = (str(f or "–") for f in ratio.figures.values())
    return (str(ratio.clients), "ratio", rate, p50, p95, p99, "–", *costs)


def _write_lead(lead: Lead) -> tuple[str, ...]:
    rate, p99 = (str(f or "–") for f in (lead.requests_per_s, lead.p99_ms))
    name = f"{lead.ours} / best peer"
    return (str(lead.clients), name, rate, "–", "–", p99, *["–"] * 4)
