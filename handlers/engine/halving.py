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
    run: Callable[[Sequence[Item]], Sequence[Answer]], items: Sequence[Item]
) -> tuple[list[Answer | OutOfMemory], int]:
    """The answers of `run`, in order, and how many batches were halved because they did not
    fit into memory. An item that does not fit alone is answered with the error."""
    try:
        return list(run(items)), 0
    except OutOfMemory as error:
        if len(items) == 1:
            return [OutOfMemory(str(error))], 0
    # Here the error no longer keeps alive what the engine had in memory.
    half = len(items) // 2
    first, halved_first = run_in_halves(run, items[:half])
    second, halved_second = run_in_halves(run, items[half:])
    return first + second, 1 + halved_first + halved_second
