"""DeepL's API for documents: `/v2/document`, its status and its result."""

from __future__ import annotations

import hmac
import time
from typing import Literal, NotRequired

from flask import Blueprint, Response
from pydantic import Field
from typing_extensions import TypedDict

from contract.tasks import TRANSLATION
from documents.storage import DocumentFolder, State
from gateway.api import Services
from gateway.api.deepl import WORDING, read_target
from gateway.api.documents import FINDING, RECEIVING, send
from gateway.errors import NoDocument, NotDone, NotFound
from gateway.http.bodies import DocumentBlueprint
from gateway.http.request import Fields, read_fields, request
from gateway.openapi.operations import (
    BINARY,
    FIELDS,
    MULTIPART,
    BodySchema,
    Operation,
    describe,
)
from gateway.openapi.refusals import USING_GLOSSARIES
from gateway.schemas import DocumentRequest, ForeignSchema, Text, parse_fields, refuse
from gateway.services.translation import TranslationService

#: Fields that name something stored on DeepL's server, and nothing here.
_STORED = ("glossary_ids", "style_id", "translation_memory_id")
_STATUSES: dict[str, Literal["queued", "translating", "done", "error"]] = {
    "queued": "queued",
    "translating": "translating",
    "done": "done",
    "failed": "error",
}


class DocumentFields(ForeignSchema):
    """The fields of `POST /v2/document`, beside the file."""

    target_lang: Text = Field(
        description="The language to translate into.", examples=["FR"]
    )
    source_lang: Text = Field("", description="The language of the document.")
    filename: Text = Field("", description="The name, if the file has none.")
    glossary_id: Text = Field("", description="A glossary.")
    output_format: Text = Field("", description="The format of the file itself only.")
    formality: Text = Field("default", description="The model knows no formality.")


class DocumentForm(DocumentFields):
    """The form of `POST /v2/document`."""

    file: Text = Field(description="The document.", json_schema_extra=BINARY)


class KeyFields(ForeignSchema):
    """The fields of questions about a document."""

    document_key: Text = Field(description="What the upload was answered.")


class Handle(TypedDict):
    """The handle that finds a document again."""

    document_id: str
    document_key: str


class Progress(TypedDict):
    """The progress of a document."""

    document_id: str
    status: Literal["queued", "translating", "done", "error"]
    seconds_remaining: NotRequired[int]
    billed_characters: NotRequired[int]
    error_message: NotRequired[str]


_NAMED = {"document_id": ()}
_KEY = BodySchema(KeyFields, FIELDS)


def make_blueprints(services: Services) -> list[Blueprint]:
    """The routes of DeepL's documents."""
    return [_make_upload_blueprint(services), _make_blueprint(services)]


def _make_upload_blueprint(services: Services) -> Blueprint:
    """The route that takes documents."""
    documents, service = services.documents, services.translation
    blueprint = DocumentBlueprint("deepl_upload", __name__, url_prefix="/v2")

    @blueprint.post("/document")
    @describe(
        Operation(
            "Takes a document to translate",
            bodies=(BodySchema(DocumentForm, (MULTIPART,)),),
            refusals=(*RECEIVING, NotFound, *USING_GLOSSARIES),
            task=TRANSLATION,
        )
    )
    def take() -> Handle:
        document = documents.receive(
            services.access.find_owner,
            lambda fields, owner: service.check_glossary(_read(fields, service), owner),
        )
        order = document.order
        return {"document_id": order.id, "document_key": order.password}

    return blueprint


def _make_blueprint(services: Services) -> Blueprint:
    """The routes of documents that are there."""
    documents, access = services.documents, services.access
    blueprint = Blueprint("deepl_documents", __name__, url_prefix="/v2")

    def find(document_id: str) -> DocumentFolder:
        given = parse_fields(KeyFields, read_fields(request), WORDING)
        document = documents.find(access.find_owner({}), document_id)
        expected = document.order.password.encode()
        if not hmac.compare_digest(given.document_key.encode(), expected):
            raise NoDocument
        return document

    @blueprint.route("/document/<document_id>", methods=["GET", "POST"])
    @describe(
        Operation(
            "How far a document is",
            bodies=(_KEY,),
            refusals=FINDING,
            task=TRANSLATION,
            path=_NAMED,
        )
    )
    def status(document_id: str) -> Progress:
        document = find(document_id)
        return _describe(document, documents.read_state(document))

    @blueprint.route("/document/<document_id>/result", methods=["GET", "POST"])
    @describe(
        Operation(
            "The translated document",
            bodies=(_KEY,),
            refusals=(*FINDING, NotDone),
            task=TRANSLATION,
            path=_NAMED,
            is_file=True,
        )
    )
    def result(document_id: str) -> Response:
        return send(find(document_id), documents)

    return blueprint


def _read(fields: Fields, service: TranslationService) -> DocumentRequest:
    """Read the form. Refuses options that would change a translation and that we do not
    have."""
    given = parse_fields(DocumentFields, fields, WORDING)
    if given.formality.lower() in ("more", "less"):
        raise refuse("'formality' is not supported for given 'target_lang'.")
    for name in _STORED:
        if fields.get(name):
            raise NotFound(f"{name}: nothing is stored here yet.")
    name = str(fields.get("filename", ""))
    if given.output_format and not name.lower().endswith(given.output_format.lower()):
        raise WORDING.refuse("output_format", "expected the format of the file itself")
    return DocumentRequest(
        source=service.read_source(given.source_lang, "source_lang", WORDING),
        target=read_target(given.target_lang, service),
        glossary=given.glossary_id or None,
    )


def _describe(document: DocumentFolder, state: State) -> Progress:
    answer: Progress = {
        "document_id": document.order.id,
        "status": _STATUSES[state.status],
    }
    if state.status == "translating" and state.texts_done and state.started_at:
        spent_s = time.time() - state.started_at
        left = state.texts - state.texts_done
        answer["seconds_remaining"] = max(1, round(spent_s * left / state.texts_done))
    if state.status == "done":
        answer["billed_characters"] = state.characters
    if state.error:
        answer["error_message"] = str(state.error["detail"])
    return answer
