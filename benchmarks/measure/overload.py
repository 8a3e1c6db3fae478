"""`python -m benchmarks overload`: more requests with time limits than a server can answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.compare.peers.launch import PEERS
from benchmarks.figures import list_counts, show
from benchmarks.instruments import bare, running
from benchmarks.instruments.generator import Request
from benchmarks.instruments.running import Start
from benchmarks.instruments.sentences import draw, write_request
from benchmarks.measure.pressure import Bench, Ladder, Step, find_refusal_cost
from benchmarks.measure.stack import SENTENCES, read_rates
from benchmarks.options import (
    DEFAULT_RUN,
    Bar,
    Folder,
    Model,
    Out,
    Plot,
    Setting,
    check_plot,
    console,
    explain_errors,
    publish,
    publish_plot,
    read_numbers,
    read_settings,
    read_words,
    show_progress,
)
from benchmarks.plots import Chart
from benchmarks.report import Content, Table
from catalog import checkpoint

OURS = "babelgate"
TARGET = "fr"
#: What is promised of refusals and of rows computed in vain.
REFUSAL_MS, LATE_ROWS = 100.0, 0.05
#: The promised share of the peak, by the highest multiple of the capacity: where a refusal
#: costs nothing beside an answer, and with the phrasebook, where it does.
LARGE, SMALL = {10.0: 0.9}, {2.0: 0.9, 4.0: 0.75}
_TICKS_PER_S = 10
_HEADERS = (
    *("", "limit s", "load", "offered/s", "good/s", "of the peak", "p50 ms", "p99 ms"),
    *("refused", "429 p99 ms", "others", "late rows", "lag p99 ms"),
)
#: A sentence's end in a text that goes on.
_INNER_END = re.compile(r"[.!?。！？।؟…:;]\s*\S")


@dataclass(frozen=True)
class Server:
    """A server that is put under load."""

    name: str
    start: Start
    prepare: Callable[[], object]


@dataclass(frozen=True)
class Pressed:
    """What the loads made of a server."""

    name: str
    steps: Sequence[Step]
    #: Milliseconds of CPU that a refusal costs, by program.
    refusal_cpu_ms: Mapping[str, float]


def command(
    *,
    loads: Annotated[str, typer.Option(help="Times the capacity.")] = "1,2,4,10",
    limits: Annotated[
        str, typer.Option(help="Milliseconds that a request may take.")
    ] = "30000,2000,500",
    seconds: Annotated[float, typer.Option(help="Length of each load.")] = 60,
    clients: Annotated[
        str, typer.Option(help="Numbers of clients among which the peak is looked for.")
    ] = "16,64,128",
    peak_s: Annotated[float, typer.Option(help="Length of each look.")] = 8,
    addresses: Annotated[
        int, typer.Option(help="Addresses that clients have.", min=1, max=10_000)
    ] = 256,
    model: Model = "models/phrasebook",
    setting: Setting = None,
    against: Annotated[
        str, typer.Option(help="litserve, rayserve, flask: the same load for them.")
    ] = "",
    folder: Folder = DEFAULT_RUN / "overload",
    out: Out = Path("run/benchmark-overload.json"),
    plot: Plot = None,
) -> None:
    """Goodput, refusals and rows computed in vain, at multiples of the capacity.

    Each limit has its own stack. Its peak is found with clients that wait; then requests
    arrive at random, whatever happens to the others. The capacity is our peak within the
    longest limit; others get the same load.
    """
    with explain_errors():
        check_plot(plot)
        ladder = Ladder(
            read_rates(loads), seconds, read_numbers(clients), peak_s, addresses
        )
        limits_ms = sorted(read_numbers(limits), reverse=True)
        servers = choose(read_words(against))
        session = Session(
            folder.resolve(),
            bare.find_model(model),
            read_settings(setting or ()),
            draw_requests(),
            ladder,
        )
        steps = len(servers) * len(limits_ms)
        with show_progress(steps * session.count_ticks()) as bar:
            pressed = list(session.press_all(servers, limits_ms, bar))
        goals = LARGE if model == bare.RANDOM else SMALL
        console.print(*describe(pressed, goals), sep="\n", markup=False, soft_wrap=True)
        options = {"model": model, "settings": session.settings, "ladder": ladder}
        publish(
            out, tabulate(pressed), Content("overload", options, {"servers": pressed})
        )
        publish_plot(plot, chart(pressed))


@dataclass(frozen=True)
class Session:
    """What every server is given."""

    folder: Path
    model: Path
    settings: Mapping[str, object]
    requests: Sequence[Request]
    ladder: Ladder

    def count_ticks(self) -> float:
        """Ticks for one server and limit."""
        peaks_s = (len(self.ladder.clients) + 2) * self.ladder.peak_s
        loads_s = len(self.ladder.loads) * self.ladder.seconds
        return (peaks_s + loads_s) * _TICKS_PER_S

    def press_all(
        self, servers: Sequence[Server], limits_ms: Sequence[int], bar: Bar
    ) -> Iterator[Pressed]:
        """One server after the other, ours first. Raises StackError and ValueError."""
        map_path = running.write_map(self.folder / "map.json", self.settings, (TARGET,))
        for served in running.read_map(map_path, self.model).models:
            checkpoint.prepare(served, checkpoint.default_cache())
        capacity = None

        def say(name: str, doing: str) -> None:
            bar.say(f"{name}: {doing}")

        for server in servers:
            bar.say(f"preparing {server.name}")
            server.prepare()
            steps: list[Step] = []
            for limit_ms in limits_ms:
                run = self.folder / server.name
                with server.start(run, map_path, self.model) as stack:
                    asked = stack.aim(self.requests, bar.tick)
                    bench = Bench(stack, asked, self.ladder, partial(say, server.name))
                    steps += bench.press(limit_ms, capacity)
                capacity = capacity or steps[0].good_per_s
            yield Pressed(server.name, steps, find_refusal_cost(steps))


def choose(names: Sequence[str]) -> tuple[Server, ...]:
    """Ours, and the named peers. Raises ValueError for an unknown one."""
    unknown = [name for name in names if name not in PEERS]
    if unknown:
        raise ValueError(f"{', '.join(unknown)!r}: expected some of {', '.join(PEERS)}")
    peers = (PEERS[name] for name in names)
    return (
        Server(OURS, running.start, lambda: None),
        *(Server(peer.name, peer.start, peer.prepare) for peer in peers),
    )


def draw_requests() -> list[Request]:
    """One sentence each, so that a request is one row."""
    sentences = draw(SENTENCES, (TARGET,))
    return [write_request(s) for s in sentences if not _INNER_END.search(s.text)]


def find_misses(steps: Sequence[Step], goals: Mapping[float, float]) -> list[str]:
    """The promises that were not kept; `goals` are shares of the peak, by the highest load."""
    return [
        f"{step.limit_ms} ms, {step.load:g} times: {miss}"
        for step in steps
        if step.load
        for miss in _find_misses(step, goals)
    ]


def _find_misses(step: Step, goals: Mapping[float, float]) -> Iterator[str]:
    goal = next((goals[most] for most in sorted(goals) if step.load <= most), 0.0)
    if step.share is not None and step.share < goal:
        yield f"{step.share:.0%} of the peak, not {goal:.0%}"
    if step.late:
        yield f"{step.late} answers after their limit"
    if (step.refusal_p99_ms or 0.0) > REFUSAL_MS:
        yield f"429 after {show(step.refusal_p99_ms)} ms, not {REFUSAL_MS:g}"
    if step.others:
        yield f"neither 200 nor 429: {list_counts(step.others)}"
    if (step.late_rows_share or 0.0) > LATE_ROWS:
        yield f"{step.late_rows_share:.0%} of the rows in vain, not {LATE_ROWS:.0%}"


def describe(pressed: Sequence[Pressed], goals: Mapping[float, float]) -> list[str]:
    """What a refusal costs, and which promises were not kept."""
    lines = []
    for server in pressed:
        costs = server.refusal_cpu_ms.items()
        if costs:
            each = ", ".join(f"{program} {show(ms)}" for program, ms in costs)
            lines.append(f"{server.name}, CPU ms per refusal: {each}")
    return [
        *lines,
        *(find_misses(pressed[0].steps, goals) or ["All promises are held."]),
    ]


def tabulate(pressed: Sequence[Pressed]) -> Table:
    """A row per server, limit and load; a load of 0 is the peak."""
    return Table(
        _HEADERS,
        tuple(
            _write_row(server.name, step) for server in pressed for step in server.steps
        ),
    )


def chart(pressed: Sequence[Pressed]) -> list[Chart]:
    """Goodput over offered load, both per second, a chart per limit."""
    limits = dict.fromkeys(step.limit_ms for server in pressed for step in server.steps)
    return [
        Chart(
            f"Limit {limit_ms / 1000:g} s",
            "requests/s offered",
            "requests/s answered within the limit",
            {
                server.name: [
                    (0.0, 0.0),
                    *(
                        (step.offered_per_s, step.good_per_s)
                        for step in server.steps
                        if step.load and step.limit_ms == limit_ms
                    ),
                ]
                for server in pressed
            },
        )
        for limit_ms in limits
    ]


def _write_row(name: str, step: Step) -> tuple[str, ...]:
    late_rows = step.late_rows_share
    return (
        *(name, f"{step.limit_ms / 1000:g}", f"{step.load:g}" if step.load else "peak"),
        *(show(step.offered_per_s), show(step.good_per_s), _show_share(step.share)),
        *(show(step.p50_ms), show(step.p99_ms)),
        *(str(step.refused), show(step.refusal_p99_ms)),
        *(list_counts(step.others) or "–", _show_share(late_rows)),
        show(step.lag_p99_ms),
    )


def _show_share(share: float | None) -> str:
    return "–" if share is None else f"{share:.0%}"
