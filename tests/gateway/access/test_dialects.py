"""Keys, quotas and limits as the clients of other APIs send them and are told of them."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.access.keys import Grant, make_token

#: A request of each API's clients, and the statuses of a wrong and of a used-up key. Where
#: they put keys is in `test_finding.py`, and what errors say in `tests/contract/errors`.
SENDERS: dict[str, tuple[str, str, dict[str, str], tuple[int, int]]] = {
    "DeepL": (
        *("/v2/translate", "auth_key", {"text": "Hello", "target_lang": "KO"}),
        (403, 456),
    ),
    "Google": (
        *("/language/translate/v2", "key", {"q": "Hello", "target": "ko"}),
        (403, 403),
    ),
    "LibreTranslate": (
        *("/translate", "api_key", {"q": "Hello", "source": "en", "target": "ko"}),
        (403, 403),
    ),
}


@pytest.mark.parametrize("api", SENDERS)
def test_each_api_says_what_is_wrong_with_a_key_and_when_to_come_again(
    make_guarded, keys, api
):
    path, field, fields, (wrong, exceeded) = SENDERS[api]
    client = make_guarded()

    def send(token: str) -> Any:
        return client.post(path, data=fields | {field: token})

    poor = keys.add("poor", Grant(characters_per_month=9))
    slow = keys.add("slow", Grant(requests_per_minute=1))
    assert send(make_token()[0]).status_code == wrong
    assert [send(token).status_code for token in (poor, slow)] == [200] * 2
    refused = send(poor)
    assert refused.status_code == exceeded
    assert "type" not in refused.get_json()
    limited = send(slow)
    assert limited.status_code == 429
    assert 0 < int(limited.headers["Retry-After"]) <= 60


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
