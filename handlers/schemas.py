"""The schemas of each task's rows."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import BaseModel, Field, create_model

from contract.options import ALTERNATIVES, BEAM_SIZE, THRESHOLD, TOP_K

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

    top_k: int = Field(**TOP_K.limit())


class DetectionRow(BaseModel):
    """The parameters of an image in which objects are detected."""

    threshold: float = Field(**THRESHOLD.limit())


def limit_row(
    languages: Sequence[str], *, max_beam_size: int, max_alternatives: int
) -> type[TranslationRow]:
    """Return the schema of a handler's rows; `tgt_lang` is optional for a single language."""
    return create_model(
        "Row",
        __base__=TranslationRow,
        tgt_lang=(str, languages[0] if len(languages) == 1 else ...),
        beam_size=(int, Field(**BEAM_SIZE.limit(max_beam_size))),
        alternatives=(int, Field(**ALTERNATIVES.limit(max_alternatives))),
    )
