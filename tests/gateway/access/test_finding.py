"""Where clients put their keys."""

from __future__ import annotations

import json
from typing import Any

import pytest
from flask import Request
from werkzeug.test import EnvironBuilder

from gateway.access.finding import find_token

FORM = "application/x-www-form-urlencoded"


def find(*, has_body: bool = True, **given: Any) -> str | None:
    request = Request(EnvironBuilder(method="POST", **given).get_environ())
    found = find_token(request, has_body=has_body)
    if has_body and isinstance(given.get("data"), str):
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
    ],
)
def test_no_key_is_none(given):
    assert find(**given) is None


def test_of_a_body_that_is_still_arriving_nothing_is_read():
    assert find(has_body=False, data={"key": "a"}) is None
    assert find(has_body=False, data=json.dumps({"key": "a"})) is None
