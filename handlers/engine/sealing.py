"""Seals a directory whose files must be complete or not used: the seal lists them, and
a check compares.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from contract import durable

#: Written last. It holds the size and the SHA-256 of every other file.
_MARKER = "complete.json"


class Digests:
    """SHA-256 of files, each read once, whatever its names. Use it for one run: a damage that
    leaves size and time alone would go unnoticed later."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, ...], str] = {}

    def read(self, path: Path) -> str:
        """The digest in hexadecimal digits. Raises OSError."""
        with path.open("rb") as file:
            state = os.fstat(file.fileno())
            key = (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns)
            if key not in self._known:
                self._known[key] = hashlib.file_digest(file, "sha256").hexdigest()
        return self._known[key]


def find_fault(out: Path, digests: Digests | None = None) -> str:
    """Return the fault of a sealed directory in a few words, or an empty string. With
    `digests` the content of its files is compared, not only their sizes."""
    try:
        files = json.loads((out / _MARKER).read_text("utf-8"))
        for name, wanted in files.items():
            path = out / name
            if path.stat().st_size != wanted["size"]:
                return f"{name} has {path.stat().st_size} bytes, not {wanted['size']}"
            if digests and digests.read(path) != wanted["sha256"]:
                return f"{name} has other content"
    except FileNotFoundError as error:
        return f"{Path(error.filename).name} is missing"
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        return f"{_MARKER} cannot be read: {type(error).__name__}"
    return ""


def seal(part: Path, digests: Digests) -> None:
    """Syncs all files to disk, then writes the seal: after a power cut no name may lead to
    missing content."""
    files = {
        path.name: {"size": path.stat().st_size, "sha256": digests.read(path)}
        for path in sorted(part.iterdir())
    }
    for path in part.iterdir():
        durable.sync(path)
    durable.write(part / _MARKER, json.dumps(files, indent=2) + "\n", mode=0o666)


def unseal(part: Path) -> None:
    """Removes the seal, so that files can be added."""
    (part / _MARKER).unlink()
