"""Keys, quotas and limits as the clients of other APIs send them and are told of them."""

from __future__ import annotations

from typing import Any

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from gateway.access.keys import Grant, make_token

DEEPL = {"text": ["Hello"], "target_lang": "KO"}
GOOGLE = {"q": "Hello", "target": "ko"}
LIBRETRANSLATE = {"q": "Hello", "source": "en", "target": "ko"}


def send_deepl(client: FlaskClient, token: str, **fields: Any) -> TestResponse:
    headers = {"Authorization": f"DeepL-Auth-Key {token}"}
    return client.post("/v2/translate", json=DEEPL | fields, headers=headers)


def send_old_deepl(client: FlaskClient, token: str, **fields: Any) -> TestResponse:
    return client.post("/v2/translate", data=DEEPL | {"auth_key": token} | fields)


def send_google(client: FlaskClient, token: str, **fields: Any) -> TestResponse:
    url = f"/language/translate/v2?key={token}"
    return client.post(url, json=GOOGLE | fields)


def send_libretranslate(client: FlaskClient, token: str, **fields: Any) -> TestResponse:
    return client.post("/translate", json=LIBRETRANSLATE | {"api_key": token} | fields)


def send_libretranslates_query(
    client: FlaskClient, token: str, **fields: Any
) -> TestResponse:
    query = LIBRETRANSLATE | {"api_key": token} | fields
    return client.post("/translate", query_string=query)


SENDERS = [
    pytest.param(send_deepl, (403, 456), id="DeepL"),
    pytest.param(send_old_deepl, (403, 456), id="old DeepL"),
    pytest.param(send_google, (403, 403), id="Google"),
    pytest.param(send_libretranslate, (403, 403), id="LibreTranslate"),
    pytest.param(send_libretranslates_query, (403, 403), id="LibreTranslate's query"),
]


@pytest.mark.parametrize(("send", "statuses"), SENDERS)
def test_each_api_says_what_is_wrong_with_a_key(make_guarded, keys, send, statuses):
    client = make_guarded()
    token = keys.add("cat", Grant(characters_per_month=9))
    wrong, exceeded = statuses
    assert send(client, make_token()[0]).status_code == wrong
    assert send(client, token).status_code == 200
    response = send(client, token)
    assert response.status_code == exceeded
    assert "type" not in response.get_json()


@pytest.mark.parametrize(("send", "statuses"), SENDERS)
def test_each_api_says_when_to_come_again(make_guarded, keys, send, statuses):
    client, token = make_guarded(), keys.add("cat", Grant(requests_per_minute=1))
    assert send(client, token).status_code == 200
    response = send(client, token)
    assert response.status_code == 429
    assert 0 < int(response.headers["Retry-After"]) <= 60


def test_the_words_that_clients_look_for(make_guarded, keys):
    client = make_guarded()
    token = keys.add("cat", Grant(characters_per_month=1))
    refused = [
        send(client, key).get_json()
        for send, key in (
            (send_libretranslate, "wrong"),
            (send_deepl, token),
            (send_google, token),
        )
    ]
    assert "Invalid API key" in refused[0]["error"]
    assert refused[1]["message"] == "Quota Exceeded"
    assert refused[2]["error"]["errors"][0]["reason"] == "dailyLimitExceeded"


def test_what_is_billed_is_what_is_counted(make_guarded, keys):
    client = make_guarded()
    token = keys.add("cat", Grant(characters_per_month=100))
    texts = ["<b>Hello</b>", "né 😀"]
    found = send_deepl(client, token, text=texts, tag_handling="html")
    translations = found.get_json()["translations"]
    billed = [each["billed_characters"] for each in translations]
    assert billed == [5, 4]
    headers = {"Authorization": f"DeepL-Auth-Key {token}"}
    usage = client.get("/v2/usage", headers=headers)
    assert usage.json == {"character_count": 9, "character_limit": 100}
