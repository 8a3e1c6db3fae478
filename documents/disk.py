"""Functions for all folders of documents."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path


def list_names(folder: Path) -> list[str]:
    """List the names in a folder; nothing where there is none. Raises OSError."""
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def read_age(path: Path, now: float) -> float:
    """Seconds since something was changed or moved; 0 where it is gone. Raises OSError."""
    try:
        return now - path.stat().st_ctime
    except FileNotFoundError:
        return 0.0


def remove(path: Path) -> None:
    """Deletes a file or a folder as far as that can be done."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()
