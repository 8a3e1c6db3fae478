"""The work of a document: calls of functions, and their growth with the document."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from types import FrameType

#: Quadratic work costs sixteen times as much for four times the length.
TIMES, MOST = 4, 6.0


def count_calls(work: Callable[[], object]) -> int:
    """The calls of functions in Python and in C. The garbage collector waits: it would call
    what belongs to other tests."""
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    gc.disable()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
        gc.enable()
    return calls


def assert_linear(work: Callable[[int], object], size: int) -> None:
    """Four times as much of something takes about four times as many calls."""
    work(1)  # what is made once
    small, large = (
        count_calls(partial(work, number)) for number in (size, TIMES * size)
    )
    assert large <= MOST * small, f"{small} calls became {large}"


@dataclass
class Calls:
    """Notes what a function is asked, and asks it."""

    function: Callable[[str], str]
    asked: list[str] = field(default_factory=list)

    def __call__(self, text: str) -> str:
        self.asked.append(text)
        return self.function(text)
