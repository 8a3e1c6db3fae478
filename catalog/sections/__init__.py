"""The sections of the map, one file per task, and their common parts."""

import math
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field

CPU = "cpu"
#: The value of a setting that is derived from others.
AUTO = "auto"

#: The keys for a model's placement or for other models, which its processes do not need.
PLACEMENT = {"placement", "workers", "targets", "pivot"}
#: The keys for the placement, the server or the choice of the model, which no handler needs.
SERVING = PLACEMENT | {
    "model", "vocabulary", "batch_size", "max_batch_delay",
    "queue_size", "response_timeout", "idle_unload_s",
}  # fmt: skip


def _read_devices(value: Any) -> tuple[str, ...]:
    """Return the CPU, or the GPUs in ascending order, so that equal sets are equal tuples."""
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
    """Return the minimum and maximum; a single number is both."""
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
    """Round a share down to the four digits that Ray supports."""
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

#: The meaning of `compute_type` in every section.
PRECISION = (
    "The precision of the weights. `auto` is `float16` on a GPU; on a CPU it is `int8` with "
    "CTranslate2 and `float32` otherwise. CTranslate2 supports `int8`, `int8_float32`, "
    "`int8_float16`, `int8_bfloat16`, `int16`, `float16`, `bfloat16`, `float32`; other engines "
    "`float32`, `float16`, `bfloat16`."
)


class Shape(BaseModel, extra="forbid", frozen=True, strict=True):
    """An object without unknown keys."""


class Section(Shape):
    """The keys of every task's section. Their descriptions are in docs/configuration.md."""

    model: Text = Field(
        description="A model directory (relative to the repository), or a name on the "
        "Hugging Face hub, such as `facebook/m2m100_418M`, `Salesforce/blip2-opt-2.7b` (any "
        "BLIP-2 that Transformers loads), `microsoft/resnet-50` (any image classifier) or "
        "`PekingU/rtdetr_r50vd` (any object detector)."
    )
    batch_size: Count = Field(
        64, description="The largest batch, in rows; for captioning, in requests."
    )
    max_batch_delay: CountOrNone = Field(
        100,
        description="How long TorchServe waits for a batch to fill, in milliseconds.",
    )
    workers: Count = Field(
        1,
        description="Worker processes per model and device, each with its own copy of the "
        "weights.",
    )
    queue_size: Count = Field(
        4096,
        description="How many rows may wait for a model in the gateway; beyond that, "
        "requests get 429.",
    )
    response_timeout: Count = Field(
        60,
        description="How long a batch may take before TorchServe restarts the worker, in "
        "seconds.",
    )
    idle_unload_s: CountOrNone = Field(
        0,
        description="The seconds without a request after which a model is "
        "[unloaded](models.md#unused-models) until the next one; `0` means never.",
    )


class VisionSection(Section):
    """The keys of every image task's section."""

    compute_type: Precision = Field("auto", description=PRECISION)
    queue_size: Count = 256
    devices: Devices = Field(
        ("0",), description='A GPU, `"cpu"`, or a list of GPUs, as in `cuda_id`.'
    )
    threads: CountOrNone = Field(
        0,
        description="Threads of a worker on a CPU; 0 is one per core. With busy cores, a "
        "small model is faster with 1.",
    )
    max_pixels: Count = Field(
        7680 * 4320,
        description="The largest image or frame, in pixels (8K). Larger ones are refused "
        "before decoding.",
    )

    @property
    def engine(self) -> str:
        return "transformers"


class ClusterSection(Shape):
    """The placement of the replicas of one task's models on a Ray cluster."""

    replicas: Replicas = Field(
        "auto",
        description="The processes of each model, a number or `[min, max]` for autoscaling. "
        "`auto`: `workers` per device.",
    )
    max_replicas_per_machine: int = Field(
        0,
        ge=0,
        le=100,
        description="How many [replicas of a model](scaling.md#spread-the-replicas) may be "
        "on one machine, at most 100; `0` means any number.",
    )
    gpus: Share = Field(
        "auto",
        description="The share of a GPU that a replica needs, from `0.0001` to `1`. `auto`: "
        "an equal share for each worker that the map puts on the GPU.",
    )
    accelerator: Text = Field(
        "any", description="The type of GPU that replicas need, such as `H100`."
    )
