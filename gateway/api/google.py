"""Google's API, version 2: `/language/translate/v2`, and `/detect` and `/languages` below
it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from flask import Blueprint
from pydantic import BeforeValidator, Field
from typing_extensions import TypedDict

from contract.languages import normalize_language
from contract.tasks import TRANSLATION
from gateway.api import Services
from gateway.api.languages import name_language
from gateway.http.request import Fields, read_fields, request
from gateway.openapi.operations import FIELDS, BodySchema, Operation, choose, describe
from gateway.openapi.refusals import TRANSLATING
from gateway.schemas import (
    ForeignSchema,
    Text,
    Texts,
    Wording,
    list_texts,
    parse_fields,
    refuse,
)
from gateway.services.translation import TranslationService
from text.composition import TranslatedText
from text.langid import UNDETERMINED, Guess
from text.options import HTML_TAGS, TranslationRequest

PATH = "/language/translate/v2"
_WORDING = Wording("Required parameter: {field}", "Invalid Value: {field}")
_RELIABLE = 0.9

_Lower = BeforeValidator(lambda given: given.lower() if type(given) is str else given)


class TranslateFields(ForeignSchema):
    """The fields of `/language/translate/v2`."""

    q: Texts = Field(description="A text, or several.", examples=["Hello"])
    target: Text = Field(description="The language to translate into.", examples=["fr"])
    source: Text = Field("", description="The language of the texts.")
    format: Annotated[Literal["html", "text"], _Lower] = Field(
        "html", description="Whether tags are markup."
    )


class DetectFields(ForeignSchema):
    """The fields of `/language/translate/v2/detect`."""

    q: Texts = Field(description="A text, or several.", examples=["Hello"])


class LanguagesFields(ForeignSchema):
    """The fields of `/language/translate/v2/languages`."""

    target: Text = Field("", description="The language of the names.", examples=["de"])


class Translation(TypedDict):
    """The answer to one text."""

    translatedText: str
    detectedSourceLanguage: NotRequired[str]


class Detection(TypedDict):
    """A language and how sure it is, from 0 to 1."""

    language: str
    confidence: float
    isReliable: bool


class Language(TypedDict):
    """A language; it has a name if the client has named a `target`."""

    language: str
    name: NotRequired[str]


class Translations(TypedDict):
    """The answers to all texts."""

    translations: list[Translation]


class Translated(TypedDict):
    """The answer of `/language/translate/v2`."""

    data: Translations


class Detections(TypedDict):
    """One list for each text."""

    detections: list[list[Detection]]


class Detected(TypedDict):
    """The answer of `/language/translate/v2/detect`."""

    data: Detections


class Languages(TypedDict):
    """The languages that can be translated into."""

    languages: list[Language]


class Listed(TypedDict):
    """The answer of `/language/translate/v2/languages`."""

    data: Languages


_LISTING = Operation(
    "The languages that can be translated into",
    bodies=(
        BodySchema(LanguagesFields, FIELDS, examples={"in German": {"target": "de"}}),
    ),
    task=TRANSLATION,
)


def make_blueprints(services: Services) -> list[Blueprint]:
    """The routes of Google's API."""
    service = services.translation
    blueprint = Blueprint("google", __name__, url_prefix=PATH)
    methods = ["GET", "POST"]

    @blueprint.route("", methods=methods)
    @describe(_describe_translation(service))
    def translate() -> Translated:
        found = _translate(read_fields(request), service)
        return {"data": {"translations": found}}

    @blueprint.route("/detect", methods=methods)
    @describe(_describe_detection(service))
    def detect() -> Detected:
        given = parse_fields(DetectFields, read_fields(request), _WORDING)
        texts = _check_number(list_texts(given.q), service.bounds.max_texts)
        found = [
            _write_detections(ranked)
            for ranked in service.identify(texts, request.open_call())
        ]
        return {"data": {"detections": found}}

    @blueprint.route("/languages", methods=methods)
    @describe(_LISTING)
    def languages() -> Listed:
        given = parse_fields(LanguagesFields, read_fields(request), _WORDING)
        return {"data": {"languages": _list_languages(given.target, service)}}

    service.count_requests(blueprint, PATH)
    return [blueprint]


def _describe_translation(service: TranslationService) -> Operation:
    served = service.bounds.targets
    asked = {"q": "See you tomorrow", "source": "en", "target": choose(served, "de")}
    body = BodySchema(
        TranslateFields,
        FIELDS,
        bounds=_bound_texts(service) | {"target": {"enum": list(served)}},
        examples={"a text": asked},
    )
    return Operation(
        "Translates texts",
        bodies=(body,),
        refusals=TRANSLATING,
        task=TRANSLATION,
        has_limit=True,
    )


def _describe_detection(service: TranslationService) -> Operation:
    asked = {"a text": {"q": "Where is the station?"}}
    body = BodySchema(DetectFields, FIELDS, _bound_texts(service), asked)
    summary = "The likeliest language of each text"
    return Operation(summary, bodies=(body,), has_limit=True)


def _bound_texts(service: TranslationService) -> dict[str, Any]:
    return {"q": {"minItems": 1, "maxItems": service.bounds.max_texts}}


def _translate(fields: Fields, service: TranslationService) -> list[Translation]:
    most = service.limits.max_texts
    given = parse_fields(TranslateFields, fields, _WORDING)
    is_html = given.format == "html"
    wanted = TranslationRequest(
        source=service.read_source(given.source, "source", _WORDING),
        target=service.read_target(given.target, "target", _WORDING),
        texts=_check_number(list_texts(given.q), most),
        is_list=isinstance(given.q, list),
        tags=HTML_TAGS if is_html else None,
        splitting="sentences" if is_html else "lines",
    )
    answers = service.translate(wanted, request.open_call(wanted.target))
    return [_write(answer) for answer in answers]


def _check_number(texts: tuple[str, ...], most: int) -> tuple[str, ...]:
    if not texts:
        raise _WORDING.miss("q")
    if len(texts) > most:
        raise refuse(
            "Too many text segments", f"found {len(texts)}, expected at most {most}"
        )
    return texts


def _write(answer: TranslatedText) -> Translation:
    translation: Translation = {"translatedText": answer.renderings[0].text}
    if answer.guess:
        translation["detectedSourceLanguage"] = answer.guess.language
    return translation


def _write_detections(ranked: list[Guess]) -> list[Detection]:
    """The likeliest language only: more than one confuses Google's own client."""
    best = ranked[0] if ranked else Guess(UNDETERMINED, 0.0)
    return [
        {
            "language": best.language,
            "confidence": best.confidence,
            "isReliable": best.confidence >= _RELIABLE,
        }
    ]


def _list_languages(display: str, service: TranslationService) -> list[Language]:
    codes = sorted(service.limits.targets)
    if not display:
        return [{"language": code} for code in codes]
    shown = normalize_language(display)
    if shown not in service.sources:
        raise _WORDING.refuse("target", f"found {display[:40]!r}")
    return [{"language": code, "name": name_language(code, shown)} for code in codes]
