"""A progress bar: frames, frames per second, time left."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from clients.captioner import Answer, End, Report


@contextmanager
def show_progress(console: Console) -> Iterator[Report]:
    """A bar that moves with each answer; nothing if this is not a terminal."""
    columns = (
        *(TextColumn("{task.description}"), BarColumn()),
        *(TextColumn("{task.percentage:>3.0f} %"), TimeRemainingColumn()),
    )
    began = time.monotonic()
    frames = 0
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("0 frames", total=1.0)

        def report(event: Answer | End, share: float) -> None:
            nonlocal frames
            if isinstance(event, Answer):
                frames += len(event.captions)
            rate = frames / max(1e-3, time.monotonic() - began)
            bar.update(
                task,
                completed=share,
                description=f"{frames} frames, {rate:.1f} frames/s",
            )

        yield report
