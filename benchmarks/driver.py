"""The driver of all benchmarks: their options, turns, messages and files."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import SubprocessError
from typing import Annotated, Any, TypeVar, get_type_hints

import psutil
import typer
from rich.console import Console

from benchmarks import report
from benchmarks.instruments.workload import Task as AnyTask
from benchmarks.report import Chart, FigureTable
from deploy.stack import ROOT, StackError

console = Console(highlight=False)

Clients = Annotated[str, typer.Option(help="Numbers of clients, one loop each.")]
Target = Annotated[str, typer.Option(help="Translate into this language only.")]
RunDir = Annotated[Path, typer.Option(help="The running stack's directory.")]
Model = Annotated[
    str,
    typer.Option(
        help="A model directory, or 418M: random weights in M2M100-418M's size."
    ),
]
Languages = Annotated[
    str, typer.Option(help="Serve these languages only, and no other of the map.")
]
Rounds = Annotated[int, typer.Option(help="Turns of each.", min=1)]
Seconds = Annotated[float, typer.Option(help="Length of each load.")]
Folder = Annotated[Path, typer.Option(help="For the stacks' run directories.")]
Task = Annotated[AnyTask, typer.Option(help="What is asked for.")]
Setting = Annotated[
    list[str] | None,
    typer.Option("--set", help="KEY=VALUE in the task's section of the map."),
]
Out = Annotated[Path, typer.Option(help="Where the figures go.")]
Plot = Annotated[
    Path | None, typer.Option(help="A picture of the figures (needs matplotlib).")
]

DEFAULT_RUN = ROOT / "run"
#: A table is shown whole: a terminal that is too narrow breaks its lines.
_WIDEST = 400

Turn = TypeVar("Turn")


@dataclass(frozen=True)
class Findings:
    """The figures of a benchmark, as a table and for its JSON file."""

    table: FigureTable
    results: Any
    #: Lines for the terminal.
    remarks: Sequence[str] = ()
    charts: Sequence[Chart] = ()
    #: The end of the files' names, where a benchmark writes several.
    part: str = ""
    has_failed: bool = False


@dataclass(frozen=True)
class Benchmark:
    """A benchmark: a command that measures something and publishes what it finds."""

    name: str
    #: Takes the command's options, but for `--out` and `--plot`.
    answer: Callable[..., Findings | Iterator[Findings]]
    has_charts: bool = False

    def ask(self, out: Path, plot: Path | None = None, **options: Any) -> None:
        """Runs the benchmark and publishes its findings."""
        has_failed = False
        with explain_errors():
            if plot:
                report.load_figure()
            found = self.answer(**options)
            for findings in [found] if isinstance(found, Findings) else found:
                self._publish(out, options, findings)
                if plot:
                    report.draw_charts(findings.charts, plot)
                has_failed |= findings.has_failed
        if has_failed:
            raise typer.Exit(1)

    def _publish(self, out: Path, options: Mapping[str, Any], found: Findings) -> None:
        """Shows the table and writes it as Markdown next to the figures."""
        out = out.with_stem(f"{out.stem}-{found.part}") if found.part else out
        for remark in found.remarks:
            console.print(remark, markup=False, soft_wrap=True)
        shown = report.to_rich(found.table)
        wide = Console(width=max(console.width, _WIDEST))
        wide.width = max(console.width, wide.measure(shown).maximum)
        wide.print(shown, soft_wrap=True)
        report.save(out, self.name, options, found.results)
        out.with_suffix(".md").write_text(report.to_markdown(found.table), "utf-8")
        say(f"written: {out}")

    def register(self, app: typer.Typer) -> None:
        """Adds the command to a command line."""
        hints = get_type_hints(self.answer, include_extras=True)
        parameters = [
            parameter.replace(annotation=hints[parameter.name])
            for parameter in inspect.signature(self.answer).parameters.values()
        ]
        more: dict[str, Any] = {"out": (Out, Path(f"run/benchmark-{self.name}.json"))}
        if self.has_charts:
            more["plot"] = (Plot, None)
        parameters += [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind
            )
            for name, (kind, default) in more.items()
        ]

        def command(**options: Any) -> None:
            self.ask(**options)

        command.__doc__ = self.answer.__doc__
        command.__annotations__ = {one.name: one.annotation for one in parameters}
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        app.command(self.name)(command)


def say(doing: str) -> None:
    """Shows what is being done, and after how long."""
    elapsed_s = time.time() - psutil.Process().create_time()
    console.print(f"{elapsed_s:6.0f} s  {doing}", markup=False, soft_wrap=True)


@contextmanager
def explain_errors() -> Iterator[None]:
    """Shows why a benchmark cannot run, without a traceback."""
    try:
        yield
    except (StackError, ValueError, SubprocessError) as error:
        console.print(str(error), style="red", markup=False)
        raise typer.Exit(1) from error


def take_turns(
    ways: Mapping[str, Callable[[int], Turn]], rounds: int
) -> dict[str, list[Turn]]:
    """The results of each way, round by round. Ways take turns, so that a slow moment of
    the machine slows all of them."""
    done: dict[str, list[Turn]] = {name: [] for name in ways}
    for number in range(rounds):
        for name, take_turn in ways.items():
            say(f"round {number + 1} of {rounds}: {name}")
            done[name].append(take_turn(number))
    return done


def judge(value: float, limit: float) -> str:
    """Whether a promise is kept."""
    return f"{'within' if value <= limit else 'over'} {limit:g}"


def read_numbers(text: str) -> list[int]:
    """Reads `1,64,128` as numbers from 1. Raises ValueError."""
    numbers = [int(number) for number in read_words(text)]
    if not numbers or min(numbers) < 1:
        raise ValueError(
            f"{text!r}: expected whole numbers from 1, with commas between"
        )
    return numbers


def read_rates(text: str) -> list[float]:
    """Reads `0.5,20` as numbers above 0; an empty text is an empty list. Raises ValueError."""
    rates = [float(rate) for rate in read_words(text)]
    if not all(0 < rate < math.inf for rate in rates):
        raise ValueError(f"{text!r}: expected arrivals per second, above 0")
    return rates


def read_words(text: str) -> list[str]:
    """Reads `a,b` as a list; an empty text is an empty list."""
    return [word.strip() for word in text.split(",") if word.strip()]


def read_range(text: str) -> tuple[int, int] | None:
    """Reads `3-200` as two numbers; None if the text is empty. Raises ValueError."""
    if not text:
        return None
    least, dash, most = text.partition("-")
    if not (dash and least.isdecimal() and most.isdecimal()) or int(least) > int(most):
        raise ValueError(f"{text!r}: expected LEAST-MOST, two numbers of tokens")
    return int(least), int(most)


def read_settings(texts: Iterable[str] | None) -> dict[str, Any]:
    """Reads `placement=device` and `max_batch_delay=5`. Raises ValueError."""
    settings = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"{text!r}: expected KEY=VALUE")
        settings[key] = int(value) if value.isdigit() else value
    return settings
