"""`/glossaries`: clients' own terms. DeepL's routes use the same reader."""

from codecs import BOM_UTF8
from collections.abc import Callable
from functools import partial
from typing import NotRequired

from flask import Blueprint
from pydantic import Field, RootModel
from typing_extensions import TypedDict

from contract.languages import normalize_variant
from contract.tasks import TRANSLATION
from contract.times import write_time
from gateway.api import Services
from gateway.errors import InvalidRequest, MalformedRequest, Problem, UnknownLanguage
from gateway.glossaries.glossary import DictionaryDraft, Glossary, GlossaryContent
from gateway.glossaries.library import Glossaries
from gateway.glossaries.reading import GlossaryFault, GlossaryUpload, OurGlossary
from gateway.http.request import GatewayRequest
from gateway.openapi import JSON, STORING_GLOSSARIES, BodySchema, Operation, choose
from gateway.schemas import Schema, validate
from gateway.services.translation import TranslationService
from text.errors import LanguageNotServed

TSV, _CSV = "text/tab-separated-values", "text/csv"
describe = partial(
    Operation, task=TRANSLATION, refusals=STORING_GLOSSARIES, takes="glossary"
)


class Table(RootModel[str]):
    """All entries as TSV or CSV. The other fields are in the URL."""


class PairParameters(Schema):
    """A dictionary's languages, in the URL. A glossary with one dictionary needs none."""

    src_lang: str = Field("", description="The language of the terms.")
    tgt_lang: str = Field("", description="The language of their translations.")


class DictionaryInfo(TypedDict):
    """A dictionary without its entries."""

    src_lang: str
    tgt_lang: str
    entry_count: int


class GlossaryInfo(TypedDict):
    """A glossary without its entries."""

    id: str
    name: str
    created_at: str
    dictionaries: list[DictionaryInfo]
    warnings: NotRequired[list[str]]


class GlossaryList(TypedDict):
    """All glossaries of a key, oldest first."""

    glossaries: list[GlossaryInfo]


def make_blueprints(services: Services) -> list[Blueprint]:
    """Return the routes of glossaries."""
    service = services.translation
    blueprint = Blueprint("glossaries", __name__)
    glossaries = service.glossaries
    ask = glossaries.ask

    @blueprint.post("/glossaries")
    @describe(
        "Makes a glossary",
        bodies=(_describe_body(service), BodySchema(Table, (TSV, _CSV))),
        status=201,
        made="id",
    )
    def create(request: GatewayRequest) -> GlossaryInfo:
        reading = read_upload(request, glossaries, OurGlossary.__name__, _translate)
        for draft in reading.drafts:
            _check_languages(draft, service)
        limits = service.settings
        shown = _show(ask(lambda s: s.create(request.owner, reading, limits)))
        if reading.warnings:
            shown["warnings"] = [*reading.warnings]
        return shown

    @blueprint.get("/glossaries")
    @describe("All glossaries")
    def list_all(request: GatewayRequest) -> GlossaryList:
        found = ask(lambda storage: storage.list_all(request.owner))
        return {"glossaries": list(map(_show, found))}

    @blueprint.get("/glossaries/<glossary_id>")
    @describe("A glossary")
    def find(request: GatewayRequest, glossary_id: str) -> GlossaryInfo:
        return _show(ask(lambda storage: storage.find(request.owner, glossary_id)))

    @blueprint.get("/glossaries/<glossary_id>/entries")
    @describe("Its entries", query=PairParameters, media=(TSV,))
    def read_entries(request: GatewayRequest, glossary_id: str) -> bytes:
        found = ask(lambda storage: storage.find(request.owner, glossary_id))
        given = validate(PairParameters, request.args)
        pair = _choose_pair(found, given)
        return ask(lambda storage: storage.read_pair(found, pair))

    @blueprint.delete("/glossaries/<glossary_id>")
    @describe("Deletes it", status=204)
    def delete(request: GatewayRequest, glossary_id: str) -> None:
        ask(lambda storage: storage.delete(request.owner, glossary_id))

    return [blueprint]


def read_upload(
    request: GatewayRequest,
    glossaries: Glossaries,
    schema: str,
    translate: Callable[[GlossaryFault], Problem],
) -> GlossaryContent:
    """Read a request's glossary. Raises MalformedRequest for a body that cannot be parsed, and
    for any other fault the problem that `translate` returns."""
    query = request.query_string.decode(errors="replace")
    body = request.body.removeprefix(BOM_UTF8)
    found = glossaries.read(GlossaryUpload(schema, request.mimetype, query, body))
    if isinstance(found, GlossaryFault):
        is_body = found.kind == "body"
        raise MalformedRequest(found.message) if is_body else translate(found)
    return found


def _describe_body(service: TranslationService) -> BodySchema:
    target = choose(service.bounds.targets, "de")
    terms = {"name": "Our products", "src_lang": "en", "tgt_lang": target}
    example = terms | {"entries": {"work station": "Workstation"}}
    return BodySchema(OurGlossary, (JSON,), examples={"a glossary": example})


def _translate(fault: GlossaryFault) -> Problem:
    return InvalidRequest({fault.field: fault.message})


def _check_languages(draft: DictionaryDraft, service: TranslationService) -> None:
    if draft.source not in service.sources:
        error = LanguageNotServed("src_lang", draft.source[:40], service.sources)
        raise UnknownLanguage(error)
    served = service.limits.targets
    if draft.target not in served:
        raise UnknownLanguage(LanguageNotServed("tgt_lang", draft.target[:40], served))
    if draft.source == draft.target:
        expected = f"found {draft.target!r}, expected a language other than src_lang"
        raise InvalidRequest({"tgt_lang": expected})


def _choose_pair(glossary: Glossary, given: PairParameters) -> tuple[str, str]:
    """Return the language pair that a request names, or the only one."""
    source, target = given.src_lang, given.tgt_lang
    if not (source or target) and len(glossary.dictionaries) == 1:
        only = glossary.dictionaries[0]
        return only.source, only.target
    for field, tag in given:
        if not tag:
            expected = "missing: the glossary has several dictionaries"
            raise InvalidRequest({field: expected})
    return normalize_variant(source), normalize_variant(target)


def _show(glossary: Glossary) -> GlossaryInfo:
    return {
        "id": glossary.id,
        "name": glossary.name,
        "created_at": write_time(glossary.created_at_ms / 1000, "milliseconds"),
        "dictionaries": [
            {
                "src_lang": dictionary.source,
                "tgt_lang": dictionary.target,
                "entry_count": dictionary.entry_count,
            }
            for dictionary in glossary.dictionaries
        ],
    }
