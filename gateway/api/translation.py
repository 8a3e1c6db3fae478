"""`POST /` and `POST /translate`: translates a text, or a list of texts, into one language.
`/translate` is LibreTranslate's path too: the fields determine a request's API. `POST
/identify`: the likely languages of a text, or of each text in a list."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NotRequired, cast

from flask import Blueprint, Response
from typing_extensions import TypedDict

from contract.dialects import LIBRETRANSLATE, OURS
from contract.tasks import PATHS, TRANSLATION
from gateway.api import Services, libretranslate
from gateway.errors import InvalidRequest, MalformedRequest, UnknownLanguage
from gateway.http.event_stream import EventStream
from gateway.http.request import (
    GatewayRequest,
    read_fields,
    read_json,
    speaks_libretranslate,
)
from gateway.openapi import TRANSLATING, USING_GLOSSARIES, BodySchema, Operation, choose
from gateway.schemas import (
    IdentificationBody,
    TranslationBody,
    list_texts,
    note_unknown,
    parse_identification,
    parse_translation,
    warn_of_unknown,
)
from gateway.services.translation import Tell, TranslationService
from text import markup_runs
from text.composition import TranslatedText
from text.errors import NotWellFormed
from text.options import TranslationRequest

#: Candidates in an answer about a text's language.
_MOST_CANDIDATES = 5


class Alternative(TypedDict):
    """Another translation, and its mean log-probability per token."""

    text: str
    score: float


class RatedSentence(TypedDict):
    """The translation of a sentence, and the probability that it is right."""

    translated: str
    quality: float


class Translated(TypedDict):
    """The translation; fields are lists if `src_text` is one. `src_lang` is included if the
    request had none."""

    translated: str | list[str]
    src_lang: NotRequired[str | list[str]]
    confidence: NotRequired[float | list[float]]
    alternatives: NotRequired[list[Alternative] | list[list[Alternative]]]
    model: NotRequired[str]
    timing: NotRequired[str]
    quality: NotRequired[float | list[float]]
    sentences: NotRequired[list[RatedSentence] | list[list[RatedSentence]]]
    warnings: NotRequired[list[str]]


class Candidate(TypedDict):
    """A language that a text may be in."""

    language: str
    confidence: float


class Identified(TypedDict):
    """The likely languages, best first; of each text, if the request has a list."""

    languages: list[Candidate] | list[list[Candidate]]
    warnings: NotRequired[list[str]]


def make_blueprints(services: Services) -> list[Blueprint]:
    """Return the routes for texts."""
    return [_make_translation(services), _make_identification(services)]


def _make_translation(services: Services) -> Blueprint:
    service = services.translation
    blueprint = Blueprint(TRANSLATION, __name__)
    body = _describe_body(service)
    operation = Operation(
        "Translates a text, or a list of texts",
        TRANSLATION,
        bodies=(body,),
        refusals=(*TRANSLATING, *USING_GLOSSARIES),
        has_limit=True,
        streams=True,
    )

    def translate(request: GatewayRequest) -> Translated:
        limits = service.limits
        fields = read_json(request)
        wanted = parse_translation(fields, limits)
        if wanted.tags and wanted.tags.is_xml:
            _check_xml(wanted)
        call = request.open_call(wanted.model_target)
        warnings = warn_of_unknown(TranslationBody, fields)

        def answer_all(tell: Tell | None = None) -> Translated:
            answer = _join(wanted, service.translate(wanted, call, tell), warnings)
            if fields.get("explain"):
                answer.update(cast(Translated, call.timing.explain()))
            return answer

        if request.wants_events:
            return cast(Translated, _stream(request, answer_all))
        return answer_all()

    blueprint.post("/")(operation(translate))

    @blueprint.post(PATHS[TRANSLATION])
    @replace(
        operation,
        bodies=(body, libretranslate.describe_body(service)),
        dialects=(OURS, LIBRETRANSLATE),
    )
    def translate_for_either(
        request: GatewayRequest,
    ) -> Translated | libretranslate.Translation:
        # Such a request is surely ours; most need no further check of their fields.
        if b'"src_text"' in request.body and b'"q"' not in request.body:
            return translate(request)
        try:
            fields = read_fields(request)
        except MalformedRequest:
            return translate(request)  # raises the right error
        if "src_text" in fields and "q" in fields:
            expected = "not both: src_text is of this API, q is LibreTranslate's"
            raise InvalidRequest({"q": expected})
        if speaks_libretranslate(fields):
            return libretranslate.translate(request, fields, service)
        return translate(request)

    return blueprint


def _stream(
    request: GatewayRequest, answer_all: Callable[[Tell], Translated]
) -> Response:
    """Return the answer as events: `text` with the beginning of a text, and at the end `done`
    with the whole answer, or `error`. Raises the Problem of a request that fails earlier."""

    def work(stream: EventStream) -> Translated:
        def tell(index: int, read: Callable[[], TranslatedText | None]) -> None:
            stream.tell(index, lambda: _show(index, read()))

        return answer_all(tell)

    return EventStream(work, request.id).respond()


def _show(index: int, text: TranslatedText | None) -> dict[str, Any] | None:
    if text is None:
        return None
    translated = text.renderings[0].text
    return {"index": index, "translated": translated, "warnings": text.warnings}


def _make_identification(services: Services) -> Blueprint:
    service = services.translation
    blueprint = Blueprint("identification", __name__)
    limits = service.bounds
    examples: dict[str, Any] = {
        "a text": {"src_text": "Where is the station?"},
        "a list": {"src_text": ["Where is the station?", "Wo ist der Bahnhof?"]},
    }

    @blueprint.post("/identify")
    @Operation(
        "The likely languages of a text, or of each text in a list",
        bodies=(BodySchema(limits.identification, examples=examples),),
        refusals=(InvalidRequest, UnknownLanguage),
        has_limit=True,
    )
    def identify(request: GatewayRequest) -> Identified:
        fields = read_json(request)
        given, languages = parse_identification(fields, limits)
        texts = list_texts(given)
        call = request.open_call()
        ranked: list[list[Candidate]] = [
            [
                {"language": guess.language, "confidence": guess.confidence}
                for guess in guesses[:_MOST_CANDIDATES]
            ]
            for guesses in service.identify(texts, call, languages)
        ]
        found = ranked if isinstance(given, list) else ranked[0]
        return note_unknown(Identified(languages=found), IdentificationBody, fields)

    return blueprint


def _describe_body(service: TranslationService) -> BodySchema:
    bounds = service.bounds
    target = choose(bounds.targets, "de")
    sentence, tagged = "See you tomorrow", "<p>My name is <b>Anna</b>.</p>"
    marked = 'My name is <g id="1">Anna</g>.'
    return BodySchema(
        bounds.schema,
        bounds={"tgt_lang": {"enum": list(bounds.targets)}},
        examples={
            "a text": {"src_lang": "en", "src_text": sentence, "tgt_lang": target},
            "a list": {"src_text": [sentence, ""], "tgt_lang": target},
            "HTML": {"src_text": tagged, "tgt_lang": target, "format": "html"},
            "XML": {"src_text": marked, "tgt_lang": target, "format": "xml"},
        },
    )


def _join(
    wanted: TranslationRequest, texts: Sequence[TranslatedText], warnings: list[str]
) -> Translated:
    """Return one answer in the request's shape. `warnings` concern the whole request; in a
    list, a warning about one text names that text."""
    fields: dict[str, list[Any]] = {
        "translated": [text.renderings[0].text for text in texts]
    }
    if wanted.source is None:
        guesses = [text.guess for text in texts if text.guess]
        fields["src_lang"] = [guess.language for guess in guesses]
        fields["confidence"] = [guess.confidence for guess in guesses]
    if wanted.alternatives:
        fields["alternatives"] = [
            [{"text": r.text, "score": round(r.score or 0.0, 4)} for r in others]
            for _, *others in (text.renderings for text in texts)
        ]
    if wanted.is_rated:
        fields["quality"] = [text.quality for text in texts]
        fields["sentences"] = [
            [
                {"translated": s.renderings[0].text, "quality": s.quality}
                for s in text.sentences
            ]
            for text in texts
        ]
    if wanted.is_list:
        answer: dict[str, Any] = dict(fields)
        warnings += [
            f"src_text[{i}]: {w}" for i, text in enumerate(texts) for w in text.warnings
        ]
    else:
        answer = {name: values[0] for name, values in fields.items()}
        warnings += texts[0].warnings
    return cast(Translated, answer | ({"warnings": warnings} if warnings else {}))


def _check_xml(wanted: TranslationRequest) -> None:
    """Raise InvalidRequest for the first text that is not well-formed."""
    for index, text in enumerate(wanted.texts):
        try:
            markup_runs.check_xml(text)
        except NotWellFormed as error:
            field = f"src_text[{index}]" if wanted.is_list else "src_text"
            expected = f"expected well-formed XML, found: {error}"
            raise InvalidRequest({field: expected}) from error
