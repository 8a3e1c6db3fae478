"""The sections of the map, one file per task, and what they share."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

CPU = "cpu"
#: For a setting that follows from others.
AUTO = "auto"


def _read_devices(value: Any) -> tuple[str, ...]:
    """The CPU, or GPUs in ascending order, so equal sets are equal devices."""
    if value == CPU:
        return (CPU,)
    numbers = value if isinstance(value, list | tuple) else [value]
    are_gpus = all(
        isinstance(number, str) and number.isascii() and number.isdigit()
        for number in numbers
    )
    gpus = sorted(set(map(int, numbers))) if are_gpus else []
    if not gpus or len(gpus) < len(numbers):
        raise ValueError(
            '"cpu", a GPU number such as "0", or a list of different GPU numbers such as '
            '["0", "1"]'
        )
    return tuple(map(str, gpus))


def _read_replicas(value: Any) -> tuple[int, int] | str:
    """The fewest and the most; a number alone is both."""
    if value == AUTO:
        return AUTO
    span = list(value) if isinstance(value, list | tuple) else [value, value]
    are_counts = all(type(number) is int and number >= 1 for number in span)
    if not are_counts or len(span) != 2 or span[0] > span[1]:
        raise ValueError(
            '"auto", a whole number of at least 1, or the fewest and the most such as '
            "[1, 4]"
        )
    return span[0], span[1]


def _read_share(value: Any) -> float | str:
    """Ray knows four digits of a share."""
    if value == AUTO:
        return AUTO
    if type(value) not in (int, float) or not 0.0001 <= value <= 1:
        raise ValueError('"auto", or a number from 0.0001 to 1')
    share: float = math.floor(value * 10_000) / 10_000
    return share


Text = Annotated[
    str, Field(min_length=1, json_schema_extra={"format": "non-empty string"})
]
Count = Annotated[int, Field(ge=1)]
CountOrNone = Annotated[int, Field(ge=0)]
Devices = Annotated[tuple[str, ...], BeforeValidator(_read_devices)]
Replicas = Annotated[tuple[int, int] | Literal["auto"], BeforeValidator(_read_replicas)]
Share = Annotated[float | Literal["auto"], BeforeValidator(_read_share)]
Precision = Literal["auto", "float32", "float16", "bfloat16"]


class Shape(BaseModel):
    """An object without unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Section(Shape):
    """The keys of every task's section."""

    #: A directory, or the name of a model on the Hugging Face hub.
    model: Text
    #: Requests that TorchServe joins into one batch at most.
    batch_size: Count = 64
    #: Milliseconds that TorchServe waits for a batch to fill.
    max_batch_delay: CountOrNone = 100
    #: Processes per model and device, each with its own copy of the weights.
    workers: Count = 1
    #: Rows that may wait for a model in the gateway; beyond that, requests get 429.
    queue_size: Count = 4096
    #: Seconds a batch may take before TorchServe restarts the worker.
    response_timeout: Count = 60
    #: Processes of a model on a cluster, the fewest and the most; `auto` is as many as its
    #: workers on all its devices.
    replicas: Replicas = "auto"
    #: How many of them may be on one machine; 0 is any number, and Ray knows no more than 100.
    max_replicas_per_machine: int = Field(0, ge=0, le=100)
    #: GPUs of one of them; `auto` is what a worker has where all workers of the map's GPU
    #: share it equally.
    gpus: Share = "auto"
    #: The type of GPU that they need, as Ray names it.
    accelerator: Text = "any"


class VisionSection(Section):
    """The keys of every section of a task that takes images."""

    devices: Devices = ("0",)
    #: `auto` is float16 on a GPU, and float32 on a CPU.
    compute_type: Precision = "auto"
    queue_size: Count = 256
    #: Threads of a worker on a CPU; 0 is one per core. Several that wait for the same cores
    #: slow a small model down many times.
    threads: CountOrNone = 0
    #: Pixels of an image before it is scaled; 8K has as many.
    max_pixels: Count = 7680 * 4320

    @property
    def engine(self) -> str:
        """The engine that runs the model."""
        return "transformers"
