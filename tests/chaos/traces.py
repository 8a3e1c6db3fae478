"""Finds a word that only clients have sent in files and in those that are held open."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from deploy.stack import Stack
from tests.chaos.scene import repeat
from tests.e2e.real_stack import processes

_LOOK_S = 0.5
_LARGEST_BYTES = 50_000_000


def find_in_files(folder: Path, word: str) -> list[str]:
    return sorted(
        str(path) for path in folder.rglob("*") if path.is_file() and _has(path, word)
    )


@contextmanager
def watch_open_files(stack: Stack, word: str) -> Iterator[set[str]]:
    """Looks into files that nginx holds open: it deletes a body's file at once."""
    found: set[str] = set()
    with repeat(lambda: found.update(_find_open(stack, word)), _LOOK_S):
        yield found


def _find_open(stack: Stack, word: str) -> Iterator[str]:
    for process in processes(stack):
        links = Path(f"/proc/{process.pid}/fd").iterdir()
        names = ((link, _read_link(link)) for link in links)
        yield from (
            f"{process.name()}: {name}"
            for link, name in names
            if name.startswith(str(stack.run)) and _has(link, word)
        )


def _read_link(link: Path) -> str:
    with suppress(OSError):
        return os.readlink(link)
    return ""


def _has(path: Path, word: str) -> bool:
    with suppress(OSError):
        if path.stat().st_size <= _LARGEST_BYTES:
            return word.encode() in path.read_bytes()
    return False
