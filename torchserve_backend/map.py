"""The shape of `setup_config.json`, the map: its keys, defaults and permitted values. Every
refusal names the file, the key, the value found and what was expected.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from contract.languages import LANGUAGES
from contract.options import ALTERNATIVES, BEAM_SIZE
from contract.tasks import CAPTIONING, CLASSIFICATION, DETECTION, TRANSLATION

#: The tasks, for those who let others choose one.
Task = Literal["translation", "captioning", "classification", "detection"]

CPU = "cpu"

_Float = Literal["auto", "float32", "float16", "bfloat16"]
#: The engines of translation, each with the precisions that it can be asked for.
ENGINES = {
    "ctranslate2": (
        *("auto", "int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16"),
        *("float16", "bfloat16", "float32"),
    ),
    "transformers": get_args(_Float),
    "echo": ("auto",),
}

#: What pydantic's faults expected; a validator of ours says it itself.
_EXPECTED = {
    "dict_type": 'an object such as {{"ko": "0"}}',
    "too_short": 'an object such as {{"ko": "0"}}',
    "greater_than_equal": "a whole number of at least {ge}",
    "int_type": "a whole number",
    "less_than_equal": "a whole number of at most {le}",
    "literal_error": "{expected}",
    "model_type": "an object",
    "string_too_short": "a non-empty string",
    "string_type": "a non-empty string",
    "value_error": "{error}",
}


class CatalogError(ValueError):
    """The map cannot be used; the message says where and why."""


def _read_devices(value: Any) -> tuple[str, ...]:
    """The CPU, or GPUs in ascending order, so that the same ones are the same device."""
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


def _check_language(code: str) -> str:
    if code not in LANGUAGES:
        raise ValueError(f"a language of M2M100, one of {' '.join(LANGUAGES)}")
    return code


_Text = Annotated[str, Field(min_length=1)]
_Count = Annotated[int, Field(ge=1)]
_CountOrNone = Annotated[int, Field(ge=0)]
_Devices = Annotated[tuple[str, ...], BeforeValidator(_read_devices)]
_Language = Annotated[str, AfterValidator(_check_language)]


class _Shape(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _Section(_Shape):
    """What every task's section has."""

    #: A directory, or the name of a model on the Hugging Face hub.
    model: _Text
    #: Requests that TorchServe joins into one batch at most.
    batch_size: _Count = 64
    #: Milliseconds that TorchServe waits for a batch to fill.
    max_batch_delay: _CountOrNone = 100
    #: Processes per model and device, each with its own copy of the weights.
    workers: _Count = 1
    #: Rows that may wait for a model in the gateway; beyond that, requests get 429.
    queue_size: _Count = 4096
    #: Seconds a batch may take before TorchServe restarts the worker.
    response_timeout: _Count = 60


class Translation(_Section):
    """What all models of the translation section share."""

    model: _Text = "models/phrasebook"
    #: `transformers` is the reference, `echo` runs no model at all.
    engine: Literal["ctranslate2", "transformers", "echo"] = "ctranslate2"
    #: `auto` is float16 on a GPU; on a CPU int8 with CTranslate2, float32 without.
    compute_type: _Text = "auto"
    #: A model per target language, or one per device that serves all its languages.
    placement: Literal["language", "device"] = "language"
    #: Tokens of a part of a batch that is translated at once, rows of like length together;
    #: 0 leaves the rows as they came.
    max_batch_tokens: _CountOrNone = 4096
    #: The widest beam that a request may ask for.
    max_beam_size: int = Field(BEAM_SIZE.most, ge=BEAM_SIZE.least, le=BEAM_SIZE.most)
    #: Other translations that a request may ask for, besides the best.
    max_alternatives: int = Field(
        ALTERNATIVES.most, ge=ALTERNATIVES.least, le=ALTERNATIVES.most
    )

    @field_validator("compute_type")
    @classmethod
    def _suits_the_engine(cls, precision: str, info: ValidationInfo) -> str:
        engine = info.data.get("engine")  # missing where it was refused itself
        known = ENGINES.get(engine or "", (precision,))
        if precision not in known:
            raise ValueError(f"one of {', '.join(known)} with the engine {engine}")
        return precision


class Vision(_Section):
    """What the sections of the tasks that take images share."""

    devices: _Devices = ("0",)
    #: `auto` is float16 on a GPU, and float32 on a CPU.
    compute_type: _Float = "auto"
    queue_size: _Count = 256
    #: Threads of a worker on a CPU; 0 is one per core. Several that wait for the same cores
    #: slow a small model down many times.
    threads: _CountOrNone = 0
    #: Pixels of an image before it is scaled; 8K has as many.
    max_pixels: _Count = 7680 * 4320

    @property
    def engine(self) -> str:
        """What runs the model."""
        return "transformers"


class Captioning(Vision):
    """The captioning section."""

    model: _Text = "models/shapes/captioning"
    #: A request brings a batch of frames of its own.
    batch_size: _Count = 1
    max_batch_delay: _CountOrNone = 0
    response_timeout: _Count = 120
    #: Frames that the model reads at once.
    max_batch_frames: _Count = 32
    #: Tokens of a caption.
    max_tokens: _Count = 30


class Classification(Vision):
    """The classification section."""

    model: _Text = "models/shapes/classification"
    max_batch_delay: _CountOrNone = 5


class Detection(Vision):
    """The detection section."""

    model: _Text = "models/shapes/detection"
    batch_size: _Count = 8
    max_batch_delay: _CountOrNone = 5


Section = Translation | Vision
#: The tasks that take images, in the order in which they are shown.
VISION: Mapping[str, type[Vision]] = MappingProxyType(
    {CAPTIONING: Captioning, CLASSIFICATION: Classification, DETECTION: Detection}
)
#: All tasks.
SECTIONS: Mapping[str, type[Section]] = MappingProxyType(
    {TRANSLATION: Translation, **VISION}
)


class Map(_Shape):
    """The whole file. A section that is not in it has its defaults here, and is not served."""

    #: The devices of each language.
    cuda_id: dict[_Language, _Devices] = Field({}, min_length=1)
    translation: Translation = Translation()
    captioning: Captioning = Captioning()
    classification: Classification = Classification()
    detection: Detection = Detection()
    #: How many GPUs the host has; `make up` writes it into the copy that it freezes.
    gpus: _CountOrNone = 0

    @model_validator(mode="before")
    @classmethod
    def _ask_for_languages(cls, content: Any) -> Any:
        """A map that names other tasks alone needs none."""
        if not isinstance(content, dict):
            return content
        is_needed = TRANSLATION in content or VISION.keys().isdisjoint(content)
        return {"cuda_id": None, **content} if is_needed else content

    @property
    def vision(self) -> dict[str, Vision]:
        """The sections that are there."""
        return {t: getattr(self, t) for t in VISION if t in self.model_fields_set}

    @property
    def asked(self) -> dict[str, tuple[str, ...]]:
        """The devices that are asked for, by their place in the file."""
        return {
            **{f"cuda_id.{code}": devices for code, devices in self.cuda_id.items()},
            **{f"{task}.devices": s.devices for task, s in self.vision.items()},
        }


_AnyShape = TypeVar("_AnyShape", bound=BaseModel)


def check(shape: type[_AnyShape], content: object, where: str = "") -> _AnyShape:
    """The content as a value. Raises CatalogError with a line per fault, behind `where`."""
    try:
        return shape.model_validate(content)
    except ValidationError as error:
        faults = (_describe(shape, fault) for fault in error.errors())
        raise CatalogError(
            "\n".join(": ".join(filter(None, (where, *fault))) for fault in faults)
        ) from error


def _describe(shape: type[BaseModel], fault: Any) -> tuple[str, str]:
    """The place of a fault, and the sentence about it."""
    place = [str(part) for part in fault["loc"] if part != "[key]"]
    if fault["type"] == "extra_forbidden":
        owner = SECTIONS[place[0]] if len(place) > 1 else shape
        sentence = f"unknown key, expected one of {', '.join(owner.model_fields)}"
    else:
        expected = _EXPECTED[fault["type"]].format(**fault.get("ctx", {}))
        sentence = f"expected {expected}, found {fault['input']!r}"
    return ".".join(place), sentence


def read_file(path: Path) -> Any:
    """The JSON in a file. Raises CatalogError where it cannot be read, or has a key twice."""
    try:
        return json.loads(path.read_text("utf-8"), object_pairs_hook=_refuse_duplicates)
    except (OSError, ValueError) as error:
        raise CatalogError(f"{path}: {error}") from error


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
