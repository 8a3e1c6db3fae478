"""Conversion of a Hugging Face directory to CTranslate2's: once, completely or not at all."""

import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file

from handlers.engine.directories import CONVERTED, Digests, ModelError, find_damage
from handlers.engine.translation import conversion
from handlers.engine.translation.conversion import convert, converted_path
from handlers.engine.translation.ctranslate2 import CTranslate2Engine
from handlers.engine.translation.families.m2m100 import CODES


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory, tiny: Path) -> Path:
    return convert(tiny, tmp_path_factory.mktemp("converted"), "int8")


def spoil(path: Path) -> None:
    """Replace a file's content but not its size and time, so that only a read detects it."""
    state = path.stat()
    path.write_bytes(bytes(state.st_size))
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


def test_the_second_time_there_is_nothing_to_do(model: Path, tmp_path: Path):
    of_a_killed_one = tmp_path / "cache/model/converting-1"
    of_a_killed_one.mkdir(parents=True)
    os.utime(of_a_killed_one, (0, 0))
    first = convert(model, tmp_path / "cache", "int8")
    spoil(model / "model.safetensors")
    assert convert(model, tmp_path / "cache", "int8") == first
    assert first.is_relative_to(tmp_path / "cache")
    assert [path.name for path in first.parent.iterdir()] == ["int8"]
    assert not of_a_killed_one.exists()


def test_a_file_is_read_once_whatever_its_names(tmp_path: Path):
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text("content")
    second.hardlink_to(first)
    digests = Digests()
    before = digests.read(first)
    spoil(second)
    assert digests.read(second) == before != Digests().read(second)


def touch_later(path: Path) -> None:
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))


@pytest.mark.parametrize("change", [touch_later, Path.unlink])
def test_a_changed_file_means_a_new_path(change, model, tmp_path):
    (model / "gone").symlink_to(model / "nothing")
    before = converted_path(model, tmp_path, "int8")
    assert converted_path(model, tmp_path, "int8") == before
    assert converted_path(model, tmp_path, "float16") != before
    change(model / "tokenizer_config.json")
    assert converted_path(model, tmp_path, "int8") != before


def test_an_empty_folder_of_conversions_is_none(model: Path, tmp_path: Path):
    (model / CONVERTED).mkdir()
    assert not converted_path(model, tmp_path, "int8").is_relative_to(model)


def test_all_languages_are_in_the_vocabulary_at_their_ids(converted: Path, tiny: Path):
    ids = json.loads((tiny / "vocab.json").read_text("utf-8"))
    vocabulary = json.loads((converted / "shared_vocabulary.json").read_text("utf-8"))
    assert vocabulary[: len(ids)] == sorted(ids, key=ids.__getitem__)
    assert vocabulary[len(ids) :][:100] == [f"__{code}__" for code in CODES]
    assert len(vocabulary) == len(ids) + 108


#: The files of facebook/nllb-200-3.3B.
PARTS = ("pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin")


def test_weights_may_be_pickled_in_parts(converted, model, tmp_path):
    places: dict[str, str] = {}
    weights = [*load_file(model / "model.safetensors").items()]
    for i, name in enumerate(PARTS):
        part = dict(weights[i::2])
        torch.save(part, model / name)
        places |= dict.fromkeys(part, name)
    index = {"metadata": {}, "weight_map": places}
    (model / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    (model / "model.safetensors").unlink()
    again = convert(model, tmp_path / "cache", "int8")
    assert (again / "model.bin").read_bytes() == (converted / "model.bin").read_bytes()


def cut_short(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


@pytest.mark.parametrize("file", ["sentencepiece.bpe.model", "model.safetensors"])
def test_a_damaged_model_is_refused_and_leaves_nothing(file, model, tmp_path):
    cut_short(model / file)
    with pytest.raises(ModelError, match=f"{model} cannot be converted: "):
        convert(model, tmp_path / "cache", "int8")
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


def test_where_another_process_was_quicker_its_result_is_taken(
    converted, model, tmp_path, monkeypatch
):
    theirs = converted_path(model, tmp_path, "int8")

    def convert_slowly(part: str, quantization: str) -> None:
        Path(part).mkdir(parents=True)
        shutil.copytree(converted, theirs)

    slow = SimpleNamespace(convert=convert_slowly)
    monkeypatch.setattr(conversion, "_make_converter", lambda directory: slow)
    assert convert(model, tmp_path, "int8") == theirs
    assert (theirs / "model.bin").exists()
    assert [path.name for path in theirs.parent.iterdir()] == ["int8"]


def flip_a_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("file", "damage", "said"),
    [
        pytest.param("model.bin", cut_short, "model.bin has", id="cut short"),
        pytest.param("model.bin", flip_a_byte, "model.bin has different", id="a byte"),
        pytest.param("vocab.json", Path.unlink, "vocab.json is missing", id="a file"),
        pytest.param("complete.json", cut_short, "cannot be read", id="half a marker"),
    ],
)
def test_a_damaged_conversion_is_made_again_and_the_log_says_why(
    model, tmp_path, caplog, file, damage, said
):
    out = convert(model, tmp_path / "cache", "int8")
    whole = (out / "model.bin").read_bytes()
    assert not find_damage(out, Digests())
    damage(out / file)
    assert convert(model, tmp_path / "cache", "int8", digests=Digests()) == out
    assert (out / "model.bin").read_bytes() == whole
    assert not find_damage(out, Digests())
    assert [path.name for path in out.parent.iterdir()] == ["int8"]
    assert f"{out} is damaged" in caplog.text
    assert said in caplog.text


def test_without_reading_the_sizes_are_looked_at(converted: Path, tmp_path: Path):
    copy = shutil.copytree(converted, tmp_path / "copy")
    flip_a_byte(copy / "model.bin")
    assert find_damage(copy) == ""
    cut_short(copy / "model.bin")
    assert "model.bin has" in find_damage(copy)
    with pytest.raises(ModelError, match=f"{copy} is damaged .model.bin has"):
        CTranslate2Engine(copy)
