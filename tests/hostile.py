"""Texts that a careless parser reads in quadratic time."""

import json
from dataclasses import dataclass
from pathlib import Path

import yaml


@dataclass(frozen=True)
class TextShape:
    """A unit that is repeated between a head and a tail."""

    name: str
    unit: str
    #: `text` or `html`.
    format: str = "text"
    head: str = ""
    tail: str = ""

    def write(self, size_bytes: int) -> str:
        """Return a text of about `size_bytes` in a request's body."""
        times = (size_bytes - _measure(self.head + self.tail)) // _measure(self.unit)
        return self.head + self.unit * times + self.tail


def _measure(text: str) -> int:
    return len(json.dumps(text, ensure_ascii=False).encode()) - len('""')


_LISTED = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))
SHAPES = tuple(
    TextShape(name, **(it if isinstance(it, dict) else {"unit": it}), format=kind)
    for kind, shapes in _LISTED.items()
    for name, it in shapes.items()
)
