"""Looks for documents on which a format fails: `python -m tests.fuzz --minutes 5`."""

from __future__ import annotations

import time
from hashlib import sha256
from itertools import count
from pathlib import Path
from random import Random, randrange
from typing import Annotated

import hypothesis
import typer
from hypothesis import HealthCheck, Phase, given, settings

from tests.fuzz.mutations import draw_documents
from tests.fuzz.seeds import ENDINGS, make_seed
from tests.fuzz.shapes import SHAPES
from tests.fuzz.trials import find_most_bytes, try_document

_FAILED = Path("run/fuzz")
_SETTINGS = settings(
    max_examples=10,
    deadline=None,
    database=None,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)


def fuzz(ending: str, seconds: float, seed: int) -> int:
    """Try documents of a format for a time, for up to half of it hostile ones, then changed
    ones, and return how many. Raise AssertionError with a document that fails, of the changed
    ones the smallest that is found."""
    end, tried = time.monotonic() + seconds, 0

    def check(content: bytes) -> None:
        nonlocal tried
        tried += 1
        if fault := try_document(ending, content):
            raise AssertionError(f"{_save(ending, content)}\n{fault}")

    shapes = [shape for shape in SHAPES if shape.ending == ending]
    for shape in Random(seed).sample(shapes, len(shapes)):
        check(shape.write(shape.most_bytes))
        if time.monotonic() > end - seconds / 2:
            break
    documents = draw_documents(make_seed(ending), find_most_bytes(ending))
    check_changed = _SETTINGS(given(documents)(check))
    for number in count(seed):
        hypothesis.seed(number)(check_changed)()
        if time.monotonic() > end:
            break
    return tried


def _save(ending: str, content: bytes) -> Path:
    """The last one that is saved is the smallest."""
    _FAILED.mkdir(parents=True, exist_ok=True)
    path = _FAILED / f"{sha256(content).hexdigest()[:12]}{ending}"
    path.write_bytes(content)
    return path


def main(
    minutes: Annotated[float, typer.Option(help="For all formats together")] = 1.0,
    only: Annotated[str, typer.Option(help="The ending of one format")] = "",
    seed: Annotated[int, typer.Option(help="The same tries again")] = 0,
) -> None:
    """Read and write hostile documents of each format, and a small one changed in many ways."""
    endings = [only] if only else ENDINGS
    seed = seed or randrange(1 << 32)
    typer.echo(f"seed {seed}")
    failed = 0
    for ending in endings:
        try:
            tried = fuzz(ending, 60 * minutes / len(endings), seed)
            typer.echo(f"{ending}: {tried} documents")
        except AssertionError as fault:
            failed += 1
            typer.echo(f"{ending}: {fault}")
    raise typer.Exit(1 if failed else 0)


if __name__ == "__main__":
    typer.run(main)
