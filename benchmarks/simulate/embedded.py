"""Measures a gateway with the phrasebook in its process: what loads make of it, and how
fast its machine is meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.instruments import running
from benchmarks.instruments.counters import WorkerFigures, describe, read_counters
from benchmarks.instruments.generator import Target
from benchmarks.instruments.load import Load, measure_closed, measure_open
from benchmarks.instruments.running import Running
from benchmarks.instruments.workload import draw_requests
from benchmarks.simulate.checking import Measured
from benchmarks.simulate.scenario import Scenario
from benchmarks.simulate.service import ServiceEntry
from contract.tasks import TRANSLATION

LANGUAGE = "fr"
_REQUESTS, _CONNECTIONS = 2000, 512


def measure_embedded(
    scenario: Scenario, loads: Sequence[Measured], folder: Path
) -> list[tuple[Scenario, Measured]]:
    """What the loads made of it, each with the scenario at the speed that the machine had
    then. Raises StackError."""
    settings = {
        "batch_size": scenario.replica.batch_size,
        "max_batch_delay": int(scenario.replica.max_batch_delay),
        "workers": scenario.replica.workers,
        "queue_size": scenario.replica.queue_size,
    }
    path = running.write_map(folder / "map.json", settings, [LANGUAGE], device="cpu")
    with running.start_embedded(folder, path) as stack:
        measured = [_measure(scenario, stack, load) for load in loads]
    return [(adapt(scenario, figures), load) for load, figures in measured]


def adapt(scenario: Scenario, figures: WorkerFigures) -> Scenario:
    """The scenario with batches as much slower as those that were measured."""
    if not (figures.batch_fill and figures.handler_ms):
        return scenario
    service = scenario.make_service()
    slower = service.scale(figures.handler_ms / service.find_ms(figures.batch_fill))
    table = enumerate(slower.tabulate(scenario.batch_size)[1:], 1)
    entry = ServiceEntry(
        ms={size: seconds * 1000 for size, seconds in table}, tokens=scenario.tokens
    )
    replica = scenario.replica.model_copy(update={"service": entry})
    return scenario.model_copy(update={"replica": replica})


def _measure(
    scenario: Scenario, stack: Running, load: Measured
) -> tuple[Measured, WorkerFigures]:
    stretch = scenario.stretch
    target = stack.aim(draw_requests(TRANSLATION, _REQUESTS, targets=[LANGUAGE]))
    _ask(target, load, stretch.settle_s)
    before = read_counters(f"{stack.url}/metrics")
    made = _ask(target, load, stretch.seconds)
    figures = describe(before, read_counters(f"{stack.url}/metrics"))
    update = {
        "requests_per_s": made.requests_per_s,
        "latencies": made.latencies,
        "mean_batch": figures.batch_fill,
    }
    return load.model_copy(update=update), figures


def _ask(target: Target, load: Measured, seconds: float) -> Load:
    if load.is_open:
        return measure_open(
            target, rate=load.level, seconds=seconds, connections=_CONNECTIONS
        )
    return measure_closed(target, clients=int(load.level), seconds=seconds)
