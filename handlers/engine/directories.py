"""Checks what a model directory must contain, without the model libraries. Seals a directory
whose files must be complete or not used: the seal lists them, and a check compares.
"""

import hashlib
import json
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from contract import durable
from contract.tasks import TRANSLATION

#: The vocabularies of all families of translation models.
TOKENIZER_FILES = (
    *("sentencepiece.bpe.model", "vocab.json", "tokenizer.json"),
    *("source.spm", "target.spm"),
)
SAFE_WEIGHT_FILES = ("model.safetensors", "model.safetensors.index.json")
#: Pickled weights are read by the converter alone, which takes nothing but tensors.
WEIGHT_FILES = (
    *SAFE_WEIGHT_FILES,
    *("pytorch_model.bin", "pytorch_model.bin.index.json"),
)
#: The folder of conversions that a bundle brings in the place of the weights.
CONVERTED = "babelgate-converted"
#: The preprocessing of a model that reads images.
PREPROCESSOR_FILE = "preprocessor_config.json"
#: Written last into a sealed directory, with the size and SHA-256 of every other file.
_SEAL = "complete.json"
#: A model for images needs one file of each group, and those of its task.
_IMAGE_FILES = (("config.json",), (PREPROCESSOR_FILE,), SAFE_WEIGHT_FILES)
_MORE_FILES = {"captioning": (("tokenizer.json", "vocab.json", "spiece.model"),)}
#: A part of the class that `config.json` names. A task beside these takes any.
_CLASSES = {
    "captioning": "Blip2ForConditionalGeneration",
    "classification": "ForImageClassification",
    "detection": "ForObjectDetection",
}
#: Ours, beside the model's own files: its `languages`, or `sources` and `targets`, and its
#: `family` if those do not say them, the `min_score` under which the answers of a small model
#: carry `warning`, and the weights of what its `quality` is estimated from.
SETTINGS_FILE = "babelgate.json"
#: Ours as well: the name, commit, licence and files of what was downloaded or bundled.
SOURCE_FILE = "source.json"


class InputSize(NamedTuple):
    """The size of an image, in pixels."""

    height: int
    width: int


class ModelError(ValueError):
    """A model directory that cannot be served; the message says what is missing."""


def check_directory(directory: Path, task: str) -> None:
    """Raises ModelError unless `directory` holds a model for the task."""
    missing = missing_files(list_files(directory), task, directory)
    if missing:
        raise ModelError(
            f"{directory} is no model for {task}: it lacks {', '.join(missing)}"
        )
    if task == TRANSLATION:
        return  # it is of a family
    key, expected = "architectures", _CLASSES.get(task, "")
    found = read_object(directory / "config.json").get(key)
    names = found if isinstance(found, list) else [found]
    if not any(expected in str(name) for name in names):
        raise ModelError(
            f"{directory}/config.json: {key} is {found!r}, expected {expected!r}"
        )
    read_input_size(directory)


def missing_files(
    names: Collection[str], task: str, directory: Path | None = None
) -> list[str]:
    """Return the files that a model for the task lacks, which has files of these names. The
    family of a translation model tells its files: its directory names that, or the names."""
    files = (*_IMAGE_FILES, *_MORE_FILES.get(task, ()))
    if task == TRANSLATION:
        from handlers.engine.translation import families  # which import this module

        if directory and "config.json" in names:
            family = families.find_family(directory)
        else:
            family = families.guess_family(names)
        # A bundle has conversions instead.
        weights = () if CONVERTED in names else (WEIGHT_FILES,)
        files = (("config.json",), *family.files, *weights)
    return [
        " or ".join(choice)
        for choice in files
        if not any(name in names for name in choice)
    ]


def list_weights(names: Collection[str]) -> list[str]:
    """The files of the best format of the weights that a model has, which has files of these
    names; an index's parts among them."""
    first = next((name for name in WEIGHT_FILES if name in names), "")
    whole = first.removesuffix(".index.json")
    stem, _, kind = map(re.escape, whole.partition("."))
    part = re.compile(rf"{stem}-\d+-of-\d+\.{kind}")
    return [first, *sorted(n for n in names if first != whole and part.fullmatch(n))]


def read_settings(directory: Path) -> dict[str, Any]:
    """The content of `babelgate.json`, empty where there is none."""
    return read_object(directory / SETTINGS_FILE)


def read_input_size(directory: Path) -> InputSize:
    """The size of the images that a model reads, so that one of this size is not
    scaled. A model that takes images of several sizes has the largest.

    Raises ModelError if its `preprocessor_config.json` does not say.
    """
    path = directory / PREPROCESSOR_FILE
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
    return InputSize(*sides)


def list_files(directory: Path) -> list[str]:
    """The names of the files that are there. Raises ModelError if it is no directory."""
    if not directory.is_dir():
        raise ModelError(f"{directory} is not a directory")
    return [path.name for path in directory.iterdir() if path.exists()]


def read_object(path: Path) -> dict[str, Any]:
    """The object in a JSON file; empty where there is none. Raises ModelError."""
    try:
        content = json.loads(path.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except ValueError as error:
        raise ModelError(f"{path} is not JSON: {error}") from error
    return content if isinstance(content, dict) else {}


class Digests:
    """SHA-256 of files, each read once, whatever its names. Use it for one run: a damage that
    leaves size and time alone would go unnoticed later."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, ...], str] = {}

    def read(self, path: Path) -> str:
        """The digest in hexadecimal digits. Raises OSError."""
        with path.open("rb") as file:
            state = os.fstat(file.fileno())
            key = (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns)
            if key not in self._known:
                self._known[key] = hashlib.file_digest(file, "sha256").hexdigest()
        return self._known[key]


def digest_files(directory: Path) -> dict[str, str]:
    """The SHA-256 of all files in a directory, by name; those in its seal, if it has one."""
    seal_path = directory / _SEAL
    if seal_path.exists():
        sealed = json.loads(seal_path.read_text("utf-8"))
        return {name: wanted["sha256"] for name, wanted in sealed.items()}
    files = sorted(path for path in directory.iterdir() if path.is_file())
    return {path.name: Digests().read(path) for path in files}


def compare_files(
    directory: Path, files: Mapping[str, Any], digests: Digests | None = None
) -> Iterator[tuple[str, str]]:
    """Yield each file that is other than it was described, and how. Raises OSError."""
    for name, wanted in files.items():
        path = directory / name
        size = path.stat().st_size if path.exists() else None
        if size is None:
            yield name, "is missing"
        elif size != wanted["size"]:
            yield name, f"has {size} bytes, not {wanted['size']}"
        elif digests and digests.read(path) != wanted["sha256"]:
            yield name, "has other content"


def find_damage(out: Path, digests: Digests | None = None) -> str:
    """Return the damage of a sealed directory in a few words, or an empty string. With
    `digests` the content of its files is compared, not only their sizes."""
    try:
        files = json.loads((out / _SEAL).read_text("utf-8"))
        return " ".join(next(compare_files(out, files, digests), ()))
    except FileNotFoundError as error:
        return f"{Path(error.filename).name} is missing"
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        return f"{_SEAL} cannot be read: {type(error).__name__}"


def describe_files(paths: Iterable[Path], digests: Digests) -> dict[str, Any]:
    """The size and SHA-256 of each file, by name. Raises OSError."""
    return {
        path.name: {"size": path.stat().st_size, "sha256": digests.read(path)}
        for path in sorted(paths)
    }


def seal(part: Path, digests: Digests) -> None:
    """Syncs all files, then writes the seal: no name may lead to missing content."""
    files = describe_files(part.iterdir(), digests)
    for path in part.iterdir():
        durable.sync(path)
    durable.write(part / _SEAL, json.dumps(files, indent=2) + "\n", mode=0o666)


def unseal(part: Path) -> None:
    """Removes the seal, so that files can be added."""
    (part / _SEAL).unlink()
