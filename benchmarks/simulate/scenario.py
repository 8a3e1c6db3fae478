"""A scenario in YAML: the traffic, the replicas that answer it, and what they cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from benchmarks import plan_file
from benchmarks.simulate.service import Positive, Service, ServiceEntry

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
_ALIKE = ConfigDict(extra="forbid", frozen=True, strict=True)

Natural = Annotated[float, Field(ge=0, allow_inf_nan=False, strict=False)]
Count = Annotated[int, Field(ge=1)]


def _make_bounds(value: Any) -> Any:
    """Makes `[3, 3]` of 3, as the map does."""
    return tuple(value) if isinstance(value, list | tuple) else (value, value)


class TrafficEntry(BaseModel):
    """Which requests come, and when. A request is one sentence."""

    model_config = _ALIKE

    #: Requests/s of all languages, the mean of a day; they come at random.
    requests_per_s: Positive | None = None
    #: Instead: clients, each of which asks again as soon as it has its answer.
    clients: Count | None = None
    #: A number of languages, or each with its share; shares are made to add up to 1.
    languages: Count | Mapping[str, Positive] = 1
    #: With a number: language n has 1 / n to this power of the first one's traffic.
    zipf: Natural = 1.0
    #: How far the peak is above the mean, and the trough below it; 0 for no wave.
    wave: Annotated[float, Field(ge=0, le=1, strict=False)] = 0.0
    peak_hour: Annotated[float, Field(ge=0, lt=24, strict=False)] = 14.0
    #: The mean length of a sentence, and the standard deviation divided by it.
    tokens: Positive | None = None
    tokens_spread: Natural = 0.0
    #: A request that cannot be answered in time is refused.
    timeout_s: Positive = 30.0

    @model_validator(mode="after")
    def _check_kind(self) -> TrafficEntry:
        if (self.requests_per_s is None) == (self.clients is None):
            raise ValueError("expected either requests_per_s or clients")
        if self.clients and self.wave:
            raise ValueError("clients that wait for their answers make no wave")
        return self

    def find_shares(self) -> dict[str, float]:
        """Each language's share of the traffic, the largest first."""
        if isinstance(self.languages, int):
            names = [f"language-{n}" for n in range(1, self.languages + 1)]
            weights = {name: n**-self.zipf for n, name in enumerate(names, 1)}
        else:
            weights = dict(self.languages)
        total = sum(weights.values())
        ranked = sorted(weights.items(), key=lambda item: -item[1])
        return {name: weight / total for name, weight in ranked}

    def find_rate(self, at_s: float) -> float:
        """Requests/s of all languages, so long after midnight."""
        phase = 2 * math.pi * (at_s - self.peak_hour * HOUR_S) / DAY_S
        return (self.requests_per_s or 0.0) * (1 + self.wave * math.cos(phase))


class GatewayEntry(BaseModel):
    """The processes in front of the replicas."""

    model_config = _ALIKE

    processes: Count = 1
    #: CPU of a request, which keeps its process busy.
    request_ms: Natural = 0.0
    #: Programs that choose the replicas, each by what it has sent itself.
    ingresses: Count = 1
    #: `leastconn` takes the replica with the fewest requests, as HAProxy does;
    #: `two_choices` the better one of two, as Serve's own proxy does.
    routing: Literal["leastconn", "two_choices"] = "leastconn"


class ReplicaEntry(BaseModel):
    """One replica. The keys of batches are those of the map."""

    model_config = _ALIKE

    service: ServiceEntry
    batch_size: Count = 64
    max_batch_delay: Natural = 100.0
    #: Batches that run at the same time, each as fast as one alone.
    workers: Count = 1
    queue_size: Count = 1000
    gpus: Natural = 1.0
    #: From the wish for a replica to its first answer.
    start_s: Natural = 60.0
    #: How long a replica stays that gets no more requests.
    drain_s: Natural = 35.0


class AutoscalingEntry(BaseModel):
    """When replicas come and go, in the words and with the defaults of Serve."""

    model_config = _ALIKE

    #: Replicas at the beginning; the fewest where it is missing.
    initial_replicas: Count | None = None
    #: Requests that a replica should have, those included that wait for it; a batch where
    #: it is missing, as `ray_backend.config` says it to Serve.
    target_ongoing_requests: Positive | None = None
    upscale_delay_s: Natural = 30.0
    downscale_delay_s: Natural = 600.0
    look_back_period_s: Positive = 30.0
    #: How often the replicas tell their numbers.
    push_interval_s: Positive = 10.0


class StretchEntry(BaseModel):
    """A stretch of time that is simulated as it is, with every replica."""

    model_config = _ALIKE

    #: What counts, after `settle_s` that do not.
    seconds: Positive = 600.0
    settle_s: Natural = 60.0
    from_hour: Annotated[float, Field(ge=0, lt=24, strict=False)] = 0.0


class DayEntry(BaseModel):
    """A day of a cluster that is too large to be simulated as it is."""

    model_config = _ALIKE

    #: Moments, evenly spread, that stand for the day.
    moments: Count = 24
    #: What counts of each, after `settle_s` that do not.
    seconds: Positive = 30.0
    settle_s: Natural = 10.0
    #: A language's replicas are represented by this many, with their part of the traffic.
    most_replicas: Count = 4


class PriceEntry(BaseModel):
    """What an hour costs, in any currency."""

    model_config = _ALIKE

    gpu_hour: Natural = 0.0
    #: A replica's part of its machine, beside its GPUs.
    replica_hour: Natural = 0.0
    gateway_hour: Natural = 0.0


class Scenario(BaseModel):
    """What is simulated."""

    model_config = _ALIKE

    traffic: TrafficEntry
    replica: ReplicaEntry
    #: A number for each language, or the fewest and the most.
    replicas: Annotated[tuple[Count, Count], BeforeValidator(_make_bounds)] = (1, 1)
    autoscaling: AutoscalingEntry = AutoscalingEntry()
    gateways: GatewayEntry = GatewayEntry()
    stretch: StretchEntry = StretchEntry()
    day: DayEntry | None = None
    price: PriceEntry = PriceEntry()

    @model_validator(mode="after")
    def _check_parts(self) -> Scenario:
        least, most = self.replicas
        if least > most:
            raise ValueError(f"replicas: {least} are more than {most}")
        initial = self.autoscaling.initial_replicas
        if initial and not least <= initial <= most:
            raise ValueError(f"initial_replicas: expected {least} to {most}")
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

    def make_service(self) -> Service:
        """How long batches of sentences of the mean length take. Raises ValueError if the
        file with them is no good."""
        entry = self.replica.service
        return entry.make_service().scale(self.tokens / entry.tokens)


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
    except ValidationError as error:
        raise ValueError(f"{', '.join(texts)}: {error}") from error


def read_scenario(path: Path) -> Scenario:
    """Reads a scenario; its `file` is looked for beside it. Raises PlanError."""
    scenario = plan_file.read(path, Scenario)
    entry = scenario.replica.service
    if entry.file is None:
        return scenario
    service = entry.model_copy(update={"file": str(path.parent / entry.file)})
    replica = scenario.replica.model_copy(update={"service": service})
    return scenario.model_copy(update={"replica": replica})
