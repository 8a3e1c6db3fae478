"""Checks model directories without the model libraries, and seals those that must not be used
incomplete: the seal lists their files, and a check compares them.
"""

import hashlib
import json
import os
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from contract import durable
from contract.tasks import TRANSLATION

#: The vocabularies of all families of translation models.
TOKENIZER_FILES = (
    "sentencepiece.bpe.model", "vocab.json", "tokenizer.json",
    "source.spm", "target.spm",
)  # fmt: skip
SAFE_WEIGHT_FILES = ("model.safetensors", "model.safetensors.index.json")
#: Only the converter reads pickled weights, and it loads nothing but tensors from them.
WEIGHT_FILES = (*SAFE_WEIGHT_FILES, "pytorch_model.bin", "pytorch_model.bin.index.json")
#: The beginning of what a clone without Git LFS contains instead of weights.
_POINTER = b"version https://git-lfs"
#: The folder of conversions that a bundle contains instead of weights.
CONVERTED = "babelgate-converted"
#: The preprocessing configuration of an image model.
PREPROCESSOR_FILE = "preprocessor_config.json"
#: Written last into a sealed directory, with the size and SHA-256 of every other file.
SEAL_FILE = "complete.json"
#: An image model needs one file of each group, and of each group of its task.
_IMAGE_FILES = (("config.json",), (PREPROCESSOR_FILE,), SAFE_WEIGHT_FILES)
_MORE_FILES = {"captioning": (("tokenizer.json", "vocab.json", "spiece.model"),)}
#: Part of the class name in `config.json`, by task. Other tasks accept any class.
_CLASSES = {
    "captioning": "Blip2ForConditionalGeneration",
    "classification": "ForImageClassification",
    "detection": "ForObjectDetection",
}
#: Our addition to the model's own files: `languages`, or `sources` and `targets`, and `family`,
#: if those files do not name them; the `min_score` below which the answers of a small model get
#: its `warning`; and the weights of the `quality` estimate.
SETTINGS_FILE = "babelgate.json"
#: Also ours: the name, commit, licence and files of a downloaded or bundled model.
SOURCE_FILE = "source.json"


class InputSize(NamedTuple):
    """The size of an image, in pixels."""

    height: int
    width: int


class ModelError(ValueError):
    """A model directory is unusable; the message names the missing or invalid part."""


def check_directory(directory: Path, task: str) -> None:
    """Raise ModelError unless `directory` contains a model for the task."""
    names = list_files(directory)
    if missing := missing_files(names, task, directory):
        raise ModelError(
            f"{directory} is not a model for {task}: it lacks {', '.join(missing)}"
        )
    for path in (directory / name for name in list_weights(names) if name):
        try:
            with path.open("rb") as file:
                start = file.read(len(_POINTER))
        except OSError as error:
            raise ModelError(f"{path} cannot be read: {error.strerror}") from error
        if start == _POINTER:
            raise ModelError(f"{path} is a pointer of Git LFS: run `git lfs pull`")
    if task == TRANSLATION:
        return  # `missing_files` has identified its family
    key = "architectures"
    expected = _CLASSES.get(task, "")
    found = read_object(directory / "config.json").get(key)
    if expected not in str(found):
        raise ModelError(
            f"{directory}/config.json: {key} is {found!r}, expected {expected!r}"
        )
    read_input_size(directory)


def missing_files(
    names: Collection[str], task: str, directory: Path | None = None
) -> list[str]:
    """List the files that a model for the task needs and `names` lacks. A translation model's
    family determines them, which `config.json` in `directory` or else `names` identifies."""
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
    """Return the weight files in the best format among `names`, including an index's parts."""
    first = next((name for name in WEIGHT_FILES if name in names), "")
    whole = first.removesuffix(".index.json")
    stem, _, kind = map(re.escape, whole.partition("."))
    part = re.compile(rf"{stem}-\d+-of-\d+\.{kind}")
    return [first, *sorted(n for n in names if first != whole and part.fullmatch(n))]


def read_settings(directory: Path) -> dict[str, Any]:
    """The content of `babelgate.json`, empty if there is no such file."""
    return read_object(directory / SETTINGS_FILE)


def read_input_size(directory: Path) -> InputSize:
    """Return the input size of a model, at which images are not scaled; the largest of several.
    Raises ModelError if `preprocessor_config.json` does not define it."""
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
    """The names of the files in a directory. Raises ModelError if it is not a directory."""
    if not directory.is_dir():
        raise ModelError(f"{directory} is not a directory")
    return [path.name for path in directory.iterdir() if path.exists()]


def list_states(directory: Path) -> list[tuple[str, int, int]]:
    """The name, size and time of each file in a directory, which a changed model changes."""
    return [
        (path.name, path.stat().st_size, path.stat().st_mtime_ns)
        for path in sorted(directory.glob("*"))
        if path.is_file()  # no folder, as Git's, and no link to a file that is gone
    ]


def read_object(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file, empty if there is none. Raises ModelError."""
    try:
        content = json.loads(path.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except ValueError as error:
        raise ModelError(f"{path} is not JSON: {error}") from error
    return content if isinstance(content, dict) else {}


class Digests:
    """A cache of SHA-256 digests, which reads a file with several names only once. Use it for
    one run: it misses later damage that leaves size and time unchanged."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, ...], str] = {}

    def read(self, path: Path) -> str:
        """The digest of a file in hexadecimal. Raises OSError."""
        with path.open("rb") as file:
            state = os.fstat(file.fileno())
            key = (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns)
            if key not in self._known:
                self._known[key] = hashlib.file_digest(file, "sha256").hexdigest()
        return self._known[key]


def digest_files(directory: Path) -> dict[str, str]:
    """The SHA-256 of all files in a directory, by name, from its seal if it has one."""
    seal_path = directory / SEAL_FILE
    if seal_path.exists():
        sealed = json.loads(seal_path.read_text("utf-8"))
        return {name: wanted["sha256"] for name, wanted in sealed.items()}
    files = sorted(path for path in directory.iterdir() if path.is_file())
    return {path.name: Digests().read(path) for path in files}


def compare_files(
    directory: Path, files: Mapping[str, Any], digests: Digests | None = None
) -> Iterator[tuple[str, str]]:
    """Yield each file that differs from its description, and the difference. Raises OSError."""
    for name, wanted in files.items():
        path = directory / name
        size = path.stat().st_size if path.exists() else None
        if size is None:
            yield name, "is missing"
        elif size != wanted["size"]:
            yield name, f"has {size} bytes, not {wanted['size']}"
        elif digests and digests.read(path) != wanted["sha256"]:
            yield name, "has different content"


def find_damage(out: Path, digests: Digests | None = None) -> str:
    """Describe the damage of a sealed directory in a few words, or return an empty string. With
    `digests`, compare the content of its files, not only their sizes."""
    try:
        files = json.loads((out / SEAL_FILE).read_text("utf-8"))
        return " ".join(next(compare_files(out, files, digests), ()))
    except FileNotFoundError as error:
        return f"{Path(error.filename).name} is missing"
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        return f"{SEAL_FILE} cannot be read: {type(error).__name__}"


def describe_files(files: Mapping[str, Path], digests: Digests) -> dict[str, Any]:
    """The size and SHA-256 of each file, by name. Raises OSError."""
    return {
        name: {"size": path.stat().st_size, "sha256": digests.read(path)}
        for name, path in sorted(files.items())
    }


def seal(part: Path, digests: Digests) -> None:
    """Sync all files, then write the seal, so that a power loss cannot empty a sealed file."""
    files = describe_files({path.name: path for path in part.iterdir()}, digests)
    for path in part.iterdir():
        durable.sync(path)
    durable.write(part / SEAL_FILE, json.dumps(files, indent=2) + "\n", mode=0o666)
