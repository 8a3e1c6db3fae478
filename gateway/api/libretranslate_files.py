"""LibreTranslate's API for files: `/translate_file` waits for the translation, and
`/download_file` has it.
"""

from __future__ import annotations

import hmac

import gevent
from flask import Blueprint, Response, url_for
from pydantic import Field
from typing_extensions import TypedDict

from contract.tasks import TRANSLATION
from documents.storage import DocumentFolder
from gateway.api import Services
from gateway.api.documents import FINDING, RECEIVING, name_result, send
from gateway.api.libretranslate import WORDING, read_source, read_target
from gateway.errors import DocumentFailed, NoDocument
from gateway.http.bodies import DocumentBlueprint
from gateway.http.call import Call
from gateway.http.request import Fields, request
from gateway.openapi.operations import (
    BINARY,
    MULTIPART,
    BodySchema,
    Operation,
    describe,
)
from gateway.openapi.refusals import TRANSLATING
from gateway.schemas import DocumentRequest, ForeignSchema, Text, parse_fields
from gateway.services.translation import TranslationService
from gateway.uploads.documents import Documents

#: Seconds between two looks at whether the document is done.
_LOOK_S = 0.2


class FileFields(ForeignSchema):
    """The fields of `POST /translate_file`, beside the file."""

    source: Text = Field(
        description='The language of the file, or "auto".', examples=["en"]
    )
    target: Text = Field(description="The language to translate into.", examples=["fr"])


class FileForm(FileFields):
    """The form of `POST /translate_file`."""

    file: Text = Field(description="The file.", json_schema_extra=BINARY)


class TranslatedFile(TypedDict):
    """The URL of the translated file."""

    translatedFileUrl: str


def make_blueprints(services: Services) -> list[Blueprint]:
    """The routes of LibreTranslate's files."""
    return [_make_upload_blueprint(services), _make_blueprint(services)]


def _make_upload_blueprint(services: Services) -> Blueprint:
    """The route that takes files."""
    documents, service = services.documents, services.translation
    blueprint = DocumentBlueprint("libretranslate_upload", __name__)

    @blueprint.post("/translate_file")
    @describe(
        Operation(
            "Translates a file, and waits for it",
            bodies=(BodySchema(FileForm, (MULTIPART,)),),
            refusals=(*RECEIVING, *TRANSLATING),
            task=TRANSLATION,
            has_limit=True,
        )
    )
    def translate_file() -> TranslatedFile:
        call = request.open_call(limit_s=service.settings.upload_timeout_s)
        document = documents.receive(
            services.access.find_owner, lambda fields, _: _read(fields, service)
        )
        try:
            _wait(document, documents, call)
        except BaseException:
            documents.delete(document)
            raise
        name = _write_name(document)
        where = url_for("libretranslate_files.download_file", name=name, _external=True)
        return {"translatedFileUrl": where}

    return blueprint


def _make_blueprint(services: Services) -> Blueprint:
    """The route that has the translated files. It needs no key: nobody can guess a name."""
    documents = services.documents
    blueprint = Blueprint("libretranslate_files", __name__)

    @blueprint.get("/download_file/<name>")
    @describe(
        Operation(
            "A translated file",
            refusals=FINDING,
            task=TRANSLATION,
            path={"name": ()},
            is_file=True,
        )
    )
    def download_file(name: str) -> Response:
        owner, document_id, *_ = [*name.split("-", 3), "", ""]
        document = documents.find(owner, document_id)
        expected = _write_name(document).rpartition("-")[0]
        given = name[: len(expected)]
        if not hmac.compare_digest(given.encode(), expected.encode()):
            raise NoDocument
        return send(document, documents)

    return blueprint


def _read(fields: Fields, service: TranslationService) -> DocumentRequest:
    given = parse_fields(FileFields, fields, WORDING)
    return DocumentRequest(
        source=read_source(given.source, service),
        target=read_target(given.target, service),
    )


def _wait(document: DocumentFolder, documents: Documents, call: Call) -> None:
    """Returns when the document is done. Raises why it is not."""
    while not (state := documents.read_state(document)).is_over:
        call.check("the file was translated; POST /documents waits for nobody")
        gevent.sleep(_LOOK_S)
    if state.error:
        raise DocumentFailed(state.error)


def _write_name(document: DocumentFolder) -> str:
    order = document.order
    name = name_result(document).replace("-", "_")
    return f"{order.owner}-{order.id}-{order.password}-{name}"
