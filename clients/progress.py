"""A progress bar: frames or texts, how many per second, time left."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from clients.events import Event, Report


@contextmanager
def show_progress(console: Console, unit: str) -> Iterator[Report]:
    """A bar that moves with each answer; nothing if this is not a terminal."""
    columns = (
        *(TextColumn("{task.description}"), BarColumn()),
        *(TextColumn("{task.percentage:>3.0f} %"), TimeRemainingColumn()),
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
