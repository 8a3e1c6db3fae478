"""Finds the key in a request, wherever a client puts it: in a header, in the query, or in a
field of a form or JSON body.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from flask import Request

from gateway.errors import BodyTooLarge, MalformedRequest
from gateway.http.fields import AUTHORIZATION, KEY_HEADERS, read_fields

#: The schemes of `Authorization`: ours, and that of DeepL's clients.
_SCHEMES = ("bearer", "deepl-auth-key")
#: The fields of LibreTranslate, of DeepL's older clients, and of Google.
_FIELDS = ("api_key", "auth_key", "key")
#: The largest body in which a key is looked for: as large as DeepL takes any. A client
#: without a key can make the gateway read no more than this.
KEY_BODY_BYTES = 128 << 10


def find_token(request: Request) -> str | None:
    """The key in the headers or in the query, None without one. Nothing of the body is read."""
    return _find_in_headers(request) or pick_token(request.args)


def find_token_in_body(request: Request) -> str | None:
    """The key among the fields of the body, None without one."""
    if any(name.encode() in request.get_data() for name in _FIELDS):
        with suppress(MalformedRequest, BodyTooLarge):  # it has no fields that are read
            return pick_token(read_fields(request))
    return None


def pick_token(fields: Mapping[str, Any]) -> str | None:
    """The key among a request's fields."""
    given = (fields.get(name) for name in _FIELDS)
    return next((key for key in given if isinstance(key, str) and key), None)


def _find_in_headers(request: Request) -> str | None:
    scheme, _, token = request.headers.get(AUTHORIZATION, "").partition(" ")
    if scheme.lower() in _SCHEMES and token.strip():
        return token.strip()
    given = (request.headers.get(name, "").strip() for name in KEY_HEADERS)
    return next(filter(None, given), None)
