"""CORS: which web pages may ask from a browser. Cookies never count, so that a page can do
nothing that its visitor could not do without it. Its author is another matter: without keys,
pages of elsewhere translate, but do not see or change what is kept here.
"""

from __future__ import annotations

from flask import Flask, Response, request
from werkzeug.datastructures import HeaderSet

from contract.dialects import FOREIGN, OURS, find_dialect
from gateway.errors import Forbidden

#: Our own routes for texts; those of other APIs are open as well.
_TEXTS = (*OURS.translating, "/identify", "/languages")
#: Routes for what is kept: ours, and those of other APIs. What some have may be changed.
_OURS_KEPT = tuple(f"{path}/" for path in OURS.documents + OURS.glossaries)
_CHANGED = _OURS_KEPT + tuple(f"{path}/" for api in FOREIGN for path in api.glossaries)
_KEPT = _CHANGED + tuple(f"{path}/" for api in FOREIGN for path in api.documents)
_METHODS = ("GET", "HEAD", "POST", "OPTIONS")
_CHANGES = ("PUT", "PATCH", "DELETE")
_EXPOSED = "Content-Disposition, Location, Retry-After, X-Request-ID"
#: Seconds for which a browser remembers what it may do.
_MOST_AGE_S = 86_400


def register_origins(app: Flask, origins: str, *, is_key_required: bool) -> None:
    """Lets the pages of these origins ask for translations: a list with commas, `*` for all,
    empty for none. Without keys, `*` is not for what is kept: there a page must be ours, or
    of an origin in the list."""
    allowed = frozenset(origin.strip() for origin in origins.split(",")) - {""}
    of_kept = allowed if is_key_required else allowed - {"*"}

    def find_allowed() -> frozenset[str]:
        return of_kept if _is_kept(request.path) else allowed

    @app.before_request
    def check_origin() -> Response | None:
        """Also answers a browser that asks whether it may; not all requests make it ask."""
        origin = request.headers.get("Origin")
        if origin and not is_key_required and _is_kept(request.path):
            _refuse_stranger(origin, of_kept)
        if request.method == "OPTIONS" and find_allowed():
            return _answer_options(origin)
        return None

    @app.after_request
    def allow_origin(response: Response) -> Response:
        origin = request.headers.get("Origin")
        if origin and _is_open(request.path):
            _allow(response, origin, find_allowed())
        return response


def _refuse_stranger(origin: str, allowed: frozenset[str]) -> None:
    # Behind a proxy the host may be another one. No page can set the header.
    is_own = (
        origin.partition("://")[2] == request.host
        or request.headers.get("Sec-Fetch-Site") == "same-origin"
    )
    if origin not in allowed and not is_own:
        raise Forbidden(
            "Pages of other origins may use this path only where keys are required, or "
            "where BABELGATE_CORS_ORIGINS names them."
        )


def _answer_options(origin: str | None) -> Response | None:
    path = request.path
    # Only pages ask for options of our own routes.
    if not _is_open(path) or not (origin or _is_foreign(path)):
        return None
    response = Response(status=204)
    del response.content_type
    response.allow = HeaderSet(_list_methods(path))
    return response


def _is_foreign(path: str) -> bool:
    return find_dialect(path) is not OURS


def _is_kept(path: str) -> bool:
    return f"{path}/".startswith(_KEPT)


def _is_open(path: str) -> bool:
    return path in _TEXTS or f"{path}/".startswith(_OURS_KEPT) or _is_foreign(path)


def _list_methods(path: str) -> tuple[str, ...]:
    may_change = f"{path}/".startswith(_CHANGED)
    return _METHODS + _CHANGES if may_change else _METHODS


def _allow(response: Response, origin: str, allowed: frozenset[str]) -> None:
    if not allowed:
        return
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
