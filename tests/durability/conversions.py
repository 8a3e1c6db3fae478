"""A model's conversion, for all languages and for one."""

import json
import os
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

from handlers.engine.directories import Digests, ModelError, find_damage
from handlers.engine.translation import conversion
from tests.durability.running import Diary

LOOSE = ("/damaged",)
FILES = {"shared_vocabulary.json": json.dumps(["a", "b"]), "model.bin": "weights"}


def write(folder: str, **_: str) -> None:
    """Write a model like CTranslate2's converter."""
    Path(folder).mkdir()
    for name, content in FILES.items():
        Path(folder, name).write_text(content)


TOKENIZER = SimpleNamespace(list_prefix=lambda _: ["__de__"])

patch.multiple(
    conversion,
    find_family=lambda _: SimpleNamespace(load_tokenizer=lambda _: TOKENIZER),
    check_directory=lambda *_: None,
    _add_files=lambda *_: None,
    _make_converter=lambda _: SimpleNamespace(convert=write),
).start()


def convert(folder: Path) -> Path:
    return conversion.convert(
        folder / "model", folder / "cache", "int8", languages=["de"], digests=Digests()
    )


def prepare(folder: Path) -> None:
    (folder / "model").mkdir()
    (folder / "model/weights").write_text("weights")


def interfere(folder: Path, diary: Diary) -> None:
    convert(folder)


def act(folder: Path, diary: Diary) -> None:
    diary.attempt("convert", lambda: convert(folder), ModelError)


def check(folder: Path, diary: Diary) -> None:
    for left in folder.glob("cache/*/converting-*"):
        os.utime(left, (0, 0))
    whole = convert(folder)
    assert find_damage(whole, Digests()) == ""
    for name, content in FILES.items():
        assert (whole / name).read_text() == content
    names = {path.name for path in whole.parent.iterdir()}
    assert names == {"int8", whole.name}
