"""A model from the hub, with a partial download of another commit."""

import hashlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO
from unittest.mock import patch

from catalog import hub
from handlers.engine.directories import ModelError
from tests.durability.running import Diary

NAME, OLD, NEW = "us/tiny", "0" * 40, "1" * 40
FILES = {"config.json": b"{}", "model.safetensors": b"weights"}


def describe(name: str, content: bytes) -> SimpleNamespace:
    digest = hashlib.sha256(content).hexdigest()
    lfs = SimpleNamespace(sha256=digest) if name.startswith("model") else None
    return SimpleNamespace(rfilename=name, size=len(content), lfs=lfs, blob_id=None)


def send(url: str, target: BinaryIO, *, resume_size: int, **_: Any) -> None:
    target.write(FILES[url.rpartition("/")[2]][resume_size:])


def find(*_: object, **__: object) -> SimpleNamespace:
    siblings = [describe(*item) for item in FILES.items()]
    return SimpleNamespace(sha=NEW, siblings=siblings, card_data=None)


patch.multiple(
    hub,
    HfApi=lambda: SimpleNamespace(model_info=find),
    _choose_files=lambda info, task: info.siblings,
    http_get=send,
).start()


def prepare(folder: Path) -> None:
    """Prepare a disk, and check that a download without a fault removes the older part."""
    for place in (folder, folder / "healthy"):
        (place / f"{NAME}-{OLD}.part").mkdir(parents=True)
    found = hub.download(NAME, folder / "healthy", "translation")
    assert {path.name for path in found.parent.iterdir()} <= {"tiny", "tiny.lock"}


def interfere(folder: Path, diary: Diary) -> None:
    hub.download(NAME, folder, "translation")


def act(folder: Path, diary: Diary) -> None:
    diary.attempt(
        "download", lambda: hub.download(NAME, folder, "translation"), ModelError
    )


def check(folder: Path, diary: Diary) -> None:
    found = hub.download(NAME, folder, "translation")
    content = {path.name: path.read_bytes() for path in found.iterdir()}
    recorded = json.loads(content.pop("source.json"))["files"]
    assert content == FILES
    assert recorded.keys() == FILES.keys()
    assert not list(found.parent.glob(f"*-{NEW}.part"))
