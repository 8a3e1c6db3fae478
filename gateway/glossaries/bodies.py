"""The fields of requests that write glossaries: our own, and those of DeepL's two versions."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from gateway.schemas import Text
from text.entries import CONTROLS, MOST_TERM_BYTES

_Lower = BeforeValidator(lambda given: given.lower() if type(given) is str else given)
_Format = Annotated[Literal["tsv", "csv"], _Lower]


def _check_name(given: Any) -> Any:
    if isinstance(given, str):
        size = len(given.encode("utf-8", "surrogatepass"))
        if not 0 < size <= MOST_TERM_BYTES or not given.strip():
            raise ValueError(f"expected 1 to {MOST_TERM_BYTES} bytes, found {size}")
        if CONTROLS.search(given):
            raise ValueError("expected no control characters")
    return given


_Name = Annotated[Text, BeforeValidator(_check_name)]
_NAME = Field(description="What it is called.", examples=["Our products"])


class Fields(BaseModel):
    """Unknown fields are ignored."""

    model_config = ConfigDict(frozen=True)


class OurGlossary(Fields):
    """The body of `POST /glossaries`. With TSV or CSV as the body, the others are in the
    URL."""

    name: _Name = _NAME
    src_lang: Text = Field(description="The language of the terms.", examples=["en"])
    tgt_lang: Text = Field(
        description="The language of their translations.", examples=["de"]
    )
    entries: dict[str, Text] | Text = Field(
        description="Terms and their translations, or both as TSV or CSV.",
        examples=[{"server": "Server"}],
    )
    entries_format: _Format = Field("tsv", description="How a text of entries is read.")


class DictionaryFields(Fields):
    """DeepL's dictionary: the terms of a pair of languages."""

    source_lang: Text = Field(description="The language of the terms.")
    target_lang: Text = Field(description="The language of their translations.")
    entries: Text = Field(description="Terms and their translations, as TSV or CSV.")
    entries_format: _Format = Field(description="How the entries are read.")


class GlossaryFields(DictionaryFields):
    """The fields of `POST /v2/glossaries`."""

    name: _Name = _NAME


class MultilingualFields(Fields):
    """The fields of `POST /v3/glossaries`."""

    name: _Name = _NAME
    dictionaries: list[DictionaryFields] = Field(
        min_length=1, description="Its dictionaries."
    )


class ChangeFields(Fields):
    """The fields of `PATCH /v3/glossaries`: at least one of them."""

    name: _Name | None = Field(None, description="Its new name.")
    dictionaries: list[DictionaryFields] = Field(
        [], description="Entries that are added, or replace others of the same term."
    )

    @model_validator(mode="after")
    def _has_one(self) -> ChangeFields:
        if self.name is None and not self.dictionaries:
            raise ValueError("expected a name or dictionaries")
        return self


#: By the names that `reading.py` is told.
SCHEMAS: dict[str, type[Fields]] = {
    schema.__name__: schema
    for schema in (
        *(OurGlossary, GlossaryFields, MultilingualFields),
        *(ChangeFields, DictionaryFields),
    )
}
