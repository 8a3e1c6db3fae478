"""The files of the page for people, read once: each plain and packed, and one digest over all
of them, which is part of their addresses.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PAGE = Path(__file__).with_name("page")
_MEDIA = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
}


@dataclass(frozen=True)
class Asset:
    """A file as it is sent, with and without gzip."""

    content: bytes
    packed: bytes
    media: str


@dataclass(frozen=True)
class Assets:
    """All files by name, and the page's own words by language."""

    files: Mapping[str, Asset]
    words: Mapping[str, Mapping[str, str]]
    digest: str

    @property
    def modules(self) -> list[str]:
        """The modules that a browser may fetch all at once."""
        return [name for name in self.files if name.endswith(".js")]


@cache
def read_assets() -> Assets:
    """Read the files in the folder; a process does so once."""
    files = dict(_list_files())
    digest = hashlib.sha256()
    for name, asset in files.items():
        digest.update(name.encode() + b"\0" + asset.content)
    words = {
        path.stem: json.loads(path.read_text("utf-8"))
        for path in sorted(PAGE.glob("words/*.json"))
    }
    return Assets(files, words, digest.hexdigest()[:16])


def _list_files() -> Iterator[tuple[str, Asset]]:
    for path in sorted(PAGE.rglob("*")):
        if path.suffix in _MEDIA:
            content = path.read_bytes()
            # Without a time, the same file is the same bytes in every process.
            packed = gzip.compress(content, mtime=0)
            yield path.name, Asset(content, packed, _MEDIA[path.suffix])
