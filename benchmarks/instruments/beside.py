"""Does something again and again beside a measurement."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def repeat(act: Callable[[], object], pause_s: float) -> Iterator[None]:
    """Repeats it in a thread while the block lasts, with a pause before each time."""
    stop = threading.Event()

    def run() -> None:
        while not stop.wait(min(pause_s, threading.TIMEOUT_MAX)):
            act()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
