"""LibreTranslate's API beside ours: `/detect`, `/frontend/settings`, `/suggest`, `/health`
and `/spec`. Its `/translate` is reached through `translation.py`, its `/languages` is ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NoReturn, NotRequired

from flask import Blueprint
from pydantic import Field
from typing_extensions import TypedDict

from contract.tasks import TRANSLATION
from gateway.api import Services
from gateway.api.languages import name_language
from gateway.errors import Forbidden
from gateway.http.request import Fields, read_fields, request
from gateway.openapi.operations import FIELDS, BodySchema, Operation, choose, describe
from gateway.schemas import (
    ForeignSchema,
    Text,
    Texts,
    Wording,
    list_texts,
    parse_fields,
    refuse,
)
from gateway.services.translation import TranslationService, name_source
from text.composition import TranslatedText
from text.langid import Guess
from text.options import AUTO, HTML_TAGS, TranslationRequest

#: The version whose API this is.
VERSION = "1.9.6"
#: LibreTranslate's words for refusing a field.
WORDING = Wording(
    "Invalid request: missing {field} parameter", "Invalid request: {field}"
)
_FALLBACK = "en"
_MOST_GUESSES = 5
#: Bytes that JSON may take for a UTF-16 unit, in which browsers count.
_BYTES_PER_CHARACTER = 6


class TranslateFields(ForeignSchema):
    """The fields of `POST /translate`."""

    q: Texts = Field(description="A text, or a list of them.", examples=["Hello"])
    source: Text = Field(
        description='The language of the text, or "auto".', examples=["en"]
    )
    target: Text = Field(description="The language to translate into.", examples=["fr"])
    format: Literal["text", "html"] = Field(
        "text", description="Whether tags are markup."
    )
    alternatives: int = Field(0, ge=0, description="How many further translations.")


class DetectFields(ForeignSchema):
    """The fields of `POST /detect`."""

    q: Texts = Field(description="A text, or a list of them.", examples=["Hello"])


class Detection(TypedDict):
    """A language and how sure it is, from 0 to 100."""

    confidence: int
    language: str


class Translation(TypedDict):
    """The answer of `POST /translate`; each field has lists where `q` is one."""

    translatedText: str | list[str]
    detectedLanguage: NotRequired[Detection | list[Detection]]
    alternatives: NotRequired[list[str] | list[list[str]]]


class Coded(TypedDict):
    """A language."""

    code: str
    name: str


class Chosen(TypedDict):
    """The languages that a page shows first."""

    source: Coded
    target: Coded


class Frontend(TypedDict):
    """The answer of `GET /frontend/settings`."""

    charLimit: int
    frontendTimeout: int
    apiKeys: bool
    keyRequired: bool
    suggestions: bool
    filesTranslation: bool
    supportedFilesFormat: list[str]
    language: Chosen


def make_blueprints(services: Services) -> list[Blueprint]:
    """The routes that only LibreTranslate has."""
    service, is_key_required = services.translation, services.access.is_required
    blueprint = Blueprint("libretranslate", __name__)

    @blueprint.post("/detect")
    @describe(_describe_detection(service.bounds.max_texts))
    def detect() -> list[Detection] | list[list[Detection]]:
        given = parse_fields(DetectFields, read_fields(request), WORDING)
        texts = list_texts(given.q)
        _check_number(texts, service.bounds.max_texts)
        ranked = [
            _write_detections(guesses)
            for guesses in service.identify(texts, request.open_call())
        ]
        return ranked if isinstance(given.q, list) else ranked[0]

    @blueprint.get("/frontend/settings")
    @describe(Operation("What this server can do", task=TRANSLATION))
    def frontend_settings() -> Frontend:
        return _describe_frontend(service, is_key_required=is_key_required)

    @blueprint.post("/suggest")
    @describe(Operation("Refused: nothing is suggested here", refusals=(Forbidden,)))
    def suggest() -> NoReturn:
        raise Forbidden("Suggestions are disabled on this server.")

    @blueprint.get("/health")
    @describe(Operation("Whether the gateway is alive"))
    def health() -> dict[str, str]:
        return {"status": "ok"}

    @blueprint.get("/spec")
    @describe(Operation("LibreTranslate's title and version, as Swagger"))
    def spec() -> dict[str, Any]:
        return _describe_api()

    return [blueprint]


def _describe_detection(most: int) -> Operation:
    body = BodySchema(
        DetectFields,
        FIELDS,
        bounds={"q": {"minItems": 1, "maxItems": most}},
        examples={"a text": {"q": "Where is the station?"}},
    )
    summary = "The likely languages of a text, or of each text in a list"
    return Operation(summary, bodies=(body,), has_limit=True)


def describe_body(service: TranslationService) -> BodySchema:
    """The fields of `POST /translate` within this stack's limits."""
    bounds = service.bounds
    target = choose(bounds.targets, "de")
    asked = {"q": "See you tomorrow", "source": "en", "target": target}
    return BodySchema(
        TranslateFields,
        FIELDS,
        bounds={
            "q": {"minItems": 1, "maxItems": bounds.max_texts},
            "target": {"enum": list(bounds.targets)},
            "alternatives": {"maximum": bounds.max_alternatives},
        },
        examples={"LibreTranslate": asked},
    )


def translate(fields: Fields, service: TranslationService) -> Translation:
    """Answer `POST /translate` as LibreTranslate does. Raises Problem."""
    limits = service.limits
    given = parse_fields(TranslateFields, fields, WORDING)
    wanted = TranslationRequest(
        source=read_source(given.source, service),
        target=read_target(given.target, service),
        texts=_check_number(list_texts(given.q), limits.max_texts),
        is_list=isinstance(given.q, list),
        tags=HTML_TAGS if given.format == "html" else None,
        splitting="sentences" if given.format == "html" else "lines",
        alternatives=_check_alternatives(given.alternatives, limits.max_alternatives),
    )
    return _join(wanted, service.translate(wanted, request.open_call(wanted.target)))


def read_source(tag: str, service: TranslationService) -> str | None:
    """The language of a tag; None if it is to be identified. Raises MalformedRequest."""
    try:
        return service.find_source(tag)
    except LookupError:
        raise refuse(f"{tag[:40]} is not supported") from None


def read_target(tag: str, service: TranslationService) -> str:
    """The language that a tag asks for. Raises MalformedRequest."""
    target = service.find_target(tag)
    if target is None:
        explanation = service.explain_target(tag)
        raise refuse(f"{tag[:40]} is not supported", explanation)
    return target


def _check_number(texts: tuple[str, ...], most: int) -> tuple[str, ...]:
    if not texts:
        raise WORDING.miss("q")
    if len(texts) > most:
        raise refuse(
            f"Invalid request: request ({len(texts)}) exceeds text limit ({most})",
            "send the texts in several requests",
        )
    return texts


def _check_alternatives(number: int, most: int) -> int:
    if number > most:
        raise WORDING.refuse("alternatives", f"found {number}, expected 0 to {most}")
    return number


def _join(wanted: TranslationRequest, texts: list[TranslatedText]) -> Translation:
    columns: dict[str, list[Any]] = {
        "translatedText": [text.renderings[0].text for text in texts]
    }
    if wanted.source is None:
        guesses = (name_source(text.guess, other=wanted.target) for text in texts)
        columns["detectedLanguage"] = [_write_detection(guess) for guess in guesses]
    if wanted.alternatives:
        columns["alternatives"] = [
            [rendering.text for rendering in text.renderings[1:]] for text in texts
        ]
    if wanted.is_list:
        return columns  # type: ignore[return-value]
    return {name: values[0] for name, values in columns.items()}  # type: ignore[return-value]


def _write_detections(guesses: list[Guess]) -> list[Detection]:
    """The likeliest languages, and one in any case: clients take the first."""
    best, *others = map(_write_detection, guesses or [Guess(_FALLBACK, 0.0)])
    likely = [other for other in others if other["confidence"]]
    return [best, *likely[: _MOST_GUESSES - 1]]


def _write_detection(guess: Guess) -> Detection:
    return {"confidence": round(100 * guess.confidence), "language": guess.language}


def _describe_frontend(
    service: TranslationService, *, is_key_required: bool
) -> Frontend:
    from documents.formats import SUFFIXES  # loads the libraries of all formats

    served = service.limits.targets
    target = _FALLBACK if _FALLBACK in served else served[0]
    return {
        "charLimit": service.settings.max_body_bytes // _BYTES_PER_CHARACTER,
        "frontendTimeout": 500,
        "apiKeys": is_key_required,
        "keyRequired": is_key_required,
        "suggestions": False,
        "filesTranslation": True,
        "supportedFilesFormat": list(SUFFIXES),
        "language": {
            "source": {"code": AUTO, "name": "Auto Detect"},
            "target": {"code": target, "name": name_language(target, "en")},
        },
    }


def _describe_api() -> dict[str, Any]:
    """Enough of Swagger for clients that look here for LibreTranslate and its version."""
    methods: Mapping[str, str] = {
        "/translate": "post",
        "/detect": "post",
        "/languages": "get",
        "/frontend/settings": "get",
        "/suggest": "post",
        "/translate_file": "post",
        "/health": "get",
    }
    return {
        "swagger": "2.0",
        "info": {"title": "LibreTranslate", "version": VERSION},
        "basePath": "/",
        "paths": {
            path: {method: {"responses": {"200": {"description": "OK"}}}}
            for path, method in methods.items()
        },
    }
