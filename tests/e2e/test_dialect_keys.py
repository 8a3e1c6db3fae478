"""Unmodified clients with keys: one that is right, one that is wrong, one whose characters
are used up, and one whose requests are.
"""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
import requests

from contract import variables
from gateway.access.keys import Grant, make_token
from gateway.access.storage import Storage
from tests.e2e.clients import ask
from tests.e2e.door import open_door
from tests.gateway.fake_torchserve import LIMIT_S

HELLO = "ko:Hello"
#: By package: what it makes of the right key, of a wrong one, and of those that are used up.
ENDS = {
    "deepl": (
        [HELLO, 5, 1000],
        "AuthorizationException: Authorization failure, check auth_key, message: Forb",
        "QuotaExceededException: Quota for this billing period has been exceeded",
        "TooManyRequestsException: Too many requests",
    ),
    "deepl-node": (
        HELLO,
        "AuthorizationError: ",
        "QuotaExceededError: ",
        "TooManyRequestsError: ",
    ),
    "google-cloud-translate": (
        HELLO,
        "Forbidden: 403 POST ",
        "Forbidden: 403 POST ",
        "TooManyRequests: 429 POST ",
    ),
    "libretranslatepy": (
        HELLO,
        "HTTPError: HTTP Error 403: ",
        "HTTPError: HTTP Error 403: ",
        "HTTPError: HTTP Error 429: ",
    ),
    "libretranslate-ts": (
        HELLO,
        "Invalid API key: ",
        "These texts have 5 characters.",
        "Slowdown: This key may send 1 requests",
    ),
    "deep-translator": (
        HELLO,
        "AuthorizationException: Unauthorized access",
        "AuthorizationException: Unauthorized access",
        "ServerException: ERR_TOO_MANY_REQUESTS",
    ),
    "translate (npm)": (
        HELLO,
        "Error: Invalid API key: ",
        "Error: These texts have 5 characters.",
        "Error: Slowdown: ",
    ),
}
KEYS = ("right", "wrong", "poor", "busy")


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """By package and key."""
    folder = tmp_path_factory.mktemp("keys")
    database = f"sqlite:///{folder}/keys.db"
    given = {
        "BABELGATE_KEYS": "required",
        "BABELGATE_DATABASE_URL": database,
        variables.RUN_DIR.name: str(folder / "run"),
    }
    with (
        open_door(folder, None, **given) as door,
        closing(Storage(database)) as storage,
    ):
        keys = {
            "right": storage.add("right", Grant(characters_per_month=1000)),
            "wrong": make_token()[0],
            "poor": storage.add("poor", Grant(characters_per_month=4)),
            "busy": storage.add("busy", Grant(requests_per_minute=1)),
        }
        header = {"X-API-Key": keys["busy"]}
        first = requests.get(f"{door.url}/v2/usage", headers=header, timeout=LIMIT_S)
        assert first.status_code == 200
        return ask("ask_with_keys", door.url, *(f"{n}={k}" for n, k in keys.items()))


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("package", ENDS)
def test_a_package_tells_of_a_key_what_it_should(answers, package, key):
    found, expected = answers[package][key], ENDS[package][KEYS.index(key)]
    if isinstance(expected, str):
        assert found.startswith(expected)
    else:
        assert found == expected


def test_every_package_was_asked(answers):
    assert set(answers) == set(ENDS)
