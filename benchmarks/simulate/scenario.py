"""A scenario in YAML: the traffic, the replicas that answer it, and what they cost."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pydantic
import yaml

from benchmarks.driver import PlanEntry, Positive, load_plan

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S

Natural = Annotated[float, pydantic.Field(ge=0, allow_inf_nan=False, strict=False)]
Count = Annotated[int, pydantic.Field(ge=1)]
Hour = Annotated[float, pydantic.Field(ge=0, lt=24, strict=False)]


class ServiceEntry(PlanEntry):
    """One of: a table, a line, or the file of `python -m benchmarks study`."""

    #: Milliseconds of a batch, by its rows.
    ms: Mapping[Count, Positive] = {}
    #: A batch takes `fixed_ms`, and `row_ms` for each row.
    fixed_ms: Natural | None = None
    row_ms: Natural | None = None
    file: str | None = None
    #: The mean tokens of a row in what was measured.
    tokens: Positive = 8.0

    @pydantic.model_validator(mode="after")
    def _check_kind(self) -> ServiceEntry:
        line = [each for each in (self.fixed_ms, self.row_ms) if each is not None]
        if [bool(self.ms), bool(line), self.file is not None].count(True) != 1:
            raise ValueError("expected one of ms, file, or fixed_ms with row_ms")
        if line and not (len(line) == 2 and any(line)):
            raise ValueError("expected both fixed_ms and row_ms, and one above 0")
        return self

    def read_points(self) -> list[tuple[float, float]]:
        """Return milliseconds of a batch by its rows, the smallest first. Raises ValueError
        if the file is not as `study` writes it."""
        if self.file is not None:
            return _read_study(Path(self.file))
        if self.fixed_ms is not None and self.row_ms is not None:
            first = self.fixed_ms + self.row_ms
            return [(1, first), (2, first + self.row_ms)]
        return sorted(self.ms.items())


def _read_study(path: Path) -> list[tuple[float, float]]:
    try:
        measured = json.loads(path.read_text("utf-8"))["results"]["measured"]
        points = {int(m["batch"]): float(m["ms_per_batch"]["median"]) for m in measured}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path}: expected what `python -m benchmarks study` writes ({error!r})"
        ) from error
    if not points or len(points) < len(measured):
        raise ValueError(f"{path}: expected one device with each batch size once")
    return sorted(points.items())


def _make_bounds(value: Any) -> Any:
    """Makes `[3, 3]` of 3, as the map does."""
    return tuple(value) if isinstance(value, list | tuple) else (value, value)


class TrafficEntry(PlanEntry):
    """The traffic: requests and their times. A request is one sentence."""

    #: Requests/s of all languages, the mean of a day; they come at random.
    requests_per_s: Positive | None = None
    #: Instead: clients, each of which asks again as soon as it has its answer.
    clients: Count | None = None
    #: A number of languages, or each with its share; shares are made to add up to 1.
    languages: Count | Mapping[str, Positive] = 1
    #: With a number: language n has 1 / n to this power of the first one's traffic.
    zipf: Natural = 1.0
    #: The height of the peak above the mean, and of the trough below it; 0 for no wave.
    wave: Annotated[float, pydantic.Field(ge=0, le=1, strict=False)] = 0.0
    peak_hour: Hour = 14.0
    #: The mean length of a sentence, and the standard deviation divided by it.
    tokens: Positive | None = None
    tokens_spread: Natural = 0.0
    #: A request that cannot be answered in time is refused.
    timeout_s: Positive = 30.0

    @pydantic.model_validator(mode="after")
    def _check_kind(self) -> TrafficEntry:
        if (self.requests_per_s is None) == (self.clients is None):
            raise ValueError("expected either requests_per_s or clients")
        if self.clients and self.wave:
            raise ValueError("clients that wait for their answers make no wave")
        return self

    def find_shares(self) -> dict[str, float]:
        """Each language's share of the traffic, the largest first."""
        weights = self.languages
        if isinstance(weights, int):
            numbers = range(1, weights + 1)
            weights = {f"language-{n}": n**-self.zipf for n in numbers}
        total = sum(weights.values())
        ranked = sorted(weights.items(), key=lambda item: -item[1])
        return {name: weight / total for name, weight in ranked}

    def find_rate(self, at_s: float) -> float:
        """Requests/s of all languages, so long after midnight."""
        phase = 2 * math.pi * (at_s - self.peak_hour * HOUR_S) / DAY_S
        return (self.requests_per_s or 0.0) * (1 + self.wave * math.cos(phase))


class GatewayEntry(PlanEntry):
    """The processes in front of the replicas."""

    processes: Count = 1
    #: CPU of a request, which keeps its process busy.
    request_ms: Natural = 0.0
    #: Programs that choose the replica with the fewest requests that it has sent itself, as
    #: HAProxy does.
    ingresses: Count = 1


class ReplicaEntry(PlanEntry):
    """One replica. The keys of batches are those of the map."""

    service: ServiceEntry
    batch_size: Count = 64
    max_batch_delay: Natural = 100.0
    #: Batches that run at the same time, each as fast as one alone.
    workers: Count = 1
    queue_size: Count = 1000
    gpus: Natural = 1.0
    #: From the wish for a replica to its first answer.
    start_s: Natural = 60.0


class AutoscalingEntry(PlanEntry):
    """The rules by which replicas come and go in a day, with Serve's names and defaults."""

    #: Requests that a replica should have, those included that wait for it; a batch where
    #: it is missing, as `ray_backend.config` says it to Serve.
    target_ongoing_requests: Positive | None = None
    upscale_delay_s: Natural = 30.0
    downscale_delay_s: Natural = 600.0
    look_back_period_s: Positive = 30.0


class StretchEntry(PlanEntry):
    """A stretch of time that is simulated as it is, with all replicas and the traffic of its
    first moment."""

    #: The seconds that count, after `settle_s` that do not.
    seconds: Positive = 600.0
    settle_s: Natural = 60.0
    from_hour: Hour = 0.0


class DayEntry(PlanEntry):
    """A day of a cluster that is too large to be simulated as it is."""

    #: Moments, evenly spread, that stand for the day.
    moments: Count = 24
    #: The seconds of each that count, after `settle_s` that do not.
    seconds: Positive = 30.0
    settle_s: Natural = 10.0
    #: A language's replicas are represented by this many, with their part of the traffic.
    most_replicas: Count = 4


class PriceEntry(PlanEntry):
    """The price of an hour, in any currency."""

    gpu_hour: Natural = 0.0
    #: A replica's part of its machine, beside its GPUs.
    replica_hour: Natural = 0.0
    gateway_hour: Natural = 0.0


class Scenario(PlanEntry):
    """The subject of a simulation."""

    traffic: TrafficEntry
    replica: ReplicaEntry
    #: A number for each language, or in a day the fewest and the most.
    replicas: Annotated[tuple[Count, Count], pydantic.BeforeValidator(_make_bounds)] = (
        1,
        1,
    )
    autoscaling: AutoscalingEntry = AutoscalingEntry()
    gateways: GatewayEntry = GatewayEntry()
    stretch: StretchEntry = StretchEntry()
    day: DayEntry | None = None
    price: PriceEntry = PriceEntry()

    @pydantic.model_validator(mode="after")
    def _check_parts(self) -> Scenario:
        least, most = self.replicas
        if least > most:
            raise ValueError(f"replicas: {least} are more than {most}")
        if least < most and not self.day:
            raise ValueError("replicas: expected one number, or a day")
        if self.day and self.traffic.clients:
            raise ValueError("a day needs requests_per_s instead of clients")
        return self

    @property
    def batch_size(self) -> int:
        """A batch is never larger than the queue, as in MicroBatcher."""
        return min(self.replica.batch_size, self.replica.queue_size)

    @property
    def target_ongoing_requests(self) -> float:
        """Requests that a replica should have."""
        return self.autoscaling.target_ongoing_requests or max(2, self.batch_size)

    @property
    def tokens(self) -> float:
        """The mean length of a sentence: that of the measured ones if none is named."""
        return self.traffic.tokens or self.replica.service.tokens

    def tabulate(self) -> list[float]:
        """Return the seconds of a batch of sentences of the mean length, by its rows from 0.
        Beyond the measured sizes, the line of the last two goes on, and below them the
        first one's time holds. Raises ValueError if the file with them is no good."""
        entry = self.replica.service
        sizes, times = map(np.array, zip(*entry.read_points(), strict=True))
        rows = np.arange(1, self.batch_size + 1)
        ms = np.interp(rows, sizes, times)
        if len(sizes) > 1:
            slope = (times[-1] - times[-2]) / (sizes[-1] - sizes[-2])
            ms += np.maximum(rows - sizes[-1], 0) * slope
        return [0.0, *(ms * self.tokens / entry.tokens / 1000).tolist()]


def change(scenario: Scenario, texts: Sequence[str]) -> Scenario:
    """The scenario with other values, such as `traffic.languages=100`. Raises ValueError."""
    content = scenario.model_dump(exclude_unset=True)
    for text in texts:
        place, equals, value = text.partition("=")
        *parents, key = place.split(".")
        entry = content
        for parent in parents:
            entry = entry.setdefault(parent, {})
        if not (equals and isinstance(entry, dict)):
            raise ValueError(f"{text!r}: expected KEY.KEY=VALUE, as in the scenario")
        entry[key] = yaml.safe_load(value)
    try:
        return Scenario.model_validate(content)
    except pydantic.ValidationError as error:
        raise ValueError(f"{', '.join(texts)}: {error}") from error


def read_scenario(path: Path) -> Scenario:
    """Reads a scenario; its `file` is looked for beside it. Raises PlanError."""
    scenario = load_plan(path, Scenario)
    entry = scenario.replica.service
    if entry.file is None:
        return scenario
    service = entry.model_copy(update={"file": str(path.parent / entry.file)})
    replica = scenario.replica.model_copy(update={"service": service})
    return scenario.model_copy(update={"replica": replica})
