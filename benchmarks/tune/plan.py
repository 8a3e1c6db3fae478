"""Reads a tuning plan in YAML and lists the combinations to try. Errors name the line."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from benchmarks.instruments.workload import Task
from contract.tasks import TRANSLATION
from torchserve_backend.map import SECTIONS, check

#: The keys of a model's entry that are tried; each task's section of the map has some.
KNOBS = (
    *("engine", "compute_type", "placement", "workers"),
    *("batch_size", "max_batch_delay", "max_batch_tokens", "max_batch_frames"),
    "threads",
)
_ALIKE = ConfigDict(extra="forbid", frozen=True, strict=True)


class PlanError(ValueError):
    """A plan that cannot be followed; the message names the line and what was expected."""


@dataclass(frozen=True)
class Combination:
    """One configuration of a stack."""

    task: str
    model: str
    #: All of the map where none is named.
    languages: tuple[str, ...]
    #: What the map's `cuda_id` takes; its own where it is None.
    device: str | tuple[str, ...] | None
    #: Keys and values of the task's section of the map.
    settings: tuple[tuple[str, Any], ...] = ()

    @property
    def name(self) -> str:
        """What distinguishes it from the map as it ships, and so from the others."""
        usual = {"task": TRANSLATION, "model": find_model(self.task), "device": None}
        pairs = [*((key, getattr(self, key)) for key in usual), *self.settings]
        told = [f"{k}={value}" for k, value in pairs if usual.get(k, self) != value]
        return " ".join(told) or "as it ships"


def find_model(task: str) -> str:
    """The model of a task if none is named."""
    return str(SECTIONS[task].model_fields["model"].default)


def _make_list(value: Any) -> Any:
    """Makes a list of a single value."""
    values = value if isinstance(value, list) else [value]
    return tuple(tuple(v) if isinstance(v, list) else v for v in values)


Words = Annotated[tuple[str, ...], BeforeValidator(_make_list)]
Numbers = Annotated[tuple[int, ...], BeforeValidator(_make_list)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=False)]


class ModelEntry(BaseModel):
    """A model and the values to try; a missing key keeps the map's default."""

    model_config = _ALIKE

    task: Task = TRANSLATION
    #: The task's own where it is empty.
    model: str = ""
    languages: Words = ()
    device: Annotated[
        tuple[str | tuple[str, ...], ...], BeforeValidator(_make_list)
    ] = ()
    engine: Words = ()
    compute_type: Words = ()
    placement: Words = ()
    workers: Numbers = ()
    batch_size: Numbers = ()
    max_batch_delay: Numbers = ()
    max_batch_tokens: Numbers = ()
    max_batch_frames: Numbers = ()
    threads: Numbers = ()

    @field_validator(*KNOBS)
    @classmethod
    def _check_values(cls, values: Sequence[Any], info: ValidationInfo) -> Any:
        task, key = info.data.get("task", TRANSLATION), str(info.field_name)
        if values and key not in SECTIONS[task].model_fields:
            raise ValueError(f"the map's {task} section has no such key")
        for value in values:
            check(SECTIONS[task], {key: value})
        return values

    @field_validator("languages")
    @classmethod
    def _check_languages(cls, languages: Sequence[str], info: ValidationInfo) -> Any:
        if languages and info.data.get("task", TRANSLATION) != TRANSLATION:
            raise ValueError("only translation has languages")
        return languages

    def combine(self) -> Iterator[Combination]:
        """Every combination of the values."""
        values = {key: getattr(self, key) for key in KNOBS if getattr(self, key)}
        knobs = ([(key, value) for value in of_key] for key, of_key in values.items())
        for device, *settings in itertools.product(self.device or (None,), *knobs):
            yield self._make(device, tuple(settings))

    @property
    def default(self) -> Combination:
        return self._make(None, ())

    def _make(self, device: Any, settings: tuple[tuple[str, Any], ...]) -> Combination:
        model = self.model or find_model(self.task)
        return Combination(self.task, model, self.languages, device, settings)


class LoadEntry(BaseModel):
    """What each combination is asked: clients that wait for their answers, or arrivals."""

    model_config = _ALIKE

    rates: Annotated[tuple[Positive, ...], BeforeValidator(_make_list)] = ()
    clients: Numbers = ()
    seconds: Positive = 6
    warm_up_seconds: Positive = 3
    tokens: Annotated[str, Field(pattern=r"^(\d+-\d+)?$")] = ""
    targets: Mapping[str, int] = {}

    @model_validator(mode="after")
    def _check_levels(self) -> LoadEntry:
        if bool(self.rates) == bool(self.clients):
            raise ValueError("expected either rates or clients")
        if any(number < 1 for number in (*self.clients, *self.targets.values())):
            raise ValueError("expected whole numbers from 1")
        return self

    @property
    def is_open(self) -> bool:
        return bool(self.rates)

    @property
    def unit(self) -> str:
        return "requests/s" if self.is_open else "clients"

    @property
    def levels(self) -> tuple[float, ...]:
        """The rates or numbers of clients, the least first."""
        return tuple(sorted(set(self.rates or self.clients)))


class SlaEntry(BaseModel):
    """What an operator promises."""

    model_config = _ALIKE

    p99_ms: Positive
    error_share: Annotated[float, Field(ge=0, lt=1, strict=False)] = 0.0


class SearchEntry(BaseModel):
    """How combinations are chosen, and how long it may take."""

    model_config = _ALIKE

    method: Literal["halving", "grid"] = "halving"
    minutes: Positive = 15


class Plan(BaseModel):
    """A whole plan."""

    model_config = _ALIKE

    models: Annotated[tuple[ModelEntry, ...], Field(min_length=1, strict=False)]
    load: LoadEntry
    sla: SlaEntry
    search: SearchEntry = SearchEntry()

    @property
    def default(self) -> Combination:
        return self.models[0].default

    def combine(self) -> list[Combination]:
        """Every combination once, the default first."""
        tried = itertools.chain.from_iterable(map(ModelEntry.combine, self.models))
        return list(dict.fromkeys((self.default, *tried)))

    @property
    def fingerprint(self) -> str:
        """Identifies this plan's results. The search time is not part of it."""
        text = self.model_dump_json(exclude={"search": {"minutes"}})
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def read_plan(path: Path) -> Plan:
    """Reads a plan from a file. Raises PlanError."""
    try:
        text = path.read_text("utf-8")
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        content = yaml.safe_load(text)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise PlanError(f"{path}: {error}") from error
    if not isinstance(root, yaml.MappingNode):
        raise PlanError(f"{path}: expected a mapping with models, load and sla")
    _refuse_duplicates(path, root)
    try:
        return Plan.model_validate(content)
    except ValidationError as error:
        faults = (_describe(path, root, fault) for fault in error.errors())
        raise PlanError("\n".join(faults)) from error


def _describe(path: Path, root: yaml.Node, fault: Any) -> str:
    place = fault["loc"]
    message = str(fault["msg"]).removeprefix("Value error, ")
    message = message.removeprefix(f"{place[-1]}: ")
    name = ".".join(map(str, place))
    return f"{path}:{_find_line(root, place)}: {name}: {message}"


def _find_line(node: yaml.Node, place: Sequence[str | int]) -> int:
    """The line of the value at `place`, or of its nearest existing parent."""
    line = node.start_mark.line + 1
    for part in place:
        found = _find_child(node, part)
        if found is None:
            break
        key, node = found
        line = key.start_mark.line + 1
    return line


def _find_child(node: yaml.Node, part: str | int) -> tuple[yaml.Node, yaml.Node] | None:
    if isinstance(node, yaml.MappingNode):
        pairs = ((key, value) for key, value in node.value if key.value == str(part))
        return next(pairs, None)
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int):
        child = node.value[part]
        return child, child
    return None


def _refuse_duplicates(path: Path, node: yaml.Node) -> None:
    """Raises PlanError for a key that is there twice: YAML's reader keeps the last one."""
    if isinstance(node, yaml.SequenceNode):
        for child in node.value:
            _refuse_duplicates(path, child)
    if not isinstance(node, yaml.MappingNode):
        return
    seen: set[str] = set()
    for key, value in node.value:
        if key.value in seen:
            line = key.start_mark.line + 1
            raise PlanError(f"{path}:{line}: {key.value}: is there twice")
        seen.add(key.value)
        _refuse_duplicates(path, value)
