"""Documents whose author knows what a reader or writer takes far more than their size for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.fuzz.seeds import WHOLE, make_seed, pack_parts
from tests.fuzz.trials import find_most_bytes


@dataclass(frozen=True)
class Shape:
    """A document of one format that repeats one unit, or two: then a cost that is the product
    of their numbers shows. `%` in the first unit stands for its number."""

    ending: str
    name: str
    unit: str
    before: str = ""
    between: str = ""
    then: str = ""
    after: str = ""
    part: str = WHOLE

    @property
    def most_bytes(self) -> int:
        """The largest size that is tried."""
        return find_most_bytes(self.ending)

    def write(self, size: int) -> bytes:
        """The document of a size, packed or not."""
        size //= 2 if self.then else 1
        count = size // len(self.unit.replace("%", "12345").encode())
        first = "".join(self.unit.replace("%", str(n)) for n in range(count))
        then = self.then * (size // len(self.then.encode() or b" "))
        content = self.before + first + self.between + then + self.after
        parts = {} if self.part == WHOLE else make_seed(self.ending)
        return pack_parts({**parts, self.part: content.encode()})


def _read_shapes() -> Iterator[Shape]:
    path = Path(__file__).with_name("shapes.yaml")
    for ending, shapes in yaml.safe_load(path.read_text("utf-8"))["shapes"].items():
        for name, given in shapes.items():
            texts = {field: _join(value) for field, value in given.items()}
            yield Shape(ending, name, **texts)


def _join(value: Any) -> str:
    """A text, or pieces of one: `[3, "a"]` is three times `a`."""
    if isinstance(value, str):
        return value
    pieces = (
        piece if isinstance(piece, str) else piece[1] * piece[0] for piece in value
    )
    return "".join(pieces)


SHAPES = tuple(_read_shapes())
