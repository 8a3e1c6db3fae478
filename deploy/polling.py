"""Waits for a program that has been started."""

from __future__ import annotations

import time
from collections.abc import Iterator

#: The longest wait for a program to answer.
_START_S = 90


def attempts() -> Iterator[None]:
    """Now and then, until a program should have answered."""
    give_up_at = time.monotonic() + _START_S
    while time.monotonic() < give_up_at:
        yield
        time.sleep(0.3)
