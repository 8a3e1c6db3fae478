"""Files that are whole after a kill or a power cut, and what else all folders need."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any


def list_names(folder: Path) -> list[str]:
    """What a folder has; nothing where there is none. Raises OSError."""
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


def write_json(
    path: Path, content: Mapping[str, Any], *, is_synced: bool = True
) -> None:
    """Replaces a file. If it `is_synced`, a power cut leaves the old one or the new one.
    Raises OSError."""
    part = path.with_name(f".{path.name}")
    try:
        with part.open("w", encoding="utf-8") as file:
            json.dump(content, file, ensure_ascii=False)
            file.flush()
            if is_synced:
                os.fsync(file.fileno())
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise


def sync_folder(folder: Path) -> None:
    """Returns when renamed files are on the disk under their names. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def try_lock(descriptor: int) -> bool:
    """Whether nobody else has this file's lock."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
