"""Options and output that all benchmark commands share."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import SubprocessError
from typing import Annotated, Any

import psutil
import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from benchmarks import plots, report
from benchmarks.instruments import passes
from benchmarks.instruments.passes import Measurement, Plan, Skipped
from benchmarks.instruments.workload import Task as AnyTask
from benchmarks.plots import Chart
from benchmarks.report import Table
from catalog import checkpoint
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
Limit = Annotated[
    float, typer.Option(help="No pass of a batch size begins after so long.")
]
Folder = Annotated[Path, typer.Option(help="For the stacks' run directories.")]
Out = Annotated[Path, typer.Option(help="Where the figures go.")]
Task = Annotated[AnyTask, typer.Option(help="What is asked for.")]
Setting = Annotated[
    list[str] | None,
    typer.Option("--set", help="KEY=VALUE in the map's translation section."),
]
Plot = Annotated[
    Path | None, typer.Option(help="A picture of the figures (needs matplotlib).")
]

DEFAULT_RUN = ROOT / "run"
#: A table is shown whole: a terminal that is too narrow breaks its lines.
_WIDEST = 400


class Bar:
    """A progress bar, which is full after a number of ticks."""

    def __init__(self, progress: Progress, total: float) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=total)

    def tick(self) -> None:
        self._progress.advance(self._task)

    def say(self, doing: str) -> None:
        self._progress.update(self._task, description=doing)


@contextmanager
def show_progress(total: float) -> Iterator[Bar]:
    """A bar on the terminal that is full after these ticks."""
    columns = (
        *(TextColumn("{task.description}"), BarColumn()),
        *(TimeElapsedColumn(), TimeRemainingColumn()),
    )
    with Progress(*columns, console=console) as progress:
        yield Bar(progress, total)


@contextmanager
def explain_errors() -> Iterator[None]:
    """Shows why a benchmark cannot run, without a traceback."""
    try:
        yield
    except (StackError, ValueError, SubprocessError) as error:
        console.print(str(error), style="red", markup=False)
        raise typer.Exit(1) from error


def read_numbers(text: str) -> list[int]:
    """Reads `1,64,128` as numbers from 1. Raises ValueError."""
    numbers = [int(number) for number in read_words(text)]
    if not numbers or min(numbers) < 1:
        raise ValueError(
            f"{text!r}: expected whole numbers from 1, with commas between"
        )
    return numbers


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


def read_settings(texts: Iterable[str]) -> dict[str, Any]:
    """Reads `placement=device` and `max_batch_delay=5`. Raises ValueError."""
    settings = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"{text!r}: expected KEY=VALUE")
        settings[key] = int(value) if value.isdigit() else value
    return settings


def measure_all(plans: Sequence[Plan]) -> list[Measurement | Skipped]:
    """The plans' results, one plan after the other, with a bar."""
    results: list[Measurement | Skipped] = []
    with show_progress(sum(len(plan.batches) for plan in plans)) as bar:
        for plan in plans:
            bar.say(" ".join(plan.subject.label))
            for result in passes.measure_apart(plan, checkpoint.default_cache()):
                results.append(result)
                bar.tick()
    return results


def publish(out: Path, table: Table, content: report.Content) -> None:
    """Shows the table and writes it as Markdown next to the figures."""
    shown = report.to_rich(table)
    wide = Console(width=max(console.width, _WIDEST))
    wide.width = max(console.width, wide.measure(shown).maximum)
    wide.print(shown, soft_wrap=True)
    report.save(out, content)
    markdown = out.with_suffix(".md")
    markdown.write_text(report.to_markdown(table), "utf-8")
    say_written(f"{out}, {markdown}")


def say_written(paths: str) -> None:
    """Says where the results are, and how long the command took."""
    took_s = time.time() - psutil.Process().create_time()
    console.print(f"written: {paths}, after {took_s:.0f} s", soft_wrap=True)


def publish_plot(path: Path | None, charts: Sequence[Chart]) -> None:
    """Draws the chart if one is wanted."""
    if path is None:
        return
    plots.draw(charts, path)
    console.print(f"written: {path}")


def check_plot(path: Path | None) -> None:
    """Raises PlotError early if a wanted chart could not be drawn."""
    if path is not None:
        plots.load_figure()
