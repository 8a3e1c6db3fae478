"""`python -m benchmarks dialects`: what a request costs in the words of another API."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from benchmarks.figures import Spread, show, spread
from benchmarks.instruments.generator import Request
from benchmarks.instruments.load import Load, measure_closed
from benchmarks.instruments.running import Running, start_gateway, write_map
from benchmarks.instruments.sentences import draw
from benchmarks.options import Out, console, explain_errors, publish, show_progress
from benchmarks.report import Content, Table
from handlers.engine.translation.m2m100 import Sentence

#: What is promised: milliseconds of CPU per request, against our own API.
LIMIT_MS = 0.1
OURS = "ours"
_TARGET, _SENTENCES = "fr", 500
_TICKS_PER_S = 10

#: Each API's path, and the fields that ask for a sentence's translation.
DIALECTS: Mapping[str, tuple[str, Callable[[Sentence], dict[str, Any]]]] = {
    OURS: (
        "/translate",
        lambda s: {"src_lang": s.source, "src_text": s.text, "tgt_lang": s.target},
    ),
    "LibreTranslate": (
        "/translate",
        lambda s: {"source": s.source, "q": s.text, "target": s.target},
    ),
    "DeepL": (
        "/v2/translate",
        lambda s: {"source_lang": s.source, "text": [s.text], "target_lang": s.target},
    ),
    "Google": (
        "/language/translate/v2",
        lambda s: {
            "source": s.source,
            "q": s.text,
            "target": s.target,
            "format": "text",
        },
    ),
}


def command(
    *,
    clients: Annotated[int, typer.Option(help="At the same time.", min=1)] = 16,
    seconds: Annotated[float, typer.Option(help="For each API and round.")] = 6,
    rounds: Annotated[int, typer.Option(help="All APIs, so often.", min=1)] = 5,
    out: Out = Path("run/benchmark-dialects.json"),
) -> None:
    """The gateway's CPU per request in each API, in turns."""
    with explain_errors(), TemporaryDirectory() as name:
        folder = Path(name)
        map_path = write_map(folder / "map.json", {}, [_TARGET], device="cpu")
        with start_gateway(folder / "run", map_path) as running:
            loads = measure(running, clients, seconds, rounds)
        console.print(describe(loads))
        options = {"clients": clients, "seconds": seconds}
        added = {name: subtract(loads, name) for name in DIALECTS if name != OURS}
        results = {"limit_ms": LIMIT_MS, "added_ms": added, "loads": loads}
        publish(out, tabulate(loads), Content("dialects", options, results))


def write_requests(dialect: str) -> list[Request]:
    """The same sentences in each API."""
    path, write = DIALECTS[dialect]
    return [
        Request(json.dumps(write(sentence), ensure_ascii=False).encode(), path)
        for sentence in draw(_SENTENCES, (_TARGET,))
    ]


def measure(
    running: Running, clients: int, seconds: float, rounds: int
) -> dict[str, list[Load]]:
    """Each API's loads, in turns."""
    requests = {name: write_requests(name) for name in DIALECTS}
    loads: dict[str, list[Load]] = {name: [] for name in DIALECTS}
    with show_progress(len(DIALECTS) * rounds * seconds * _TICKS_PER_S) as bar:
        for number in range(rounds):
            for name, asked in requests.items():
                bar.say(f"round {number + 1} of {rounds}, {name}")
                target = running.aim(asked, bar.tick)
                loads[name].append(
                    measure_closed(target, clients=clients, seconds=seconds)
                )
    return loads


def subtract(loads: Mapping[str, list[Load]], dialect: str) -> Spread:
    """Milliseconds of CPU that an API adds to a request, by round."""
    pairs = zip(loads[OURS], loads[dialect], strict=True)
    return spread(
        theirs.cpu_ms["gateway"] - ours.cpu_ms["gateway"] for ours, theirs in pairs
    )


def describe(loads: Mapping[str, list[Load]]) -> str:
    """The result in a sentence."""
    added = {name: subtract(loads, name) for name in loads if name != OURS}
    dearest = max(added, key=lambda name: added[name].median)
    held = "within" if added[dearest].median <= LIMIT_MS else "over"
    return (
        f"{dearest} adds {added[dearest]} ms of CPU to a request, the most: "
        f"{held} {LIMIT_MS:g}."
    )


def tabulate(loads: Mapping[str, list[Load]]) -> Table:
    """A row for each API."""
    rows = tuple(
        (
            name,
            str(spread(load.cpu_ms["gateway"] for load in found)),
            "" if name == OURS else str(subtract(loads, name)),
            str(spread(load.requests_per_s for load in found)),
            show(sum(load.errors for load in found)),
        )
        for name, found in loads.items()
    )
    heads = ("API", "gateway's CPU ms", "added ms", "requests/s", "errors")
    return Table(heads, rows)
