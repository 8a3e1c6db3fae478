"""Runs a batch that may be too large for the device: if it is, its halves run instead,
and so on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from handlers.engine.errors import OutOfMemory

Item = TypeVar("Item")
Answer = TypeVar("Answer")


def run_in_halves(
    run: Callable[[Sequence[Item]], Sequence[Answer]],
    items: Sequence[Item],
    halved: list[int],
) -> list[Answer | OutOfMemory]:
    """What `run` answers, in order. A batch that does not fit into memory is halved, and its
    size appended to `halved`; an item that does not fit alone is answered with the error."""
    try:
        return list(run(items))
    except OutOfMemory as error:
        if len(items) == 1:
            return [OutOfMemory(str(error))]
    # Here the error no longer keeps alive what the engine had in memory.
    halved.append(len(items))
    half = len(items) // 2
    return [
        *run_in_halves(run, items[:half], halved),
        *run_in_halves(run, items[half:], halved),
    ]
