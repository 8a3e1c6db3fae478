"""LibreTranslate's API: `/detect`, `/frontend/settings`, `/suggest`, `/health` and `/spec`, and
for files `/translate_file`, which waits for the translation, and `/download_file`, which
returns it. `translation.py` routes `/translate` here, and `/languages` is ours too."""

import re
from functools import partial
from typing import Any, Literal, NoReturn, NotRequired
from urllib.parse import quote

import gevent
from flask import Blueprint, Response
from pydantic import Field
from typing_extensions import TypedDict

from contract.tasks import TRANSLATION
from gateway.api import Services
from gateway.api.documents import name_result, send
from gateway.api.status import name_language
from gateway.errors import Forbidden, ForeignProblem
from gateway.http.request import Fields, GatewayRequest, read_fields
from gateway.openapi import (
    FIELDS,
    FINDING,
    MULTIPART,
    RECEIVING,
    TRANSLATING,
    BodySchema,
    Operation,
    choose,
)
from gateway.schemas import (
    DocumentRequest,
    ForeignSchema,
    Text,
    Texts,
    Wording,
    parse_fields,
    refuse,
)
from gateway.services.translation import TranslationService, name_source
from gateway.uploads.documents import read_state
from text.composition import TranslatedText
from text.langid import Guess
from text.options import AUTO, HTML_TAGS, TranslationRequest

#: The version whose API this is.
VERSION = "1.9.6"
#: LibreTranslate's messages about refused fields.
_WORDING = Wording(
    "Invalid request: missing {field} parameter",
    "Invalid request: {field} parameter is wrong",
    "Invalid request: request ({found}) exceeds text limit ({most})",
    advice="send the texts in several requests",
    fields={
        "source": "{found} is not supported",
        "target": "{found} is not supported",
        "format": "{found} format is not supported",
        "alternatives": "Invalid request: {field} parameter is not a number",
    },
)
_FALLBACK = "en"
#: A tag, a comment or an entity.
_MARKUP = re.compile(r"<[a-zA-Z/!?]|&[a-zA-Z#]\w*+;", re.ASCII)
_MOST_GUESSES = 5
#: The most bytes in JSON of a UTF-16 unit, in which browsers count.
_BYTES_PER_CHARACTER = 6
#: Seconds between two checks of a document.
_LOOK_S = 0.2
#: Characters that need no quoting in a URL's path.
_UNQUOTED = "!$&'()*+,/:;=@"
#: The routes in the answer of `GET /spec`.
_METHODS = {
    "/translate": "post",
    "/detect": "post",
    "/languages": "get",
    "/frontend/settings": "get",
    "/suggest": "post",
    "/translate_file": "post",
    "/health": "get",
}


class DetectFields(ForeignSchema):
    """The fields of `POST /detect`."""

    q: Texts = Field(description="A text, or a list of them.", examples=["Hello"])


class TranslateFields(DetectFields):
    """The fields of `POST /translate`."""

    source: Text = Field(
        description='The language of the text, or "auto".', examples=["en"]
    )
    target: Text = Field(description="The language to translate into.", examples=["fr"])
    format: Literal["text", "html"] = Field(
        "text", description="Whether tags are markup."
    )
    alternatives: int = Field(0, ge=0, description="The number of alternatives.")


class Detection(TypedDict):
    """A language and its confidence, from 0 to 100."""

    confidence: int
    language: str


class Translation(TypedDict):
    """The answer of `POST /translate`; fields are lists if `q` is one."""

    translatedText: str | list[str]
    detectedLanguage: NotRequired[Detection | list[Detection]]
    alternatives: NotRequired[list[str] | list[list[str]]]


class Coded(TypedDict):
    """A language and its name."""

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


class FileForm(ForeignSchema):
    """The form of `POST /translate_file`."""

    source: Text = Field(
        description='The language of the file, or "auto".', examples=["en"]
    )
    target: Text = Field(description="The language to translate into.", examples=["fr"])


class TranslatedFile(TypedDict):
    """The URL of the translated file."""

    translatedFileUrl: str


def make_blueprints(services: Services) -> list[Blueprint]:
    """Return the routes that only LibreTranslate has."""
    return [_make_texts(services), *_make_files(services)]


def _make_texts(services: Services) -> Blueprint:
    service = services.translation
    most = service.bounds.max_texts
    blueprint = Blueprint("libretranslate", __name__)

    @blueprint.post("/detect")
    @Operation(
        "The likely languages of a text, or of each text in a list",
        bodies=(
            BodySchema(
                DetectFields,
                FIELDS,
                bounds={"q": {"minItems": 1, "maxItems": most}},
                examples={"a text": {"q": "Where is the station?"}},
            ),
        ),
        has_limit=True,
    )
    def detect(request: GatewayRequest) -> list[Detection] | list[list[Detection]]:
        given = parse_fields(DetectFields, read_fields(request), _WORDING)
        texts = _WORDING.list_texts("q", given.q, most)
        guesses = service.identify(texts, request.open_call())
        ranked = [_write_detections(found) for found in guesses]
        return ranked if isinstance(given.q, list) else ranked[0]

    @blueprint.get("/frontend/settings")
    @Operation("The features of this server", TRANSLATION, is_open=True)
    def frontend_settings(_: GatewayRequest) -> Frontend:
        return _describe_frontend(services)

    @blueprint.post("/suggest")
    @Operation("Refused: suggestions are disabled", refusals=(Forbidden,))
    def suggest(_: GatewayRequest) -> NoReturn:
        raise Forbidden("Suggestions are disabled on this server.")

    @blueprint.get("/health")
    @Operation("Whether the gateway is alive", is_open=True)
    def health(_: GatewayRequest) -> dict[str, str]:
        return {"status": "ok"}

    @blueprint.get("/spec")
    @Operation("LibreTranslate's title and version, as Swagger", is_open=True)
    def spec(_: GatewayRequest) -> dict[str, Any]:
        return {
            "swagger": "2.0",
            "info": {"title": "LibreTranslate", "version": VERSION},
            "basePath": "/",
            "paths": {
                path: {method: {"responses": {"200": {"description": "OK"}}}}
                for path, method in _METHODS.items()
            },
        }

    return blueprint


def _make_files(services: Services) -> tuple[Blueprint, Blueprint]:
    documents, service = services.documents, services.translation
    upload = Blueprint("libretranslate_upload", __name__)
    download = Blueprint("libretranslate_files", __name__)

    @upload.post("/translate_file")
    @Operation(
        "Translates a file, and waits for the translation",
        TRANSLATION,
        bodies=(BodySchema(FileForm, (MULTIPART,), file="The file."),),
        refusals=(*RECEIVING, *TRANSLATING),
        has_limit=True,
        takes="document",
    )
    def translate_file(request: GatewayRequest) -> TranslatedFile:
        call = request.open_call(limit_s=service.settings.upload_timeout_s)
        document = documents.receive(request, partial(_read_form, service, request))
        try:
            while not (state := read_state(document)).is_over:
                call.check("the file was translated; POST /documents does not wait")
                gevent.sleep(_LOOK_S)
            if state.error:
                raise ForeignProblem(state.error)
        except BaseException:
            documents.delete(document)
            raise
        where = f"{request.scheme}://{request.host.lower()}/download_file/"
        order = document.order
        name = name_result(document).replace("-", "_")
        path = f"{order.owner}-{order.id}-{order.password}-{name}"
        return {"translatedFileUrl": where + quote(path, safe=_UNQUOTED)}

    # It needs no key: names cannot be guessed.
    @download.get("/download_file/<name>")
    @Operation(
        "A translated file", TRANSLATION, refusals=FINDING, is_file=True, is_open=True
    )
    def download_file(_: GatewayRequest, name: str) -> Response:
        owner, document_id, password = [*name.split("-", 3), "", "", ""][:3]
        return send(documents.find(owner, document_id, password))

    return upload, download


def describe_body(service: TranslationService) -> BodySchema:
    """Return the fields of `POST /translate` with this stack's limits."""
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


def translate(
    request: GatewayRequest, fields: Fields, service: TranslationService
) -> Translation:
    """Answer `POST /translate` as LibreTranslate does. Raises Problem."""
    limits = service.limits
    given = parse_fields(TranslateFields, fields, _WORDING)
    texts = _WORDING.list_texts("q", given.q, limits.max_texts)
    # Some clients send any text as HTML, and expect its line breaks back.
    is_html = given.format == "html" and any(map(_MARKUP.search, texts))
    wanted = TranslationRequest(
        source=service.read_source(given.source, "source", _WORDING),
        target=service.read_target(given.target, "target", _WORDING),
        texts=texts,
        written=limits.written,
        is_list=isinstance(given.q, list),
        tags=HTML_TAGS if is_html else None,
        splitting="sentences" if is_html else "lines",
        alternatives=given.alternatives,
    )
    if wanted.alternatives > (most := limits.max_alternatives):
        raise refuse(
            f"Invalid request: alternatives parameter must be <= {most}",
            f"found {wanted.alternatives}",
        )
    call = request.open_call(wanted.model_target)
    return _join(wanted, service.translate(wanted, call))


def _join(wanted: TranslationRequest, texts: list[TranslatedText]) -> Translation:
    columns: dict[str, list[Any]] = {
        "translatedText": [text.renderings[0].text for text in texts]
    }
    if wanted.source is None:
        guesses = (name_source(text.guess, other=wanted.model_target) for text in texts)
        columns["detectedLanguage"] = [_write_detection(guess) for guess in guesses]
    if wanted.alternatives:
        columns["alternatives"] = [
            [rendering.text for rendering in text.renderings[1:]] for text in texts
        ]
    if wanted.is_list:
        return columns  # type: ignore[return-value]
    return {name: values[0] for name, values in columns.items()}  # type: ignore[return-value]


def _write_detections(guesses: list[Guess]) -> list[Detection]:
    """Return the likeliest languages, at least one: clients use the first."""
    best, *others = map(_write_detection, guesses or [Guess(_FALLBACK, 0.0)])
    likely = [other for other in others if other["confidence"]]
    return [best, *likely[: _MOST_GUESSES - 1]]


def _write_detection(guess: Guess) -> Detection:
    return {"confidence": round(100 * guess.confidence), "language": guess.language}


def _describe_frontend(services: Services) -> Frontend:
    from documents.formats import SUFFIXES  # loads the libraries of all formats

    service = services.translation
    target = choose(service.limits.targets, _FALLBACK)
    return {
        "charLimit": service.settings.max_body_bytes // _BYTES_PER_CHARACTER,
        "frontendTimeout": 500,
        "apiKeys": services.access.is_required,
        "keyRequired": services.access.is_required,
        "suggestions": False,
        "filesTranslation": True,
        "supportedFilesFormat": list(SUFFIXES),
        "language": {
            "source": {"code": AUTO, "name": "Auto Detect"},
            "target": {"code": target, "name": name_language(target, "en")},
        },
    }


def _read_form(
    service: TranslationService, request: GatewayRequest, fields: Fields
) -> DocumentRequest:
    given = parse_fields(FileForm, fields, _WORDING)
    source = service.read_source(given.source, "source", _WORDING)
    target = service.read_target(given.target, "target", _WORDING)
    return service.check_document(DocumentRequest(source, target), request.owner)
