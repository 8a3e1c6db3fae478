"""Small files that say what runs, written completely or not at all; a torn one is absent."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any


def write(path: Path, content: str) -> None:
    """Replaces `path`; a power cut leaves the old content or the new. Raises OSError."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with open(descriptor, "w", encoding="utf-8") as part:
            part.write(content)
            part.flush()
            os.fsync(descriptor)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def read(path: Path) -> dict[str, Any]:
    """The object in `path`; empty if the file is missing, torn, or holds something else."""
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
