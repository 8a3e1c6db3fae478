"""A host without GPUs or settings, and a function that writes maps."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

WriteMap = Callable[..., Path]


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in os.environ:
        if name.startswith("BABELGATE_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("BABELGATE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def write_map(tmp_path: Path) -> WriteMap:
    """A function that writes a map of languages and settings, or of this content, and returns
    its path."""

    def write(
        devices: dict[str, Any] | None = None, *, content: Any = None, **settings: Any
    ) -> Path:
        path = tmp_path / "map.json"
        languages = {"cuda_id": devices or {"ko": "0", "fr": "cpu"}}
        path.write_text(json.dumps(content or languages | {"translation": settings}))
        return path

    return write
