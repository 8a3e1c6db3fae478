"""Google's API, version 2: `/language/translate/v2` with `/detect` and `/languages` below."""

from typing import Annotated, Literal, NotRequired

from flask import Blueprint
from pydantic import Field
from typing_extensions import TypedDict

from contract.languages import normalize_variant
from contract.tasks import TRANSLATION
from gateway.api import Services
from gateway.api.status import name_language
from gateway.http.request import Fields, GatewayRequest, read_fields
from gateway.openapi import FIELDS, TRANSLATING, BodySchema, Operation, choose
from gateway.schemas import ForeignSchema, Lower, Text, Texts, Wording, parse_fields
from gateway.services.translation import TranslationService
from text.composition import TranslatedText
from text.langid import UNDETERMINED, Guess
from text.options import HTML_TAGS, TranslationRequest

PATH = "/language/translate/v2"
_WORDING = Wording(
    "Required parameter: {field}", "Invalid Value: {field}", "Too many text segments"
)
_RELIABLE = 0.9
_CODES = {"zh-Hant": "zh-TW"}


class DetectFields(ForeignSchema):
    """The fields of `/language/translate/v2/detect`."""

    q: Texts = Field(description="A text, or a list of them.", examples=["Hello"])


class TranslateFields(DetectFields):
    """The fields of `/language/translate/v2`."""

    target: Text = Field(description="The language to translate into.", examples=["fr"])
    source: Text = Field("", description="The language of the texts.")
    format: Annotated[Literal["html", "text"], Lower] = Field(
        "html", description="Whether tags are markup."
    )


class LanguagesFields(ForeignSchema):
    """The fields of `/language/translate/v2/languages`."""

    target: Text = Field("", description="The language of the names.", examples=["de"])


class Translation(TypedDict):
    """The answer to one text."""

    translatedText: str
    detectedSourceLanguage: NotRequired[str]


class Detection(TypedDict):
    """A language and its confidence, from 0 to 1."""

    language: str
    confidence: float
    isReliable: bool


class Language(TypedDict):
    """A language; it has a name if the request has a `target`."""

    language: str
    name: NotRequired[str]


class Translations(TypedDict):
    """The answers to all texts."""

    translations: list[Translation]


class Translated(TypedDict):
    """The answer of `/language/translate/v2`."""

    data: Translations


class Detections(TypedDict):
    """The detections of each text."""

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


def make_blueprints(services: Services) -> list[Blueprint]:
    """Return the routes of Google's API."""
    service = services.translation
    bounds = service.bounds
    blueprint = Blueprint("google", __name__, url_prefix=PATH)
    methods = ["GET", "POST"]
    bounded = {"q": {"minItems": 1, "maxItems": bounds.max_texts}}
    target = choose(bounds.targets, "de")
    asked = {"q": "See you tomorrow", "source": "en", "target": target}

    @blueprint.route("", methods=methods)
    @Operation(
        "Translates texts",
        TRANSLATION,
        bodies=(
            BodySchema(
                TranslateFields,
                FIELDS,
                bounds=bounded | {"target": {"enum": list(bounds.targets)}},
                examples={"a text": asked},
            ),
        ),
        refusals=TRANSLATING,
        has_limit=True,
    )
    def translate(request: GatewayRequest) -> Translated:
        return {"data": {"translations": _translate(request, service)}}

    question = {"a text": {"q": "Where is the station?"}}

    @blueprint.route("/detect", methods=methods)
    @Operation(
        "The likeliest language of each text",
        bodies=(BodySchema(DetectFields, FIELDS, bounded, question),),
        has_limit=True,
    )
    def detect(request: GatewayRequest) -> Detected:
        given = parse_fields(DetectFields, _read_fields(request), _WORDING)
        texts = _WORDING.list_texts("q", given.q, bounds.max_texts)
        guesses = service.identify(texts, request.open_call())
        return {"data": {"detections": [_write_detections(found) for found in guesses]}}

    german = {"in German": {"target": "de"}}

    @blueprint.route("/languages", methods=methods)
    @Operation(
        "The languages that can be translated into",
        TRANSLATION,
        bodies=(BodySchema(LanguagesFields, FIELDS, examples=german),),
    )
    def languages(request: GatewayRequest) -> Listed:
        given = parse_fields(LanguagesFields, _read_fields(request), _WORDING)
        return {"data": {"languages": _list_languages(given.target, service)}}

    return [blueprint]


def _read_fields(request: GatewayRequest) -> Fields:
    """Return the fields of a request. Clients generated from Google's description of this API
    put a body into `data`, like the answers."""
    fields = read_fields(request)
    wrapped = fields.get("data")
    if not isinstance(wrapped, dict):
        return fields
    return {**fields, **{k: value for k, value in wrapped.items() if value is not None}}


def _translate(
    request: GatewayRequest, service: TranslationService
) -> list[Translation]:
    limits = service.limits
    given = parse_fields(TranslateFields, _read_fields(request), _WORDING)
    is_html = given.format == "html"
    wanted = TranslationRequest(
        source=service.read_source(given.source, "source", _WORDING),
        target=service.read_target(given.target, "target", _WORDING),
        texts=_WORDING.list_texts("q", given.q, limits.max_texts),
        written=limits.written,
        is_list=isinstance(given.q, list),
        tags=HTML_TAGS if is_html else None,
        splitting="sentences" if is_html else "lines",
    )
    answers = service.translate(wanted, request.open_call(wanted.model_target))
    return [_write_translation(answer) for answer in answers]


def _write_translation(answer: TranslatedText) -> Translation:
    translation: Translation = {"translatedText": answer.renderings[0].text}
    if answer.guess:
        translation["detectedSourceLanguage"] = answer.guess.language
    return translation


def _write_detections(ranked: list[Guess]) -> list[Detection]:
    """Return only the likeliest language: more than one confuses Google's own client."""
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
        return [{"language": _CODES.get(code, code)} for code in codes]
    shown = normalize_variant(display)
    if shown not in service.sources:
        raise _WORDING.refuse("target", f"found {display[:40]!r}")
    return [
        {"language": _CODES.get(code, code), "name": name_language(code, shown)}
        for code in codes
    ]
