"""Our own routes of glossaries, and translations that use them."""

from __future__ import annotations

import io
import json
from typing import Any

import gevent
import pytest
from flask.testing import FlaskClient
from gevent.event import Event
from werkzeug.test import TestResponse

from tests.gateway.conftest import MakeClient

TERMS = {"work station": "작업대", "Acme": "Acme"}
GLOSSARY = {"name": "Ours", "src_lang": "en", "tgt_lang": "ko", "entries": TERMS}


@pytest.fixture
def client(make_client: MakeClient) -> FlaskClient:
    """It waits for a busy machine."""
    return make_client(timeout_s=600)


@pytest.fixture
def make(client):
    """Makes a glossary and returns what is said of it."""

    def make(**changes: Any) -> Any:
        response = client.post("/glossaries", json=GLOSSARY | changes)
        assert response.status_code == 201, response.text
        assert (
            response.headers["Location"] == f"/glossaries/{response.get_json()['id']}"
        )
        return response.json

    return make


def translate(client: FlaskClient, text: Any, **fields: Any) -> TestResponse:
    body = {"src_lang": "en", "src_text": text, "tgt_lang": "ko", **fields}
    return client.post("/translate", json=body)


@pytest.mark.parametrize(
    ("changes", "field", "expected"),
    [
        ({"name": None}, "name", "found null, expected a string"),
        ({"entries": {"a": " "}}, "entries", "Value for the key with the index 0"),
        ({"entries_format": "xml"}, "entries_format", 'expected "tsv" or "csv"'),
        ({"tgt_lang": "en"}, "tgt_lang", "expected another language than src_lang"),
        ({"src_lang": "xx"}, "src_lang", "'xx' is not served"),
        ({"tgt_lang": "xx"}, "tgt_lang", "'xx' is not served"),
    ],
)
def test_what_is_wrong_with_a_glossary_is_said(client, changes, field, expected):
    response = client.post("/glossaries", json=GLOSSARY | changes)
    assert response.status_code == 422
    (error,) = response.json.get("errors") or [response.json]
    assert (error["field"], expected in response.json["detail"]) == (field, True)


def test_the_dictionary_is_that_of_the_identified_language(client, make):
    make()
    texts = ["Where is my work station? It was here.", "Wo ist mein work station?"]
    answer = translate(client, texts, src_lang="auto", glossary="Ours").get_json()
    assert answer["src_lang"] == ["en", "de"]
    assert "작업대" in answer["translated"][0]
    assert answer["translated"][1] == "ko:Wo ist mein work station?"
    assert answer["warnings"] == [
        "src_text[1]: the glossary has no dictionary from de to ko"
    ]


@pytest.mark.parametrize(
    ("fields", "status", "slug"),
    [
        ({"glossary": "Theirs"}, 404, "unknown-glossary"),
        ({"src_lang": "fr"}, 422, "no-dictionary"),
        ({"src_lang": "auto", "tgt_lang": "zh"}, 422, "no-dictionary"),
        ({"glossary": 1}, 422, "invalid-request"),
    ],
    ids=["no glossary", "another source", "no target", "no string"],
)
def test_a_glossary_that_cannot_be_used_is_told(client, make, fields, status, slug):
    make()
    response = translate(client, "work station", **{"glossary": "Ours"} | fields)
    assert response.status_code == status
    assert response.get_json()["type"] == f"urn:babelgate:{slug}"


def test_a_name_of_two_glossaries_is_told(client, make):
    make()
    make()
    response = client.get("/glossaries/Ours")
    assert response.status_code == 404
    assert "2 glossaries have the name" in response.get_json()["detail"]


def test_there_are_only_as_many_and_as_large_as_the_settings_say(make_client):
    client = make_client(max_glossaries=1, max_glossary_bytes=60)
    large = GLOSSARY | {"entries": {"a" * 40: "b" * 40}}
    assert client.post("/glossaries", json=large).status_code == 413
    assert client.post("/glossaries", json=GLOSSARY).status_code == 201
    response = client.post("/glossaries", json=GLOSSARY)
    assert (response.status_code, response.get_json()["limit"]) == (403, 1)
    assert client.post("/glossaries", data=b"a" * (2 << 20)).status_code == 413


def test_slow_senders_of_large_bodies_are_in_nobodys_way(make_client):
    client, release, waiting = make_client(), Event(), []

    class Slow(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            waiting.append(size)
            release.wait()
            return b""

    def send() -> int:
        sized = {"CONTENT_LENGTH": str(2 << 20)}
        answer: TestResponse = client.post(
            "/glossaries", input_stream=Slow(), environ_overrides=sized
        )
        return answer.status_code

    senders = [gevent.spawn(send) for _ in range(8)]
    while len(waiting) < len(senders):
        gevent.sleep(0)
    whole = json.dumps(GLOSSARY).encode().ljust(2 << 20)
    assert client.post("/glossaries", data=whole).status_code == 201
    release.set()
    gevent.joinall(senders)
    assert [sender.value for sender in senders] == [499] * len(senders)
