"""CORS: which web pages may ask from a browser. Cookies never count, so that a page can do
nothing that its visitor could not do without it.
"""

from __future__ import annotations

from flask import Flask, Response, request
from werkzeug.datastructures import HeaderSet

from contract.dialects import OURS, find_dialect
from contract.tasks import PATHS, TRANSLATION

#: Our own routes for texts; those of other APIs are open as well.
_TEXTS = ("/", PATHS[TRANSLATION], "/identify", "/languages")
#: Our routes for what is kept, and may be deleted.
_KEPT = ("/documents/", "/glossaries/")
_METHODS = ("GET", "HEAD", "POST", "OPTIONS")
_CHANGES = ("PUT", "PATCH", "DELETE")
_EXPOSED = "Content-Disposition, Location, Retry-After, X-Request-ID"
#: Seconds for which a browser remembers what it may do.
_MOST_AGE_S = 86_400


def register_origins(app: Flask, origins: str) -> None:
    """Lets the pages of these origins ask for translations: a list with commas, `*` for all,
    empty for none."""
    allowed = {origin.strip() for origin in origins.split(",")} - {""}
    if not allowed:
        return

    @app.before_request
    def answer_options() -> Response | None:
        if request.method != "OPTIONS" or not _is_open(request.path):
            return None
        # Only pages ask for options of our own routes.
        if "Origin" not in request.headers and not _is_foreign(request.path):
            return None
        response = Response(status=204)
        del response.content_type
        response.allow = HeaderSet(_list_methods(request.path))
        return response

    @app.after_request
    def allow_origin(response: Response) -> Response:
        origin = request.headers.get("Origin")
        if origin and _is_open(request.path):
            _allow(response, origin, allowed)
        return response


def _is_foreign(path: str) -> bool:
    return find_dialect(path) is not OURS


def _is_open(path: str) -> bool:
    return path in _TEXTS or f"{path}/".startswith(_KEPT) or _is_foreign(path)


def _list_methods(path: str) -> tuple[str, ...]:
    may_change = any(kept in f"{path}/" for kept in _KEPT)
    return _METHODS + _CHANGES if may_change else _METHODS


def _allow(response: Response, origin: str, allowed: set[str]) -> None:
    if "*" not in allowed:
        response.vary.add("Origin")
        if origin not in allowed:
            return
    headers = response.headers
    headers["Access-Control-Allow-Origin"] = "*" if "*" in allowed else origin
    headers["Access-Control-Expose-Headers"] = _EXPOSED
    if request.method == "OPTIONS":
        asked = request.headers.get("Access-Control-Request-Headers", "Content-Type")
        headers["Access-Control-Allow-Headers"] = asked
        headers["Access-Control-Allow-Methods"] = ", ".join(_list_methods(request.path))
        headers["Access-Control-Max-Age"] = str(_MOST_AGE_S)
