"""Finds the key in a request, wherever a client puts it: in a header, in the query, or in a
field of a form or JSON body.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from flask import Request

#: The schemes of `Authorization`: ours, and that of DeepL's clients.
_SCHEMES = ("bearer", "deepl-auth-key")
_HEADERS = ("X-API-Key", "X-Goog-Api-Key")
#: The fields of LibreTranslate, of DeepL's older clients, and of Google.
_FIELDS = ("api_key", "auth_key", "key")
_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")


def find_token(request: Request, *, has_body: bool) -> str | None:
    """The key that a client has sent, None without one. Where the body is still arriving,
    only the headers and the query are read."""
    header = _find_in_headers(request)
    found = header or _pick(request.args)
    if found or not has_body:
        return found
    return _pick(_read_fields(request))


def _find_in_headers(request: Request) -> str | None:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() in _SCHEMES and token.strip():
        return token.strip()
    given = (request.headers.get(name, "").strip() for name in _HEADERS)
    return next(filter(None, given), None)


def _pick(fields: Mapping[str, Any]) -> str | None:
    given = (fields.get(name) for name in _FIELDS)
    return next((key for key in given if isinstance(key, str) and key), None)


def _read_fields(request: Request) -> Mapping[str, Any]:
    """The body's fields. What it is, its content says: curl sends JSON as a form."""
    body = request.get_data()
    if body.lstrip()[:1] in (b"{", b"\xef"):
        return _read_json(body)
    return request.form if request.mimetype in _FORMS else {}


def _read_json(body: bytes) -> Mapping[str, Any]:
    """Only a body that has one of the fields is worth parsing twice."""
    if not any(f'"{name}"'.encode() in body for name in _FIELDS):
        return {}
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
