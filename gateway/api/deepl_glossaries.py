"""DeepL's glossaries: `/v2/glossaries`, each for one language pair, and `/v3/glossaries`, with
a dictionary for each pair."""

from functools import partial

from flask import Blueprint
from pydantic import BaseModel
from typing_extensions import TypedDict

from contract.languages import normalize_variant
from contract.times import write_time
from gateway.api import Services
from gateway.api.deepl import WORDING, Pair, write_code
from gateway.api.glossaries import TSV, describe, read_upload
from gateway.errors import Problem, UnknownGlossary
from gateway.glossaries.glossary import (
    Dictionary,
    DictionaryDraft,
    Glossary,
    GlossaryContent,
)
from gateway.glossaries.library import Glossaries
from gateway.glossaries.reading import (
    ChangeFields,
    DictionaryFields,
    GlossaryFault,
    GlossaryFields,
    MultilingualFields,
    PairFields,
)
from gateway.http.request import GatewayRequest, read_fields
from gateway.openapi import BodySchema, choose
from gateway.schemas import parse_fields, refuse
from gateway.services.translation import TranslationService

#: The content types of a body: JSON, and the forms of `deepl-node`.
_MEDIA = ("application/json", "application/x-www-form-urlencoded")
_describe_new = partial(describe, status=201, made="glossary_id")


class DictionaryInfo(Pair):
    """A dictionary without its entries."""

    entry_count: int


class MonolingualInfo(DictionaryInfo):
    """A glossary of version 2."""

    glossary_id: str
    name: str
    ready: bool
    creation_time: str


class MonolingualList(TypedDict):
    """The glossaries with one dictionary."""

    glossaries: list[MonolingualInfo]


class MultilingualInfo(TypedDict):
    """A glossary of version 3."""

    glossary_id: str
    name: str
    dictionaries: list[DictionaryInfo]
    creation_time: str


class MultilingualList(TypedDict):
    """All glossaries."""

    glossaries: list[MultilingualInfo]


class DictionaryEntries(Pair):
    """A dictionary with its entries."""

    entries: str
    entries_format: str


class EntriesList(TypedDict):
    """The requested dictionary."""

    dictionaries: list[DictionaryEntries]


def make_blueprints(services: Services) -> list[Blueprint]:
    """Return the routes of both versions."""
    service = services.translation
    blueprint = Blueprint("deepl_glossaries", __name__)
    ask = service.glossaries.ask

    @blueprint.post("/v2/glossaries")
    @_describe_new("Makes a glossary", bodies=(_describe_body(service),))
    def create_2(request: GatewayRequest) -> MonolingualInfo:
        return _show_2(_create(request, service, GlossaryFields))

    @blueprint.get("/v2/glossaries")
    @describe("The glossaries of one language pair")
    def list_2(request: GatewayRequest) -> MonolingualList:
        found = ask(lambda storage: storage.list_all(request.owner))
        return {"glossaries": [_show_2(one) for one in found if _is_monolingual(one)]}

    @blueprint.get("/v2/glossaries/<glossary_id>")
    @describe("A glossary")
    def find_2(request: GatewayRequest, glossary_id: str) -> MonolingualInfo:
        return _show_2(_find_2(request, service.glossaries, glossary_id))

    @blueprint.get("/v2/glossaries/<glossary_id>/entries")
    @describe("Its entries", media=(TSV,))
    def entries_2(request: GatewayRequest, glossary_id: str) -> bytes:
        found = _find_2(request, service.glossaries, glossary_id)
        (only,) = found.dictionaries
        return ask(lambda storage: storage.read_pair(found, (only.source, only.target)))

    @blueprint.delete("/v2/glossaries/<glossary_id>")
    @describe("Deletes it", status=204)
    def delete_2(request: GatewayRequest, glossary_id: str) -> None:
        found = _find_2(request, service.glossaries, glossary_id)
        ask(lambda storage: storage.delete(request.owner, found.id))

    _add_version_3(blueprint, service)
    return [blueprint]


def _add_version_3(blueprint: Blueprint, service: TranslationService) -> None:
    ask = service.glossaries.ask
    limits = service.settings

    @blueprint.post("/v3/glossaries")
    @_describe_new("Makes a glossary", bodies=(BodySchema(MultilingualFields, _MEDIA),))
    def create_3(request: GatewayRequest) -> MultilingualInfo:
        return _show_3(_create(request, service, MultilingualFields))

    @blueprint.get("/v3/glossaries")
    @describe("All glossaries")
    def list_3(request: GatewayRequest) -> MultilingualList:
        found = ask(lambda storage: storage.list_all(request.owner))
        return {"glossaries": list(map(_show_3, found))}

    @blueprint.get("/v3/glossaries/<glossary_id>")
    @describe("A glossary")
    def find_3(request: GatewayRequest, glossary_id: str) -> MultilingualInfo:
        return _show_3(ask(lambda storage: storage.find(request.owner, glossary_id)))

    @blueprint.delete("/v3/glossaries/<glossary_id>")
    @describe("Deletes it", status=204)
    def delete_3(request: GatewayRequest, glossary_id: str) -> None:
        ask(lambda storage: storage.delete(request.owner, glossary_id))

    @blueprint.patch("/v3/glossaries/<glossary_id>")
    @describe("Renames it, adds entries", bodies=(BodySchema(ChangeFields, _MEDIA),))
    def change_3(request: GatewayRequest, glossary_id: str) -> MultilingualInfo:
        content = _read_glossary(request, service, ChangeFields)
        owner = request.owner
        changed = ask(
            lambda s: s.change(owner, glossary_id, content, limits, is_merged=True)
        )
        return _show_3(changed)

    @blueprint.put("/v3/glossaries/<glossary_id>/dictionaries")
    @describe("Replaces a dictionary", bodies=(BodySchema(DictionaryFields, _MEDIA),))
    def replace_3(request: GatewayRequest, glossary_id: str) -> DictionaryInfo:
        content = _read_glossary(request, service, DictionaryFields)
        ask(lambda s: s.change(request.owner, glossary_id, content, limits))
        return _show_dictionary(content.drafts[0])

    @blueprint.get("/v3/glossaries/<glossary_id>/entries")
    @describe("A dictionary's entries", bodies=(BodySchema(PairFields),))
    def entries_3(request: GatewayRequest, glossary_id: str) -> EntriesList:
        pair = _read_pair(request)
        owner = request.owner
        entries = ask(lambda s: s.read_pair(s.find(owner, glossary_id), pair))
        return {"dictionaries": [_show_entries(pair, entries)]}

    @blueprint.delete("/v3/glossaries/<glossary_id>/dictionaries")
    @describe("Deletes a dictionary", bodies=(BodySchema(PairFields),), status=204)
    def delete_dictionary_3(request: GatewayRequest, glossary_id: str) -> None:
        pair = _read_pair(request)
        ask(lambda s: s.delete_dictionary(request.owner, glossary_id, pair))


def _create(
    request: GatewayRequest, service: TranslationService, schema: type[BaseModel]
) -> Glossary:
    content = _read_glossary(request, service, schema)
    limits = service.settings
    return service.glossaries.ask(lambda s: s.create(request.owner, content, limits))


def _read_glossary(
    request: GatewayRequest, service: TranslationService, schema: type[BaseModel]
) -> GlossaryContent:
    """Read a request's glossary. Raises MalformedRequest, also for languages that are not
    served and for two dictionaries of one pair."""
    content = read_upload(request, service.glossaries, schema.__name__, _translate)
    pairs = [(draft.source, draft.target) for draft in content.drafts]
    for source, target in pairs:
        is_served = target in service.limits.targets
        if source == target or source not in service.sources or not is_served:
            raise refuse(
                "Unsupported glossary source and target language pair",
                f"found {source[:40]!r} and {target[:40]!r}",
            )
    if len(set(pairs)) < len(pairs):
        raise refuse("There are several dictionaries for one language pair.")
    return content


def _translate(fault: GlossaryFault) -> Problem:
    match fault.kind:
        case "missing":
            return WORDING.miss(fault.field)
        case "entries":
            return refuse("Invalid glossary entries provided", fault.message)
    return WORDING.refuse(fault.field, fault.message)


def _read_pair(request: GatewayRequest) -> tuple[str, str]:
    given = parse_fields(PairFields, read_fields(request), WORDING)
    return normalize_variant(given.source_lang), normalize_variant(given.target_lang)


def _find_2(request: GatewayRequest, glossaries: Glossaries, wanted: str) -> Glossary:
    found = glossaries.ask(lambda s: s.find(request.owner, wanted))
    if not _is_monolingual(found):
        raise UnknownGlossary(
            "This glossary has several language pairs; use /v3/glossaries."
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
        "creation_time": write_time(glossary.created_at_ms / 1000, "milliseconds"),
        **_show_dictionary(only),
    }


def _show_3(glossary: Glossary) -> MultilingualInfo:
    return {
        "glossary_id": glossary.id,
        "name": glossary.name,
        "dictionaries": list(map(_show_dictionary, glossary.dictionaries)),
        "creation_time": write_time(glossary.created_at_ms / 1000, "milliseconds"),
    }


def _show_dictionary(dictionary: Dictionary | DictionaryDraft) -> DictionaryInfo:
    return {
        "source_lang": write_code(dictionary.source).lower(),
        "target_lang": write_code(dictionary.target).lower(),
        "entry_count": dictionary.entry_count,
    }


def _show_entries(pair: tuple[str, str], entries: bytes) -> DictionaryEntries:
    source, target = (write_code(language).lower() for language in pair)
    return {
        "source_lang": source,
        "target_lang": target,
        "entries": entries.decode(),
        "entries_format": "tsv",
    }


def _describe_body(service: TranslationService) -> BodySchema:
    target = choose(service.bounds.targets, "de")
    example = {
        "name": "Our products",
        "source_lang": "en",
        "target_lang": write_code(target).lower(),
        "entries": "work station\tWorkstation",
        "entries_format": "tsv",
    }
    return BodySchema(GlossaryFields, _MEDIA, examples={"a glossary": example})
