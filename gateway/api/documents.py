"""`POST /documents` and the routes of its documents: files translated in the background."""

import re
import time
from functools import partial
from typing import Any, Literal, NotRequired, cast
from urllib.parse import quote

import gevent
from flask import Blueprint, Response
from pydantic import Field
from typing_extensions import TypedDict

from contract.tasks import TRANSLATION
from documents.storage import DocumentFolder, State, describe
from gateway.api import Services
from gateway.errors import InvalidRequest, NotDone, NotFound, UnknownLanguage
from gateway.http.event_stream import EventStream
from gateway.http.request import Fields, GatewayRequest
from gateway.openapi import (
    FINDING,
    MULTIPART,
    RECEIVING,
    USING_GLOSSARIES,
    BodySchema,
    Operation,
)
from gateway.schemas import (
    Digits,
    DocumentForm,
    DocumentRequest,
    Schema,
    note_unknown,
    parse_document,
    validate,
)
from gateway.uploads.documents import read_file, read_state

#: Seconds between two checks of a followed document, and the longest time to follow one.
_LOOK_S, _MOST_FOLLOWED_S = 0.5, 600.0
#: Characters that not every client accepts in a quoted file name of a header.
_UNQUOTABLE = re.compile(r"[^ !#-\[\]-~]")


class DocumentStatus(TypedDict):
    """The progress of a document. `error` is a problem document, or null; `warnings` concern
    the translation."""

    id: str
    name: str
    status: Literal["queued", "translating", "done", "failed"]
    src_lang: str | None
    tgt_lang: str
    texts: int
    texts_done: int
    characters: int
    created_at: str
    expires_at: str | None
    error: dict[str, Any] | None
    warnings: NotRequired[list[str]]


class PageParameters(Schema):
    """The page of a key's documents, in the URL."""

    limit: Digits = Field(
        100, ge=1, le=1000, description="Maximum number of documents to return."
    )
    after: str = Field(
        "",
        pattern=r"^([0-9a-f]{16}-[0-9a-f]{32})?$",
        description="The value of `next` in the previous answer.",
    )


class DocumentList(TypedDict):
    """A key's documents, oldest first. `next` is the next request's `after`; null at the
    end."""

    documents: list[DocumentStatus]
    next: str | None


def make_blueprints(services: Services) -> list[Blueprint]:
    """Return the routes of documents."""
    return [_make_upload(services), _make_rest(services)]


def _make_upload(services: Services) -> Blueprint:
    service = services.translation
    bounds = {"tgt_lang": {"enum": list(service.bounds.targets)}}
    blueprint = Blueprint("uploaded_documents", __name__)

    @blueprint.post("/documents")
    @Operation(
        "Accepts a document for translation",
        TRANSLATION,
        bodies=(BodySchema(DocumentForm, (MULTIPART,), bounds, file="The document."),),
        refusals=(*RECEIVING, UnknownLanguage, *USING_GLOSSARIES),
        takes="document",
        status=202,
        made="id",
    )
    def take(request: GatewayRequest) -> DocumentStatus:
        targets = service.limits.targets
        given: dict[str, Any] = {}

        def check(fields: Fields) -> DocumentRequest:
            given.update(fields)
            wanted = parse_document(fields, targets, service.settings.webhooks)
            return service.check_document(wanted, request.owner)

        document = services.documents.receive(request, check)
        return note_unknown(_describe_status(document, State()), DocumentForm, given)

    return blueprint


def _make_rest(services: Services) -> Blueprint:
    documents = services.documents
    blueprint = Blueprint("documents", __name__)

    @blueprint.get("/documents")
    @Operation(
        "The key's documents, page by page",
        TRANSLATION,
        query=PageParameters,
        refusals=(*FINDING, InvalidRequest),
    )
    def list_all(request: GatewayRequest) -> DocumentList:
        if not services.access.is_required:
            raise NotFound("Without keys, documents can be found only by id.")
        given = validate(PageParameters, request.args)
        found, rest = documents.list_page(request.owner, given.after, given.limit)
        return {"documents": [_describe_status(*each) for each in found], "next": rest}

    @blueprint.get("/documents/<document_id>")
    @Operation("A document's progress", TRANSLATION, refusals=FINDING, streams=True)
    def status(request: GatewayRequest, document_id: str) -> DocumentStatus:
        document = documents.find(request.owner, document_id)
        if request.wants_events:
            follow = partial(_follow, document)
            return cast(DocumentStatus, EventStream(follow, request.id).respond())
        return _describe_status(document, read_state(document))

    @blueprint.get("/documents/<document_id>/result")
    @Operation(
        "The translated document",
        TRANSLATION,
        refusals=(*FINDING, NotDone),
        is_file=True,
    )
    def result(request: GatewayRequest, document_id: str) -> Response:
        return send(documents.find(request.owner, document_id))

    @blueprint.delete("/documents/<document_id>")
    @Operation("Deletes a document", TRANSLATION, refusals=FINDING, status=204)
    def delete(request: GatewayRequest, document_id: str) -> None:
        documents.delete(documents.find(request.owner, document_id))

    return blueprint


def _follow(document: DocumentFolder, stream: EventStream) -> DocumentStatus | None:
    """Send each change of a document's status, and return the last status. Return None after a
    time; then clients of event streams reconnect."""
    give_up_at = time.monotonic() + _MOST_FOLLOWED_S
    told = None
    while time.monotonic() < give_up_at:
        status = _describe_status(document, read_state(document))
        if status["status"] in ("done", "failed"):
            return status
        if status != told:
            stream.tell(0, partial(dict, status), "progress")
            told = status
        gevent.sleep(_LOOK_S)
    return None


def send(document: DocumentFolder) -> Response:
    """Return the translated file. Raises NotDone and NoDocument."""
    state = read_state(document)
    if state.error:
        raise NotDone("The document could not be translated.", error=dict(state.error))
    if state.status != "done":
        raise NotDone("The document is still being translated.")
    name = name_result(document)
    plain = _UNQUOTABLE.sub("_", name)
    content, size = read_file(document.result)
    return Response(
        content,
        content_type=state.media_type,
        headers={
            "Content-Length": str(size),
            # `curl -OJ` reads only the first one.
            "Content-Disposition": f'attachment; filename="{plain}"; '
            f"filename*=UTF-8''{quote(name)}",
            "X-Content-Type-Options": "nosniff",
        },
    )


def name_result(document: DocumentFolder) -> str:
    """Return the name of the translated file: `report.de.docx` for `report.docx`."""
    stem, _, ending = document.order.name.rpartition(".")
    return f"{stem}.{document.order.tgt_lang}.{ending}"


def _describe_status(document: DocumentFolder, state: State) -> DocumentStatus:
    return cast(DocumentStatus, describe(document.order, state))
