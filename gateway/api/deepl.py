"""DeepL's API, version 2: `/v2/translate`, `/v2/languages`, `/v2/usage`,
`/v2/glossary-language-pairs`, and `/v2/document` with its status and result."""

import time
from collections.abc import Iterable
from itertools import permutations
from typing import Annotated, Any, Literal, NotRequired

from flask import Blueprint, Response
from pydantic import BeforeValidator, Field
from typing_extensions import TypedDict

from contract.dialects import DEEPL
from contract.languages import VARIANTS
from contract.tasks import TRANSLATION
from documents.storage import DocumentFolder, State
from gateway.api import Services
from gateway.api.documents import send
from gateway.api.status import name_language
from gateway.errors import NotDone, NotFound
from gateway.http.request import Fields, GatewayRequest, read_fields
from gateway.openapi import (
    FIELDS,
    FINDING,
    MULTIPART,
    RECEIVING,
    TRANSLATING,
    USING_GLOSSARIES,
    BodySchema,
    Operation,
    choose,
)
from gateway.schemas import (
    DocumentRequest,
    ForeignSchema,
    Lower,
    Text,
    Texts,
    Wording,
    parse_fields,
    refuse,
)
from gateway.services.translation import TranslationService, name_source
from gateway.uploads.documents import read_state
from text import markup_runs
from text.composition import TranslatedText
from text.errors import NotWellFormed
from text.options import Splitting, Tags, TranslationRequest

#: DeepL's messages about refused fields.
WORDING = Wording(
    "Parameter '{field}' not specified.",
    "Value for '{field}' not supported.",
    list_codes=lambda targets: [*_name_targets(sorted(targets))],
)
#: DeepL's limit for unlimited characters per month.
_UNLIMITED = 10**12
_CODES = {"no": "NB"}
#: The target languages that DeepL has in several variants. We have only two of Chinese.
_VARIANTS = {
    "en": {"EN-GB": "English (British)", "EN-US": "English (American)"},
    "pt": {"PT-BR": "Portuguese (Brazilian)", "PT-PT": "Portuguese (European)"},
    "zh": {"ZH": "Chinese (simplified)", "ZH-HANS": "Chinese (simplified)"},
    "zh-Hant": {"ZH-HANT": "Chinese (traditional)"},
}
_SPLITTINGS: dict[str, Splitting] = {
    "0": "none",
    "1": "lines",
    "nonewlines": "sentences",
}
#: Fields that name objects stored on DeepL's server, which do not exist here.
_STORED = ("style_id", "translation_memory_id")
#: The error of a document, which is not copied.
_EQUAL = "Source and target language are equal."
#: The most glossaries of one request.
_MOST_GLOSSARIES = 5


def _read_switch(given: Any) -> Any:
    return str(int(given)) if isinstance(given, bool | int) else given


def _read_names(given: Any) -> Any:
    """Read names of elements: a list, a text with commas, or a list of such texts."""
    if isinstance(given, str):
        given = [given]
    if not isinstance(given, list) or not all(isinstance(n, str) for n in given):
        return given
    return [name.strip() for text in given for name in text.split(",") if name.strip()]


_Names = Annotated[list[Text], BeforeValidator(_read_names)]


class TranslateFields(ForeignSchema):
    """The fields of `/v2/translate`."""

    text: Texts = Field(description="The texts to translate.", examples=[["Hello"]])
    target_lang: Text = Field(
        description="The language to translate into.", examples=["FR"]
    )
    source_lang: Text = Field("", description="The language of the texts.")
    split_sentences: Annotated[
        Literal["0", "1", "nonewlines"] | None, BeforeValidator(_read_switch)
    ] = Field(None, description="Where texts are divided.")
    preserve_formatting: bool = Field(False, description="Ignored: always on here.")
    formality: Annotated[
        Literal["default", "more", "less", "prefer_more", "prefer_less"], Lower
    ] = Field("default", description="`more` and `less` are refused.")
    tag_handling: Annotated[Literal["xml", "html"] | None, Lower] = Field(
        None, description="The format of tags."
    )
    tag_handling_version: Literal["v1", "v2"] = Field(
        "v2", description="With `v1`, XML may be malformed."
    )
    outline_detection: bool = Field(True, description="Whether to find XML's outline.")
    ignore_tags: _Names = Field([], description="Elements that are not translated.")
    splitting_tags: _Names = Field([], description="Elements that end a sentence.")
    non_splitting_tags: _Names = Field([], description="Elements inside a sentence.")
    glossary_id: Text = Field("", description="The id of the glossary to use.")
    glossary_ids: _Names = Field(
        [], description="Up to 5 glossaries; entries of earlier ones win."
    )
    model_type: Annotated[
        Literal["quality_optimized", "latency_optimized", "prefer_quality_optimized"]
        | None,
        Lower,
    ] = Field(None, description="With quality, the search is wider and slower.")


class LanguagesFields(ForeignSchema):
    """The fields of `/v2/languages`."""

    type: Annotated[Literal["source", "target"], Lower] = Field(
        "source", description="The kind of languages to list."
    )


class Translation(TypedDict):
    """The answer to one text."""

    detected_source_language: str
    text: str
    billed_characters: int
    model_type_used: NotRequired[str]


class Translations(TypedDict):
    """The answer of `/v2/translate`."""

    translations: list[Translation]


class Language(TypedDict):
    """An entry of `/v2/languages`; only targets have the field about formality."""

    language: str
    name: str
    supports_formality: NotRequired[bool]


class Used(TypedDict):
    """The answer of `/v2/usage`."""

    character_count: int
    character_limit: int


class Pair(TypedDict):
    """A language pair."""

    source_lang: str
    target_lang: str


class Pairs(TypedDict):
    """The answer of `/v2/glossary-language-pairs`."""

    supported_languages: list[Pair]


class DocumentForm(ForeignSchema):
    """The form of `POST /v2/document`."""

    target_lang: Text = Field(
        description="The language to translate into.", examples=["FR"]
    )
    source_lang: Text = Field("", description="The language of the document.")
    filename: Text = Field("", description="The name, instead of the file's.")
    glossary_id: Text = Field("", description="The id of the glossary to use.")
    glossary_ids: _Names = Field([], description="The same, as a list of one.")
    output_format: Text = Field("", description="Only the format of the file itself.")
    formality: Text = Field("default", description="`more` and `less` are refused.")


class KeyFields(ForeignSchema):
    """The fields of requests about a document."""

    document_key: Text = Field(description="The key in the answer to the upload.")


class Handle(TypedDict):
    """The id and key of an uploaded document."""

    document_id: str
    document_key: str


class Progress(TypedDict):
    """The progress of a document."""

    document_id: str
    status: Literal["queued", "translating", "done", "error"]
    seconds_remaining: NotRequired[int]
    billed_characters: NotRequired[int]
    error_message: NotRequired[str]


def make_blueprints(services: Services) -> list[Blueprint]:
    """Return the routes of DeepL's API, except those of glossaries."""
    return [_make_texts(services), *_make_documents(services)]


def _make_texts(services: Services) -> Blueprint:
    service = services.translation
    blueprint = Blueprint("deepl", __name__, url_prefix="/v2")
    targets = {"targets": {"type": "target"}}

    @blueprint.route("/translate", methods=["GET", "POST"])
    @Operation(
        "Translates texts",
        TRANSLATION,
        bodies=(_describe_body(service),),
        refusals=(*TRANSLATING, *USING_GLOSSARIES, NotFound),
        has_limit=True,
    )
    def translate(request: GatewayRequest) -> Translations:
        return {"translations": _translate(request, service)}

    @blueprint.route("/languages", methods=["GET", "POST"])
    @Operation(
        "The languages of texts, or those of translations",
        TRANSLATION,
        bodies=(BodySchema(LanguagesFields, FIELDS, examples=targets),),
    )
    def languages(request: GatewayRequest) -> list[Language]:
        given = parse_fields(LanguagesFields, read_fields(request), WORDING)
        if given.type == "target":
            return [
                {"language": code, "name": name, "supports_formality": False}
                for code, name in _name_targets(sorted(service.limits.targets)).items()
            ]
        return [
            {"language": write_code(code), "name": name_language(code, "en")}
            for code in sorted({*service.sources} - VARIANTS.keys())
        ]

    @blueprint.route("/usage", methods=["GET", "POST"])
    @Operation("Characters this month or, without keys, since the gateway's start")
    def usage(request: GatewayRequest) -> Used:
        found = services.access.read_usage(request)
        limit = _UNLIMITED if found.limit is None else found.limit
        has_keys = services.access.is_required
        count = found.count if has_keys else service.telemetry.sum_characters()
        return {"character_count": count, "character_limit": limit}

    @blueprint.get("/glossary-language-pairs")
    @Operation("The pairs of languages", TRANSLATION)
    def glossary_language_pairs(_: GatewayRequest) -> Pairs:
        served = [code for code in service.limits.targets if code not in VARIANTS]
        codes = [write_code(code).lower() for code in served]
        return {
            "supported_languages": [
                {"source_lang": source, "target_lang": target}
                for source, target in permutations(codes, 2)
            ]
        }

    return blueprint


def _make_documents(services: Services) -> tuple[Blueprint, Blueprint]:
    documents, service = services.documents, services.translation
    upload = Blueprint("deepl_upload", __name__, url_prefix="/v2")
    rest = Blueprint("deepl_documents", __name__, url_prefix="/v2")
    key = BodySchema(KeyFields, FIELDS)

    @upload.post("/document")
    @Operation(
        "Accepts a document for translation",
        TRANSLATION,
        bodies=(BodySchema(DocumentForm, (MULTIPART,), file="The document."),),
        refusals=(*RECEIVING, NotFound, *USING_GLOSSARIES),
        takes="document",
    )
    def take(request: GatewayRequest) -> Handle:
        def check(fields: Fields) -> DocumentRequest:
            return service.check_document(_read_form(fields, service), request.owner)

        order = documents.receive(request, check).order
        return {"document_id": order.id, "document_key": order.password}

    def find(request: GatewayRequest, document_id: str) -> DocumentFolder:
        given = parse_fields(KeyFields, read_fields(request), WORDING)
        return documents.find(request.owner, document_id, given.document_key)

    @rest.route("/document/<document_id>", methods=["GET", "POST"])
    @Operation("A document's progress", TRANSLATION, (key,), refusals=FINDING)
    def status(request: GatewayRequest, document_id: str) -> Progress:
        document = find(request, document_id)
        return _describe_progress(document, read_state(document))

    @rest.route("/document/<document_id>/result", methods=["GET", "POST"])
    @Operation(
        "The translated document",
        TRANSLATION,
        bodies=(key,),
        refusals=(*FINDING, NotDone),
        is_file=True,
    )
    def result(request: GatewayRequest, document_id: str) -> Response:
        return send(find(request, document_id))

    return upload, rest


def _describe_body(service: TranslationService) -> BodySchema:
    served = [*_name_targets(service.bounds.targets)]
    texts = {"minItems": 1, "maxItems": service.bounds.max_texts}
    target = choose(served, "DE")
    asked = {"text": ["See you tomorrow"], "source_lang": "EN", "target_lang": target}
    return BodySchema(
        TranslateFields,
        FIELDS,
        bounds={"text": texts, "target_lang": {"enum": served}},
        examples={"a text": asked},
    )


def _translate(
    request: GatewayRequest, service: TranslationService
) -> list[Translation]:
    limits = service.limits
    fields = read_fields(request)
    given = parse_fields(TranslateFields, fields, WORDING)
    _refuse_what_is_missing(given.formality, fields)
    texts = WORDING.list_texts("text", given.text, limits.max_texts)
    glossaries = _read_glossaries(given, _MOST_GLOSSARIES)
    if glossaries and not given.source_lang:
        raise refuse(
            "Use of a glossary requires the source_lang parameter to be specified."
        )
    default = "nonewlines" if given.tag_handling == "html" else "1"
    wanted = TranslationRequest(
        source=service.read_source(given.source_lang, "source_lang", WORDING),
        target=service.read_target(given.target_lang, "target_lang", WORDING),
        texts=texts,
        written=limits.written,
        is_list=isinstance(given.text, list),
        tags=_read_tags(given),
        splitting=_SPLITTINGS[given.split_sentences or default],
        beam_size=DEEPL.count_beams(
            {"model_type": given.model_type}, limits.max_beam_size
        ),
        glossaries=tuple(glossaries),
    )
    if given.tag_handling == "xml" and given.tag_handling_version == "v2":
        _check_xml(texts)
    answers = service.translate(wanted, request.open_call(wanted.model_target))
    translations = [_write_translation(answer, wanted) for answer in answers]
    if given.model_type:
        for translation in translations:
            translation["model_type_used"] = given.model_type.removeprefix("prefer_")
    return translations


def _refuse_what_is_missing(formality: str, fields: Fields) -> None:
    """Refuse unsupported options that would change a translation."""
    if formality.lower() in ("more", "less"):
        raise refuse("'formality' is not supported for given 'target_lang'.")
    for name in _STORED:
        if fields.get(name):
            raise NotFound(f"{name}: nothing is stored here yet.")


def _read_glossaries(given: TranslateFields | DocumentForm, most: int) -> list[str]:
    if given.glossary_id and given.glossary_ids:
        raise refuse("Use either glossary_id or glossary_ids.")
    wanted = given.glossary_ids or list(filter(None, [given.glossary_id]))
    if len(wanted) > most:
        detail = f"found {len(wanted)}, expected at most {most}"
        raise refuse("Too many glossaries.", detail)
    return wanted


def _read_tags(given: TranslateFields) -> Tags | None:
    if given.tag_handling is None:
        return None
    is_xml = given.tag_handling == "xml"
    ignored, splitting, inline = (
        tuple(name if is_xml else name.lower() for name in names)
        for names in (given.ignore_tags, given.splitting_tags, given.non_splitting_tags)
    )
    return Tags(is_xml, ignored, splitting, inline, given.outline_detection)


def _check_xml(texts: tuple[str, ...]) -> None:
    message = "Tag handling parsing failed, please check input."
    for number, text in enumerate(texts):
        try:
            markup_runs.check_xml(text)
        except NotWellFormed as error:
            raise refuse(message, f"text[{number}]: {error}") from error


def _write_translation(
    answer: TranslatedText, wanted: TranslationRequest
) -> Translation:
    guessed = name_source(answer.guess, other=wanted.model_target).language
    return {
        "detected_source_language": write_code(wanted.source or guessed),
        "text": answer.renderings[0].text,
        "billed_characters": answer.characters,
    }


def write_code(language: str) -> str:
    """Return DeepL's code of a language."""
    return _CODES.get(language, language.upper())


def _name_targets(languages: Iterable[str]) -> dict[str, str]:
    """Return the target codes of languages, with their names."""
    found: dict[str, str] = {}
    for language in languages:
        own = {write_code(language): name_language(language, "en")}
        found |= _VARIANTS.get(language, own)
    return found


def _read_form(fields: Fields, service: TranslationService) -> DocumentRequest:
    given = parse_fields(DocumentForm, fields, WORDING)
    _refuse_what_is_missing(given.formality, fields)
    source = service.read_source(given.source_lang, "source_lang", WORDING)
    target = service.read_target(given.target_lang, "target_lang", WORDING)
    if source == target:
        raise refuse(_EQUAL)
    own = given.filename.lower().rpartition(".")[2]
    if given.output_format.lower().lstrip(".") not in ("", own):
        raise WORDING.refuse("output_format", "expected the file's own format")
    glossary = next(iter(_read_glossaries(given, 1)), None)
    return DocumentRequest(source, target, glossary)


def _describe_progress(document: DocumentFolder, state: State) -> Progress:
    answer: Progress = {
        "document_id": document.order.id,
        "status": "error" if state.status == "failed" else state.status,
    }
    if state.status == "translating":
        answer["seconds_remaining"] = _estimate(state)
    elif state.error:
        answer["error_message"] = str(state.error["detail"])
    elif state.src_lang == document.order.tgt_lang:
        answer["status"], answer["error_message"] = "error", _EQUAL
    elif state.status == "done":
        answer["seconds_remaining"] = 0
        answer["billed_characters"] = state.characters
    return answer


def _estimate(state: State) -> int:
    """Return the remaining seconds of a translation, 1 if they cannot be estimated."""
    if not (state.texts_done and state.started_at):
        return 1
    spent_s = time.time() - state.started_at
    left = state.texts - state.texts_done
    return max(1, round(spent_s * left / state.texts_done))
