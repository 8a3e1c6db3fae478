"""The places where clients put their keys."""

from __future__ import annotations

import io
from typing import Any

import pytest
from werkzeug.test import EnvironBuilder

from gateway.access.control import find_token, find_token_in_body
from gateway.http.request import GatewayRequest

FORM = "application/x-www-form-urlencoded"


def find(**given: Any) -> str | None:
    request = GatewayRequest(EnvironBuilder(method="POST", **given).get_environ())
    found = find_token(request) or find_token_in_body(request)
    if isinstance(given.get("data"), str):
        assert request.get_data() == given["data"].encode()
    return found


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"headers": {"Authorization": "Bearer a"}}, id="Bearer"),
        pytest.param({"headers": {"Authorization": "bearer  a "}}, id="spaces"),
        pytest.param({"headers": {"Authorization": "DeepL-Auth-Key a"}}, id="DeepL"),
        pytest.param({"headers": {"X-API-Key": "a"}}, id="X-API-Key"),
        pytest.param({"headers": {"X-Goog-Api-Key": "a"}}, id="X-Goog-Api-Key"),
        pytest.param({"query_string": "key=a"}, id="query of Google"),
        pytest.param({"query_string": "api_key=a"}, id="query of LibreTranslate"),
        pytest.param({"query_string": "auth_key=a"}, id="query of DeepL"),
        pytest.param({"data": {"api_key": "a"}}, id="form"),
        pytest.param({"data": "q=b&auth_key=a", "content_type": FORM}, id="form text"),
        pytest.param(
            {"data": {"key": "a"}, "content_type": "multipart/form-data"},
            id="multipart",
        ),
        pytest.param({"json": {"api_key": "a"}}, id="JSON"),
        pytest.param({"json": {"key": "a", "q": "x" * 600_000}}, id="long JSON"),
        pytest.param(
            {"data": ' {"auth_key": "a"}', "content_type": FORM}, id="JSON as a form"
        ),
        pytest.param({"data": '\ufeff{"key": "a"}'}, id="byte-order mark"),
        pytest.param(
            {"headers": {"Authorization": "Basic b"}, "query_string": "key=a"},
            id="another scheme",
        ),
        pytest.param(
            {"headers": {"X-API-Key": "a"}, "query_string": "key=b"}, id="header first"
        ),
        pytest.param({"query_string": "key=a", "json": {"key": "b"}}, id="query next"),
        pytest.param({"json": {"api_key": "", "key": "a"}}, id="empty field"),
    ],
)
def test_a_key_is_found_wherever_clients_put_it(given):
    assert find(**given) == "a"


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"headers": {"Authorization": "Bearer "}}, id="empty"),
        pytest.param({"headers": {"Authorization": "Basic a"}}, id="scheme"),
        pytest.param({"json": {"q": "key"}}, id="JSON"),
        pytest.param({"json": ["api_key"]}, id="list"),
        pytest.param({"json": {"api_key": None}}, id="null"),
        pytest.param({"json": {"api_key": 7}}, id="number"),
        pytest.param({"json": {"a": {"key": "a"}}}, id="deeper"),
        pytest.param({"data": '{"key": "a"'}, id="broken JSON"),
        pytest.param({"data": '{"key":' + "[" * 100_000}, id="brackets"),
        pytest.param({"data": "a&" * 2000 + "key=a", "content_type": FORM}, id="many"),
    ],
)
def test_no_key_is_none(given):
    assert find(**given) is None


def test_for_headers_and_the_query_nothing_of_the_body_is_read():
    body = io.BytesIO(b"key=a")
    environ = EnvironBuilder(method="POST", input_stream=body).get_environ()
    assert find_token(GatewayRequest(environ)) is None
    assert body.tell() == 0
