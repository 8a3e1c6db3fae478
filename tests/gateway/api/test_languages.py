"""`GET /languages`: names for people, devices for operators, readiness for both."""

import json

from contract.languages import LANGUAGES


def test_languages_are_listed_while_torchserve_is_down(make_client):
    client = make_client(management_url="http://127.0.0.1:9")
    assert [row["ready"] for row in client.get("/languages").json] == [False] * 4


def test_names_are_plain_utf8(client):
    assert "中文".encode() in client.get("/languages").data


def test_every_language_of_m2m100_has_names(map_path, make_client):
    map_path.write_text(json.dumps({"cuda_id": dict.fromkeys(LANGUAGES, "cpu")}))
    rows = make_client(management_url="http://127.0.0.1:9").get("/languages").json
    assert [row["code"] for row in rows] == list(LANGUAGES)
    assert all(row["name"] and row["own_name"] for row in rows)
    assert len({row["name"] for row in rows}) == len(LANGUAGES)
