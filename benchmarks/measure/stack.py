"""`python -m benchmarks stack`: load on port 7777, in closed and open loops."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.figures import list_counts, show
from benchmarks.instruments.load import Load, measure_closed, measure_open
from benchmarks.instruments.running import find_running
from benchmarks.instruments.workload import draw_requests
from benchmarks.options import (
    DEFAULT_RUN,
    Clients,
    Out,
    Plot,
    RunDir,
    Target,
    Task,
    check_plot,
    console,
    explain_errors,
    publish,
    publish_plot,
    read_numbers,
    read_words,
    show_progress,
)
from benchmarks.plots import Chart
from benchmarks.report import Content, Table
from contract.tasks import TRANSLATION

SENTENCES = 2000
_TICKS_PER_S = 10
_HEADERS = (
    *("loop", "clients or planned/s", "requests/s", "p50 ms", "p95 ms", "p99 ms"),
    *("errors", "lag p99 ms"),
)


def command(
    *,
    clients: Clients = "1,64,128",
    rates: Annotated[
        str, typer.Option(help="Arrivals per second of open loops; empty for none.")
    ] = "",
    seconds: Annotated[float, typer.Option(help="Length of each loop.")] = 15,
    task: Task = TRANSLATION,
    target: Target = "",
    connections: Annotated[
        int, typer.Option(help="Requests of an open loop under way at the most.", min=1)
    ] = 512,
    run_dir: RunDir = DEFAULT_RUN,
    out: Out = Path("run/benchmark-stack.json"),
    plot: Plot = None,
) -> None:
    """Requests/s, latency, errors, CPU and memory of the running stack.

    In a closed loop, each client waits for its answer before it asks again. In an open
    loop, requests arrive at random, whatever happens to the others, and their time counts
    from the planned arrival.
    """
    with explain_errors():
        check_plot(plot)
        running = find_running(run_dir)
        numbers = read_numbers(clients) if clients else []
        planned = read_rates(rates)
        requests = draw_requests(task, SENTENCES, targets=read_words(target))
        ticks = (len(numbers) + len(planned)) * seconds * _TICKS_PER_S
        with show_progress(ticks) as bar:
            asked = running.aim(requests, bar.tick)
            loads = []
            for number in numbers:
                bar.say(f"{number} clients")
                loads.append(measure_closed(asked, clients=number, seconds=seconds))
            for rate in planned:
                bar.say(f"{rate:g} arrivals/s")
                loads.append(
                    measure_open(
                        asked, rate=rate, seconds=seconds, connections=connections
                    )
                )
        console.print(_describe(loads))
        options = {
            "task": task,
            "target": target,
            "seconds": seconds,
            "connections": connections,
        }
        publish(out, tabulate(loads), Content("stack", options, {"loads": loads}))
        publish_plot(plot, chart(loads))


def read_rates(text: str) -> list[float]:
    """`0.5,20` as numbers above 0; an empty text is an empty list. Raises ValueError."""
    rates = [float(rate) for rate in read_words(text)]
    if not all(0 < rate < math.inf for rate in rates):
        raise ValueError(f"{text!r}: expected arrivals per second, above 0")
    return rates


def tabulate(loads: Sequence[Load]) -> Table:
    """A row per load, with the CPU of every program that was counted."""
    programs = list(dict.fromkeys(name for load in loads for name in load.cpu_ms))
    headers = (*_HEADERS, *(f"{name} CPU ms" for name in programs))
    return Table(headers, tuple(_write_row(load, programs) for load in loads))


def chart(loads: Sequence[Load]) -> list[Chart]:
    """Latencies over throughput, a chart per kind of loop."""
    return [
        Chart(f"{loop.capitalize()} loop", "requests/s", "ms", _draw_lines(loads, loop))
        for loop in dict.fromkeys(load.loop for load in loads)
    ]


def _draw_lines(
    loads: Sequence[Load], loop: str
) -> Mapping[str, list[tuple[float, float]]]:
    lines: dict[str, list[tuple[float, float]]] = {}
    for load in loads:
        for name in ("p50", "p95", "p99"):
            ms = getattr(load.latencies, f"{name}_ms")
            if load.loop == loop and ms is not None:
                lines.setdefault(name, []).append((load.requests_per_s, ms))
    return lines


def _write_row(load: Load, programs: Sequence[str]) -> tuple[str, ...]:
    times = load.latencies
    return (
        *(load.loop, f"{load.level:g}", show(load.requests_per_s)),
        *map(show, (times.p50_ms, times.p95_ms, times.p99_ms)),
        *(str(load.errors), show(load.lag_p99_ms)),
        *(show(load.cpu_ms.get(program)) for program in programs),
    )


def _describe(loads: Sequence[Load]) -> str:
    """Facts that the table leaves out."""
    statuses = [
        f"{load.loop} {load.level:g}: {list_counts(load.statuses)}"
        for load in loads
        if load.errors
    ]
    memory = loads[-1].memory_mb if loads else {}
    held = ", ".join(f"{program} {show(mb)}" for program, mb in memory.items())
    return "\n".join((*statuses, f"memory, MB: {held}"))
