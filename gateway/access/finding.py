"""Finds the key in a request, wherever a client puts it: in a header, in the query, or in a
field of a form or JSON body.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from flask import Request

from gateway.errors import MalformedRequest
from gateway.transport.fields import read_fields

#: The schemes of `Authorization`: ours, and that of DeepL's clients.
_SCHEMES = ("bearer", "deepl-auth-key")
_HEADERS = ("X-API-Key", "X-Goog-Api-Key")
#: The fields of LibreTranslate, of DeepL's older clients, and of Google.
_FIELDS = ("api_key", "auth_key", "key")
#: A larger body is a glossary: it takes too long to be read twice.
_MOST_BYTES = 1 << 20


def find_token(request: Request, *, has_body: bool) -> str | None:
    """The key that a client has sent, None without one. Where the body is still arriving,
    only the headers and the query are read."""
    header = _find_in_headers(request)
    found = header or pick_token(request.args)
    is_small = has_body and (request.content_length or 0) <= _MOST_BYTES
    if found or not (is_small and _may_have_field(request.get_data())):
        return found
    with suppress(MalformedRequest):  # the route says what is wrong
        return pick_token(read_fields(request))
    return None


def pick_token(fields: Mapping[str, Any]) -> str | None:
    """The key among a request's fields."""
    given = (fields.get(name) for name in _FIELDS)
    return next((key for key in given if isinstance(key, str) and key), None)


def _find_in_headers(request: Request) -> str | None:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() in _SCHEMES and token.strip():
        return token.strip()
    given = (request.headers.get(name, "").strip() for name in _HEADERS)
    return next(filter(None, given), None)


def _may_have_field(body: bytes) -> bool:
    """Only such a body is worth parsing twice."""
    return any(name.encode() in body for name in _FIELDS)
