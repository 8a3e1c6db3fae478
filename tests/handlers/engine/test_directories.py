"""The checks of a model's directory before the model is loaded."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from handlers.engine.directories import (
    InputSize,
    ModelError,
    check_directory,
    list_weights,
    read_input_size,
)
from tests.programs import run

MODELS = {
    "captioning": "Blip2ForConditionalGeneration",
    "classification": "ResNetForImageClassification",
    "detection": "RTDetrForObjectDetection",
}


def write(directory: Path, name: str, content: Any) -> None:
    (directory / name).write_text(json.dumps(content))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A captioner's directory, with an empty file in place of the weights."""
    write(tmp_path, "config.json", {"architectures": [MODELS["captioning"]]})
    write(tmp_path, "preprocessor_config.json", {"size": {"height": 3, "width": 4}})
    write(tmp_path, "tokenizer.json", {})
    (tmp_path / "model.safetensors").touch()
    return tmp_path


@pytest.mark.parametrize("task", MODELS)
def test_a_model_of_the_task_is_accepted(task: str, directory: Path):
    write(directory, "config.json", {"architectures": [MODELS[task]]})
    check_directory(directory, task)


def test_weights_that_a_clone_without_git_lfs_lacks_are_named(directory: Path):
    pointer = "version https://git-lfs.github.com/spec/v1\nsize 15227640\n"
    (directory / "model.safetensors").write_text(pointer)
    with pytest.raises(ModelError, match="model.safetensors is a pointer of Git LFS"):
        check_directory(directory, "captioning")
    (directory / "model.safetensors").unlink()
    (directory / "model.safetensors").mkdir()
    with pytest.raises(ModelError, match="model.safetensors cannot be read: Is a"):
        check_directory(directory, "captioning")


def test_a_model_of_another_task_is_refused_with_what_it_is(directory: Path):
    with pytest.raises(ModelError) as refusal:
        check_directory(directory, "detection")
    assert str(directory) in str(refusal.value)
    assert "Blip2ForConditionalGeneration" in str(refusal.value)
    assert "expected 'ForObjectDetection'" in str(refusal.value)


@pytest.mark.parametrize(
    "config",
    [[], {"architectures": "Blip2"}, {"architectures": [3]}],
    ids=["a list", "a text", "a number"],
)
def test_a_model_that_does_not_say_what_it_is_is_refused(config: Any, directory: Path):
    write(directory, "config.json", config)
    with pytest.raises(ModelError, match="architectures is"):
        check_directory(directory, "captioning")


@pytest.mark.parametrize(
    ("removed", "expected"),
    [
        ("config.json", "config.json"),
        ("preprocessor_config.json", "preprocessor_config.json"),
        ("model.safetensors", "model.safetensors or model.safetensors.index.json"),
        ("tokenizer.json", "tokenizer.json or vocab.json or spiece.model"),
    ],
)
def test_a_file_that_is_missing_is_named(removed: str, expected: str, directory: Path):
    (directory / removed).unlink()
    with pytest.raises(ModelError, match=f"it lacks {expected}"):
        check_directory(directory, "captioning")


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("model.safetensors pytorch_model.bin", "model.safetensors"),
        (
            "model.safetensors.index.json model-2-of-2.safetensors "
            "model-1-of-2.safetensors pytorch_model-1-of-2.bin",
            "model.safetensors.index.json model-1-of-2.safetensors "
            "model-2-of-2.safetensors",
        ),
        (
            "pytorch_model.bin.index.json pytorch_model-1-of-1.bin model-1-of-1.bin",
            "pytorch_model.bin.index.json pytorch_model-1-of-1.bin",
        ),
        ("pytorch_model.bin pytorch_model-1-of-1.bin", "pytorch_model.bin"),
    ],
    ids=["safe first", "safe parts", "pickled parts", "left from another save"],
)
def test_the_weights_are_the_files_of_one_format(names, expected):
    assert list_weights(names.split()) == expected.split()


def test_what_is_no_directory_or_no_json_is_refused(directory: Path):
    with pytest.raises(ModelError, match=r"config.json is not a directory"):
        check_directory(directory / "config.json", "captioning")
    (directory / "config.json").write_text("{")
    with pytest.raises(ModelError, match=r"config.json is not JSON"):
        check_directory(directory, "captioning")


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"size": {"height": 3, "width": 4}}, InputSize(3, 4)),
        ({"size": {"shortest_edge": 5}}, InputSize(5, 5)),
        ({"size": {"shortest_edge": 5, "longest_edge": 9}}, InputSize(5, 9)),
        ({"size": 6}, InputSize(6, 6)),
        ({"size": 6, "crop_size": {"height": 3, "width": 2}}, InputSize(3, 2)),
        ({"size": 6, "crop_size": 5}, InputSize(5, 5)),
        ({"size": 6, "crop_size": 5, "do_center_crop": False}, InputSize(6, 6)),
    ],
    ids=[
        "both sides", "the shorter side", "both edges", "a number",
        "cropped", "cropped to a number", "not cropped after all",
    ],
)  # fmt: skip
def test_the_size_that_a_model_takes_is_read(config, expected, directory):
    write(directory, "preprocessor_config.json", config)
    assert read_input_size(directory) == expected


@pytest.mark.parametrize(
    "size",
    [None, {"height": 3}, {"height": 3, "width": 0}, {"shortest_edge": "5"}],
    ids=str,
)
def test_a_size_that_is_none_is_refused(size: Any, directory: Path):
    write(directory, "preprocessor_config.json", {"size": size})
    with pytest.raises(ModelError, match="size is"):
        check_directory(directory, "captioning")


def test_no_model_library_is_needed_to_ask(directory: Path):
    script = (
        "import sys; from pathlib import Path\n"
        "from handlers.engine.directories import check_directory\n"
        "check_directory(Path(sys.argv[1]), 'captioning')\n"
        "heavy = {'torch', 'transformers', 'numpy', 'sentencepiece', 'PIL'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    run(sys.executable, "-c", script, directory)
