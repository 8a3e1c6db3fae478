"""What a model directory must hold, as Hugging Face lays it out: what is read here are names
and JSON files, so that a process without the model libraries can ask as well.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WEIGHT_FILES = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
)
#: Of the tasks that take images: pickled weights are none.
_SAFE_WEIGHT_FILES = WEIGHT_FILES[:2]
_PREPROCESSOR_FILE = "preprocessor_config.json"
#: A tokenizer has one of these.
_TOKENIZER_FILES = ("tokenizer.json", "vocab.json", "spiece.model")

#: What the name of an architecture that does a task contains.
_ARCHITECTURES = {
    "captioning": "Blip2ForConditionalGeneration",
    "classification": "ForImageClassification",
    "detection": "ForObjectDetection",
}


class ModelError(ValueError):
    """A model directory that cannot be served; the message says what is missing."""


@dataclass(frozen=True)
class Size:
    """Of a picture, in pixels."""

    height: int
    width: int


def check_directory(directory: Path, task: str) -> None:
    """Raises ModelError unless `directory` holds a model for one of the tasks that take
    images: `captioning`, `classification` or `detection`."""
    missing = missing_files(list_files(directory), task)
    if missing:
        raise ModelError(
            f"{directory} is no model for {task}: it lacks {', '.join(missing)}"
        )
    found = read_object(directory / "config.json").get("architectures")
    wanted = _ARCHITECTURES[task]
    if not isinstance(found, list) or not any(wanted in str(name) for name in found):
        raise ModelError(
            f"{directory}/config.json: architectures is {found!r}, expected one that is "
            f"a {wanted}"
        )
    read_input_size(directory)


def missing_files(names: Collection[str], task: str) -> list[str]:
    """What a model for one of these tasks that has files of these names lacks."""
    needed: list[tuple[str, ...]] = [
        ("config.json",),
        (_PREPROCESSOR_FILE,),
        _SAFE_WEIGHT_FILES,
    ]
    if task == "captioning":
        needed.append(_TOKENIZER_FILES)
    return [
        " or ".join(choice)
        for choice in needed
        if not any(name in names for name in choice)
    ]


def read_input_size(directory: Path) -> Size:
    """The size of the pictures that a model reads, so that one of this size is not scaled.
    A model that takes pictures of several sizes has the largest.

    Raises ModelError where its `preprocessor_config.json` does not say.
    """
    path = directory / _PREPROCESSOR_FILE
    config = read_object(path)
    is_cropped = config.get("do_center_crop") is not False and config.get("crop_size")
    size = config["crop_size"] if is_cropped else config.get("size")
    if isinstance(size, int):
        size = {"shortest_edge": size}
    sides: tuple[Any, ...] = ()
    if isinstance(size, dict):
        shortest = size.get("shortest_edge")
        longest = size.get("longest_edge") or shortest
        sides = (size.get("height", shortest), size.get("width", longest))
    if len(sides) != 2 or not all(type(side) is int and side > 0 for side in sides):
        raise ModelError(
            f"{path}: size is {size!r}, expected one such as "
            '{"height": 224, "width": 224} or {"shortest_edge": 224}'
        )
    return Size(*sides)


def list_files(directory: Path) -> list[str]:
    """The names of the files that are there. Raises ModelError where it is no directory."""
    if not directory.is_dir():
        raise ModelError(f"{directory} is not a directory")
    return [path.name for path in directory.iterdir() if path.exists()]


def read_object(path: Path) -> dict[str, Any]:
    """What a JSON file says; one that is no object says nothing. Raises ModelError where it
    is not JSON."""
    try:
        content = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise ModelError(f"{path} is not JSON: {error}") from error
    return content if isinstance(content, dict) else {}
