"""Reads a tuning plan in YAML and lists the combinations to try. Errors name the line."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic

from benchmarks.driver import PlanEntry, Positive, load_plan
from benchmarks.instruments.workload import MeasuredTask
from catalog.map import SECTIONS, check
from contract.tasks import TRANSLATION

#: The keys of a model's entry that are tried; each task's section of the map has some.
KNOBS = (
    *("engine", "compute_type", "placement", "workers"),
    *("batch_size", "max_batch_delay", "max_batch_tokens", "max_batch_frames"),
    "threads",
)


@dataclass(frozen=True)
class Combination:
    """One configuration of a stack."""

    task: str
    model: str
    #: All of the map where none is named.
    languages: tuple[str, ...]
    #: A value for the map's `cuda_id`; the map's own where it is None.
    device: str | tuple[str, ...] | None
    #: Keys and values of the task's section of the map.
    settings: tuple[tuple[str, Any], ...] = ()

    @property
    def name(self) -> str:
        """The difference to the map as it ships, which names it."""
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


Words = Annotated[tuple[str, ...], pydantic.BeforeValidator(_make_list)]
Numbers = Annotated[tuple[int, ...], pydantic.BeforeValidator(_make_list)]


class ModelEntry(PlanEntry):
    """A model and the values to try; a missing key keeps the map's default."""

    task: MeasuredTask = TRANSLATION
    #: The task's own where it is empty.
    model: str = ""
    languages: Words = ()
    device: Annotated[
        tuple[str | tuple[str, ...], ...], pydantic.BeforeValidator(_make_list)
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

    @pydantic.field_validator(*KNOBS)
    @classmethod
    def _check_values(cls, values: Sequence[Any], info: pydantic.ValidationInfo) -> Any:
        task, key = info.data.get("task", TRANSLATION), str(info.field_name)
        if values and key not in SECTIONS[task].model_fields:
            raise ValueError(f"the map's {task} section has no such key")
        for value in values:
            check(SECTIONS[task], {key: value})
        return values

    @pydantic.field_validator("languages")
    @classmethod
    def _check_languages(
        cls, languages: Sequence[str], info: pydantic.ValidationInfo
    ) -> Any:
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


class LoadEntry(PlanEntry):
    """The load for each combination: clients that wait for their answers, or arrivals."""

    rates: Annotated[tuple[Positive, ...], pydantic.BeforeValidator(_make_list)] = ()
    clients: Numbers = ()
    seconds: Positive = 6
    warm_up_seconds: Positive = 3
    tokens: Annotated[str, pydantic.Field(pattern=r"^(\d+-\d+)?$")] = ""
    targets: Mapping[str, int] = {}

    @pydantic.model_validator(mode="after")
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


class SlaEntry(PlanEntry):
    """The promises of an operator."""

    p99_ms: Positive
    error_share: Annotated[float, pydantic.Field(ge=0, lt=1, strict=False)] = 0.0


class SearchEntry(PlanEntry):
    """The choice of combinations, and the time that it may take."""

    method: Literal["halving", "grid"] = "halving"
    minutes: Positive = 15


class TuningPlan(PlanEntry):
    """A whole plan."""

    models: Annotated[
        tuple[ModelEntry, ...], pydantic.Field(min_length=1, strict=False)
    ]
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


def read_plan(path: Path) -> TuningPlan:
    """Reads a plan from a file. Raises PlanError."""
    return load_plan(path, TuningPlan)
