"""Glossaries through our own routes and DeepL's, and translations that use them."""

from typing import Any

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from tests.gateway.conftest import MakeClient

TERMS = {"work station": "작업대", "Acme": "Acme"}
GLOSSARY = {"name": "Ours", "src_lang": "en", "tgt_lang": "ko", "entries": TERMS}


@pytest.fixture
def client(make_client: MakeClient) -> FlaskClient:
    """A client with a time limit that suffices on a busy machine."""
    return make_client(timeout_s=600)


def make(client, **changes: Any) -> Any:
    """Create a glossary and return its description."""
    response = client.post("/glossaries", json=GLOSSARY | changes)
    assert response.status_code == 201, response.text
    assert response.headers["Location"] == f"/glossaries/{response.json['id']}"
    return response.json


def translate(client: FlaskClient, text: Any, **fields: Any) -> TestResponse:
    body = {"src_lang": "en", "src_text": text, "tgt_lang": "ko", **fields}
    return client.post("/translate", json=body)


@pytest.mark.parametrize(
    ("changes", "field", "expected"),
    [
        ({"name": None, "Naem": 1}, "name", "Naem: unknown field, did you mean name?"),
        ({"entries": {"a": " "}}, "entries", "Value for the key with the index 0"),
        ({"tgt_lang": "en"}, "tgt_lang", "expected a language other than src_lang"),
        ({"src_lang": "xx"}, "src_lang", "'xx' is not served"),
        ({"tgt_lang": "xx"}, "tgt_lang", "'xx' is not served"),
    ],
)
def test_what_is_wrong_with_a_glossary_is_said(client, changes, field, expected):
    response = client.post("/glossaries", json=GLOSSARY | changes)
    assert response.status_code == 422
    (error,) = response.json.get("errors") or [response.json]
    assert (error["field"], expected in response.json["detail"]) == (field, True)


def test_a_query_of_any_bytes_and_a_byte_order_mark_are_read(client):
    query = {"QUERY_STRING": "name=Stra\xdfe&src_lang=en&tgt_lang=ko"}
    body = b"\xef\xbb\xbf" + b'{"entries": {"a": "b"}}'
    made = client.post("/glossaries", environ_overrides=query, data=body)
    assert (made.status_code, made.json["name"]) == (201, "Stra\ufffde")


def test_the_dictionary_is_that_of_the_identified_language(client):
    make(client)
    texts = ["Where is my work station? It was here.", "Wo ist mein work station?"]
    answer = translate(client, texts, src_lang="auto", glossary="Ours").get_json()
    assert answer["src_lang"] == ["en", "de"]
    assert "작업대" in answer["translated"][0]
    assert answer["translated"][1] == "ko:Wo ist mein work station?"
    warning = "src_text[1]: the glossary has no dictionary from de to ko"
    assert answer["warnings"] == [warning]


@pytest.mark.parametrize(
    ("fields", "status", "slug"),
    [
        ({"src_lang": "fr"}, 422, "no-dictionary"),
        ({"src_lang": "auto", "tgt_lang": "zh"}, 422, "no-dictionary"),
        ({"glossary": 1}, 422, "invalid-request"),
    ],
    ids=["another source", "no target", "no string"],
)
def test_a_glossary_that_cannot_be_used_is_told(client, fields, status, slug):
    make(client)
    response = translate(client, "work station", **{"glossary": "Ours"} | fields)
    assert response.status_code == status
    assert response.get_json()["type"] == f"urn:babelgate:{slug}"


def test_a_name_of_two_glossaries_is_told(client):
    make(client)
    make(client)
    response = client.get("/glossaries/Ours")
    assert response.status_code == 404
    assert "2 glossaries have the name" in response.get_json()["detail"]


def test_a_body_is_only_as_large_as_the_settings_say(make_client):
    client = make_client(max_glossary_bytes=60)
    assert client.post("/glossaries", data=b"a" * (2 << 20)).status_code == 413


PAIR = {"source_lang": "EN", "target_lang": "KO"}
ENTRIES = {"entries": "work station\t작업대\nAcme\tAcme", "entries_format": "tsv"}
NEW = {"name": "Ours", **PAIR, **ENTRIES}
LISTED = {"name": "Ours", "dictionaries": [PAIR | ENTRIES]}


def make_deepls(client, path="/v3/glossaries", body=LISTED) -> Any:
    response = client.post(path, json=body)
    assert response.status_code == 201, response.text
    assert response.headers["Location"] == f"{path}/{response.json['glossary_id']}"
    return response.json


@pytest.mark.parametrize(
    ("fields", "status", "message"),
    [
        ({"glossary_id": "none"}, 404, "Glossary not found"),
        ({"target_lang": "PT"}, 400, "The glossary has no dictionary from en to pt."),
        ({"source_lang": ""}, 400, "Use of a glossary requires the source_lang"),
        ({"glossary_ids": "a"}, 400, "Use either glossary_id or glossary_ids."),
        ({"glossary_id": "", "glossary_ids": "abcdef"}, 404, "Glossary not found"),
        ({"glossary_id": "", "glossary_ids": list("abcdef")}, 400, "Too many"),
    ],
)
def test_deepls_glossary_that_cannot_be_used_is_told(client, fields, status, message):
    made = make_deepls(client)
    asked = {"text": "Acme", "glossary_id": made["glossary_id"], **PAIR} | fields
    response = client.post("/v2/translate", json=asked)
    assert response.status_code == status
    assert response.json["message"].startswith(message)


def test_the_glossaries_of_a_request_are_bounded_together(make_client):
    client = make_client(max_glossary_bytes=50)
    made = [make_deepls(client, "/v2/glossaries", NEW)["glossary_id"] for _ in range(2)]
    wanted = {"text": ["Acme"], "source_lang": "EN", "target_lang": "KO"}
    one = client.post("/v2/translate", json=wanted | {"glossary_ids": made[:1]})
    both = client.post("/v2/translate", json=wanted | {"glossary_ids": made})
    assert (one.status_code, both.status_code) == (200, 413)
    assert "50 bytes" in both.json["message"]


def test_a_variant_has_its_own_terms_and_those_of_its_language(client):
    entries = {"Acme": "頂點", "server": "伺服机"}
    make(client, name="a", tgt_lang="zh-TW", entries=entries)
    made = make(client, name="b", tgt_lang="zh", entries={"Acme": "顶点"})
    assert made["dictionaries"][0]["tgt_lang"] == "zh"

    def use(target: str, glossary: str, text: str = "Hi Acme server") -> TestResponse:
        return translate(client, text, tgt_lang=target, glossary=glossary)

    assert use("zt", "a").json == {"translated": "zh:Hi 頂點 伺服机"}
    assert use("zh-Hant", "b").json == {"translated": "zh:Hi 顶点 server"}
    assert use("zh", "a").status_code == 422
    pair = {"src_lang": "zh", "tgt_lang": "zh-Hant"}
    make(client, name="c", entries={"软件": "Ruanjian"}, **pair)
    converted = translate(client, "软件在网络", glossary="c", **pair)
    assert converted.json == {"translated": "Ruanjian在網路"}
