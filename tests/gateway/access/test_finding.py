"""The places where clients put their keys."""

from typing import Any

import pytest
from werkzeug.test import EnvironBuilder

from gateway.access.control import find_token, find_token_in_body
from gateway.errors import MalformedRequest
from gateway.http.request import GatewayRequest

FORM = "application/x-www-form-urlencoded"


def find(**given: Any) -> str | None:
    request = GatewayRequest(EnvironBuilder(method="POST", **given).get_environ())
    request.body = request.get_data()
    return find_token(request) or find_token_in_body(request)


PLACES: dict[str, dict[str, Any]] = {
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
    "null": {"json": {"api_key": None}},
    "number": {"json": {"api_key": 7}},
    "deeper": {"json": {"a": {"key": "a"}}},
    "many": {"data": "a&" * 2000 + "key=a", "content_type": FORM},
}


#: Damaged bodies: whether they contain a key is unknown.
DAMAGED: dict[str, dict[str, Any]] = {
    "list": {"json": ["api_key"]},
    "broken JSON": {"data": '{"key": "a"'},
    "brackets": {"data": '{"key":' + "[" * 100_000},
    "no UTF-8": {"data": b"key=\xff", "content_type": FORM},
    "no boundary": {"data": b"--x\r\n", "content_type": "multipart/form-data"},
    "cut off": {
        "data": b'--x\r\nContent-Disposition: form-data; name="key"\r\n\r\na',
        "content_type": "multipart/form-data; boundary=x",
    },
}


@pytest.mark.parametrize("given", PLACES.values(), ids=PLACES)
def test_a_key_is_found_wherever_clients_put_it(given):
    assert find(**given) == "a"


@pytest.mark.parametrize("given", NOWHERE.values(), ids=NOWHERE)
def test_no_key_is_none(given):
    assert find(**given) is None


@pytest.mark.parametrize("given", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_body_is_told_first(given):
    with pytest.raises(MalformedRequest):
        find(**given)
