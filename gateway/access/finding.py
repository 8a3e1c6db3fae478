"""Finds the key in a request, wherever a client puts it: in a header, in the query, or in a
field of a form or JSON body.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from contract.dialects import FOREIGN, KEY_FIELDS, KEY_HEADERS, OURS
from gateway.errors import BodyTooLarge, MalformedRequest
from gateway.http.request import AUTHORIZATION, GatewayRequest, read_fields

#: The schemes of `Authorization`.
_SCHEMES = {api.key_scheme.lower() for api in (OURS, *FOREIGN) if api.key_scheme}
#: The largest body in which a key is looked for: as large as DeepL takes any. A client
#: without a key can make the gateway read no more than this.
KEY_BODY_BYTES = 128 << 10


def find_token(request: GatewayRequest) -> str | None:
    """The key in the headers or in the query, None without one. Nothing of the body is read."""
    return _find_in_headers(request) or pick_token(request.args)


def find_token_in_body(request: GatewayRequest) -> str | None:
    """The key among the fields of the body, None without one."""
    if any(name.encode() in request.get_data() for name in KEY_FIELDS):
        with suppress(MalformedRequest, BodyTooLarge):  # it has no fields that are read
            return pick_token(read_fields(request))
    return None


def pick_token(fields: Mapping[str, Any]) -> str | None:
    """The key among a request's fields."""
    given = (fields.get(name) for name in KEY_FIELDS)
    return next((key for key in given if isinstance(key, str) and key), None)


def _find_in_headers(request: GatewayRequest) -> str | None:
    scheme, _, token = request.headers.get(AUTHORIZATION, "").partition(" ")
    if scheme.lower() in _SCHEMES and token.strip():
        return token.strip()
    given = (request.headers.get(name, "").strip() for name in KEY_HEADERS)
    return next(filter(None, given), None)
