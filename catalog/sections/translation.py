"""The translation section of the map, and the engines that it may name."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from pydantic import Field, ValidationInfo, field_validator

from catalog.sections import PRECISION, CountOrNone, Precision, Section, Shape, Text
from contract.options import ALTERNATIVES, BEAM_SIZE

EngineName: TypeAlias = Literal["ctranslate2", "transformers", "echo"]
#: The engines of translation, each with the precisions that it supports.
ENGINES = {
    "ctranslate2": (
        "auto", "int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16",
        "float16", "bfloat16", "float32",
    ),
    "transformers": get_args(Precision),
    "echo": ("auto",),
}  # fmt: skip


class TargetSection(Shape):
    """The settings of one target language that differ from the section's."""

    model: Text | None = None
    engine: EngineName | None = None
    compute_type: Text | None = None
    fallback: Text | None = Field(
        None,
        description="Another `model` of the map, which answers [while this one is "
        "down](#several-models).",
    )
    fallback_quality: float = Field(
        0.0,
        ge=0,
        le=1,
        description="The fallback also answers if the quality is lower than this, from 0 to 1.",
    )


class TranslationSection(Section):
    """Settings for all translation models."""

    model: Text = "models/phrasebook"
    engine: EngineName = Field(
        "ctranslate2",
        description="`ctranslate2`; `transformers`, the reference; or `echo`, which returns "
        "the text and loads no model, to measure the cost of serving.",
    )
    # After `engine`: a field's validator sees only the fields before it.
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
    targets: dict[str, TargetSection] = Field(
        {}, description="Languages with [a model of their own](#several-models)."
    )
    pivot: Text | None = Field(
        None,
        description="The language through which a text is translated if the target's model "
        "does not read the text's own language.",
    )

    @field_validator("compute_type")
    @classmethod
    def _suits_the_engine(cls, precision: str, info: ValidationInfo) -> str:
        engine = info.data.get("engine")  # missing if it was itself invalid
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

    def narrow(self, target: str = "") -> TranslationSection:
        """Return the settings of a target's own model, or else of the general model."""
        named = self.targets.get(target, TargetSection()).model_dump(
            include={"model", "engine", "compute_type"}, exclude_none=True
        )
        return self.model_copy(update=named | {"targets": {}, "pivot": None})

    def find_fallback(self, target: str) -> TranslationSection | None:
        """Return the settings of a target's fallback model; None if it has none, or if `MODEL=`
        has made it the target's own model."""
        wanted = self.targets[target].fallback
        own = self.narrow(target).model
        models = map(self.narrow, ("", *self.targets))
        return next((each for each in models if each.model == wanted != own), None)

    def replace_model(self, model: str) -> TranslationSection:
        """Return the section with another general model, also where that is a fallback."""
        targets = {
            code: own.model_copy(update={"fallback": model})
            if own.fallback == self.model
            else own
            for code, own in self.targets.items()
        }
        return self.model_copy(update={"model": model, "targets": targets})
