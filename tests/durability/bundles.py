"""A bundle that replaces an older one."""

import hashlib
import io
import json
import tarfile
from pathlib import Path

from catalog import bundle
from handlers.engine.directories import ModelError
from tests.durability.running import Diary

LOOSE = (".older",)
OLD, NEW = b"old", b"new"


def pack(path: Path, content: bytes) -> None:
    digest = hashlib.sha256(content).hexdigest()
    files = {name: {"size": len(content), "sha256": digest} for name in "ab"}
    members = {
        "map.json": b"{}",
        "hub/us/tiny/source.json": json.dumps({"bundled": 1, "files": files}).encode(),
        **{f"hub/us/tiny/{name}": content for name in "ab"},
    }
    with tarfile.open(path, "w") as archive:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


def unpack(folder: Path) -> Path:
    return bundle.unpack(folder / "new.tar", folder / "cache")


def prepare(folder: Path) -> None:
    pack(folder / "old.tar", OLD)
    pack(folder / "new.tar", NEW)
    bundle.unpack(folder / "old.tar", folder / "cache")


def interfere(folder: Path, diary: Diary) -> None:
    unpack(folder)


def act(folder: Path, diary: Diary) -> None:
    diary.attempt("unpack", lambda: unpack(folder), ModelError)


def check(folder: Path, diary: Diary) -> None:
    model = folder / "cache/hub/us/tiny"
    if model.exists():
        assert (model / "a").read_bytes() in (OLD, NEW)
    assert unpack(folder).read_text() == "{}"
    assert {path.name for path in model.iterdir()} == {"a", "b", "source.json"}
    assert (model / "a").read_bytes() == NEW
    left = {path.name for path in (folder / "cache/bundles").iterdir()}
    assert left == {"old.tar.json", "new.tar.json"}
