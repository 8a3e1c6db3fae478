"""`POST /` and `POST /translate`: translates one text, or a list of them, into one
language. `/translate` is LibreTranslate's path as well: the fields say whose request it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NotRequired, cast

from flask import Blueprint
from typing_extensions import TypedDict

from contract.dialects import LIBRETRANSLATE, OURS, Dialect
from contract.tasks import PATHS, TRANSLATION
from gateway.api import Services, libretranslate
from gateway.errors import InvalidRequest, MalformedRequest
from gateway.http.request import read_fields, read_json, request, speaks_libretranslate
from gateway.openapi.operations import BodySchema, Operation, choose, describe
from gateway.openapi.refusals import TRANSLATING, USING_GLOSSARIES
from gateway.schemas import limit_translation, parse_translation
from gateway.services.translation import TranslationService
from text import xml_runs
from text.composition import TranslatedText
from text.errors import NotWellFormed
from text.options import TranslationRequest


class Alternative(TypedDict):
    """Another translation, and its mean log-probability per token."""

    text: str
    score: float


class Translated(TypedDict):
    """The translation; each field has lists where `src_text` is one. There is a `src_lang`
    where the request had none."""

    translated: str | list[str]
    src_lang: NotRequired[str | list[str]]
    confidence: NotRequired[float | list[float]]
    alternatives: NotRequired[list[Alternative] | list[list[Alternative]]]
    warnings: NotRequired[list[str]]


def make_blueprints(services: Services) -> list[Blueprint]:
    """The translation routes."""
    service = services.translation
    blueprint = Blueprint(TRANSLATION, __name__)

    body = _describe_body(service)
    theirs = libretranslate.describe_body(service)

    @blueprint.post("/")
    @describe(_describe_operation(body))
    def translate() -> Translated:
        limits = service.limits
        wanted = parse_translation(read_json(request), limits)
        if wanted.tags and wanted.tags.is_xml:
            _check_xml(wanted)
        return _join(
            wanted, service.translate(wanted, request.open_call(wanted.target))
        )

    @blueprint.post(PATHS[TRANSLATION])
    @describe(_describe_operation(body, theirs, dialects=(OURS, LIBRETRANSLATE)))
    def translate_for_either() -> Translated | libretranslate.Translation:
        if _is_surely_ours(request.get_data()):
            return translate()
        try:
            fields = read_fields(request)
        except MalformedRequest:
            return translate()  # which says what is wrong
        if "src_text" in fields and "q" in fields:
            expected = "not both: src_text is of this API, q is LibreTranslate's"
            raise InvalidRequest([{"field": "q", "expected": expected}])
        if speaks_libretranslate(fields):
            return libretranslate.translate(fields, service)
        return translate()

    service.count_requests(blueprint, "/", PATHS[TRANSLATION])
    return [blueprint]


def _describe_operation(
    *bodies: BodySchema, dialects: tuple[Dialect, ...] = ()
) -> Operation:
    return Operation(
        "Translates a text, or a list of texts",
        bodies=bodies,
        refusals=(*TRANSLATING, *USING_GLOSSARIES),
        task=TRANSLATION,
        dialects=dialects,
        has_limit=True,
    )


def _describe_body(service: TranslationService) -> BodySchema:
    bounds = service.bounds
    target = choose(bounds.targets, "de")
    sentence, tagged = "See you tomorrow", "<p>My name is <b>Anna</b>.</p>"
    marked = 'My name is <g id="1">Anna</g>.'
    return BodySchema(
        limit_translation(
            bounds.max_texts, bounds.max_beam_size, bounds.max_alternatives
        ),
        bounds={"tgt_lang": {"enum": list(bounds.targets)}},
        examples={
            "a text": {"src_lang": "en", "src_text": sentence, "tgt_lang": target},
            "a list": {"src_text": [sentence, ""], "tgt_lang": target},
            "HTML": {"src_text": tagged, "tgt_lang": target, "format": "html"},
            "XML": {"src_text": marked, "tgt_lang": target, "format": "xml"},
        },
    )


def _is_surely_ours(body: bytes) -> bool:
    """Spares most requests a second look at their fields."""
    return b'"src_text"' in body and b'"q"' not in body


def _join(wanted: TranslationRequest, texts: Sequence[TranslatedText]) -> Translated:
    """One answer in the request's shape. In a list, a warning names its text."""
    fields: dict[str, list[Any]] = {
        "translated": [text.renderings[0].text for text in texts]
    }
    if wanted.source is None:
        guesses = [text.guess for text in texts if text.guess]
        fields["src_lang"] = [guess.language for guess in guesses]
        fields["confidence"] = [guess.confidence for guess in guesses]
    if wanted.alternatives:
        fields["alternatives"] = [_list_alternatives(text) for text in texts]
    if wanted.is_list:
        answer: dict[str, Any] = dict(fields)
        warnings = [
            f"src_text[{i}]: {w}" for i, text in enumerate(texts) for w in text.warnings
        ]
    else:
        answer = {name: values[0] for name, values in fields.items()}
        warnings = list(texts[0].warnings)
    return cast(Translated, answer | ({"warnings": warnings} if warnings else {}))


def _list_alternatives(text: TranslatedText) -> list[dict[str, Any]]:
    return [
        {"text": rendering.text, "score": round(rendering.score or 0.0, 4)}
        for rendering in text.renderings[1:]
    ]


def _check_xml(wanted: TranslationRequest) -> None:
    """Raises InvalidRequest for the first text that is not well-formed."""
    for index, text in enumerate(wanted.texts):
        try:
            xml_runs.check(text)
        except NotWellFormed as error:
            field = f"src_text[{index}]" if wanted.is_list else "src_text"
            expected = f"expected well-formed XML, found: {error}"
            raise InvalidRequest([{"field": field, "expected": expected}]) from error
