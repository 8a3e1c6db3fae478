"""DeepL's glossaries: `/v2/glossaries`, each for one pair of languages, and `/v3/glossaries`,
with a dictionary for each pair.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from flask import Blueprint, Response
from pydantic import Field
from typing_extensions import TypedDict

from contract.languages import normalize_language
from contract.tasks import TRANSLATION
from gateway.api import Services
from gateway.api.deepl import WORDING, write_code
from gateway.api.glossaries import (
    TSV,
    make_large_blueprint,
    mark_created,
    read_upload,
    write_nothing,
    write_table,
    write_time,
)
from gateway.errors import MalformedRequest, Problem, UnknownGlossary
from gateway.glossaries.bodies import (
    ChangeFields,
    DictionaryFields,
    GlossaryFields,
    MultilingualFields,
)
from gateway.glossaries.glossary import Dictionary, DictionaryDraft, Glossary
from gateway.glossaries.library import Glossaries
from gateway.glossaries.reading import GlossaryContent, GlossaryFault
from gateway.http.request import read_fields, request
from gateway.openapi.operations import BodySchema, Operation, choose, describe
from gateway.openapi.refusals import STORING_GLOSSARIES
from gateway.schemas import ForeignSchema, Text, parse_fields, refuse
from gateway.services.translation import TranslationService

#: JSON, and the forms of `deepl-node`.
_MEDIA = ("application/json", "application/x-www-form-urlencoded")
_ANY: Mapping[str, tuple[str, ...]] = {"glossary_id": ()}


class PairFields(ForeignSchema):
    """A pair of languages in the URL."""

    source_lang: Text = Field(description="The language of the terms.")
    target_lang: Text = Field(description="The language of their translations.")


class MonolingualInfo(TypedDict):
    """A glossary of version 2."""

    glossary_id: str
    name: str
    ready: bool
    source_lang: str
    target_lang: str
    creation_time: str
    entry_count: int


class MonolingualList(TypedDict):
    """The glossaries with one dictionary."""

    glossaries: list[MonolingualInfo]


class DictionaryInfo(TypedDict):
    """A dictionary without its entries."""

    source_lang: str
    target_lang: str
    entry_count: int


class MultilingualInfo(TypedDict):
    """A glossary of version 3."""

    glossary_id: str
    name: str
    dictionaries: list[DictionaryInfo]
    creation_time: str


class MultilingualList(TypedDict):
    """All glossaries."""

    glossaries: list[MultilingualInfo]


class DictionaryEntries(TypedDict):
    """A dictionary with its entries."""

    source_lang: str
    target_lang: str
    entries: str
    entries_format: str


class EntriesList(TypedDict):
    """The dictionary that was asked for."""

    dictionaries: list[DictionaryEntries]


def make_blueprints(services: Services) -> list[Blueprint]:
    """The routes of both versions."""
    service = services.translation
    blueprint = make_large_blueprint("deepl_glossaries", service)
    _add_version_2(blueprint, service)
    _add_version_3(blueprint, service)
    _add_changes(blueprint, service)
    _add_dictionaries(blueprint, service)
    return [blueprint]


def _add_version_2(blueprint: Blueprint, service: TranslationService) -> None:
    glossaries = service.glossaries

    @blueprint.post("/v2/glossaries")
    @describe(_describe("Makes a glossary", _show_body(service), status=201))
    def create_2() -> MonolingualInfo:
        made = _create(service, GlossaryFields.__name__)
        mark_created(f"/v2/glossaries/{made.id}")
        return _show_2(made)

    @blueprint.get("/v2/glossaries")
    @describe(_describe("The glossaries of one pair of languages"))
    def list_2() -> MonolingualList:
        found = glossaries.list_all(request.owner)
        return {"glossaries": [_show_2(one) for one in found if _is_monolingual(one)]}

    @blueprint.get("/v2/glossaries/<glossary_id>")
    @describe(_describe("A glossary", path=_ANY))
    def find_2(glossary_id: str) -> MonolingualInfo:
        return _show_2(_find_2(glossaries, glossary_id))

    @blueprint.get("/v2/glossaries/<glossary_id>/entries")
    @describe(_describe("Its entries", path=_ANY, media=(TSV,)))
    def entries_2(glossary_id: str) -> Response:
        found = _find_2(glossaries, glossary_id)
        (only,) = found.dictionaries
        return write_table(glossaries.read_entries(found, (only.source, only.target)))

    @blueprint.delete("/v2/glossaries/<glossary_id>")
    @describe(_describe("Deletes it", path=_ANY, status=204))
    def delete_2(glossary_id: str) -> Response:
        glossaries.delete(request.owner, _find_2(glossaries, glossary_id).id)
        return write_nothing()


def _add_version_3(blueprint: Blueprint, service: TranslationService) -> None:
    glossaries = service.glossaries

    @blueprint.post("/v3/glossaries")
    @describe(
        _describe(
            "Makes a glossary", BodySchema(MultilingualFields, _MEDIA), status=201
        )
    )
    def create_3() -> MultilingualInfo:
        made = _create(service, MultilingualFields.__name__)
        mark_created(f"/v3/glossaries/{made.id}")
        return _show_3(made)

    @blueprint.get("/v3/glossaries")
    @describe(_describe("All glossaries"))
    def list_3() -> MultilingualList:
        return {"glossaries": list(map(_show_3, glossaries.list_all(request.owner)))}

    @blueprint.get("/v3/glossaries/<glossary_id>")
    @describe(_describe("A glossary", path=_ANY))
    def find_3(glossary_id: str) -> MultilingualInfo:
        return _show_3(glossaries.find(request.owner, glossary_id))

    @blueprint.delete("/v3/glossaries/<glossary_id>")
    @describe(_describe("Deletes it", path=_ANY, status=204))
    def delete_3(glossary_id: str) -> Response:
        glossaries.delete(request.owner, glossary_id)
        return write_nothing()


def _add_changes(blueprint: Blueprint, service: TranslationService) -> None:
    glossaries = service.glossaries

    @blueprint.patch("/v3/glossaries/<glossary_id>")
    @describe(
        _describe(
            "Renames it, adds entries", BodySchema(ChangeFields, _MEDIA), path=_ANY
        )
    )
    def change_3(glossary_id: str) -> MultilingualInfo:
        reading = _read(service, ChangeFields.__name__)
        changed = glossaries.change(
            request.owner,
            glossary_id,
            name=reading.name,
            drafts=reading.drafts,
            is_merged=True,
        )
        return _show_3(changed)

    @blueprint.put("/v3/glossaries/<glossary_id>/dictionaries")
    @describe(
        _describe(
            "Replaces a dictionary", BodySchema(DictionaryFields, _MEDIA), path=_ANY
        )
    )
    def replace_3(glossary_id: str) -> DictionaryInfo:
        reading = _read(service, DictionaryFields.__name__)
        (draft,) = reading.drafts
        changed = glossaries.change(request.owner, glossary_id, drafts=[draft])
        found = changed.find(draft.source, draft.target)
        return _show_dictionary(found or changed.dictionaries[0])


def _add_dictionaries(blueprint: Blueprint, service: TranslationService) -> None:
    glossaries = service.glossaries

    @blueprint.get("/v3/glossaries/<glossary_id>/entries")
    @describe(_describe("A dictionary's entries", BodySchema(PairFields), path=_ANY))
    def entries_3(glossary_id: str) -> EntriesList:
        pair = _read_pair()
        found = glossaries.find(request.owner, glossary_id)
        entries = glossaries.read_entries(found, pair).decode()
        source, target = (write_code(language).lower() for language in pair)
        dictionary: DictionaryEntries = {
            "source_lang": source,
            "target_lang": target,
            "entries": entries,
            "entries_format": "tsv",
        }
        return {"dictionaries": [dictionary]}

    @blueprint.delete("/v3/glossaries/<glossary_id>/dictionaries")
    @describe(
        _describe("Deletes a dictionary", BodySchema(PairFields), path=_ANY, status=204)
    )
    def delete_dictionary_3(glossary_id: str) -> Response:
        glossaries.delete_dictionary(request.owner, glossary_id, _read_pair())
        return write_nothing()


def _create(service: TranslationService, schema: str) -> Glossary:
    reading = _read(service, schema)
    return service.glossaries.create(request.owner, reading.name or "", reading.drafts)


def _read(service: TranslationService, schema: str) -> GlossaryContent:
    """Read the current request, with languages that are served."""
    reading = read_upload(service.glossaries, schema, _translate)
    _check_languages(reading.drafts, service)
    return reading


def _translate(fault: GlossaryFault) -> Problem:
    match fault.kind:
        case "body":
            return MalformedRequest(fault.message)
        case "missing":
            return WORDING.miss(fault.field)
        case "entries":
            return refuse("Invalid glossary entries provided", fault.message)
    return WORDING.refuse(fault.field, fault.message)


def _check_languages(
    drafts: Iterable[DictionaryDraft], service: TranslationService
) -> None:
    pairs = [(draft.source, draft.target) for draft in drafts]
    for source, target in pairs:
        is_served = target in service.limits.targets
        if source == target or source not in service.sources or not is_served:
            raise refuse(
                "Unsupported glossary source and target language pair",
                f"found {source[:40]!r} and {target[:40]!r}",
            )
    if len(set(pairs)) < len(pairs):
        raise refuse("There are several dictionaries of one language pair.")


def _read_pair() -> tuple[str, str]:
    given = parse_fields(PairFields, read_fields(request), WORDING)
    return normalize_language(given.source_lang), normalize_language(given.target_lang)


def _find_2(glossaries: Glossaries, glossary_id: str) -> Glossary:
    found = glossaries.find(request.owner, glossary_id)
    if not _is_monolingual(found):
        raise UnknownGlossary(
            "This glossary has several language pairs; ask /v3/glossaries for it."
        )
    return found


def _is_monolingual(glossary: Glossary) -> bool:
    return len(glossary.dictionaries) == 1


def _show_2(glossary: Glossary) -> MonolingualInfo:
    (only,) = glossary.dictionaries
    return {
        "glossary_id": glossary.id,
        "name": glossary.name,
        "ready": True,
        "source_lang": write_code(only.source).lower(),
        "target_lang": write_code(only.target).lower(),
        "creation_time": write_time(glossary.created_at_ms),
        "entry_count": only.entry_count,
    }


def _show_3(glossary: Glossary) -> MultilingualInfo:
    return {
        "glossary_id": glossary.id,
        "name": glossary.name,
        "dictionaries": list(map(_show_dictionary, glossary.dictionaries)),
        "creation_time": write_time(glossary.created_at_ms),
    }


def _show_dictionary(dictionary: Dictionary) -> DictionaryInfo:
    return {
        "source_lang": write_code(dictionary.source).lower(),
        "target_lang": write_code(dictionary.target).lower(),
        "entry_count": dictionary.entry_count,
    }


def _describe(summary: str, *bodies: BodySchema, **given: Any) -> Operation:
    return Operation(
        summary,
        bodies=bodies,
        refusals=STORING_GLOSSARIES,
        task=TRANSLATION,
        **given,
    )


def _show_body(service: TranslationService) -> BodySchema:
    target = choose(service.bounds.targets, "de")
    example = {
        "name": "Our products",
        "source_lang": "en",
        "target_lang": write_code(target).lower(),
        "entries": "work station\tWorkstation",
        "entries_format": "tsv",
    }
    return BodySchema(GlossaryFields, _MEDIA, examples={"a glossary": example})
