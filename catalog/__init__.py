"""The models of languages and tasks, and their devices: the catalog that the map
`setup_config.json` asks for on this host.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

from catalog.devices import count_gpus
from catalog.map import SECTIONS, VISION, WHOLE_MAP, CatalogError, Map, check, read_file
from catalog.sections import CPU, SERVING, ClusterSection, VisionSection
from catalog.sections.translation import TranslationSection
from contract import variables
from contract.tasks import TRANSLATION

__all__ = [
    "CPU",
    "MAP",
    "ROOT",
    "SECTIONS",
    "VISION",
    "Catalog",
    "CatalogError",
    "Model",
    "TranslationSection",
    "describe_handler",
    "load",
]

ROOT = Path(__file__).parents[1]
MAP = ROOT / variables.MAP.default


@dataclass(frozen=True)
class Model:
    """One TorchServe model: a name, its task, and its devices."""

    name: str
    task: str
    #: The languages that it translates into; a model of another task has none.
    languages: tuple[str, ...]
    #: The CPU, or GPUs that share its work.
    devices: tuple[str, ...]
    settings: TranslationSection | VisionSection
    #: Ray's placement of it.
    cluster: ClusterSection = ClusterSection()

    @property
    def serves(self) -> tuple[str, ...]:
        """Its languages, or its task."""
        return self.languages or (self.task,)

    @property
    def weights(self) -> str:
        """The name of its weights without their place, as it may stand in a header."""
        return quote(Path(self.settings.model).name)

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

    @property
    def listed(self) -> tuple[str, ...]:
        """The languages whose output vocabulary alone is allowed; none if all is."""
        match self.settings:
            case TranslationSection(vocabulary="language"):
                return self.languages
        return ()


@dataclass(frozen=True)
class Catalog:
    """All models of a stack."""

    #: The model for each task and target language, in the map's order. Other tasks have an
    #: empty target.
    routes: Mapping[tuple[str, str], Model]
    #: The GPUs that the map names where this host has none: the CPU stands in for them.
    unchecked_gpus: tuple[str, ...] = ()
    #: The map as it was read, with the number of GPUs. It makes this catalog again, even if
    #: the file or the GPUs have changed.
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
    def translation(self) -> TranslationSection:
        """The section that the models of all languages share, or its defaults if the map
        has no languages."""
        shared = (model.settings for model in self.models)
        return next(
            (s for s in shared if isinstance(s, TranslationSection)),
            TranslationSection(),
        )

    def route(self, task: str, target: str = "") -> Model:
        """The model that does `task` for `target`. Raises KeyError if there is none."""
        return self.routes[task, target]


def load(
    path: Path = MAP,
    *,
    gpus: int | None = 0,
    model: str | None = None,
    is_cluster: bool = False,
) -> Catalog:
    """Reads the map for a host with `gpus` GPUs, unless the map gives a number; with None
    they are counted. On a cluster every GPU that the map names exists somewhere, so this
    host's do not matter. `model` replaces the translation model.

    Raises CatalogError if the map is malformed or names a GPU that the host lacks.
    """
    content = read_file(path)
    found = check(WHOLE_MAP, content, str(path))
    if model:
        translation = found.translation.model_copy(update={"model": model})
        found = found.model_copy(update={"translation": translation})
    served = {*found.vision, *([TRANSLATION] if found.cuda_id else [])}
    for task in sorted(found.cluster.model_fields_set - served):
        raise CatalogError(
            f"{path}: cluster.{task}: expected a task of this map, one of "
            f"{', '.join(sorted(served))}"
        )
    if is_cluster:
        return replace(make_catalog(found, has_gpus=True), frozen=_freeze(content))
    if "gpus" in found.model_fields_set:
        gpus = found.gpus
    elif gpus is None:
        gpus = count_gpus()
    for place, devices in found.asked.items():
        for device in devices:
            if gpus and device != CPU and int(device) >= gpus:
                raise CatalogError(
                    f"{path}: {place}: GPU {device} does not exist, this host has "
                    f'{gpus} (0 to {gpus - 1}). Name one of them or "cpu".'
                )
    frozen = _freeze(content | {"gpus": gpus})
    return replace(make_catalog(found, has_gpus=gpus > 0), frozen=frozen)


def describe_handler(model: Model, model_path: Path) -> dict[str, Any]:
    """The handler's options from the map."""
    return model.settings.model_dump(exclude=SERVING) | {
        "model_path": str(model_path),
        "languages": list(model.languages),
        "compute_type": model.compute_type,
        "devices": list(model.devices),
    }


def make_catalog(found: Map, *, has_gpus: bool) -> Catalog:
    """The models of a map. Without GPUs all are on the CPU."""
    placed = {
        language: devices if has_gpus else (CPU,)
        for language, devices in found.cuda_id.items()
    }
    tasks = {
        (task, ""): Model(
            *(task, task, (), section.devices if has_gpus else (CPU,)),
            settings=section,
            cluster=found.find_placement(task),
        )
        for task, section in found.vision.items()
    }
    asked = {device for devices in found.asked.values() for device in devices} - {CPU}
    return Catalog(
        MappingProxyType(_make_routes(placed, found) | tasks),
        unchecked_gpus=() if has_gpus else tuple(sorted(asked, key=int)),
    )


def _freeze(content: object) -> str:
    return json.dumps(content, ensure_ascii=False, indent=2) + "\n"


def _make_routes(
    placed: Mapping[str, tuple[str, ...]], found: Map
) -> dict[tuple[str, str], Model]:
    """The routes of translation. Languages with the same model name share a model."""
    settings, cluster = found.translation, found.find_placement(TRANSLATION)
    is_shared = settings.placement == "device"
    names = {
        language: "-".join((TRANSLATION, *devices)) if is_shared else language
        for language, devices in placed.items()
    }
    served: dict[str, list[str]] = {}
    for language, name in names.items():
        served.setdefault(name, []).append(language)
    models = {
        name: Model(
            *(name, TRANSLATION, tuple(languages), placed[languages[0]]),
            settings=settings,
            cluster=cluster,
        )
        for name, languages in served.items()
    }
    return {(TRANSLATION, language): models[name] for language, name in names.items()}
