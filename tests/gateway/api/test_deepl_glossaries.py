"""DeepL's glossaries, as its clients ask for them."""

from __future__ import annotations

from typing import Any

import pytest

PAIR = {"source_lang": "EN", "target_lang": "KO"}
ENTRIES = {"entries": "work station\t작업대\nAcme\tAcme", "entries_format": "tsv"}
TO_CHINESE = {
    "source_lang": "en",
    "target_lang": "zh-Hans",
    "entries": "Acme,顶点,en,zh\nx,y,en,ko",
    "entries_format": "CSV",
}
NEW = {"name": "Ours", **PAIR, **ENTRIES}
SEVERAL = {"name": "Ours", "dictionaries": [PAIR | ENTRIES, TO_CHINESE]}


def make(client, path="/v3/glossaries", body=SEVERAL) -> Any:
    response = client.post(path, json=body)
    assert response.status_code == 201, response.text
    assert response.headers["Location"] == f"{path}/{response.json['glossary_id']}"
    return response.json


def test_a_translation_has_the_terms_of_the_first_glossary(client):
    first = make(client)["glossary_id"]
    entries = {"entries": "Acme\t아크메\nmouse\t마우스"}
    second = make(client, "/v2/glossaries", NEW | entries)["glossary_id"]
    asked = {"text": ["Acme has a mouse"], **PAIR}
    for given, expected in (
        ({"glossary_id": first}, "ko:Acme has a mouse"),
        ({"glossary_ids": [second, first]}, "ko:아크메 has a 마우스"),
        ({"glossary_ids": f"{first},{second}"}, "ko:Acme has a 마우스"),
    ):
        answer = client.post("/v2/translate", json=asked | given).json
        assert answer["translations"][0]["text"] == expected


@pytest.mark.parametrize(
    ("fields", "status", "message"),
    [
        ({"glossary_id": "none"}, 404, "Glossary not found"),
        (
            {"target_lang": "PT-BR"},
            400,
            "The glossary has no dictionary from en to pt.",
        ),
        ({"source_lang": ""}, 400, "Use of a glossary requires the source_lang"),
        ({"glossary_ids": "a"}, 400, "Use either glossary_id or glossary_ids."),
        ({"glossary_id": "", "glossary_ids": "abcdef"}, 404, "Glossary not found"),
        ({"glossary_id": "", "glossary_ids": list("abcdef")}, 400, "Too many"),
    ],
)
def test_a_glossary_that_cannot_be_used_is_told(client, fields, status, message):
    made = make(client)
    asked = {"text": "Acme", "glossary_id": made["glossary_id"], **PAIR} | fields
    response = client.post("/v2/translate", json=asked)
    assert response.status_code == status
    assert response.json["message"].startswith(message)


def test_the_glossaries_of_a_request_are_bounded_and_so_is_what_is_kept(make_client):
    client = make_client(max_glossary_bytes=50, glossaries_kept_bytes_of_one=80)
    made = [make(client, "/v2/glossaries", NEW)["glossary_id"] for _ in range(2)]
    wanted = {"text": ["Acme"], "source_lang": "EN", "target_lang": "KO"}
    one = client.post("/v2/translate", json=wanted | {"glossary_ids": made[:1]})
    both = client.post("/v2/translate", json=wanted | {"glossary_ids": made})
    assert (one.status_code, both.status_code) == (200, 413)
    assert "50 bytes" in both.json["message"]
    third = client.post("/v2/glossaries", json=NEW)
    assert (third.status_code, "80 bytes" in third.json["message"]) == (413, True)
    full = make_client(glossaries_kept_bytes=10).post("/v2/glossaries", json=NEW)
    assert (full.status_code, "no room" in full.json["message"]) == (507, True)
