"""Looks for documents on which a format fails: `python -m tests.fuzz --minutes 5`. They are
hostile, or nearly right: pieces are deleted, repeated up to the largest size, moved, or
replaced by signs that mean something to a format.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from itertools import count
from pathlib import Path
from random import Random, randrange
from typing import Annotated

import hypothesis
import typer
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.fuzz.shapes import ENDINGS, SHAPES, WHOLE, make_seed, pack_parts
from tests.fuzz.trials import MAX_BYTES, find_most_bytes, try_document

_FAILED = Path("run/fuzz")
_SETTINGS = settings(
    max_examples=10,
    deadline=None,
    database=None,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)
_SIGNS = """< > & " ' / = <!-- --> <![CDATA[ ]]> <? ?> </ /> <a <a> </a> <b></b> &amp; &# { } {{
[ ] [^a [^1]: [a]: ]( ![ ( ) | || |-|-| \\ \\| ` ``` * ** _ ~~ $ # - --- => , ; : 0 -1 1e9 %0 %n
--> 00:00:01,000 WEBVTT msgid msgstr msgstr[0] msgid_plural #, "\\n" Language: nplurals=9;
plural= translate="no" xmlns:b="u" xmlns="" xml:space="preserve" charset=utf-7
charset=punycode encoding= \\u00e9 \\ud800 \\x41 = @ sep=; . ! ? 漢 é ا""".split()
_RAW = [s.encode() for s in _SIGNS] + [
    *(b"\n", b"\r", b"\r\n", b"\n\n", b" ", b"\t", b"\0", b"\xff"),
    *(b"\xfe\xff", b"\xef\xbb\xbf"),
    *("\u2028\x85\x0c\u00a0".encode(), b"PK\1\2", b"PK\3\4", b"PK\5\6", b"PK\6\7"),
    *(struct.pack("<I", n) for n in (0, 1, 0xFFFF, 0xFFFFFFFF)),
]


@dataclass(frozen=True)
class Change:
    """Bytes `start` to `end` are replaced by others, `times` times; by themselves if `new` is
    None."""

    start: int
    end: int
    new: bytes | None
    times: int

    def apply(self, content: bytes, most: int) -> bytes:
        """The changed content, which does not get larger than `most` bytes."""
        size = len(content) + 1
        start, end = sorted((self.start % size, self.end % size))
        piece = content[start:end] if self.new is None else self.new
        room = most - len(content) + end - start
        times = min(self.times, room // len(piece)) if piece else 0
        return content[:start] + piece * times + content[end:]


_PLACES = st.integers(0, 1 << 14)
_TIMES = st.sampled_from([*([0, 1, 1, 1, 2, 2, 3, 20] * 4), 1_000, MAX_BYTES])
_NEW = st.none() | st.sampled_from(_RAW) | st.binary(max_size=4)
_CHANGE = st.builds(Change, _PLACES, _PLACES, _NEW, _TIMES)
_CHANGES = st.lists(_CHANGE, min_size=1, max_size=6)


def draw_documents(parts: Mapping[str, bytes], most: int) -> st.SearchStrategy[bytes]:
    """Documents that are changed in one part, or as a zip file."""
    whole = pack_parts(parts)

    def change(name: str, changes: list[Change]) -> bytes:
        return pack_parts({**parts, name: _apply(changes, parts[name], most)})

    changed = st.builds(change, st.sampled_from(sorted(parts)), _CHANGES)
    packed = _CHANGES.map(lambda changes: _apply(changes, whole, most))
    return changed if WHOLE in parts else changed | changed | packed


def _apply(changes: list[Change], content: bytes, most: int) -> bytes:
    for change in changes:
        content = change.apply(content, most)
    return content


def fuzz(ending: str, seconds: float, most: int, seed: int) -> int:
    """Try `most` documents of a format or for a time, up to half of them hostile ones, then
    changed ones, and return how many. Raise AssertionError with a document that fails, of the
    changed ones the smallest that is found."""
    began, tried = time.monotonic(), 0

    def is_over(share: float) -> bool:
        elapsed_s = time.monotonic() - began
        return tried >= share * most or elapsed_s > share * seconds

    def check(content: bytes) -> None:
        nonlocal tried
        tried += 1
        if fault := try_document(ending, content):
            raise AssertionError(f"{_save(ending, content)}\n{fault}")

    shapes = [shape for shape in SHAPES if shape.ending == ending]
    for shape in Random(seed).sample(shapes, len(shapes)):
        check(shape.write(shape.most_bytes))
        if is_over(0.5):
            break
    documents = draw_documents(make_seed(ending), find_most_bytes(ending))
    check_changed = _SETTINGS(given(documents)(check))
    for number in count(seed):
        hypothesis.seed(number)(check_changed)()
        if is_over(1):
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
    most: Annotated[int, typer.Option(help="Tries of each format")] = 1 << 32,
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
            tried = fuzz(ending, 60 * minutes / len(endings), most, seed)
            typer.echo(f"{ending}: {tried} documents")
        except AssertionError as fault:
            failed += 1
            typer.echo(f"{ending}: {fault}")
    raise typer.Exit(1 if failed else 0)


if __name__ == "__main__":
    typer.run(main)
