"""A fake TorchServe, beside what tests of the catalog have."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest

from tests.catalog.conftest import clean_environment, write_map
from tests.torchserve_backend.fakes import FakeTorchServe
from torchserve_backend.management import Management

__all__ = ["clean_environment", "write_map"]


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
    """The file of keys that TorchServe writes when it starts."""
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
