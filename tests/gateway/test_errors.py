"""Every error is a problem document: of the right type, status and headers, never HTML."""

from __future__ import annotations

import pytest
from flask import Flask
from werkzeug.exceptions import UnsupportedMediaType

from gateway import errors
from gateway.errors import (
    BodyTooLarge,
    DeadlineExceeded,
    InternalError,
    InvalidImage,
    InvalidRequest,
    MalformedRequest,
    MethodNotAllowed,
    NotFound,
    NotReady,
    Overloaded,
    Problem,
    RowProblem,
    TaskNotServed,
    UnknownLanguage,
    UnsupportedImage,
    register_error_handlers,
)

ROW = {
    "type": "urn:babelgate:text-too-long",
    "title": "T",
    "status": 422,
    "detail": "d",
}


def answer(error: Exception):
    """What a client gets from an application that raises `error`."""
    app = Flask(__name__)
    register_error_handlers(app)

    @app.get("/")
    def fail() -> str:
        raise error

    return app.test_client().get("/")


@pytest.mark.parametrize(
    ("problem", "status", "slug", "headers"),
    [
        (MalformedRequest("d"), 400, "malformed-request", {}),
        (InvalidRequest([]), 422, "invalid-request", {}),
        (UnknownLanguage("f", "x", ["ko"]), 422, "unknown-language", {}),
        (UnsupportedImage("d"), 415, "unsupported-image", {}),
        (InvalidImage("d"), 422, "invalid-image", {}),
        (NotFound("d"), 404, "not-found", {}),
        (TaskNotServed("captioning"), 404, "task-not-served", {}),
        (MethodNotAllowed("d", "BA"), 405, "method-not-allowed", {"Allow": "A, B"}),
        (BodyTooLarge("d"), 413, "body-too-large", {}),
        (Overloaded("d"), 429, "queue-full", {"Retry-After": "1"}),
        (NotReady("d"), 503, "not-ready", {"Retry-After": "5"}),
        (DeadlineExceeded("d"), 504, "deadline", {}),
        (InternalError("d"), 500, "internal", {}),
        (RowProblem(ROW), 422, "text-too-long", {}),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Problem) else None,
)
def test_a_problem_has_its_status_type_and_headers(problem, status, slug, headers):
    response = answer(problem)
    assert response.status_code == status
    assert response.content_type == "application/problem+json"
    assert response.json["type"] == f"urn:babelgate:{slug}"
    assert response.json["status"] == status
    assert response.json["title"]
    assert isinstance(response.json["detail"], str)
    assert dict(response.headers).items() >= headers.items()


def test_the_tree_at_the_top_names_every_problem():
    names = {kind.__name__ for kind in Problem.__subclasses__()}
    assert {name for name in names if name not in (errors.__doc__ or "")} == set()


def test_a_fault_tells_the_client_nothing_and_the_log_its_type_and_place(caplog):
    response = answer(ZeroDivisionError("secret"))
    assert response.status_code == 500
    assert response.content_type == "application/problem+json"
    assert b"secret" not in response.data
    (record,) = caplog.records
    assert "ZeroDivisionError at " in record.getMessage()
    assert "tests/gateway/test_errors.py" in record.getMessage()
    assert "secret" not in caplog.text


def test_an_error_of_the_framework_that_has_no_class_of_its_own_is_malformed():
    response = answer(UnsupportedMediaType("Send bytes."))
    assert response.status_code == 400
    assert response.json["type"] == "urn:babelgate:malformed-request"
    assert response.json["detail"] == "Send bytes."
