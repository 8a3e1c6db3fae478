"""`python -m benchmarks keys`: what a request costs more where keys are required."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from benchmarks.figures import Spread, show, spread
from benchmarks.instruments.load import Load, measure_closed
from benchmarks.instruments.running import Running, start_gateway, write_map
from benchmarks.instruments.sentences import draw, write_request
from benchmarks.options import Out, console, explain_errors, publish, show_progress
from benchmarks.report import Content, Table
from deploy.stack import ROOT

#: What is promised: milliseconds of CPU per request.
LIMIT_MS = 0.2
OFF, REQUIRED = "off", "required"
_TARGET, _SENTENCES = "fr", 500
_TICKS_PER_S = 10
#: A key with limits that nobody reaches: each is looked at.
_GRANT = ("--characters-per-month", "1000000000000", "--requests-per-minute", "1000000")


def command(
    *,
    clients: Annotated[int, typer.Option(help="At the same time.", min=1)] = 16,
    seconds: Annotated[float, typer.Option(help="Length of each half round.")] = 8,
    rounds: Annotated[int, typer.Option(help="Off and on, so often.", min=1)] = 5,
    database_url: Annotated[
        str, typer.Option(help="For keys and usage, instead of SQLite.")
    ] = "",
    limits_url: Annotated[
        str, typer.Option(help="For requests per minute, instead of memory.")
    ] = "",
    out: Out = Path("run/benchmark-keys.json"),
) -> None:
    """The gateway's CPU per request with keys and without, in turns."""
    given = {
        "BABELGATE_DATABASE_URL": database_url,
        "BABELGATE_LIMITS_URL": limits_url,
    }
    urls = {name: url for name, url in given.items() if url}
    with explain_errors(), TemporaryDirectory() as folder:
        with _start_both(Path(folder), urls) as gateways:
            loads = measure(gateways, clients, seconds, rounds)
        console.print(describe(loads))
        options = {"clients": clients, "seconds": seconds, **urls}
        results = {"limit_ms": LIMIT_MS, "added_ms": subtract(loads), "loads": loads}
        publish(out, tabulate(loads), Content("keys", options, results))


def measure(
    gateways: Mapping[str, Running], clients: int, seconds: float, rounds: int
) -> dict[str, list[Load]]:
    """Each gateway's loads, in turns."""
    requests = list(map(write_request, draw(_SENTENCES, (_TARGET,))))
    loads: dict[str, list[Load]] = {name: [] for name in gateways}
    with show_progress(2 * rounds * seconds * _TICKS_PER_S) as bar:
        for number in range(rounds):
            for name, running in gateways.items():
                bar.say(f"round {number + 1} of {rounds}, keys {name}")
                asked = running.aim(requests, bar.tick)
                loads[name].append(
                    measure_closed(asked, clients=clients, seconds=seconds)
                )
    return loads


def subtract(loads: Mapping[str, list[Load]]) -> Spread:
    """Milliseconds of CPU that keys add to a request, by round."""
    pairs = zip(loads[OFF], loads[REQUIRED], strict=True)
    return spread(on.cpu_ms["gateway"] - off.cpu_ms["gateway"] for off, on in pairs)


def describe(loads: Mapping[str, list[Load]]) -> str:
    """The result in a sentence."""
    added = subtract(loads)
    held = "within" if added.median <= LIMIT_MS else "over"
    return f"Keys add {added} ms of CPU to a request: {held} {LIMIT_MS:g}."


def tabulate(loads: Mapping[str, list[Load]]) -> Table:
    """A row for each gateway."""
    rows = tuple(
        (
            name,
            str(spread(load.cpu_ms["gateway"] for load in found)),
            str(spread(load.requests_per_s for load in found)),
            show(sum(load.errors for load in found)),
        )
        for name, found in loads.items()
    )
    return Table(("keys", "gateway's CPU ms", "requests/s", "errors"), rows)


@contextmanager
def _start_both(folder: Path, urls: Mapping[str, str]) -> Iterator[dict[str, Running]]:
    map_path = write_map(folder / "map.json", {}, [_TARGET], device="cpu")
    with ExitStack() as gateways:
        found = {}
        for name in (OFF, REQUIRED):
            run = folder / name
            settings = {"BABELGATE_KEYS": name, "BABELGATE_RUN_DIR": str(run), **urls}
            headers = {}
            if name == REQUIRED:
                headers = {"Authorization": f"Bearer {_make_key(settings)}"}
            running = gateways.enter_context(start_gateway(run, map_path, settings))
            found[name] = Running(running.url, running.leaders, headers)
        yield found


def _make_key(settings: Mapping[str, str]) -> str:
    name = f"benchmark {os.getpid()}"
    made = subprocess.run(
        [sys.executable, "-m", "gateway", "keys", "add", "--name", name, *_GRANT],
        cwd=ROOT,
        env=os.environ | settings,
        capture_output=True,
        text=True,
        check=True,
    )
    return made.stdout.strip()
