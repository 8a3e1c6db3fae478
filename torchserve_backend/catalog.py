"""The only reader of `setup_config.json`: the map in, a frozen catalog of models out.

Every refusal names the path in the file, the value found and what was expected.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from handlers.engine.m2m100 import LANGUAGES, read_settings

ROOT = Path(__file__).parents[1]
MAP = Path(__file__).with_name("setup_config.json")

TRANSLATION = "translation"
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
#: The least and the most of a number. A delay of 0 means 100 to TorchServe, so 1 is the
#: least where nothing is said.
_RANGES: dict[str, tuple[int, float]] = {
    "max_batch_tokens": (0, math.inf),
    "max_beam_size": (1, 8),
    "max_alternatives": (0, 5),
}
_TOP_KEYS = ("cuda_id", TRANSLATION)
_LANGUAGE = re.compile("[a-z]{2,3}")


class CatalogError(ValueError):
    """The map cannot be used; the message says where and why."""


@dataclass(frozen=True)
class Translation:
    """The `translation` section of the map: what all its models share."""

    #: A directory, or the name of a model on the Hugging Face hub.
    model: str = "models/phrasebook"
    #: `ctranslate2`, `transformers` for the reference, or `echo`: no model at all.
    engine: str = "ctranslate2"
    #: Precision of the weights; `auto` is float16 on a GPU, on a CPU int8 with CTranslate2
    #: and float32 with Transformers.
    compute_type: str = "auto"
    #: Requests that TorchServe joins into one batch at the most.
    batch_size: int = 64
    #: Milliseconds that TorchServe waits for a batch to fill.
    max_batch_delay: int = 100
    #: `language` for a model per language, `device` for one that serves all of its device.
    placement: str = "language"
    #: Processes per model and device, each with its own copy of the weights.
    workers: int = 1
    #: Requests that may wait for a model; one more is answered 429.
    queue_size: int = 4096
    #: Seconds a batch may take before TorchServe restarts the worker.
    response_timeout: int = 60
    #: Tokens of a part of a batch that is translated at once, rows of like length together;
    #: 0 leaves the rows as they came.
    max_batch_tokens: int = 4096
    #: The widest beam that a request may ask for.
    max_beam_size: int = 8
    #: Other translations that a request may ask for, beside the best.
    max_alternatives: int = 5


@dataclass(frozen=True)
class Model:
    """One TorchServe model: a name, the languages it translates into, and its devices."""

    name: str
    task: str
    languages: tuple[str, ...]
    #: The CPU, or GPUs that share its work.
    devices: tuple[str, ...]
    settings: Translation

    @property
    def device(self) -> str:
        """The devices as they are shown: `cpu`, `0` or `0,1`."""
        return ",".join(self.devices)

    @property
    def is_on_gpu(self) -> bool:
        """Whether its devices are GPUs."""
        return CPU not in self.devices

    @property
    def workers(self) -> int:
        """Its processes on all its devices together."""
        return self.settings.workers * len(self.devices)

    @property
    def compute_type(self) -> str:
        """The precision with `auto` resolved for this model's engine and devices."""
        if self.settings.compute_type != "auto":
            return self.settings.compute_type
        if self.is_on_gpu:
            return "float16"
        return "int8" if self.settings.engine == "ctranslate2" else "float32"


@dataclass(frozen=True)
class Catalog:
    """All models of a stack."""

    #: Which model does a task for a target language, in the map's order.
    routes: Mapping[tuple[str, str], Model]
    #: True where the map names GPUs and this host has none.
    is_cpu_fallback: bool

    @cached_property
    def models(self) -> tuple[Model, ...]:
        """Every model once, in the order of its first language."""
        return tuple(dict.fromkeys(self.routes.values()))

    @cached_property
    def languages(self) -> tuple[str, ...]:
        """The languages that can be translated into, in the map's order."""
        return tuple(target for task, target in self.routes if task == TRANSLATION)

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """The languages that can be translated from: those that the model lists in its
        `babelgate.json`, or all of M2M100's."""
        directory = ROOT / Path(self.models[0].settings.model).expanduser()
        return tuple(read_settings(directory).get("languages", LANGUAGES))

    def route(self, task: str, target: str) -> Model:
        """The model that does `task` for `target`. Raises KeyError where none does."""
        return self.routes[task, target]


def load(path: Path = MAP, *, gpus: int = 0, model: str | None = None) -> Catalog:
    """Reads the map for a host with `gpus` GPUs; `model` replaces the map's model.

    Raises CatalogError where the map is malformed or names a GPU that the host lacks.
    """
    try:
        content = json.loads(
            path.read_text("utf-8"), object_pairs_hook=_refuse_duplicates
        )
    except (OSError, ValueError) as error:
        raise CatalogError(f"{path}: {error}") from error
    if not isinstance(content, dict):
        raise CatalogError(
            f'{path}: expected an object such as {{"cuda_id": {{"ko": "0"}}}}, '
            f"found {content!r}"
        )
    _check_keys(path, "", content, _TOP_KEYS)
    settings = _read_section(path, content.get(TRANSLATION, {}), model)
    named = _read_devices(path, content.get("cuda_id"))
    placed = {
        language: _place(path, language, devices, gpus)
        for language, devices in named.items()
    }
    return Catalog(
        MappingProxyType(_make_routes(placed, settings)),
        is_cpu_fallback=placed != named,
    )


def _make_routes(
    placed: Mapping[str, tuple[str, ...]], settings: Translation
) -> dict[tuple[str, str], Model]:
    """Languages of the same name are served by the same model."""
    is_shared = settings.placement == "device"
    names = {
        language: "-".join((TRANSLATION, *devices)) if is_shared else language
        for language, devices in placed.items()
    }
    served: dict[str, list[str]] = {}
    for language, name in names.items():
        served.setdefault(name, []).append(language)
    models = {
        name: Model(name, TRANSLATION, tuple(languages), placed[languages[0]], settings)
        for name, languages in served.items()
    }
    return {(TRANSLATION, language): models[name] for language, name in names.items()}


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """JSON's reader would keep the last of two and say nothing."""
    content: dict[str, Any] = {}
    for key, value in pairs:
        if key in content:
            raise ValueError(
                f'"{key}" is there twice, as {content[key]!r} and as {value!r}; '
                "expected every key once"
            )
        content[key] = value
    return content


def _read_section(path: Path, section: Any, model: str | None) -> Translation:
    if not isinstance(section, dict):
        raise CatalogError(
            f"{path}: {TRANSLATION}: expected an object, found {section!r}"
        )
    _check_keys(path, f"{TRANSLATION}.", section, Translation.__dataclass_fields__)
    for key, value in section.items():
        check_value(f"{path}: {TRANSLATION}.{key}", key, value)
    settings = Translation(**(section | ({"model": model} if model else {})))
    known = ENGINES[settings.engine]
    if settings.compute_type not in known:
        raise CatalogError(
            f"{path}: {TRANSLATION}.compute_type: expected one of {', '.join(known)} "
            f"with the engine {settings.engine}, found {settings.compute_type!r}"
        )
    return settings


def check_value(where: str, key: str, value: Any) -> None:
    """Raises CatalogError where `value` cannot be that of `key` in the translation
    section."""
    if key in _CHOICES:
        is_right = value in _CHOICES[key]
        expected = f"one of {', '.join(_CHOICES[key])}"
    elif isinstance(Translation.__dataclass_fields__[key].default, str):
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


def _read_devices(path: Path, content: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(content, dict) or not content:
        raise CatalogError(
            f'{path}: cuda_id: expected an object such as {{"ko": "0"}}, found {content!r}'
        )
    for language in content:
        if not _LANGUAGE.fullmatch(language):
            raise CatalogError(
                f"{path}: cuda_id.{language}: expected an ISO 639 code in lower case as "
                "the key"
            )
    return {
        language: _read_device(f"{path}: cuda_id.{language}", value)
        for language, value in content.items()
    }


def _read_device(where: str, value: Any) -> tuple[str, ...]:
    """The CPU, or GPUs in ascending order, so that the same ones are the same device."""
    if value == CPU:
        return (CPU,)
    numbers = value if isinstance(value, list) else [value]
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


def _place(
    path: Path, language: str, devices: tuple[str, ...], gpus: int
) -> tuple[str, ...]:
    if gpus == 0:
        return (CPU,)
    for device in devices:
        if device != CPU and int(device) >= gpus:
            raise CatalogError(
                f"{path}: cuda_id.{language}: GPU {device} does not exist, this host has "
                f'{gpus} (0 to {gpus - 1}). Name one of them or "cpu".'
            )
    return devices


def _check_keys(
    path: Path, prefix: str, section: Mapping[str, Any], known: Any
) -> None:
    for key in section:
        if key not in known:
            raise CatalogError(
                f"{path}: {prefix}{key}: unknown; expected one of {', '.join(known)}"
            )
