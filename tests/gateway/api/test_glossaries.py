"""Our own routes of glossaries, and translations that use them."""

from __future__ import annotations

import gzip
import io
import json
import re
from typing import Any

import gevent
import pytest
from flask.testing import FlaskClient
from gevent.event import Event
from werkzeug.test import TestResponse

from tests.gateway.conftest import MakeClient

TERMS = {"work station": "작업대", "Acme": "Acme"}
GLOSSARY = {"name": "Ours", "src_lang": "en", "tgt_lang": "ko", "entries": TERMS}
CSV = {"Content-Type": "text/csv"}
URL = "/glossaries?name=Ours&src_lang=en&tgt_lang=ko"


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
    ("headers", "body"),
    [
        pytest.param(CSV, b'a,b\n"c, d",e\n', id="CSV"),
        pytest.param(
            {"Content-Type": "text/tab-separated-values; charset=utf-8"},
            b"\xef\xbb\xbfa\tb\r\nc, d\te",
            id="TSV",
        ),
    ],
)
def test_a_table_is_a_whole_body(client, headers, body):
    made = client.post(URL, data=body, headers=headers)
    assert made.status_code == 201
    entries = client.get(f"/glossaries/{made.json['id']}/entries").text
    assert entries == "a\tb\nc, d\te"


@pytest.mark.parametrize(
    ("changes", "field", "expected"),
    [
        ({"name": ""}, "name", "expected 1 to 1024 bytes, found 0"),
        ({"name": None}, "name", "found null, expected a string"),
        ({"entries": {}}, "entries", "There are no entries"),
        ({"entries": {"a": " "}}, "entries", "Value for the key with the index 0"),
        ({"entries": "a\tb\na\tc"}, "entries", "duplicates key with the index 0"),
        ({"entries_format": "xml"}, "entries_format", 'expected "tsv" or "csv"'),
        ({"tgt_lang": "en"}, "tgt_lang", "expected another language than src_lang"),
    ],
)
def test_what_is_wrong_with_a_glossary_is_said(client, changes, field, expected):
    response = client.post("/glossaries", json=GLOSSARY | changes)
    assert response.status_code == 422
    (error,) = response.get_json()["errors"]
    assert error["field"] == field
    assert expected in error["expected"]


def test_what_cannot_be_read_or_is_not_served_is_said(client):
    assert client.post("/glossaries", data=b"{").status_code == 400
    assert client.post(URL, data=b"\xff", headers=CSV).status_code == 400
    response = client.post("/glossaries", json=GLOSSARY | {"tgt_lang": "xx"})
    assert (response.status_code, response.get_json()["field"]) == (422, "tgt_lang")
    response = client.post("/glossaries", json=GLOSSARY | {"src_lang": "xx"})
    assert (response.status_code, response.get_json()["field"]) == (422, "src_lang")


@pytest.mark.parametrize("by", ["id", "name"])
def test_a_translation_has_the_terms(client, make, torchserve, by):
    made = make()
    response = translate(client, "My work station is an Acme.", glossary=made[by])
    assert response.json == {"translated": "ko:My 작업대 is an Acme."}
    assert torchserve.calls[-1].row["src_text"] == "My {0} is an {1}."


def test_a_term_is_there_where_the_model_loses_its_placeholder(
    client, make, torchserve
):
    torchserve.translate = lambda target, text: re.sub(r"\{\d+\}", "", text)
    make()
    answer = translate(client, "My work station is new.", glossary="Ours").get_json()
    assert answer == {"translated": "My 작업대 is new."}


def test_a_long_text_and_html_have_them_too(client, make):
    make()
    text = "My work station is new. " * 200
    answer = translate(client, text, glossary="Ours").get_json()["translated"]
    assert answer.count("작업대") == 200
    html = '<p title="work station">My <b>work station</b> &amp; Acme</p>'
    answer = translate(client, html, glossary="Ours", format="html").get_json()[
        "translated"
    ]
    assert answer.count("작업대") == 1
    assert answer.startswith('<p title="work station">')


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
        pytest.param({"glossary": "Theirs"}, 404, "unknown-glossary", id="no glossary"),
        pytest.param({"src_lang": "fr"}, 422, "no-dictionary", id="another source"),
        pytest.param({"tgt_lang": "zh"}, 422, "no-dictionary", id="another target"),
        pytest.param(
            {"src_lang": "auto", "tgt_lang": "zh"}, 422, "no-dictionary", id="no target"
        ),
        pytest.param({"glossary": 1}, 422, "invalid-request", id="no string"),
    ],
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


def test_a_large_glossary_is_read_beside_the_loop_and_used(client):
    entries = {f"term {number}": f"말{number}" for number in range(40_000)}
    body = json.dumps(GLOSSARY | {"entries": entries})
    assert len(body) > 1 << 20
    made = client.post("/glossaries", data=body)
    assert made.json["dictionaries"][0]["entry_count"] == 40_000
    answer = translate(client, "See term 39999 and term 7.", glossary=made.json["id"])
    assert answer.json == {"translated": "ko:See 말39999 and 말7."}
    fault = client.post("/glossaries", data=body.replace(json.dumps("말7"), '""'))
    assert "Value for the key with the index 7" in fault.json["detail"]


def test_a_database_that_is_not_there_is_told(make_client):
    client = make_client(database_url="sqlite:////proc/none/keys.db")
    for response in (
        client.get("/glossaries"),
        translate(client, "work station", glossary="Ours"),
    ):
        assert response.status_code == 503
        assert response.get_json()["type"] == "urn:babelgate:glossaries-unavailable"
        assert response.headers["Retry-After"] == "5"


def test_two_gateways_see_the_same(make_client):
    first, second = make_client(), make_client()
    made = first.post("/glossaries", json=GLOSSARY).json
    assert second.get("/glossaries").json == {"glossaries": [made]}
    answer = translate(second, "A work station", glossary="Ours")
    assert answer.json == {"translated": "ko:A 작업대"}
    first.delete(f"/glossaries/{made['id']}")
    assert translate(second, "A work station", glossary="Ours").status_code == 404


@pytest.mark.parametrize("way", ["packed", "in chunks"])
def test_a_large_body_may_come_in_any_way(client, way):
    entries = {f"term {number}": "x" * 50 for number in range(18_000)}
    body = json.dumps(GLOSSARY | {"entries": entries}).encode()
    assert len(body) > 1 << 20
    given: dict[str, Any] = {
        "packed": {
            "data": gzip.compress(body),
            "headers": {"Content-Encoding": "gzip"},
        },
        "in chunks": {
            "input_stream": io.BytesIO(body),
            "headers": {"Transfer-Encoding": "chunked"},
        },
    }
    response = client.post("/glossaries", **given[way])
    assert response.get_json()["dictionaries"][0]["entry_count"] == 18_000


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
