"""Lists an owner's documents in pages: only those of the page are read."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from documents.storage import DocumentFolder, DocumentStorage, Gone, State


def read_page(
    storage: DocumentStorage, owner: str, after: str, count: int
) -> tuple[list[tuple[DocumentFolder, State]], str | None]:
    """The next `count` of an owner's documents, from the oldest on, and what to give as `after`
    for those behind them; None after the last."""
    folder = storage.folder / "kept" / owner
    places = heapq.nsmallest(count + 1, (p for p in _list_places(folder) if p > after))
    found = []
    for place in places[:count]:
        with suppress(Gone):
            document = storage.find(owner, place.rpartition("-")[2])
            found.append((document, document.read_state()))
    return found, places[count - 1] if len(places) > count else None


def _list_places(folder: Path) -> Iterator[str]:
    """List when each document was made, and its id."""
    for order in folder.glob("*/document.json"):
        with suppress(FileNotFoundError):
            yield f"{order.stat().st_mtime_ns:016x}-{order.parent.name}"
