"""Turns whatever a request ends with into the problem document of an error."""

from __future__ import annotations

from collections.abc import Callable

from flask import Flask, Request, Response, g, jsonify, request
from werkzeug.exceptions import HTTPException
from werkzeug.routing import RequestRedirect

from contract.dialects import Dialect, find_dialect
from gateway.errors import (
    TOO_LARGE,
    BodyTooLarge,
    InternalError,
    MalformedRequest,
    MethodNotAllowed,
    NotFound,
    Problem,
)
from gateway.redaction import describe

_NO_PATH = "There is no such path; see GET /languages and POST /translate."


def _find_by_path(request: Request) -> Dialect:
    return find_dialect(request.path)


def register_error_handlers(
    app: Flask, find_spoken: Callable[[Request], Dialect] = _find_by_path
) -> None:
    """Makes every error of the application a problem document, or what the API has that the
    request speaks."""

    @app.errorhandler(Problem)
    def answer_problem(problem: Problem) -> Response:
        return write_problem_response(problem, find_spoken(request))

    @app.errorhandler(HTTPException)
    def answer_http_exception(error: HTTPException) -> Response:
        return answer_problem(_translate(error))

    @app.before_request
    def refuse_redirect() -> None:
        """Flask answers a path that is nearly right with a redirect in HTML."""
        if isinstance(request.routing_exception, RequestRedirect):
            raise NotFound(_NO_PATH)

    @app.errorhandler(Exception)
    def answer_fault(error: Exception) -> Response:
        app.logger.error(
            "request %s failed: %s", g.get("request_id", ""), describe(error)
        )
        return answer_problem(InternalError("The gateway failed on this request."))


def write_problem_response(problem: Problem, dialect: Dialect) -> Response:
    """The answer to the current request, in the words of an API."""
    answer = dialect.answer(problem.to_document(g.get("request_id", "")))
    response = jsonify(answer.content)
    response.status_code = answer.status
    response.content_type = answer.content_type
    response.headers.update(problem.headers)
    return response


def _translate(error: HTTPException) -> Problem:
    match error.code:
        case 404:
            return NotFound(_NO_PATH)
        case 405:
            allowed = list(getattr(error, "valid_methods", None) or [])
            return MethodNotAllowed(
                f"This path takes {', '.join(sorted(allowed))}.", allowed
            )
        case 413:
            return BodyTooLarge(TOO_LARGE)
        case _:
            return MalformedRequest(error.description or "The request cannot be read.")
