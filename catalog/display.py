"""The options, the console, the progress bars and the tables of our command lines."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar

import yaml
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text
from typer import Argument, Exit, Option, Typer

#: Prints paths, JSON and messages without markup or wrapped lines, so that they can be copied.
console = Console(markup=False, emoji=False, highlight=False, soft_wrap=True)

Command = TypeVar("Command", bound=Callable[..., None])


def make_command(
    app: Typer, path: Path, *errors: type[BaseException]
) -> Callable[..., Callable[[Command], Command]]:
    """Return a decorator that adds a command. The file at `path` has the help texts of its
    parameters, by `command.name` or by name; those before a `*` are arguments. Errors of these
    types end the command without a traceback."""
    options = yaml.safe_load(path.read_text("utf-8"))

    def command(name: str | None = None) -> Callable[[Command], Command]:
        def add(run: Command) -> Command:
            signature = inspect.signature(run, eval_str=True)
            explained = []
            for one in signature.parameters.values():
                own = f"{run.__name__}.{one.name}"
                entry = dict(options[own if own in options else one.name])
                flags = entry.pop("flags", f"--{one.name.replace('_', '-')}").split()
                is_option = one.kind is one.KEYWORD_ONLY
                hint = Option(*flags, **entry) if is_option else Argument(**entry)
                kind: Any = Annotated[one.annotation, hint]
                explained.append(one.replace(annotation=kind))
            told = signature.replace(parameters=explained)
            run.__signature__ = told  # type: ignore[attr-defined]
            app.command(name)(_show_errors(*errors)(run))
            return run

        return add

    return command


@contextmanager
def _show_errors(*errors: type[BaseException]) -> Iterator[None]:
    """Print an error in red, then its notes, to standard error, and exit with status 1; after
    Ctrl-C with 130."""
    try:
        yield
    except BrokenPipeError:  # as with `… | head`; click handles it
        raise
    except errors as error:
        if isinstance(error, KeyboardInterrupt):
            raise Exit(130) from None
        notes = (f"\n{note}" for note in getattr(error, "__notes__", ()))
        said = Text.assemble((str(error), "red"), *notes)
        Console(stderr=True, soft_wrap=True).print(said)
        raise Exit(1) from error


def make_progress() -> Progress:
    """Return a progress bar with a description, a count and the elapsed time."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    )


def make_table(*columns: str) -> Table:
    """Return a table without a frame, to fit into 80 columns. If it does not, only the columns
    that name models or machines wrap."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in columns:
        is_short = name not in ("serves", "model", "machines")
        table.add_column(name, no_wrap=is_short, overflow="fold")
    return table
