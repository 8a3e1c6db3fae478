"""Keeps what takes long to make, such as a model or a video."""

import tempfile
from collections.abc import Callable
from pathlib import Path

from contract import durable


def keep(path: Path, make: Callable[[Path], object]) -> Path:
    """The path, made if it is missing. It appears complete or not at all."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix="making-") as folder:
            part = Path(folder) / path.name
            make(part)
            durable.rename(part, path)
    return path
