"""The schemas of each task's rows."""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, Field, create_model

from contract.options import ALTERNATIVES, BEAM_SIZE, THRESHOLD, TOP_K, Option

#: A length bound, even 0, makes pydantic reject lone surrogates.
_Text = Annotated[str, Field(min_length=0)]


class TranslationRow(BaseModel):
    """The body of a row to translate; `limit_row` adds a handler's limits."""

    src_lang: _Text
    src_text: _Text
    tgt_lang: str
    beam_size: int
    alternatives: int


class ClassificationRow(BaseModel):
    """The parameters of an image to classify."""

    top_k: int = Field(TOP_K.default, ge=TOP_K.least, le=TOP_K.most)


class DetectionRow(BaseModel):
    """The parameters of an image in which objects are detected."""

    threshold: float = Field(THRESHOLD.default, ge=THRESHOLD.least, le=THRESHOLD.most)


def limit_row(
    languages: Sequence[str], *, max_beam_size: int, max_alternatives: int
) -> type[TranslationRow]:
    """Return the schema of a handler's rows; `tgt_lang` is optional for a single language."""
    return create_model(
        "Row",
        __base__=TranslationRow,
        tgt_lang=(str, languages[0] if len(languages) == 1 else ...),
        beam_size=_limit(BEAM_SIZE, max_beam_size),
        alternatives=_limit(ALTERNATIVES, max_alternatives),
    )


def _limit(option: Option[int], most: int) -> Any:
    return int, Field(min(option.default, most), ge=option.least, le=most)
