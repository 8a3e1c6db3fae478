"""`GET /openapi.json`: every route as OpenAPI 3.1. `GET /docs`: a page to read about them
and to try them, which asks no other host.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from flask import Blueprint, Response, current_app, make_response

from contract.tasks import TRANSLATION
from gateway.access import OPEN_ROUTES
from gateway.api import Services
from gateway.errors import NotFound
from gateway.http.request import request
from gateway.openapi.document import build
from gateway.openapi.operations import Operation, describe
from gateway.openapi.security import Keys

#: Swagger UI's files in the package offapi, and their types.
_FILES = {
    "swagger_bundle.js": "text/javascript",
    "swagger_style.css": "text/css",
}
_START = "start.js"
_PAGE = """<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Babelgate</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="docs/swagger_style.css">
<div id="page"></div>
<script src="docs/swagger_bundle.js"></script>
<script src="docs/start.js"></script>
</html>
"""
#: `validatorUrl` is another host that Swagger UI would ask.
_SCRIPT = """SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#page",
  deepLinking: true,
  tryItOutEnabled: true,
  validatorUrl: null,
});
"""
_POLICY = "; ".join(
    [
        *("default-src 'none'", "script-src 'self'", "connect-src 'self'"),
        *("style-src 'self'", "img-src 'self' data:"),
        *("base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"),
    ]
)


def make_blueprints(services: Services) -> list[Blueprint]:
    """The routes of the documentation."""
    catalog = services.catalog
    keys = Keys(services.access.is_required, OPEN_ROUTES)
    blueprint = Blueprint("documentation", __name__)
    served = {*catalog.tasks, *([TRANSLATION] if catalog.languages else [])}

    @cache
    def write() -> bytes:
        # Flask knows all routes once all blueprints are registered.
        document = build(current_app, served, keys)
        return json.dumps(document, ensure_ascii=False).encode()

    @blueprint.get("/openapi.json")
    @describe(Operation("This document", is_cached=True))
    def openapi() -> dict[str, Any]:
        # The annotation says what is in it.
        return _send(write(), "application/json")  # type: ignore[return-value]

    @blueprint.get("/docs")
    @describe(
        Operation("A page to try the routes", media=("text/html",), is_cached=True)
    )
    def docs() -> Response:
        return _send(_PAGE.encode(), "text/html")

    @blueprint.get("/docs/<name>")
    @describe(
        Operation(
            "What the page is made of",
            media=("text/javascript", "text/css"),
            is_cached=True,
            refusals=(NotFound,),
            path={"name": [*_FILES, _START]},
        )
    )
    def docs_file(name: str) -> Response:
        if name == _START:
            return _send(_SCRIPT.encode(), "text/javascript")
        if name not in _FILES:
            raise NotFound("There is no such file; see GET /docs.")
        return _send(_read(name), _FILES[name])

    return [blueprint]


@cache
def _read(name: str) -> bytes:
    """A file of offapi, whose module would read all of its viewers."""
    found = find_spec("offapi")
    assert found
    assert found.origin
    return Path(found.origin).with_name(name).read_bytes()


def _send(content: bytes, media: str) -> Response:
    """A whole answer, or 304 where the client has it already."""
    response = make_response(content)
    response.content_type = f"{media}; charset=utf-8" if "json" not in media else media
    response.headers["Content-Security-Policy"] = _POLICY
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Referrer-Policy"] = "no-referrer"
    response.headers["Cache-Control"] = "no-cache"
    response.add_etag()
    return response.make_conditional(request)  # type: ignore[return-value]
