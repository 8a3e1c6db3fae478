"""A host without GPUs and without settings, a map to write, and a TorchServe that is fake."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest

from tests.torchserve_backend.fakes import FakeTorchServe
from torchserve_backend.management import Management

WriteMap = Callable[..., Path]


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in os.environ:
        if name.startswith("BABELGATE_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("BABELGATE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def write_map(tmp_path: Path) -> WriteMap:
    """Writes a map of languages and settings and returns its path."""

    def write(devices: dict[str, Any] | None = None, **translation: Any) -> Path:
        path = tmp_path / "map.json"
        content: dict[str, Any] = {"cuda_id": devices or {"ko": "0", "fr": "cpu"}}
        path.write_text(json.dumps(content | {"translation": translation}))
        return path

    return write


@pytest.fixture
def torchserve() -> Iterator[FakeTorchServe]:
    fake = FakeTorchServe()
    with make_server("127.0.0.1", 0, fake, handler_class=_Quiet) as server:
        fake.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield fake
        server.shutdown()
        thread.join()


@pytest.fixture
def key_file(tmp_path: Path, torchserve: FakeTorchServe) -> Path:
    """What TorchServe writes when it starts."""
    path = tmp_path / "key_file.json"
    keys = {"management": {"key": torchserve.key}, "inference": {"key": "i-key"}}
    path.write_text(json.dumps(keys))
    return path


@pytest.fixture
def management(torchserve: FakeTorchServe, key_file: Path) -> Management:
    return Management(torchserve.url, key_file)


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass
