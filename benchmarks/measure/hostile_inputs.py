"""Texts that make a careless reader take quadratic time, and forms, arrays and packed bodies
that once held the gateway's loop for up to a second each.
"""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from benchmarks.instruments.generator import Request, Target

_FORM, _JSON = "application/x-www-form-urlencoded", "application/json"
_MULTIPART = "multipart/form-data; boundary=x"
_PART = b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\n'

ROUTES = ("/translate", "/v2/translate", "/language/translate/v2", "/identify")
#: Content types and bodies.
FORMS = (
    (_FORM, b"key&" + b"%41&" * ((1 << 18) - 2)),
    (_FORM, b"q=" + b"%41" * 349_000),
    (_FORM, b"q=a&" * 1000 + b"%41" * 300_000),
    (_JSON, b'{"q": [' + b"[]," * 340_000 + b"[]]}"),
    (_JSON, b'{"q": "a", "source": "auto"' + b" " * 1_000_000),
    (_MULTIPART, _PART * 2000 + b"--x--"),
    (_MULTIPART, _PART + b"\r\n--" * 200_000 + b"--x--"),
)


@dataclass(frozen=True)
class TextShape:
    """A unit that is repeated, between a head and a tail."""

    name: str
    unit: str
    #: `text` or `html`.
    format: str = "text"
    head: str = ""
    tail: str = ""

    def write(self, size_bytes: int) -> str:
        """Write a text that takes about `size` bytes in a request's body."""
        times = (size_bytes - _measure(self.head + self.tail)) // _measure(self.unit)
        return self.head + self.unit * times + self.tail


def _measure(text: str) -> int:
    return len(json.dumps(text, ensure_ascii=False).encode()) - len('""')


def _read_shapes() -> Iterator[TextShape]:
    formats = yaml.safe_load(Path(__file__).with_name("hostile.yaml").read_text())
    for kind, shapes in formats.items():
        for name, shape in shapes.items():
            parts = {"unit": shape} if isinstance(shape, str) else shape
            yield TextShape(name=name, format=kind, **parts)


SHAPES = tuple(_read_shapes())


def aim(url: str) -> list[Target]:
    """Return every form on every route, plain and packed; a target per kind of headers."""
    requests: dict[tuple[str, str], list[Request]] = defaultdict(list)
    for kind, body in FORMS:
        packed = gzip.compress(body)
        for route in ROUTES:
            requests[kind, "identity"].append(Request(body, route))
            requests[kind, "gzip"].append(Request(packed, route))
    return [
        Target(url, asked, headers={"Content-Type": kind, "Content-Encoding": encoding})
        for (kind, encoding), asked in requests.items()
    ]
