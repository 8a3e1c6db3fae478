"""Seals a directory whose files must be complete or not used: the seal lists them, and
a check compares.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

#: Written last. It holds the size and the SHA-256 of every other file.
_MARKER = "complete.json"


def find_fault(out: Path, *, is_read: bool = False) -> str:
    """What is wrong with a sealed directory, in a few words, or an empty string. With
    `is_read` the content of its files is compared, not only their sizes."""
    try:
        files = json.loads((out / _MARKER).read_text("utf-8"))
        for name, wanted in files.items():
            path = out / name
            if path.stat().st_size != wanted["size"]:
                return f"{name} has {path.stat().st_size} bytes, not {wanted['size']}"
            if is_read and _digest(path) != wanted["sha256"]:
                return f"{name} has other content"
    except FileNotFoundError as error:
        return f"{Path(error.filename).name} is missing"
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        return f"{_MARKER} cannot be read: {type(error).__name__}"
    return ""


def seal(part: Path) -> None:
    """Writes the seal, and syncs all files to disk: after a power cut no name may lead to
    missing content."""
    files = {
        path.name: {"size": path.stat().st_size, "sha256": _digest(path)}
        for path in sorted(part.iterdir())
    }
    (part / _MARKER).write_text(json.dumps(files, indent=2) + "\n")
    for path in (*part.iterdir(), part):
        sync(path)


def unseal(part: Path) -> None:
    """Removes the seal, so that files can be added."""
    (part / _MARKER).unlink()


def sync(path: Path) -> None:
    """Syncs a file, or the names in a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
