"""Documents and glossaries belong to keys; the documents worker acts on the key's behalf."""

from typing import Any
from unittest.mock import create_autospec

import pytest
from flask.testing import FlaskClient
from urllib3 import encode_multipart_formdata
from werkzeug.test import TestResponse

from contract.documents import OWNER_HEADER, WORKER_HEADER, read_secret
from documents.storage import DocumentStorage as Documents
from gateway.access.keys import Grant, read_id
from gateway.services.translation import TranslationService

TEXT = {"src_lang": "en", "src_text": "Hello", "tgt_lang": "ko"}
PAIR = {"src_lang": "en", "tgt_lang": "ko"}
TERMS = {"work station": "작업대"}
GLOSSARY: dict[str, Any] = {"name": "Ours", "entries": TERMS, **PAIR}


@pytest.fixture
def client(make_guarded):
    return make_guarded()


def add(keys, name="somebody", **grant) -> str:
    return str(keys.add(name, Grant(**grant)))


def bear(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def upload(client, token="", *, path="/documents", before=None, after=None) -> Any:
    """Upload with a key in a header, or with more fields before or after the file."""
    wanted = {"target": "ko", "target_lang": "KO", "tgt_lang": "ko", "source": "en"}
    file = {"file": ("a.txt", b"Hello\n")}
    fields = (before or {}) | wanted | file | (after or {})
    body, content_type = encode_multipart_formdata(fields)
    headers = {"Content-Type": content_type, **(bear(token) if token else {})}
    return client.post(path, data=body, headers=headers)


@pytest.mark.parametrize(
    ("path", "field"), [("/documents", "api_key"), ("/v2/document", "auth_key")]
)
def test_a_key_may_stand_before_the_file(client, keys, path, field):
    token = add(keys)
    right, wrong = {field: token}, {field: f"{token}x"}
    assert upload(client, path=path, before=right).status_code in (200, 202)
    assert upload(client, path=path, before=wrong).status_code in (401, 403)
    assert upload(client, path=path, after=right).status_code in (401, 403)


def test_a_keys_documents_have_pages(client, keys):
    token = add(keys)
    ids = {upload(client, token).json["id"] for _ in range(3)}
    first = client.get("/documents?limit=2", headers=bear(token)).json
    after = {"limit": 2, "after": first["next"]}
    rest = client.get("/documents", query_string=after, headers=bear(token)).json
    assert [len(page["documents"]) for page in (first, rest)] == [2, 1]
    assert {each["id"] for each in first["documents"] + rest["documents"]} == ids
    assert rest["next"] is None
    for wrong in ("limit=0", "limit=1001", "limit=x", "after=../x"):
        refused = client.get(f"/documents?{wrong}", headers=bear(token))
        assert refused.status_code == 422


@pytest.mark.parametrize("path", ["/documents", "/v2/document", "/translate_file"])
def test_without_a_key_nothing_is_taken(client, path, tmp_path):
    assert upload(client, path=path).status_code in (401, 403)
    assert Documents(tmp_path / "documents").list_jobs() == []


def ask_as_worker(
    client: FlaskClient, token: str, secret: str | None = None
) -> TestResponse:
    secret = read_secret() if secret is None else secret
    headers = {WORKER_HEADER: secret, OWNER_HEADER: read_id(token) or ""}
    return client.post("/translate", json=TEXT, headers=headers)


def test_the_owner_pays_for_what_is_translated(client, keys):
    grant = {"characters_per_month": 12, "requests_per_minute": 1}
    token = add(keys, routes=("/documents",), **grant)
    for _ in range(2):
        assert ask_as_worker(client, token).json == {"translated": "ko:Hello"}
    refused = ask_as_worker(client, token)
    assert "urn:babelgate:quota-exceeded" in refused.text


def test_a_document_from_before_keys_were_required_is_translated(client):
    assert ask_as_worker(client, token="").json == {"translated": "ko:Hello"}


@pytest.mark.parametrize("secret", ["", "wrong", "é"])
def test_nobody_else_asks_for_others(client, keys, secret):
    assert ask_as_worker(client, add(keys), secret).status_code == 401


def test_what_documents_ask_for_is_bulk(client, keys, monkeypatch):
    known = TranslationService.translate
    translate = create_autospec(known, side_effect=known)
    monkeypatch.setattr(TranslationService, "translate", translate)
    token = add(keys)
    ask_as_worker(client, token)
    client.post("/translate", json=TEXT, headers=bear(token))
    assert [call.args[2].is_bulk for call in translate.mock_calls] == [True, False]


def test_nobody_sees_the_glossaries_of_another_key(client, keys):
    anna, ben = (bear(add(keys, name)) for name in ("anna", "ben"))
    made = client.post("/glossaries", json=GLOSSARY, headers=anna).json
    path, text = f"/glossaries/{made['id']}", {"src_text": "A work station", **PAIR}
    for method, asked in (
        ("GET", path),
        ("DELETE", path),
        ("GET", f"{path}/entries"),
        ("GET", f"/v2{path}"),
        ("DELETE", f"/v2{path}"),
        ("GET", f"/v3{path}"),
        ("DELETE", f"/v3{path}"),
        ("GET", "/glossaries/Ours"),
    ):
        assert client.open(asked, method=method, headers=ben).status_code == 404
    patched = client.patch(f"/v3{path}", json={"name": "a"}, headers=ben)
    assert patched.status_code == 404
    assert client.get("/glossaries", headers=ben).json == {"glossaries": []}
    for glossary in (made["id"], "Ours"):
        wanted = text | {"glossary": glossary}
        assert client.post("/translate", json=wanted, headers=ben).status_code == 404
        answer = client.post("/translate", json=wanted, headers=anna)
        assert answer.json == {"translated": "ko:A 작업대"}
    assert client.get("/glossaries").status_code == 401
    assert client.get("/glossaries", headers=anna).json == {"glossaries": [made]}


@pytest.mark.parametrize("place", ["auth_key", "key"])
def test_a_glossary_is_not_searched_for_a_key(client, keys, place):
    token = add(keys)
    large = GLOSSARY | {"entries": {"a" * 1000: "b"}, "more": "c" * (1 << 20)}
    response = client.post("/glossaries", json=large | {place: token})
    assert response.status_code == 401
    response = client.post(f"/glossaries?{place}={token}", json=large)
    assert response.status_code == 201
