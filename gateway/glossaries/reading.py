"""Reads uploaded glossaries, in our fields and in those of both versions of DeepL's API. As ten
megabytes take a second or more, large bodies are read in another process, by
`python -m gateway.glossaries.reading`.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import traceback
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import parse_qsl

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from contract.languages import normalize_variant
from contract.validation import list_faults
from gateway.errors import MalformedRequest
from gateway.glossaries.glossary import DictionaryDraft, GlossaryContent
from gateway.schemas import ForeignSchema, Lower, Text, read_object, warn_of_unknown
from text.entries import (
    CONTROLS,
    MOST_TERM_BYTES,
    read_csv,
    read_pairs,
    read_tsv,
    write_tsv,
)
from text.errors import EntriesError

#: Content types of bodies that contain only entries, and their formats.
_TABLES = {"text/csv": "csv", "text/tab-separated-values": "tsv"}
#: The names of a form's fields for a list of objects.
_INDEXED = re.compile(r"dictionaries\[(\d{1,4})\](?:\.(\w+)|\[(\w+)\])")
_LANGUAGES = ("source_lang", "src_lang"), ("target_lang", "tgt_lang")
_Format = Annotated[Literal["tsv", "csv"], Lower]


def _check_name(given: Any) -> Any:
    if isinstance(given, str):
        size = len(given.encode("utf-8", "surrogatepass"))
        if not 0 < size <= MOST_TERM_BYTES or not given.strip():
            raise ValueError(f"expected 1 to {MOST_TERM_BYTES} bytes, found {size}")
        if CONTROLS.search(given):
            raise ValueError("expected no control characters")
    return given


_Name = Annotated[Text, BeforeValidator(_check_name)]
_NAME = Field(description="The name of the glossary.", examples=["Our products"])


class OurGlossary(BaseModel, frozen=True):
    """The fields of `POST /glossaries`. If the body is TSV or CSV, the other fields are in the
    URL."""

    name: _Name = _NAME
    src_lang: Text = Field(description="The language of the terms.", examples=["en"])
    tgt_lang: Text = Field(
        description="The language of their translations.", examples=["de"]
    )
    entries: Annotated[dict[str, Text], Field(fail_fast=True)] | Text = Field(
        description="Terms and their translations, or both as TSV or CSV.",
        examples=[{"server": "Server"}],
    )
    entries_format: _Format = Field("tsv", description="The format of text entries.")


class PairFields(ForeignSchema):
    """A pair of languages in the URL."""

    source_lang: Text = Field(description="The language of the terms.")
    target_lang: Text = Field(description="The language of their translations.")


class DictionaryFields(PairFields):
    """DeepL's dictionary: the terms of a pair of languages."""

    entries: Text = Field(description="Terms and their translations, as TSV or CSV.")
    entries_format: _Format = Field(description="The format of the entries.")


# Only the first fault is reported; millions would take gigabytes.
_Dictionaries = Annotated[
    list[DictionaryFields], Field(fail_fast=True, max_length=10_000)
]


class GlossaryFields(DictionaryFields):
    """The fields of `POST /v2/glossaries`."""

    name: _Name = _NAME


class MultilingualFields(ForeignSchema):
    """The fields of `POST /v3/glossaries`."""

    name: _Name = _NAME
    dictionaries: _Dictionaries = Field(min_length=1, description="Its dictionaries.")


class ChangeFields(ForeignSchema):
    """The fields of `PATCH /v3/glossaries`: at least one of them."""

    name: _Name | None = Field(None, description="The new name.")
    dictionaries: _Dictionaries = Field(
        [], description="Entries to add. Existing terms are replaced."
    )

    @model_validator(mode="after")
    def _has_one(self) -> ChangeFields:
        if self.name is None and not self.dictionaries:
            raise ValueError("expected a name or dictionaries")
        return self


#: Schemas by the names in uploads. They ignore unknown fields.
SCHEMAS: dict[str, type[BaseModel]] = {
    schema.__name__: schema
    for schema in (
        OurGlossary,
        GlossaryFields,
        MultilingualFields,
        ChangeFields,
        DictionaryFields,
    )
}


class GlossaryUpload(NamedTuple):
    """A request: the schema of its fields, its query and its body."""

    schema: str
    media: str
    query: str
    body: bytes


class GlossaryFault(NamedTuple):
    """The reason an upload is unusable. `kind` is `body`, `missing`, `wrong` or `entries`."""

    kind: str
    field: str
    message: str


#: The result of reading an upload.
Answer = GlossaryContent | GlossaryFault
ANSWERS: TypeAdapter[Answer] = TypeAdapter(Answer)


def read(upload: GlossaryUpload) -> Answer:
    """Return the content of an upload, or its fault."""
    schema = SCHEMAS[upload.schema]
    try:
        content = _read_fields(upload)
        given = schema.model_validate(content).model_dump()
        drafts = tuple(map(_read_draft, given.get("dictionaries", [given])))
    except MalformedRequest as error:
        return GlossaryFault("body", "", error.detail)
    except ValidationError as error:
        fault = _find_fault(schema, error)
        more = warn_of_unknown(schema, content) if schema is OurGlossary else ()
        return fault._replace(message="; ".join((fault.message, *more)))
    except EntriesError as error:
        return GlossaryFault("entries", "entries", str(error))
    warnings = tuple(warn_of_unknown(schema, content))
    return GlossaryContent(given.get("name"), drafts, warnings)


def _find_fault(schema: type[BaseModel], error: ValidationError) -> GlossaryFault:
    """Return the first fault, with a field such as `dictionaries[0].entries`."""
    first = error.errors(include_url=False)[0]
    prefix = ""
    where = first["loc"]
    kind = "missing" if first["type"] == "missing" else "wrong"
    if first["type"] == "value_error":  # from `_check_name` or `_has_one`
        return GlossaryFault(kind, "name", str(first["ctx"]["error"]))
    if where[0] == "dictionaries":
        if len(where) < len(("dictionaries", 0, "entries")):
            expected = "expected a list of dictionaries"
            return GlossaryFault(kind, "dictionaries", expected)
        first["loc"] = where[2:]
        prefix = f"dictionaries[{where[1]}]."
        schema = DictionaryFields
    ((field, fault),) = list_faults([first], schema).items()
    return GlossaryFault(kind, f"{prefix}{field}", fault)


def _read_draft(pair: Mapping[str, Any]) -> DictionaryDraft:
    """Read the entries of a pair of languages. Raises EntriesError."""
    source, target = (
        normalize_variant(next(pair[name] for name in names if name in pair))
        for names in _LANGUAGES
    )
    given = pair["entries"]
    if isinstance(given, dict):
        entries = read_pairs(given.items())
    elif pair["entries_format"] == "csv":
        entries = read_csv(given, source, target)
    else:
        entries = read_tsv(given)
    return DictionaryDraft(source, target, write_tsv(entries), len(entries))


def _read_fields(upload: GlossaryUpload) -> dict[str, Any]:
    """Merge the fields of the query and the body; the latter win. Raises MalformedRequest."""
    fields = _read_form(upload.query.encode())
    kind = _TABLES.get(upload.media)
    if kind:
        return fields | {"entries": _decode(upload.body), "entries_format": kind}
    if upload.media.endswith("json") or upload.body.lstrip()[:1] == b"{":
        return fields | read_object(upload.body, _make_object)
    return fields | _read_form(upload.body)


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a JSON object without duplicate names, because names may be terms."""
    made: dict[str, Any] = {}
    for name, value in pairs:
        if name in made:
            raise MalformedRequest(f"The name {name[:40]!r} is repeated in an object.")
        made[name] = value
    return made


def _decode(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise MalformedRequest(
            f"The body is not UTF-8: byte {error.start} is wrong."
        ) from error


def _read_form(text: bytes) -> dict[str, Any]:
    """Read a form, in which `dictionaries[0].entries` is a field of a list's first object."""
    fields: dict[str, Any] = {}
    listed: dict[int, dict[str, str]] = {}
    try:
        pairs = parse_qsl(_decode(text), keep_blank_values=True, errors="strict")
    except UnicodeDecodeError as error:
        raise MalformedRequest("A field is not UTF-8.") from error
    for name, value in pairs:
        found = _INDEXED.fullmatch(name)
        if found:
            listed.setdefault(int(found[1]), {})[found[2] or found[3]] = value
        else:
            fields[name] = value
    if listed:
        fields["dictionaries"] = [listed[index] for index in sorted(listed)]
    return fields


def write_upload(upload: GlossaryUpload) -> bytes:
    """Write the reading process's input: a line of JSON, then the body."""
    *head, body = upload
    return json.dumps(head).encode() + b"\n" + body


def answer(upload: bytes) -> bytes:
    """Return the reading process's output, which `ANSWERS` parses."""
    asked, _, body = upload.partition(b"\n")
    return ANSWERS.dump_json(read(GlossaryUpload._make([*json.loads(asked), body])))


def main() -> None:
    """Read one upload from standard input, and write the answer to standard output."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(10)  # other requests come first
    sys.stdout.buffer.write(answer(sys.stdin.buffer.read()))


if __name__ == "__main__":
    try:
        main()
    except Exception as error:  # its message may quote a text
        where = "".join(traceback.format_tb(error.__traceback__))
        sys.exit(f"a glossary could not be read: {type(error).__name__}\n{where}")
