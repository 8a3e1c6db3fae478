"""`python -m benchmarks stack`: load on port 7777, in closed and open loops."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from benchmarks import driver
from benchmarks.instruments.load import (
    LOAD_COLUMNS,
    LoadFigures,
    measure_closed,
    measure_open,
)
from benchmarks.instruments.running import find_running
from benchmarks.instruments.workload import REQUESTS, MeasuredTask, draw_requests
from benchmarks.report import Chart, Columns, Findings, list_counts, show, tabulate


def answer(
    *,
    clients: str,
    rates: str,
    seconds: float,
    task: MeasuredTask,
    target: str,
    connections: int,
    run_dir: Path,
) -> Findings:
    """Requests/s, latency, errors, CPU and memory of the running stack.

    In a closed loop, each client waits for its answer before it asks again. In an open
    loop, requests arrive at random, whatever happens to the others, and their time counts
    from the planned arrival.
    """
    planned = driver.read_rates(rates)
    requests = draw_requests(task, REQUESTS, targets=driver.read_words(target))
    asked = find_running(run_dir).aim(requests)
    loads = []
    for number in driver.read_numbers(clients) if clients else []:
        driver.say(f"{number} clients")
        loads.append(measure_closed(asked, clients=number, seconds=seconds))
    for rate in planned:
        driver.say(f"{rate:g} arrivals/s")
        loads.append(
            measure_open(asked, rate=rate, seconds=seconds, connections=connections)
        )
    return describe(loads)


def describe(loads: Sequence[LoadFigures]) -> Findings:
    """A row per load, with the CPU of every program that was counted."""
    programs = dict.fromkeys(name for load in loads for name in load.cpu_ms)
    columns: Columns[LoadFigures] = {
        "loop": lambda load: load.loop,
        "clients or planned/s": lambda load: f"{load.level:g}",
        **LOAD_COLUMNS,
        "lag p99 ms": lambda load: load.lag_p99_ms,
        **{f"{name} CPU ms": partial(_read_cpu, name) for name in programs},
    }
    memory = loads[-1].memory_mb if loads else {}
    held = ", ".join(f"{program} {show(mb)}" for program, mb in memory.items())
    statuses = (
        f"{load.loop} {load.level:g}: {list_counts(load.statuses)}"
        for load in loads
        if load.errors
    )
    return Findings(
        tabulate(loads, columns),
        {"loads": loads},
        remarks=(*statuses, f"memory, MB: {held}"),
        charts=[_chart(loads, loop) for loop in dict.fromkeys(x.loop for x in loads)],
    )


def _read_cpu(program: str, load: LoadFigures) -> float | None:
    return load.cpu_ms.get(program)


def _chart(loads: Sequence[LoadFigures], loop: str) -> Chart:
    """Latencies over the throughput of one kind of loop."""
    lines = {
        name: [
            (load.requests_per_s, ms)
            for load in loads
            if load.loop == loop
            and (ms := getattr(load.latencies, f"{name}_ms")) is not None
        ]
        for name in ("p50", "p95", "p99")
    }
    lines = {name: points for name, points in lines.items() if points}
    return Chart(f"{loop.capitalize()} loop", "requests/s", "ms", lines)
