"""Models that repeat each text after a known time, and maps that serve them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from catalog.sections import ClusterSection
from deploy.stack import ROOT
from handlers.engine.directories import SETTINGS_FILE


def write_model(folder: Path, *, batch_ms: int = 0, word_ms: int = 0) -> Path:
    """A model that takes this long for a batch and for each word in it, asleep."""
    if not folder.exists():
        shutil.copytree(ROOT / "models" / "phrasebook", folder)
    path = folder / SETTINGS_FILE
    settings = json.loads(path.read_text("utf-8"))
    cost = {"batch_ms": batch_ms, "word_ms": word_ms}
    path.write_text(json.dumps({**settings, "echo": cost}), "utf-8")
    return folder


def write_map(path: Path, devices: Mapping[str, str], **settings: Any) -> Path:
    """A map with these languages on these devices, and settings of their section or of how
    a cluster places them."""
    section = {"engine": "echo", "max_batch_delay": 5, **settings}
    names = section.keys() & ClusterSection.model_fields.keys()
    placement = {name: section.pop(name) for name in names}
    content = {
        "cuda_id": devices,
        "translation": section,
        "cluster": {"translation": placement},
    }
    path.write_text(json.dumps(content), "utf-8")
    return path
