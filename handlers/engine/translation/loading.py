"""Loads an engine by its name and model directory, and says whether the guard should
judge its answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from handlers.engine.translation.m2m100 import Engine


def load_engine(
    name: str, directory: Path, *, device: str, index: int = 0, compute_type: str
) -> Engine:
    """The engine `transformers`, `echo` or `ctranslate2`. Only that one is imported: without
    Transformers a worker starts sooner and is smaller."""
    engine: Callable[..., Engine]
    if name == "transformers":
        from handlers.engine.translation.transformers import (
            TransformersEngine as engine,
        )
    elif name == "echo":
        from handlers.engine.translation.echo import EchoEngine as engine
    else:
        from handlers.engine.translation.ctranslate2 import CTranslate2Engine as engine
    return engine(directory, device=device, index=index, compute_type=compute_type)


def is_guarded(name: str, settings: Mapping[str, Any]) -> bool:
    """Whether the guard judges an engine's answers. `babelgate.json` can say so; by default
    all answers are judged but those of `echo`, which does not translate."""
    return bool(settings.get("guard", name != "echo"))
