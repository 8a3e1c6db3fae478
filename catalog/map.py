"""The shape of `setup_config.json`, the map: its keys, defaults and permitted values. Every
refusal names the file, the key, the value found and what was expected.
"""

import json
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, Field, ValidationError, create_model

from catalog.sections import (
    ClusterSection,
    CountOrNone,
    Devices,
    Section,
    Shape,
    VisionSection,
)
from catalog.sections.translation import TranslationSection
from contract.languages import LANGUAGES, find_tag
from contract.tasks import TRANSLATION, UPLOADS, find_class
from contract.validation import expect

#: The expected value, by type of fault. For other types it is in the key's schema.
_OBJECTS = {
    "model_type": "an object",
    **dict.fromkeys(("dict_type", "too_short"), 'an object such as {"ko": "0"}'),
}


class CatalogError(ValueError):
    """The map cannot be used; the message explains where and why."""


def _check_language(code: str) -> str:
    if code not in LANGUAGES:
        tag = find_tag(code.lower())
        near = [tag] if tag else get_close_matches(code, LANGUAGES)
        such = f" such as {' or '.join(near)}" if near else ""
        raise ValueError(f"a language of contract/languages.tsv{such}")
    return code


_Language = Annotated[str, AfterValidator(_check_language)]


#: The sections of the image tasks, in the order in which they are shown.
VISION: Mapping[str, type[VisionSection]] = MappingProxyType(
    {task: find_class("catalog.sections", task) for task in UPLOADS}
)
#: The sections of all tasks.
SECTIONS: Mapping[str, type[TranslationSection | VisionSection]] = MappingProxyType(
    {TRANSLATION: TranslationSection, **VISION}
)

#: The `cluster` object: a section for each task.
_CLUSTER: type[Shape] = create_model(
    "Cluster",
    __base__=Shape,
    **dict[str, Any](dict.fromkeys(SECTIONS, (ClusterSection, ClusterSection()))),
)


class Map(Shape):
    """The whole file. A missing section has its defaults here, but its task is not served."""

    cuda_id: dict[_Language, Devices] = Field(
        {},
        min_length=1,
        description="Languages (tags of `contract/languages.tsv` that the model knows) and "
        'their devices: `"0"` is GPU 0, `"cpu"` the CPU, `["0", "1"]` a replica on each GPU. '
        "`GET /languages` keeps this order.",
    )
    translation: TranslationSection = TranslationSection()
    gpus: CountOrNone = Field(
        0,
        description="The number of GPUs. `make up` writes it into its copy of the map, "
        "`run/map.json`, so all processes agree.",
    )
    cluster: _CLUSTER = Field(
        _CLUSTER(),
        description="With Ray: how the models of each task are [placed](#on-a-cluster).",
    )

    @property
    def vision(self) -> dict[str, VisionSection]:
        """The image tasks' sections that are in the file."""
        return {t: getattr(self, t) for t in VISION if t in self.model_fields_set}

    def find_placement(self, task: str) -> ClusterSection:
        """Return the placement of a task's models on a cluster."""
        section: ClusterSection = getattr(self.cluster, task)
        return section

    @property
    def asked(self) -> dict[str, tuple[str, ...]]:
        """The requested devices, by their path in the file."""
        return {
            **{f"cuda_id.{code}": devices for code, devices in self.cuda_id.items()},
            **{f"{task}.devices": s.devices for task, s in self.vision.items()},
        }

    def list_contradictions(self) -> Iterator[str]:
        """Yield a line for each value of the translation section that contradicts others, or
        for missing languages: a map that names only other tasks needs none."""
        if not self.cuda_id and (
            TRANSLATION in self.model_fields_set or not self.vision
        ):
            yield f"cuda_id: expected {_OBJECTS['dict_type']}, found None"
            return
        section = self.translation
        served = [*self.cuda_id]
        models = {section.narrow(code).model: None for code in ("", *section.targets)}
        known = f"expected a language of cuda_id, one of {', '.join(served)}"
        if section.pivot not in (None, *served):
            yield f"{TRANSLATION}.pivot: {known}, found {section.pivot!r}"
        for code, own in section.targets.items():
            place = f"{TRANSLATION}.targets.{code}"
            narrow = section.narrow(code)
            others = [model for model in models if model != narrow.model]
            another = f"another model of this map: {', '.join(others) or 'it has none'}"
            doubt, fallback = own.fallback_quality, own.fallback
            if code not in served:
                yield f"{place}: {known}, found {code!r}"
            if fallback not in (None, *others):
                yield f"{place}.fallback: expected {another}, found {fallback!r}"
            if doubt and not fallback:
                said = f"expected a fallback beside it, found {doubt!r}"
                yield f"{place}.fallback_quality: {said}"
            try:
                TranslationSection.model_validate(narrow.model_dump())
            except ValidationError as error:
                for fault in error.errors():
                    yield f"{place}.{_describe_fault(TranslationSection, fault)}"


#: The map with a section for each image task.
WHOLE_MAP: type[Map] = create_model(
    "Map",
    __base__=Map,
    **dict[str, Any]({task: (section, None) for task, section in VISION.items()}),
)

_AnyShape = TypeVar("_AnyShape", bound=BaseModel)


def check(shape: type[_AnyShape], content: object, where: str = "") -> _AnyShape:
    """Return the content as a `shape`. Raises CatalogError: a line per fault, after `where`."""
    try:
        found = shape.model_validate(content)
        faults = [*found.list_contradictions()] if isinstance(found, Map) else []
    except ValidationError as error:
        faults = [_describe_fault(shape, fault) for fault in error.errors()]
    if faults:
        lines = (": ".join(filter(None, (where, fault))) for fault in faults)
        raise CatalogError("\n".join(lines))
    return found


def _describe_fault(shape: type[BaseModel], fault: Any) -> str:
    """Return the sentence about a fault, after its place unless that is the whole map."""
    place = [str(part) for part in fault["loc"] if part != "[key]"]
    owner = _find_owner(shape, place)
    where = ".".join(place)
    if fault["type"] == "extra_forbidden":
        expected = f"one of {', '.join(owner.model_fields)}"
        if issubclass(owner, Section) and place[-1] in ClusterSection.model_fields:
            expected = f'it in "cluster": {{"{place[-2]}": {{"{place[-1]}": …}}}}'
        return f"{where}: unknown key, expected {expected}"
    if fault["type"] == "value_error":
        expected = str(fault["ctx"]["error"])
    elif fault["type"] in _OBJECTS:
        kind = "model_type" if place[-1:] == ["targets"] else fault["type"]
        expected = _OBJECTS[kind]
    else:
        expected = expect(owner.model_json_schema()["properties"][place[-1]])
    said = f"expected {expected}, found {fault['input']!r}"
    return f"{where}: {said}" if where else said


def _find_owner(shape: type[BaseModel], place: list[str]) -> type[BaseModel]:
    """Return the shape of the innermost object that contains the place."""
    for name in place[:-1]:
        if name not in shape.model_fields:  # a key of a dictionary
            continue
        annotation = shape.model_fields[name].annotation
        inner = (get_args(annotation) or (annotation,))[-1]
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            break
        shape = inner
    return shape


def read_file(path: Path) -> Any:
    """Return the JSON in a file. Raises CatalogError if it is unreadable or repeats a key."""
    try:
        return json.loads(path.read_text("utf-8"), object_pairs_hook=_refuse_duplicates)
    except (OSError, ValueError, RecursionError) as error:
        raise CatalogError(f"{path}: {error}") from error


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Raise ValueError for a repeated key, of which `json` would silently keep the last."""
    content: dict[str, Any] = {}
    for key, value in pairs:
        if key in content:
            raise ValueError(
                f'"{key}" appears twice, as {content[key]!r} and as {value!r}; '
                "expected each key once"
            )
        content[key] = value
    return content
