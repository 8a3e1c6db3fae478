"""The catalog: the models of languages and tasks, and their devices, according to the map
`setup_config.json` and this host's GPUs.
"""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
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
    "Fallback",
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
    #: The languages that it translates into, also as a fallback; empty for other tasks.
    languages: tuple[str, ...]
    #: The CPU, or the GPUs that share its work.
    devices: tuple[str, ...]
    settings: TranslationSection | VisionSection = field(hash=False)
    #: Its placement on a Ray cluster.
    cluster: ClusterSection = ClusterSection()

    @property
    def serves(self) -> tuple[str, ...]:
        """Its languages, or its task."""
        return self.languages or (self.task,)

    @cached_property
    def weights(self) -> str:
        """The name of its weights without a path, quoted for a header."""
        return quote(Path(self.settings.model).name)

    @property
    def device(self) -> str:
        """The devices as text: `cpu`, `0` or `0,1`."""
        return ",".join(self.devices)

    @property
    def is_on_gpu(self) -> bool:
        return CPU not in self.devices

    @property
    def workers(self) -> int:
        """The number of its processes on all devices together."""
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
        """The languages that limit the output vocabulary; empty if there is no limit."""
        match self.settings:
            case TranslationSection(vocabulary="language"):
                return self.languages
        return ()


class Fallback(NamedTuple):
    """The model that answers while a target's own is down, or if the quality of that one's
    translation is `below` a limit."""

    model: Model
    below: float


@dataclass(frozen=True)
class Catalog:
    """All models of a stack."""

    #: The model for each task and target, in the map's order. Other tasks have an empty target.
    routes: Mapping[tuple[str, str], Model]
    #: The fallback by target language; many have none.
    fallbacks: Mapping[str, Fallback] = field(default_factory=dict)
    #: The language through which others are translated; empty if there is none.
    pivot: str = ""
    #: The languages that each model reads, by its name; without an entry, it reads any.
    reads: Mapping[str, Collection[str]] = field(default_factory=dict, compare=False)
    #: The GPUs named by the map on a host without GPUs, where the CPU replaces them.
    unchecked_gpus: tuple[str, ...] = ()
    #: The map as it was read, with the number of GPUs. It reproduces this catalog even if the
    #: file or the GPUs have changed.
    frozen: str = field(default="", compare=False, repr=False)

    @cached_property
    def models(self) -> tuple[Model, ...]:
        """All models, each once, in the order of their first languages."""
        others = (fallback.model for fallback in self.fallbacks.values())
        return tuple(dict.fromkeys((*self.routes.values(), *others)))

    @cached_property
    def spares(self) -> tuple[Model, ...]:
        """The models that are only fallbacks."""
        return tuple(m for m in self.models if m not in self.routes.values())

    @cached_property
    def languages(self) -> tuple[str, ...]:
        """The target languages, in the map's order."""
        return tuple(target for task, target in self.routes if task == TRANSLATION)

    @cached_property
    def tasks(self) -> Mapping[str, Model]:
        """The models of the image tasks."""
        return {
            task: model for (task, _), model in self.routes.items() if task in VISION
        }

    @cached_property
    def translation(self) -> TranslationSection:
        """The section that all translation models share, or its defaults if there are none."""
        shared = (model.settings for model in self.models)
        return next(
            (s for s in shared if isinstance(s, TranslationSection)),
            TranslationSection(),
        )

    def route(self, task: str, target: str = "") -> Model:
        """Return the model of a task and target. Raises KeyError if there is none."""
        return self.routes[task, target]

    def find_path(self, source: str, target: str) -> tuple[Model, ...]:
        """Return the models that translate `source` into `target`: the target's own, or the
        pivot's before it; empty without a path. Raises KeyError if the target is not served."""
        own = self.route(TRANSLATION, target)
        if self.is_read(source, own):
            return (own,)
        if self.pivot in ("", source, target) or not self.is_read(self.pivot, own):
            return ()
        first = self.route(TRANSLATION, self.pivot)
        return (first, own) if self.is_read(source, first) else ()

    def list_sources(self, target: str) -> list[str]:
        """Return the languages with a path to `target`."""
        known = dict.fromkeys(code for read in self.reads.values() for code in read)
        return [source for source in known if self.find_path(source, target)]

    def list_targets(self, source: str) -> list[str]:
        """Return the languages with a path from `source`."""
        return [target for target in self.languages if self.find_path(source, target)]

    def is_read(self, source: str, model: Model) -> bool:
        reads = self.reads.get(model.name)
        return reads is None or source in reads


def load(
    path: Path = MAP,
    *,
    gpus: int | None = 0,
    model: str | None = None,
    is_cluster: bool = False,
    is_embedded: bool = False,
) -> Catalog:
    """Read the map for a host with `gpus` GPUs, unless the map has a number; with None they
    are counted. On a cluster every GPU that the map names exists somewhere, so this host's do
    not matter. `model` replaces the translation model. Models embedded in one process are
    placed by device: otherwise the process would have a copy per language.

    Raises CatalogError if the map is malformed or names a GPU that the host lacks.
    """
    content = read_file(path)
    found = check(WHOLE_MAP, content, str(path))
    translation = found.translation.replace_model(model or found.translation.model)
    if is_embedded:
        translation = translation.model_copy(update={"placement": "device"})
    found = found.model_copy(update={"translation": translation})
    served = {*found.vision, *([TRANSLATION] if found.cuda_id else [])}
    faults = [
        f"{path}: cluster.{task}: expected a task of this map, one of "
        f"{', '.join(sorted(served))}"
        for task in sorted(found.cluster.model_fields_set - served)
    ]
    if "gpus" in found.model_fields_set:
        gpus = found.gpus
    elif gpus is None:
        gpus = 0 if is_cluster else count_gpus()
    faults += [
        f"{path}: {place}: GPU {device} does not exist, this host has {gpus} "
        f'(0 to {gpus - 1}). Name one of them or "cpu".'
        for place, devices in found.asked.items()
        for device in devices
        if gpus and not is_cluster and device != CPU and int(device) >= gpus
    ]
    if faults:
        raise CatalogError("\n".join(faults))
    if is_cluster:
        return make_catalog(found, content, has_gpus=True)
    return make_catalog(found, content | {"gpus": gpus}, has_gpus=gpus > 0)


def describe_handler(model: Model, model_path: Path) -> dict[str, Any]:
    """Return the handler's options from the map."""
    return model.settings.model_dump(exclude=SERVING) | {
        "model_path": str(model_path),
        "languages": list(model.languages),
        "compute_type": model.compute_type,
        "devices": list(model.devices),
    }


def make_catalog(found: Map, content: object, *, has_gpus: bool) -> Catalog:
    """Make the catalog of a map read from `content`. Without GPUs all models are on the CPU."""
    placed = {
        language: devices if has_gpus else (CPU,)
        for language, devices in found.cuda_id.items()
    }
    tasks = {
        (task, ""): Model(
            task,
            task,
            (),
            section.devices if has_gpus else (CPU,),
            settings=section,
            cluster=found.find_placement(task),
        )
        for task, section in found.vision.items()
    }
    asked = {device for devices in found.asked.values() for device in devices} - {CPU}
    routes, fallbacks = _place_languages(placed, found)
    return Catalog(
        MappingProxyType(routes | tasks),
        MappingProxyType(fallbacks),
        found.translation.pivot or "",
        unchecked_gpus=() if has_gpus else tuple(sorted(asked, key=int)),
        frozen=json.dumps(content, ensure_ascii=False, indent=2) + "\n",
    )


def _place_languages(
    placed: Mapping[str, tuple[str, ...]], found: Map
) -> tuple[dict[tuple[str, str], Model], dict[str, Fallback]]:
    """Return the routes and fallbacks of translation. A fallback is another language's model,
    on the same devices if there is one, or else an additional model."""
    section = found.translation
    cluster = found.find_placement(TRANSLATION)
    places: list[tuple[TranslationSection, tuple[str, ...]]] = []
    served: list[list[str]] = []

    def put(code: str, settings: TranslationSection, likely: Iterable[int]) -> int:
        """Add a language to the first likely model, or to a new one. Returns its number."""
        number = next(iter(likely), len(places))
        if number == len(places):
            places.append((settings, placed[code]))
            served.append([])
        served[number].append(code)
        return number

    own, others = dict[str, int](), dict[str, int]()
    for code, devices in placed.items():
        settings = section.narrow(code)
        alike = [n for n, place in enumerate(places) if place == (settings, devices)]
        own[code] = put(code, settings, alike if section.placement == "device" else ())
    for code in section.targets:
        if fallback := section.find_fallback(code):
            alike = [
                n for n, (settings, _) in enumerate(places) if settings == fallback
            ]
            alike.sort(key=lambda n: places[n][1] != placed[code])
            others[code] = put(code, fallback, alike)
    names = [_name_model(settings, section, at) for settings, at in places]
    if section.placement == "language":
        for code, number in own.items():
            names[number] = code
    taken = Counter(names)
    models = list[Model]()
    for (settings, at), name, languages in zip(places, names, served, strict=True):
        if taken[name] > 1 and settings != section.narrow():
            weights = settings.model, settings.engine, settings.compute_type
            name += f"-{sha256(repr(weights).encode()).hexdigest()[:8]}"
        models.append(
            Model(name, TRANSLATION, tuple(languages), at, settings, cluster=cluster)
        )
    routes = {(TRANSLATION, code): models[number] for code, number in own.items()}
    return routes, {
        code: Fallback(models[number], section.targets[code].fallback_quality)
        for code, number in others.items()
    }


def _name_model(
    settings: TranslationSection, section: TranslationSection, at: tuple[str, ...]
) -> str:
    """Return a name for a model of several languages, independent of other models."""
    name = "-".join((TRANSLATION, *at))
    if settings == section.narrow():
        return name
    return f"{name}-{re.sub('[^A-Za-z0-9._-]+', '-', Path(settings.model).name)}"
