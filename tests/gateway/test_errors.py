"""Every error is a problem document: of the right type, status and headers, never HTML."""

from __future__ import annotations

from flask import Flask
from werkzeug.exceptions import UnsupportedMediaType

from gateway.http.middleware import answer_errors
from gateway.http.request import GatewayRequest


def answer(error: Exception):
    """The answer of an application that raises `error`."""
    app = Flask(__name__)
    app.request_class = GatewayRequest
    answer_errors(app)

    @app.get("/")
    def fail() -> str:
        raise error

    return app.test_client().get("/")


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
