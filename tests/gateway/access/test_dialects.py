"""Keys, quotas and limits as the clients of other APIs send them and are told of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from gateway.access.keys import Grant, make_token

LIBRETRANSLATE = {"q": "Hello", "source": "en", "target": "ko"}
#: How the clients of each API send a key, and the statuses of a wrong and of a used-up one.
SENDERS: dict[str, tuple[str, Callable[[str], dict[str, Any]], tuple[int, int]]] = {
    "DeepL": (
        "/v2/translate",
        lambda token: {
            "json": {"text": ["Hello"], "target_lang": "KO"},
            "headers": {"Authorization": f"DeepL-Auth-Key {token}"},
        },
        (403, 456),
    ),
    "old DeepL": (
        "/v2/translate",
        lambda token: {
            "data": {"text": "Hello", "target_lang": "KO", "auth_key": token}
        },
        (403, 456),
    ),
    "Google": (
        "/language/translate/v2",
        lambda token: {
            "json": {"q": "Hello", "target": "ko"},
            "query_string": {"key": token},
        },
        (403, 403),
    ),
    "LibreTranslate": (
        "/translate",
        lambda token: {"json": LIBRETRANSLATE | {"api_key": token}},
        (403, 403),
    ),
    "LibreTranslate's query": (
        "/translate",
        lambda token: {"query_string": LIBRETRANSLATE | {"api_key": token}},
        (403, 403),
    ),
}


def send(client: FlaskClient, api: str, token: str) -> TestResponse:
    path, write, _ = SENDERS[api]
    return client.post(path, **write(token))


@pytest.mark.parametrize("api", SENDERS)
def test_each_api_says_what_is_wrong_with_a_key_and_when_to_come_again(
    make_guarded, keys, api
):
    client, (wrong, exceeded) = make_guarded(), SENDERS[api][-1]
    poor = keys.add("poor", Grant(characters_per_month=9))
    slow = keys.add("slow", Grant(requests_per_minute=1))
    assert send(client, api, make_token()[0]).status_code == wrong
    assert [send(client, api, token).status_code for token in (poor, slow)] == [200] * 2
    refused = send(client, api, poor)
    assert refused.status_code == exceeded
    assert "type" not in refused.get_json()
    limited = send(client, api, slow)
    assert limited.status_code == 429
    assert 0 < int(limited.headers["Retry-After"]) <= 60


def test_the_words_that_clients_look_for(make_guarded, keys):
    client = make_guarded()
    token = keys.add("cat", Grant(characters_per_month=1))
    refused = [
        send(client, api, key).get_json()
        for api, key in (
            ("LibreTranslate", "wrong"),
            ("DeepL", token),
            ("Google", token),
        )
    ]
    assert "Invalid API key" in refused[0]["error"]
    assert refused[1]["message"] == "Quota Exceeded"
    assert refused[2]["error"]["errors"][0]["reason"] == "dailyLimitExceeded"


def test_what_is_billed_is_what_is_counted(make_guarded, keys):
    client = make_guarded()
    token = keys.add("cat", Grant(characters_per_month=100))
    headers = {"Authorization": f"DeepL-Auth-Key {token}"}
    texts = {"text": ["<b>Hello</b>", "né 😀"], "tag_handling": "html"}
    wanted = texts | {"target_lang": "KO"}
    found = client.post("/v2/translate", json=wanted, headers=headers)
    translations = found.get_json()["translations"]
    billed = [each["billed_characters"] for each in translations]
    assert billed == [5, 4]
    usage = client.get("/v2/usage", headers=headers)
    assert usage.json == {"character_count": 9, "character_limit": 100}
