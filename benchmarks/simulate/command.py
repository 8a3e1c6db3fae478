"""`python -m benchmarks simulate`: what a scenario's gateways and replicas would do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.figures import Latencies, show
from benchmarks.instruments.load import CLOSED, OPEN
from benchmarks.measure.stack import read_rates
from benchmarks.options import (
    DEFAULT_RUN,
    Folder,
    Out,
    console,
    explain_errors,
    publish,
    read_numbers,
    show_progress,
)
from benchmarks.report import Content, Table
from benchmarks.simulate import checking
from benchmarks.simulate.checking import Measured
from benchmarks.simulate.cluster import simulate
from benchmarks.simulate.day import simulate_day
from benchmarks.simulate.embedded import measure_embedded
from benchmarks.simulate.outcome import Outcome, summarize
from benchmarks.simulate.pool import Part
from benchmarks.simulate.scenario import (
    HOUR_S,
    GatewayEntry,
    Scenario,
    change,
    read_scenario,
)

BATCHER, EMBEDDED = "batcher", "embedded"
#: A simulation is cheap: it lasts this much longer than what it is compared with.
_LONGER = 20
_HEADERS = (
    *("load", "language", "requests/s", "p50 ms", "p95 ms", "p99 ms", "mean batch"),
    *("refused %", "late %", "replicas", "at most", "busy %", "GPU hours"),
    "cost per million",
)


def command(
    scenario: Annotated[
        Path, typer.Argument(help="A file as in benchmarks/scenarios.")
    ],
    *,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", help="KEY.KEY=VALUE, instead of what the file says."),
    ] = None,
    clients: Annotated[
        str, typer.Option(help="Instead of its traffic: clients that wait.")
    ] = "",
    rates: Annotated[
        str, typer.Option(help="Instead of its traffic: requests/s that do not.")
    ] = "",
    check: Annotated[
        str,
        typer.Option(
            help="The JSON of `benchmarks stack` or `ingress`: its loads are simulated "
            f"and compared; or `{BATCHER}`: our micro-batcher with a work that sleeps is "
            f"measured; or `{EMBEDDED}`: a gateway with the model in its process is."
        ),
    ] = "",
    seed: Annotated[int, typer.Option(help="The same seed, the same figures.")] = 0,
    folder: Folder = DEFAULT_RUN / "simulate",
    out: Out = Path("run/benchmark-simulate.json"),
) -> None:
    """Latencies, batches, refusals, GPU hours and cost of a scenario, without any GPU.

    A scenario with `day` is represented by moments of the day with a part of the replicas;
    any other is simulated as it is. With --check the command fails if requests/s or the
    mean batch differ by more than 15 %.
    """
    with explain_errors():
        plan = change(read_scenario(scenario), setting or ())
        options = {"scenario": plan.model_dump(exclude_defaults=True), "seed": seed}
        if check and plan.day:
            raise ValueError("--check: expected a scenario without `day`")
        if check:
            pairs = _compare(plan, check, list_loads(clients, rates), folder)
            results = [{"measured": m, "simulated": o} for m, o in pairs]
            publish(
                out, checking.tabulate(pairs), Content("simulate", options, results)
            )
            misses = checking.list_misses(pairs)
            console.print("\n".join(misses) or "within 15 %", markup=False)
            raise typer.Exit(bool(misses))
        loads = list_loads(clients, rates)
        named = [(m.name, checking.apply(plan, m)) for m in loads] or [("", plan)]
        with show_progress(sum(count_ticks(one) for _, one in named)) as bar:
            outcomes = [(name, run(one, seed, bar.tick)) for name, one in named]
        publish(out, tabulate(outcomes), Content("simulate", options, outcomes))


def list_loads(clients: str, rates: str) -> list[Measured]:
    """The loads of the command line, of which nothing is known yet. Raises ValueError."""
    numbers = read_numbers(clients) if clients else []
    levels = [(CLOSED, float(number)) for number in numbers]
    levels += [(OPEN, rate) for rate in read_rates(rates)]
    nothing = Latencies(None, None, None)
    return [
        Measured(loop=loop, level=level, requests_per_s=0.0, latencies=nothing)
        for loop, level in levels
    ]


def run(
    scenario: Scenario, seed: int, tick: Callable[[], None] = lambda: None
) -> list[Outcome]:
    """Simulates a scenario. The first outcome is that of all languages."""
    if scenario.day:
        return summarize(
            scenario, list(simulate_day(scenario, scenario.day, seed=seed, tick=tick))
        )
    stretch = scenario.stretch
    tallies = simulate(
        scenario,
        list_parts(scenario),
        seconds=stretch.seconds,
        settle_s=stretch.settle_s,
        seed=str(seed),
        tick=tick,
    )
    return summarize(scenario, tallies)


def list_parts(scenario: Scenario) -> list[Part]:
    """Every language with all its replicas and its traffic."""
    traffic, (least, most) = scenario.traffic, scenario.replicas
    began_s = scenario.stretch.from_hour * HOUR_S
    peak = (traffic.requests_per_s or 0.0) * (1 + traffic.wave)

    def make(language: str, share: float) -> Part:
        return Part(
            language,
            lambda now: traffic.find_rate(began_s + now) * share,
            peak * share,
            share,
            scenario.autoscaling.initial_replicas or least,
            (least, most) if least < most else None,
        )

    return [make(*item) for item in traffic.find_shares().items()]


def count_ticks(scenario: Scenario) -> float:
    """The seconds that are simulated."""
    if scenario.day is None:
        return scenario.stretch.settle_s + scenario.stretch.seconds
    return scenario.day.moments * (scenario.day.settle_s + scenario.day.seconds)


def tabulate(outcomes: Sequence[tuple[str, Sequence[Outcome]]]) -> Table:
    """A row per load and language."""
    return Table(
        _HEADERS, tuple(_write_row(name, o) for name, many in outcomes for o in many)
    )


def _write_row(load: str, outcome: Outcome) -> tuple[str, ...]:
    times = outcome.latencies
    busy = outcome.utilisation
    return (
        *(load, outcome.language, show(outcome.requests_per_s)),
        *map(show, (times.p50_ms, times.p95_ms, times.p99_ms, outcome.mean_batch)),
        *(show(100 * outcome.refused), show(100 * outcome.late)),
        *(show(outcome.replicas), str(outcome.most_replicas)),
        show(None if busy is None else 100 * busy),
        *map(show, (outcome.gpu_hours, outcome.cost_per_million)),
    )


def _compare(
    scenario: Scenario, check: str, loads: Sequence[Measured], folder: Path
) -> list[tuple[Measured, Outcome]]:
    """Each load as it was measured and as it is simulated, for longer."""
    if check not in (BATCHER, EMBEDDED):
        pairs = [(scenario, load) for load in checking.read_measured(Path(check))]
    elif not loads:
        raise ValueError(f"--check {check}: expected --clients or --rates")
    elif check == EMBEDDED:
        pairs = measure_embedded(scenario, loads, folder)
    else:
        scenario = scenario.model_copy(update={"gateways": GatewayEntry()})
        pairs = [(scenario, checking.measure_batcher(scenario, load)) for load in loads]
    return [(load, run(_prepare(scenario, load), 0)[0]) for scenario, load in pairs]


def _prepare(scenario: Scenario, load: Measured) -> Scenario:
    stretch = scenario.stretch
    longer = stretch.model_copy(update={"seconds": stretch.seconds * _LONGER})
    scenario = scenario.model_copy(update={"stretch": longer})
    return checking.apply(scenario, load)
