"""Requests with and without a key, through the whole gateway."""

import errno
import io
import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import gevent
import pytest
from flask.testing import FlaskClient
from gevent import GreenletExit

from contract.dialects import OURS, find_dialect
from gateway.access.keys import Grant, make_token, read_id
from gateway.access.usage import UsageLedger
from gateway.cache.table import share
from gateway.database import connections
from tests.description import Description
from tests.e2e.real_stack import wait_until

WANTED = {"src_lang": "en", "src_text": "Hello", "tgt_lang": "ko"}


def post(client: FlaskClient, token: str | None = None, **fields: Any) -> Any:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return client.post("/translate", data=json.dumps(WANTED | fields), headers=headers)


def test_each_key_has_kept_sentences_of_its_own_unless_it_shares(
    make_guarded, keys, torchserve
):
    share.cache_clear()
    torchserve.will(*["sign"] * 20)
    client = make_guarded()
    tokens = {name: keys.add(name, Grant(shares_cache=name in "cd")) for name in "abcd"}
    for name, calls in {"a": 1, "b": 2, "c": 3, "d": 3}.items():
        assert post(client, tokens[name]).json == {"translated": "ko:Hello"}
        assert len(torchserve.calls) == calls, name
    assert post(client, tokens["a"]).json == {"translated": "ko:Hello"}
    assert len(torchserve.calls) == 3
    client.application.access.close()
    used = {key.name: count for key, count in keys.list_all().items()}
    assert used == {"a": 10, "b": 5, "c": 5, "d": 5}


def look(client: FlaskClient) -> bool:
    """Make the gateway query its database for an unknown key, and return whether it could."""
    gevent.sleep(0.01)
    return bool(post(client, make_token()[0]).status_code == 401)


#: The routes that need no key.
OPEN = {
    "get /healthz", "get /readyz", "get /metrics", "get /openapi.json", "get /docs",
    "get /languages", "post /languages", "get /docs/{name}", "get /", "get /health",
    "get /page/{digest}/{name}", "get /spec", "get /frontend/settings",
    "get /download_file/{name}",
}  # fmt: skip
#: Uploads may have their key in a field before the file: see `test_owners.py`.
UPLOADS = {"post /documents", "post /v2/document", "post /translate_file"}


def test_all_that_computes_needs_a_key_and_the_document_says_so(make_guarded):
    client = make_guarded()
    assert client.get("/frontend/settings").json["keyRequired"] is True
    document = client.get("/openapi.json").json
    found = set()
    for path, method, operation in Description(document).list_operations():
        asked, name = re.sub(r"{\w+}", "a", path), f"{method} {path}"
        status = client.open(asked, method=method).status_code
        if operation.get("security") == []:
            found.add(name)
            assert status not in (401, 403), name
        elif name not in UPLOADS:
            assert status == (401 if find_dialect(asked) is OURS else 403), name
    assert found == OPEN
    assert {"bearer": []} in document["security"]
    translating = document["paths"]["/v2/translate"]["post"]["responses"]
    assert {"403", "456"} < translating.keys()


def test_an_upload_has_its_key_in_a_header_or_in_the_query(make_guarded, keys):
    client, token = make_guarded(), keys.add("cat", Grant())

    def send(url: str, **headers: str) -> int:
        png = io.BytesIO(b"\x89PNG\r\n\x1a\n"), "a.png"
        form = {"api_key": token, "image": png}
        return int(client.post(url, data=form, headers=headers).status_code)

    assert send("/caption") == 401
    assert send("/caption", **{"X-API-Key": token}) != 401
    assert send(f"/caption?api_key={token}") != 401


def test_what_is_billed_is_what_is_counted(make_guarded, keys):
    client = make_guarded()
    token = keys.add("cat", Grant(characters_per_month=100))
    headers = {"Authorization": f"DeepL-Auth-Key {token}"}
    texts = {"text": ["<b>Hello</b>", "né 😀"], "tag_handling": "html"}
    wanted = texts | {"target_lang": "KO"}
    found = client.post("/v2/translate", json=wanted, headers=headers)
    billed = [each["billed_characters"] for each in found.json["translations"]]
    assert billed == [5, 4]
    usage = client.get("/v2/usage", headers=headers)
    assert usage.json == {"character_count": 9, "character_limit": 100}


@pytest.mark.parametrize(("least", "shown"), [(0, "Good day."), (0.1, "")])
def test_a_stream_that_fails_costs_the_sentences_that_it_has_shown(
    make_guarded, keys, torchserve, least, shown
):
    torchserve.will("echo", "row-no-image")
    client, token = make_guarded(), keys.add("cat", Grant())
    wanted = WANTED | {"src_text": "Good day. See you.", "min_quality": least}
    headers = {"Authorization": f"Bearer {token}", "Accept": "text/event-stream"}
    answer = client.post("/translate", json=wanted, headers=headers)
    assert ("ko:Good day." in answer.text) is bool(shown)
    usage = client.get(f"/v2/usage?auth_key={token}").json
    assert usage["character_count"] == len(shown)


def test_a_stream_whose_client_leaves_as_it_is_billed_is_billed_once(
    make_guarded, keys, monkeypatch
):
    def settle(ledger: UsageLedger) -> None:
        is_billed = bool(ledger._ended)
        known(ledger)
        if is_billed:
            raise GreenletExit  # it leaves while another process holds the lock

    known = UsageLedger._settle_all
    monkeypatch.setattr(UsageLedger, "_settle_all", settle)
    client, token = make_guarded(), keys.add("cat", Grant())
    headers = {"Authorization": f"Bearer {token}", "Accept": "text/event-stream"}
    client.post("/translate", json=WANTED, headers=headers).close()
    usage = client.get(f"/v2/usage?auth_key={token}").json
    assert usage["character_count"] == len(WANTED["src_text"])


def test_a_request_that_its_quota_refuses_is_not_counted(make_guarded, keys):
    grant = Grant(characters_per_month=6, requests_per_minute=1, burst=2)
    client, token = make_guarded(), keys.add("cat", grant)
    assert [post(client, token).status_code for _ in range(4)] == [200, 403, 403, 403]
    assert client.get(f"/v2/usage?auth_key={token}").status_code == 200
    assert post(client, token).status_code == 429


def test_a_request_that_is_a_little_early_is_held(make_guarded, keys, monkeypatch):
    held_s: list[float] = []
    monkeypatch.setattr("gateway.access.control.sleep", held_s.append)
    client, token = make_guarded(), keys.add("cat", Grant(None, 30, (), 1))
    assert [post(client, token).status_code for _ in range(3)] == [200] * 3
    assert held_s == [pytest.approx(2, abs=0.9), pytest.approx(4, abs=0.9)]
    headers = {"Authorization": f"Bearer {token}", "X-Timeout-Ms": "8000"}
    hasty = client.post("/translate", json=WANTED, headers=headers)
    assert (hasty.status_code, len(held_s)) == (429, 2)


def test_keys_go_on_while_the_database_is_gone(make_guarded, keys, run, monkeypatch):
    monkeypatch.setattr(connections, "_LIMIT_S", 0.05)
    client, token = make_guarded(), keys.add("cat", Grant())
    assert post(client, token).status_code == 200
    with lock(run / "access/keys.db"):
        unknown = post(client, make_token()[0])
        assert unknown.status_code == 503
        assert unknown.json["type"] == "urn:babelgate:keys-unavailable"
        assert unknown.headers["Retry-After"] == "5"
        assert post(client, token).status_code == 200
        assert post(client, "no key").status_code == 401
    wait_until(lambda: look(client))


@contextmanager
def lock(path: Path) -> Iterator[None]:
    """Lock a database, as another program might."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        yield


@pytest.mark.parametrize("step", ["list_unsaved", "learn"])
def test_a_ledger_that_cannot_be_read_for_a_moment_ends_nothing(
    make_guarded, keys, monkeypatch, step
):
    client = make_guarded()
    with monkeypatch.context() as patch:
        full = Mock(side_effect=OSError(errno.EMFILE, "Too many open files"))
        patch.setattr(UsageLedger, step, full)
        wait_until(lambda: gevent.sleep(0.01) or full.called)
    token = keys.add("cat", Grant())
    wait_until(lambda: look(client) and post(client, token).status_code == 200)


def test_keys_are_neither_logged_nor_measured(make_guarded, keys, torchserve, caplog):
    caplog.set_level("DEBUG")
    client, token = make_guarded(), keys.add("cat", Grant())
    torchserve.will("not-json")
    statuses = [
        client.post(f"/translate?key={token}", data=json.dumps(WANTED)).status_code,
        client.post(f"/nowhere?key={token}").status_code,
        post(client, token).status_code,
    ]
    assert statuses == [500, 404, 200]
    shown = caplog.text + client.get("/metrics").text
    assert token not in shown
    assert str(read_id(token)) not in shown
