"""Reads `setup_config.json`, the map, into a frozen catalog of models. Every error
names the place in the file, the value found and what was expected.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from contract.languages import LANGUAGES
from contract.tasks import TRANSLATION
from handlers.engine.directories import read_settings
from torchserve_backend.devices import count_gpus
from torchserve_backend.sections import (
    CPU,
    SECTIONS,
    VISION,
    CatalogError,
    Section,
    Translation,
    Vision,
    check_keys,
    read_devices,
    read_section,
)

__all__ = [
    "CPU",
    "MAP",
    "ROOT",
    "SECTIONS",
    "VISION",
    "Catalog",
    "CatalogError",
    "Model",
    "Section",
    "Translation",
    "Vision",
    "load",
]

ROOT = Path(__file__).parents[1]
MAP = Path(__file__).with_name("setup_config.json")

_CUDA_ID = "cuda_id"
#: How many GPUs there are; `make up` writes it into the copy that it freezes.
_GPUS = "gpus"
_LANGUAGE = re.compile("[a-z]{2,3}")


@dataclass(frozen=True)
class Model:
    """One TorchServe model: a name, its task, and its devices."""

    name: str
    task: str
    #: Those that it translates into; a model of another task has none.
    languages: tuple[str, ...]
    #: The CPU, or GPUs that share its work.
    devices: tuple[str, ...]
    settings: Section

    @property
    def serves(self) -> tuple[str, ...]:
        """What people call that which it does: its languages, or its task."""
        return self.languages or (self.task,)

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
        return "int8" if "int8" in self.settings.precisions else "float32"


@dataclass(frozen=True)
class Catalog:
    """All models of a stack."""

    #: Which model does a task for a target language, in the map's order; the other tasks
    #: have no target, an empty one.
    routes: Mapping[tuple[str, str], Model]
    #: True where the map names GPUs and this host has none.
    is_cpu_fallback: bool
    #: The map as it was read, with the number of GPUs: it makes this catalog again, whatever
    #: becomes of the file and however many GPUs are counted then.
    frozen: str = field(default="", compare=False, repr=False)

    @cached_property
    def models(self) -> tuple[Model, ...]:
        """Every model once, in the order of its first language."""
        return tuple(dict.fromkeys(self.routes.values()))

    @cached_property
    def languages(self) -> tuple[str, ...]:
        """The languages that can be translated into, in the map's order."""
        return tuple(target for task, target in self.routes if task == TRANSLATION)

    @cached_property
    def tasks(self) -> Mapping[str, Model]:
        """The models of the tasks that take images."""
        return {
            task: model for (task, _), model in self.routes.items() if task in VISION
        }

    @cached_property
    def translation(self) -> Translation:
        """The section that the models of all languages share; its defaults where the map
        has no languages."""
        shared = (model.settings for model in self.models)
        return next((s for s in shared if isinstance(s, Translation)), Translation())

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """The languages that can be translated from: those that the model lists in its
        `babelgate.json`, or all of M2M100's."""
        directory = ROOT / Path(self.translation.model).expanduser()
        return tuple(read_settings(directory).get("languages", LANGUAGES))

    def route(self, task: str, target: str = "") -> Model:
        """The model that does `task` for `target`. Raises KeyError where none does."""
        return self.routes[task, target]


def load(
    path: Path = MAP, *, gpus: int | None = 0, model: str | None = None
) -> Catalog:
    """Reads the map for a host with `gpus` GPUs, where it does not say how many there are;
    with None they are counted. `model` replaces that of translation.

    Raises CatalogError where the map is malformed or names a GPU that the host lacks.
    """
    content = _read_object(path)
    check_keys(f"{path}: ", content, (_CUDA_ID, *SECTIONS, _GPUS))
    gpus = _read_gpus(path, content, gpus)
    vision = _read_vision(path, content)
    named = _read_languages(path, content, is_needed=not vision)
    translation = _read_translation(path, content.get(TRANSLATION, {}), model)
    placed = {
        language: _place(f"{path}: {_CUDA_ID}.{language}", devices, gpus)
        for language, devices in named.items()
    }
    tasks = {
        (task, ""): Model(
            *(task, task, ()),
            _place(f"{path}: {task}.devices", section.named_devices, gpus),
            section,
        )
        for task, section in vision.items()
    }
    asked = {*named.values(), *(section.named_devices for section in vision.values())}
    return Catalog(
        MappingProxyType(_make_routes(placed, translation) | tasks),
        is_cpu_fallback=gpus == 0 and asked != {(CPU,)},
        frozen=json.dumps(content | {_GPUS: gpus}, ensure_ascii=False, indent=2) + "\n",
    )


def _read_gpus(path: Path, content: Mapping[str, Any], given: int | None) -> int:
    if _GPUS not in content:
        return count_gpus() if given is None else given
    gpus = content[_GPUS]
    if type(gpus) is not int or gpus < 0:
        raise CatalogError(
            f"{path}: {_GPUS}: expected a whole number of at least 0, found {gpus!r}"
        )
    return gpus


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


def _read_object(path: Path) -> dict[str, Any]:
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
    return content


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


def _read_translation(path: Path, content: Any, model: str | None) -> Translation:
    section = read_section(f"{path}: {TRANSLATION}", TRANSLATION, content)
    assert isinstance(section, Translation)
    return replace(section, model=model) if model else section


def _read_vision(path: Path, content: Mapping[str, Any]) -> dict[str, Vision]:
    """The sections that are there."""
    sections = {}
    for task in VISION:
        if task in content:
            section = read_section(f"{path}: {task}", task, content[task])
            assert isinstance(section, Vision)
            sections[task] = section
    return sections


def _read_languages(
    path: Path, content: Mapping[str, Any], *, is_needed: bool
) -> dict[str, tuple[str, ...]]:
    """The devices of each language. Without `cuda_id` nothing is translated."""
    if not is_needed and _CUDA_ID not in content and TRANSLATION not in content:
        return {}
    languages = content.get(_CUDA_ID)
    if not isinstance(languages, dict) or not languages:
        raise CatalogError(
            f'{path}: cuda_id: expected an object such as {{"ko": "0"}}, '
            f"found {languages!r}"
        )
    for language in languages:
        if not _LANGUAGE.fullmatch(language):
            raise CatalogError(
                f"{path}: cuda_id.{language}: expected an ISO 639 code in lower case as "
                "the key"
            )
    return {
        language: read_devices(f"{path}: cuda_id.{language}", value)
        for language, value in languages.items()
    }


def _place(where: str, devices: tuple[str, ...], gpus: int) -> tuple[str, ...]:
    if gpus == 0:
        return (CPU,)
    for device in devices:
        if device != CPU and int(device) >= gpus:
            raise CatalogError(
                f"{where}: GPU {device} does not exist, this host has "
                f'{gpus} (0 to {gpus - 1}). Name one of them or "cpu".'
            )
    return devices
