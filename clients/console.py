"""The options, the progress bar and the errors of the commands for many files."""

import inspect
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TypeVar

import typer
import yaml
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from clients.bulk import Event, Remarks, Report

_OPTIONS = yaml.safe_load(Path(__file__).with_name("options.yaml").read_text("utf-8"))
#: Messages go to standard error, so that a pipe receives results only.
console = Console(
    stderr=True, markup=False, emoji=False, highlight=False, soft_wrap=True
)

Command = TypeVar("Command", bound=Callable[..., None])


def explain(command: Command) -> Command:
    """Add `options.yaml`'s help to a command's parameters; those before a `*` are arguments."""
    for one in inspect.signature(command, eval_str=True).parameters.values():
        own = f"{command.__name__}.{one.name}"
        entry = dict(_OPTIONS[own if own in _OPTIONS else one.name])
        flags = entry.pop("flags", f"--{one.name.replace('_', '-')}").split()
        is_option = one.kind is one.KEYWORD_ONLY
        hint = typer.Option(*flags, **entry) if is_option else typer.Argument(**entry)
        command.__annotations__[one.name] = Annotated[one.annotation, hint]
    return command


@contextmanager
def show_progress(unit: str) -> Iterator[Report]:
    """Show a bar that advances with each answer, then the count; nothing without a terminal."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeRemainingColumn(),
    )
    began = time.monotonic()
    count = 0
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(f"0 {unit}", total=1.0)

        def report(event: Event, share: float) -> None:
            nonlocal count
            count += event.size
            rate = count / max(1e-3, time.monotonic() - began)
            bar.update(
                task,
                completed=share,
                description=f"{count} {unit}, {rate:.1f} {unit}/s",
            )

        yield report
    if console.is_terminal:
        console.print(f"{count} {unit} in {time.monotonic() - began:.1f} s")


def show_remarks(remarks: Remarks) -> None:
    """Print the files written, then the warnings in yellow and the errors in red."""
    for path in remarks.written:
        console.print(f"Wrote {path}.")
    for warning in remarks.warnings:
        console.print(warning, style="yellow")
    for error in remarks.errors:
        console.print(error, style="red")


@contextmanager
def show_errors(*errors: type[Exception], stopped: str = "") -> Iterator[None]:
    """Print an error of these types, or of the system, and exit with status 1; after Ctrl-C,
    print `stopped` and exit with 130."""
    shown: tuple[type[Exception], ...] = (*errors, OSError)
    try:
        yield
    except KeyboardInterrupt as error:
        console.print(stopped, end="\n" if stopped else "")
        raise typer.Exit(130) from error
    except shown as error:
        console.print(str(error), style="red")
        raise typer.Exit(1) from error
