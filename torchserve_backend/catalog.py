"""The only reader of `setup_config.json`: the map in, a frozen catalog of models out.

Every refusal names the path in the file, the value found and what was expected.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    #: `ctranslate2`, or `transformers` for the reference.
    engine: str = "ctranslate2"
    #: Precision of the weights; `auto` is float16 on a GPU, on a CPU int8 with CTranslate2
    #: and float32 with Transformers.
    compute_type: str = "auto"
    #: Requests that TorchServe joins into one batch at the most.
    batch_size: int = 64
    #: Milliseconds that TorchServe waits for a batch to fill.
    max_batch_delay: int = 100
    #: Processes per model, each with its own copy of the weights.
    workers: int = 1
    #: Requests that may wait for a model; one more is answered 429.
    queue_size: int = 4096
    #: Seconds a batch may take before TorchServe restarts the worker.
    response_timeout: int = 60


@dataclass(frozen=True)
class Model:
    """One TorchServe model: a name, the languages it translates into, and its device."""

    name: str
    task: str
    languages: tuple[str, ...]
    device: str
    settings: Translation

    @property
    def compute_type(self) -> str:
        """The precision with `auto` resolved for this model's engine and device."""
        if self.settings.compute_type != "auto":
            return self.settings.compute_type
        if self.device != CPU:
            return "float16"
        return "int8" if self.settings.engine == "ctranslate2" else "float32"


@dataclass(frozen=True)
class Catalog:
    """All models of a stack."""

    models: tuple[Model, ...]
    #: True where the map names GPUs and this host has none.
    is_cpu_fallback: bool

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages that can be translated into, in the map's order."""
        return tuple(language for model in self.models for language in model.languages)

    def route(self, task: str, target: str) -> Model:
        """The model that does `task` for `target`. Raises KeyError where none does."""
        for model in self.models:
            if model.task == task and target in model.languages:
                return model
        raise KeyError(target)


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
    placed = _read_devices(path, content.get("cuda_id"))
    is_fallback = gpus == 0 and any(device != CPU for device in placed.values())
    models = tuple(
        Model(
            language,
            TRANSLATION,
            (language,),
            _place(path, language, device, gpus),
            settings,
        )
        for language, device in placed.items()
    )
    return Catalog(models, is_fallback)


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
        _check_value(f"{path}: {TRANSLATION}.{key}", key, value)
    settings = Translation(**(section | ({"model": model} if model else {})))
    known = ENGINES[settings.engine]
    if settings.compute_type not in known:
        raise CatalogError(
            f"{path}: {TRANSLATION}.compute_type: expected one of {', '.join(known)} "
            f"with the engine {settings.engine}, found {settings.compute_type!r}"
        )
    return settings


def _check_value(where: str, key: str, value: Any) -> None:
    default = Translation.__dataclass_fields__[key].default
    if isinstance(default, str):
        if not isinstance(value, str) or not value:
            raise CatalogError(f"{where}: expected a non-empty string, found {value!r}")
        if key == "engine" and value not in ENGINES:
            raise CatalogError(
                f"{where}: expected one of {', '.join(ENGINES)}, found {value!r}"
            )
    elif not isinstance(value, int) or isinstance(value, bool) or value < 1:
        # A delay of 0 means 100 to TorchServe, so 1 is the least here.
        raise CatalogError(
            f"{where}: expected a whole number of at least 1, found {value!r}"
        )


def _read_devices(path: Path, devices: Any) -> Mapping[str, str]:
    if not isinstance(devices, dict) or not devices:
        raise CatalogError(
            f'{path}: cuda_id: expected an object such as {{"ko": "0"}}, found {devices!r}'
        )
    for language, device in devices.items():
        where = f"{path}: cuda_id.{language}"
        if not _LANGUAGE.fullmatch(language):
            raise CatalogError(
                f"{where}: expected an ISO 639 code in lower case as the key"
            )
        if not isinstance(device, str) or not (
            device == CPU or (device.isascii() and device.isdigit())
        ):
            raise CatalogError(
                f'{where}: expected "cpu" or a GPU number such as "0", found {device!r}'
            )
    return devices


def _place(path: Path, language: str, device: str, gpus: int) -> str:
    if device == CPU or gpus == 0:
        return CPU
    if int(device) >= gpus:
        raise CatalogError(
            f"{path}: cuda_id.{language}: GPU {device} does not exist, this host has {gpus} "
            f'(0 to {gpus - 1}). Name one of them or "cpu".'
        )
    return str(int(device))


def _check_keys(
    path: Path, prefix: str, section: Mapping[str, Any], known: Any
) -> None:
    for key in section:
        if key not in known:
            raise CatalogError(
                f"{path}: {prefix}{key}: unknown; expected one of {', '.join(known)}"
            )
