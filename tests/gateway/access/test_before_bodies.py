"""The part of a body that is read and parsed before its key is known."""

import gzip
import io
from typing import Any
from unittest.mock import Mock
from urllib.parse import parse_qsl

import pytest

from contract.dialects import FOREIGN
from contract.problems import write_problem
from gateway.access.control import KEY_BODY_BYTES
from gateway.access.keys import Grant, make_token
from gateway.http import request as fields

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
#: Paths, with the status by which their API refuses a wrong key.
PATHS = {
    "/": 401,
    "/translate": 401,
    "/v2/translate": 403,
    "/language/translate/v2": 403,
    "/glossaries": 401,
    "/v3/glossaries": 403,
    "/identify": 401,
}


class Cut(io.BytesIO):
    """A body whose client disconnects after sending these bytes."""

    def read(self, size: int | None = -1, /) -> bytes:
        found = super().read(size)
        if not found:
            raise ConnectionResetError
        return found


def send_cut(client, path: str, sent: bytes = b"", length: int = 1 << 20, **given: Any):
    """Send a request that announces more bytes than it sends, or chunks if `length` is 0."""
    sized = {"CONTENT_LENGTH": str(length)}
    chunked = {"CONTENT_LENGTH": "", "HTTP_TRANSFER_ENCODING": "chunked"}
    overrides = sized if length else chunked
    return client.post(
        path, input_stream=Cut(sent), environ_overrides=overrides, **given
    )


@pytest.mark.parametrize("where", ["header", "query", "nowhere"])
def test_who_has_no_right_key_is_refused_before_the_body(make_guarded, where):
    client, (wrong, _) = make_guarded(), make_token()
    headers = {"Authorization": f"Bearer {wrong}"} if where == "header" else {}
    query = f"?key={wrong}" if where == "query" else ""
    for path, status in PATHS.items():
        answer = send_cut(client, path + query, headers=headers)
        assert answer.status_code == status, path


def test_where_no_key_is_needed_little_is_read(make_guarded):
    client = make_guarded()
    for path, length, status in (
        ("/nowhere", 1, 404),
        ("/healthz", 1, 405),
        ("/languages", KEY_BODY_BYTES, 499),  # its client disconnects
        ("/languages", KEY_BODY_BYTES + 1, 413),
    ):
        assert send_cut(client, path, length=length).status_code == status


def test_of_a_body_of_unknown_length_only_as_much_is_read_as_holds_a_key(make_guarded):
    client, sent = make_guarded(), b"q=" + bytes(KEY_BODY_BYTES + (64 << 10))
    for path, status in PATHS.items():
        assert send_cut(client, path, sent, length=0).status_code == status, path


@pytest.mark.parametrize("kind", ["JSON", "form"])
def test_a_body_may_have_its_key_if_it_is_not_too_large(make_guarded, keys, kind):
    client, token = make_guarded(), keys.add("cat", Grant())
    for size, status in ((0, 200), (KEY_BODY_BYTES, 401)):
        given = {"q": "Hello", "source": "en", "target": "ko", "api_key": token}
        given["unknown"] = " " * size
        options = {"json": given} if kind == "JSON" else {"data": given}
        answer = client.post("/translate", **options)
        assert answer.status_code == status
        assert (status == 401) == ("128 KiB" in answer.text)


@pytest.mark.parametrize("api", FOREIGN, ids=lambda api: api.name)
def test_a_damaged_body_is_400_in_the_apis_form(make_guarded, keys, api):
    client, token = make_guarded(), keys.add("cat", Grant())
    for path in (*api.translating, *api.paths):
        if path in PATHS or path == "/detect":
            for headers in ({}, {"Authorization": f"Bearer {token}"}):
                answer = client.post(path, data='{"q": "a', headers=headers)
                assert (answer.status_code, "not JSON" in answer.text) == (400, True)
                named = api.write(write_problem("malformed-request", 400, ""))
                assert named.keys() & answer.json.keys()


def test_a_kilobyte_that_unpacks_to_many_fields_is_not_parsed(
    make_guarded, monkeypatch
):
    client, parse = make_guarded(), Mock(wraps=parse_qsl)
    monkeypatch.setattr(fields, "parse_qsl", parse)
    for size in (1 << 18, KEY_BODY_BYTES >> 3):
        body = gzip.compress(b"key&" + b"%41&" * (size - 2))
        headers = FORM | {"Content-Encoding": "gzip"}
        for path, status in PATHS.items():
            answer = client.post(path, data=body, headers=headers)
            assert answer.status_code == status, path
            assert {call.args for call in parse.mock_calls} <= {("",)}, path
