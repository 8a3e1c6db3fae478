"""The places where clients put their keys."""

from __future__ import annotations

from typing import Any

import pytest
from werkzeug.test import EnvironBuilder

from gateway.access.control import find_token, find_token_in_body
from gateway.http.request import GatewayRequest

FORM = "application/x-www-form-urlencoded"


def find(**given: Any) -> str | None:
    request = GatewayRequest(EnvironBuilder(method="POST", **given).get_environ())
    request.body = request.get_data()
    return find_token(request) or find_token_in_body(request)


PLACES: dict[str, dict[str, Any]] = {
    "Bearer": {"headers": {"Authorization": "Bearer a"}},
    "spaces": {"headers": {"Authorization": "bearer  a "}},
    "DeepL": {"headers": {"Authorization": "DeepL-Auth-Key a"}},
    "X-API-Key": {"headers": {"X-API-Key": "a"}},
    "X-Goog-Api-Key": {"headers": {"X-Goog-Api-Key": "a"}},
    "query of Google": {"query_string": "key=a"},
    "query of LibreTranslate": {"query_string": "api_key=a"},
    "query of DeepL": {"query_string": "auth_key=a"},
    "form": {"data": {"api_key": "a"}},
    "form text": {"data": "q=b&auth_key=a", "content_type": FORM},
    "multipart": {"data": {"key": "a"}, "content_type": "multipart/form-data"},
    "long JSON": {"json": {"key": "a", "q": "x" * 600_000}},
    "byte-order mark": {"data": '\ufeff{"key": "a"}'},
    "another scheme": {
        "headers": {"Authorization": "Basic b"},
        "query_string": "key=a",
    },
    "header first": {"headers": {"X-API-Key": "a"}, "query_string": "key=b"},
    "query next": {"query_string": "key=a", "json": {"key": "b"}},
    "empty field": {"json": {"api_key": "", "key": "a"}},
}
NOWHERE: dict[str, dict[str, Any]] = {
    "nothing": {},
    "empty": {"headers": {"Authorization": "Bearer "}},
    "scheme": {"headers": {"Authorization": "Basic a"}},
    "JSON": {"json": {"q": "key"}},
    "list": {"json": ["api_key"]},
    "null": {"json": {"api_key": None}},
    "number": {"json": {"api_key": 7}},
    "deeper": {"json": {"a": {"key": "a"}}},
    "broken JSON": {"data": '{"key": "a"'},
    "brackets": {"data": '{"key":' + "[" * 100_000},
    "many": {"data": "a&" * 2000 + "key=a", "content_type": FORM},
}


@pytest.mark.parametrize("given", PLACES.values(), ids=PLACES)
def test_a_key_is_found_wherever_clients_put_it(given):
    assert find(**given) == "a"


@pytest.mark.parametrize("given", NOWHERE.values(), ids=NOWHERE)
def test_no_key_is_none(given):
    assert find(**given) is None
