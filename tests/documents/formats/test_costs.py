"""Even documents crafted to be expensive cost no more than in proportion to their length."""

import gc
from contextlib import suppress
from cProfile import Profile

import pytest

from documents.errors import DocumentError
from tests.documents.formats.translating import keep, translate
from tests.fuzz.shapes import SHAPES, Shape

#: Quadratic work costs sixteen times as much for four times the length.
SIZE, TIMES, MOST = 1_000, 4, 5.0
#: Without a table of Markdown that is large from the start.
CHECKED = [each for each in SHAPES if each.name != "short rows"]
pytestmark = pytest.mark.slow


def count_calls(shape: Shape, size: int) -> int:
    """Count calls of Python and C functions. The garbage collector is off, because it would
    call finalizers of other tests' objects."""
    content, profile = shape.write(size), Profile()
    gc.disable()
    try:
        with profile, suppress(DocumentError):
            translate(f"a{shape.ending}", content, keep)
    finally:
        gc.enable()
    return sum(entry.callcount for entry in profile.getstats())


@pytest.mark.parametrize(
    "shape", CHECKED, ids=lambda each: f"{each.ending} {each.name}"
)
def test_a_document_costs_what_it_is_long(shape: Shape):
    count_calls(shape, 1)  # fill the caches
    small, large = (count_calls(shape, size) for size in (SIZE, TIMES * SIZE))
    assert large <= MOST * small, f"{small} calls became {large}"
