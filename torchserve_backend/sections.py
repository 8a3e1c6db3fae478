"""The sections of the map, one per task: their keys, defaults and permitted values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from contract.tasks import CAPTIONING, CLASSIFICATION, DETECTION, TRANSLATION

#: The tasks, for those who let others choose one.
Task = Literal["translation", "captioning", "classification", "detection"]

CPU = "cpu"

#: The engines, each with the precisions that it can be asked for.
ENGINES = {
    "ctranslate2": (
        *("auto", "int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16"),
        *("float16", "bfloat16", "float32"),
    ),
    "transformers": ("auto", "float32", "float16", "bfloat16"),
    "echo": ("auto",),
}
#: A model per target language, or one per device that serves all its languages.
PLACEMENTS = ("language", "device")

_CHOICES = {"engine": tuple(ENGINES), "placement": PLACEMENTS}
#: The least and the most of a number; 1 is the least where nothing is said.
_RANGES: dict[str, tuple[int, float]] = {
    "max_batch_delay": (0, math.inf),
    "max_batch_tokens": (0, math.inf),
    "threads": (0, math.inf),
    "max_beam_size": (1, 8),
    "max_alternatives": (0, 5),
}


class CatalogError(ValueError):
    """The map cannot be used; the message says where and why."""


@dataclass(frozen=True, kw_only=True)
class Section:
    """What every task's section has."""

    #: A directory, or the name of a model on the Hugging Face hub.
    model: str
    #: Precision of the weights; `auto` is float16 on a GPU, on a CPU float32, and int8 with
    #: CTranslate2.
    compute_type: str = "auto"
    #: Requests that TorchServe joins into one batch at the most.
    batch_size: int = 64
    #: Milliseconds that TorchServe waits for a batch to fill.
    max_batch_delay: int = 100
    #: Processes per model and device, each with its own copy of the weights.
    workers: int = 1
    #: Rows that may wait for a model in the gateway; with that many waiting, requests
    #: are answered 429.
    queue_size: int = 4096
    #: Seconds a batch may take before TorchServe restarts the worker.
    response_timeout: int = 60

    @property
    def engine(self) -> str:
        """What runs the model."""
        return "transformers"

    @property
    def precisions(self) -> tuple[str, ...]:
        """What `compute_type` may be with its engine."""
        return ENGINES[self.engine]


@dataclass(frozen=True, kw_only=True)
class Translation(Section):
    """What all models of the translation section share."""

    model: str = "models/phrasebook"
    #: `ctranslate2`, `transformers` for the reference, or `echo`: no model at all.
    engine: str = "ctranslate2"
    #: `language` for a model per language, `device` for one that serves all of its device.
    placement: str = "language"
    #: Tokens of a part of a batch that is translated at once, rows of like length together;
    #: 0 leaves the rows as they came.
    max_batch_tokens: int = 4096
    #: The widest beam that a request may ask for.
    max_beam_size: int = 8
    #: Other translations that a request may ask for, beside the best.
    max_alternatives: int = 5


@dataclass(frozen=True, kw_only=True)
class Vision(Section):
    """What the sections of the tasks that take images share."""

    #: `cpu`, a GPU's number, or a list of them, as in `cuda_id`.
    devices: str | tuple[str, ...] = "0"
    queue_size: int = 256
    #: Of a worker on a CPU; 0 is one per core. Several that wait for the same cores slow a
    #: small model down many times.
    threads: int = 0
    #: Of an image, before it is scaled; 8K has as many.
    max_pixels: int = 7680 * 4320

    @property
    def named_devices(self) -> tuple[str, ...]:
        """The devices one by one."""
        return read_devices("devices", self.devices)


@dataclass(frozen=True, kw_only=True)
class Captioning(Vision):
    """The captioning section."""

    model: str = "models/shapes/captioning"
    #: A request brings a batch of frames of its own.
    batch_size: int = 1
    max_batch_delay: int = 0
    response_timeout: int = 120
    #: Frames that the model reads at once.
    max_batch_frames: int = 32
    #: Of a caption.
    max_tokens: int = 30


@dataclass(frozen=True, kw_only=True)
class Classification(Vision):
    """The classification section."""

    model: str = "models/shapes/classification"
    max_batch_delay: int = 5


@dataclass(frozen=True, kw_only=True)
class Detection(Vision):
    """The detection section."""

    model: str = "models/shapes/detection"
    batch_size: int = 8
    max_batch_delay: int = 5


#: The tasks that take images, in the order in which they are shown.
VISION: Mapping[str, type[Vision]] = MappingProxyType(
    {CAPTIONING: Captioning, CLASSIFICATION: Classification, DETECTION: Detection}
)
#: All tasks.
SECTIONS: Mapping[str, type[Section]] = MappingProxyType(
    {TRANSLATION: Translation, **VISION}
)


def read_section(where: str, task: str, content: Any) -> Section:
    """A section as a value; `where` names it in errors. Raises CatalogError."""
    if not isinstance(content, dict):
        raise CatalogError(f"{where}: expected an object, found {content!r}")
    check_keys(f"{where}.", content, SECTIONS[task].__dataclass_fields__)
    for key, value in content.items():
        check_value(f"{where}.{key}", task, key, value)
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in content.items()
    }
    section = SECTIONS[task](**values)
    if section.compute_type in section.precisions:
        return section
    known = ", ".join(section.precisions)
    if isinstance(section, Translation):
        known += f" with the engine {section.engine}"
    raise CatalogError(
        f"{where}.compute_type: expected one of {known}, found {section.compute_type!r}"
    )


def check_value(where: str, task: str, key: str, value: Any) -> None:
    """Raises CatalogError where `value` cannot be that of `key` in a task's section."""
    if key == "devices":
        read_devices(where, value)
        return
    if key in _CHOICES:
        is_right = value in _CHOICES[key]
        expected = f"one of {', '.join(_CHOICES[key])}"
    elif isinstance(SECTIONS[task].__dataclass_fields__[key].default, str):
        is_right = isinstance(value, str) and value != ""
        expected = "a non-empty string"
    else:
        least, most = _RANGES.get(key, (1, math.inf))
        is_right = type(value) is int and least <= value <= most
        bounds = (
            f"of at least {least}" if most == math.inf else f"from {least} to {most}"
        )
        expected = f"a whole number {bounds}"
    if not is_right:
        raise CatalogError(f"{where}: expected {expected}, found {value!r}")


def read_devices(where: str, value: Any) -> tuple[str, ...]:
    """The CPU, or GPUs in ascending order, so that the same ones are the same device.
    Raises CatalogError."""
    if value == CPU:
        return (CPU,)
    numbers = value if isinstance(value, list | tuple) else [value]
    are_gpus = all(
        isinstance(number, str) and number.isascii() and number.isdigit()
        for number in numbers
    )
    gpus = sorted(set(map(int, numbers))) if are_gpus else []
    if not gpus or len(gpus) < len(numbers):
        raise CatalogError(
            f'{where}: expected "cpu", a GPU number such as "0", or a list of different '
            f'GPU numbers such as ["0", "1"], found {value!r}'
        )
    return tuple(map(str, gpus))


def check_keys(prefix: str, content: Mapping[str, Any], known: Any) -> None:
    """Raises CatalogError where a key is not known."""
    for key in content:
        if key not in known:
            raise CatalogError(
                f"{prefix}{key}: unknown; expected one of {', '.join(known)}"
            )
