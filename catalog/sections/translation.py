"""The translation section of the map, and the engines that it can name."""

from __future__ import annotations

from typing import Literal, get_args

from pydantic import Field, ValidationInfo, field_validator

from catalog.sections import CountOrNone, Precision, Section, Text
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
    """Its keys and defaults."""

    model: Text = "models/phrasebook"
    #: `transformers` is the reference, `echo` runs no model at all.
    engine: Literal["ctranslate2", "transformers", "echo"] = "ctranslate2"
    #: `auto` is float16 on a GPU; on a CPU int8 with CTranslate2, float32 without.
    compute_type: Text = "auto"
    #: A model per target language, or one per device that serves all its languages.
    placement: Literal["language", "device"] = "language"
    #: Tokens of a part of a batch that is translated at once, rows of like length together;
    #: 0 leaves the rows as they came.
    max_batch_tokens: CountOrNone = 4096
    #: `language` allows only the pieces that the model's languages are written with, which is
    #: faster; CTranslate2 alone can do that.
    vocabulary: Literal["all", "language"] = "all"
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

    @field_validator("vocabulary")
    @classmethod
    def _suits_ctranslate2(cls, vocabulary: str, info: ValidationInfo) -> str:
        engine = info.data.get("engine", "ctranslate2")
        if vocabulary != "all" and engine != "ctranslate2":
            raise ValueError(f"all with the engine {engine}")
        return vocabulary
