"""The translation section of the map, and the engines that it can name."""

from __future__ import annotations

from typing import Literal, get_args

from pydantic import Field, ValidationInfo, field_validator

from catalog.sections import PRECISION, CountOrNone, Precision, Section, Text
from contract.options import ALTERNATIVES, BEAM_SIZE

#: The engines of translation, each with the precisions that it can be asked for.
ENGINES = {
    "ctranslate2": (
        *("auto", "int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16"),
        *("float16", "bfloat16", "float32"),
    ),
    "transformers": get_args(Precision),
    "echo": ("auto",),
}


class TranslationSection(Section):
    """Settings for all translation models."""

    model: Text = "models/phrasebook"
    engine: Literal["ctranslate2", "transformers", "echo"] = Field(
        "ctranslate2",
        description="`ctranslate2`; `transformers`, the reference; or `echo`, which returns "
        "the text and loads no model, to measure the cost of serving.",
    )
    # Behind `engine`: a field's validator sees only those before it.
    compute_type: Text = Field("auto", description=PRECISION)
    placement: Literal["language", "device"] = Field(
        "language",
        description="`language`: a TorchServe model per language. `device`: one per device, "
        "for [all its languages](#placement).",
    )
    max_batch_tokens: CountOrNone = Field(
        4096,
        description="How many tokens, including padding, the engine translates at once, "
        "sorted by length. `0` disables this.",
    )
    vocabulary: Literal["all", "language"] = Field(
        "all",
        description="`language`: a translation consists only of the [pieces of the model's "
        "target languages](#output-vocabulary), which is faster; CTranslate2 only.",
    )
    max_beam_size: int = Field(
        BEAM_SIZE.most,
        ge=BEAM_SIZE.least,
        le=BEAM_SIZE.most,
        description="The widest beam that a request may ask for, 1 to 8.",
    )
    max_alternatives: int = Field(
        ALTERNATIVES.most,
        ge=ALTERNATIVES.least,
        le=ALTERNATIVES.most,
        description="Alternatives that a request may ask for, 0 to 5.",
    )

    @field_validator("compute_type")
    @classmethod
    def _suits_the_engine(cls, precision: str, info: ValidationInfo) -> str:
        engine = info.data.get("engine")  # missing where it was refused itself
        known = ENGINES.get(engine or "", (precision,))
        if precision not in known:
            raise ValueError(f"one of {', '.join(known)} with the engine {engine}")
        return precision

    @field_validator("vocabulary")
    @classmethod
    def _suits_ctranslate2(cls, vocabulary: str, info: ValidationInfo) -> str:
        engine = info.data.get("engine", "ctranslate2")
        if vocabulary != "all" and engine != "ctranslate2":
            raise ValueError(f"all with the engine {engine}")
        return vocabulary
