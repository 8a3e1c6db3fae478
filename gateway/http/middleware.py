"""The layers around every route, in the order of `gateway/app.py`, and answers to errors."""

import re
import time
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Any, cast

from flask import Response
from pydantic_core import to_json
from werkzeug.datastructures import Headers, HeaderSet
from werkzeug.exceptions import HTTPException

from contract.dialects import FOREIGN, OURS, find_dialect
from contract.tasks import PATHS, TRANSLATION
from gateway.errors import (
    Forbidden,
    InternalError,
    MalformedRequest,
    MethodNotAllowed,
    NotFound,
    Problem,
)
from gateway.http.bodies import read_chunk
from gateway.http.request import Deadline, GatewayRequest, check_number, find_spoken

_SLASHES = re.compile("//+")
#: Our own paths that may end with a slash. nginx's rules for our other paths expect none.
_WITH_SLASH = (f"{PATHS[TRANSLATION]}/", "/languages/", "/identify/")
_NO_PATH = "There is no such path; see GET /languages and POST /translate."
#: Seconds to read the rest of a body whose answer is known, to keep its connection usable.
_REST_S = 2
#: Our own routes that web pages of any allowed origin may use, as they may those of other APIs.
_TEXTS = (*OURS.translating, "/identify", "/languages")
#: Routes for stored objects: ours, all whose objects may be changed, and all.
_OURS_KEPT = tuple(f"{path}/" for path in OURS.documents + OURS.glossaries)
_CHANGED = _OURS_KEPT + tuple(f"{path}/" for api in FOREIGN for path in api.glossaries)
_KEPT = _CHANGED + tuple(f"{path}/" for api in FOREIGN for path in api.documents)
_METHODS = ("GET", "HEAD", "POST", "OPTIONS")
_CHANGES = ("PUT", "PATCH", "DELETE")
_EXPOSED = (
    "Content-Disposition, Location, Retry-After, Server-Timing, X-Babelgate-Model, "
    "X-Request-ID"
)
#: Seconds for which a browser may cache these permissions.
_MOST_AGE_S = 86_400

#: Prepares a request, raises a Problem to refuse it, or returns the answer.
Before = Callable[[GatewayRequest], Response | None]
#: Completes every answer, including errors.
After = Callable[[GatewayRequest, Response], None]


class PlainResponse(Response):
    """An answer that is sent unchanged: werkzeug would copy the headers, and search for some
    that only other answers have."""

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        is_post = environ["REQUEST_METHOD"] == "POST"
        if self._on_close or not (is_post and self.status_code == HTTPStatus.OK):
            return super().__call__(environ, start_response)
        start_response(self.status, self.headers.to_wsgi_list())
        return self.response


def write_json(content: object, status: int) -> Response:
    """Return the answer with this content, whose fields keep their order."""
    written = to_json(content) + b"\n"
    length = "Content-Length", str(len(written))
    headers = Headers([("Content-Type", "application/json"), length])
    return PlainResponse([written], status, headers)


def write_answer(content: Any, request: GatewayRequest) -> Response:
    """Return the answer with a route's result, as its `Operation` describes it. A Response
    stays unchanged."""
    if isinstance(content, Response):
        return content
    if content is None:
        return write_nothing()
    operation = request.operation
    if isinstance(content, bytes):
        return Response(content, content_type=f"{operation.media[0]}; charset=utf-8")
    response = write_json(content, operation.status)
    if operation.made:
        response.headers["Location"] = f"{request.path}/{content[operation.made]}"
    return response


def write_nothing() -> Response:
    """Return an answer without a body."""
    response = Response(status=204)
    del response.content_type
    return response


def clean_path(path: str) -> str:
    """Return the path with a first slash, without repeated ones and, for texts, without a last
    one: clients build URLs from parts. Flask would redirect such requests, and some clients
    would resend them without the body."""
    if "//" in path:
        path = _SLASHES.sub("/", path)
    is_long = len(path) > 1 and path.endswith("/")
    if is_long and (path in _WITH_SLASH or find_dialect(path) is not OURS):
        return path[:-1]
    return path or "/"


def read_rest(request: GatewayRequest, response: Response) -> None:
    """Read the rest of the body of every failed request before its answer. After an early
    answer, nginx closes the connection without announcing that to the client."""
    if response.status_code >= HTTPStatus.BAD_REQUEST and not request.is_read:
        body = request.environ["wsgi.input"]
        deadline = Deadline(time.monotonic() + _REST_S)
        with suppress(Problem):
            while read_chunk(body, deadline):
                pass


def check_url(request: GatewayRequest) -> None:
    """Refuse a URL with too many fields before they are parsed."""
    if query := request.query_string:
        check_number(query, request.most_fields)


class Origins:
    """The layer for CORS. Pages of these origins may request translations: a list with commas,
    `*` for all, empty for none. As cookies have no effect, a page can do nothing that its
    visitor could not do without it. But its author may be a stranger: without keys, `*` does
    not include stored objects, which only our pages and origins in the list may use."""

    def __init__(self, origins: str, *, is_key_required: bool) -> None:
        allowed = frozenset(map(str.strip, origins.lower().split(","))) - {""}
        self._allowed = allowed
        self._of_kept = allowed if is_key_required else allowed - {"*"}
        self._is_key_required = is_key_required

    def before(self, request: GatewayRequest) -> Response | None:
        """Also answer preflight requests; browsers do not send one before every request."""
        path = request.path
        origin = request.environ.get("HTTP_ORIGIN")
        if origin and not self._is_key_required and _is_kept(path):
            self._refuse_stranger(request, origin)
        # Only pages send OPTIONS to our own routes.
        is_asked = request.method == "OPTIONS" and (origin or _is_foreign(path))
        if not is_asked or not self._find_allowed(path):
            return None
        response = write_nothing()
        response.allow = HeaderSet(_list_methods(path))
        return response

    def after(self, request: GatewayRequest, response: Response) -> None:
        origin = request.environ.get("HTTP_ORIGIN")
        if not origin or not (allowed := self._find_allowed(request.path)):
            return
        if "*" not in allowed:
            response.vary.add("Origin")
            if origin not in allowed:
                return
        headers = response.headers
        headers["Access-Control-Allow-Origin"] = "*" if "*" in allowed else origin
        headers["Access-Control-Expose-Headers"] = _EXPOSED
        if request.method == "OPTIONS":
            asked = request.headers.get("Access-Control-Request-Headers")
            methods = ", ".join(_list_methods(request.path))
            headers["Access-Control-Allow-Headers"] = asked or "Content-Type"
            headers["Access-Control-Allow-Methods"] = methods
            headers["Access-Control-Max-Age"] = str(_MOST_AGE_S)

    def _find_allowed(self, path: str) -> frozenset[str]:
        if _is_kept(path):
            return self._of_kept
        return self._allowed if path in _TEXTS or _is_foreign(path) else frozenset()

    def _refuse_stranger(self, request: GatewayRequest, origin: str) -> None:
        # Behind a proxy, the host may differ. No page can set the header.
        is_own = (
            origin.partition("://")[2] == request.host
            or request.headers.get("Sec-Fetch-Site") == "same-origin"
        )
        if origin not in self._of_kept and not is_own:
            raise Forbidden(
                "Pages from other origins may use this path only if keys are required, or if "
                "BABELGATE_CORS_ORIGINS lists their origin."
            )


def _is_foreign(path: str) -> bool:
    return find_dialect(path) is not OURS


def _is_kept(path: str) -> bool:
    return f"{path}/".startswith(_KEPT)


def _list_methods(path: str) -> tuple[str, ...]:
    return _METHODS + _CHANGES if f"{path}/".startswith(_CHANGED) else _METHODS


def answer_error(error: Exception, request: GatewayRequest) -> Response:
    """Return an error's answer: a problem document, the API's form of it, or a page."""
    show = request.operation and request.operation.show_problem
    if show and isinstance(error, Problem):
        return cast(Response, show(error, request))
    if isinstance(error, HTTPException):
        error = _translate(error)
    elif not isinstance(error, Problem):
        error = InternalError("The gateway failed on this request.")
    return write_problem_response(error, request)


def write_problem_response(problem: Problem, request: GatewayRequest) -> Response:
    """Return the answer for a problem, in the form of the request's API."""
    answer = find_spoken(request).answer(problem.to_document(request_id=request.id))
    response = write_json(answer.content, answer.status)
    response.content_type = answer.content_type
    response.headers.update(problem.headers)
    return response


def _translate(error: HTTPException) -> Problem:
    match error.code:
        case 404:
            return NotFound(_NO_PATH)
        case 405:
            allowed = sorted(getattr(error, "valid_methods", None) or [])
            return MethodNotAllowed(f"This path takes {', '.join(allowed)}.", allowed)
        case _:
            return MalformedRequest(error.description or "The request cannot be read.")
