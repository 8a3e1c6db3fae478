"""Requests that are refused before Flask is asked, and those that must not be."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from flask.testing import FlaskClient

from gateway.admission.lane import Lane
from gateway.errors import Overloaded
from gateway.translator import Translator

WANTED = {"src_lang": "en", "src_text": "Hello", "tgt_lang": "ko"}


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, int]]:
    """Every lane refuses; each refusal's work and rows."""
    found: list[tuple[float, int]] = []

    def refuse(self: Lane, flow: Any, cost: float, rows: int, caller: Any) -> None:
        found.append((cost, rows))
        raise Overloaded("Too much.", retry_after_s=2.5)

    monkeypatch.setattr(Lane, "_check", refuse)
    return found


@pytest.fixture
def way(client: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The requests that get as far as the translator."""
    found: list[str] = []
    translate = Translator.translate

    def note(self: Translator, wanted: Any, caller: Any) -> Any:
        found.append(wanted.target)
        return translate(self, wanted, caller)

    monkeypatch.setattr(Translator, "translate", note)
    return found


def ask(client: FlaskClient, **fields: Any) -> Any:
    return client.post("/translate", data=json.dumps(WANTED | fields))


def test_both_ways_say_the_same(client, refused, way):
    first, second = ask(client), ask(client)
    assert way == ["ko"]
    assert first.status_code == second.status_code == 429
    assert first.json | {"request_id": ""} == second.json | {"request_id": ""}
    for answer in (first, second):
        assert answer.headers["Retry-After"] == "3"
        assert answer.content_type == "application/problem+json"
        assert answer.headers["X-Request-ID"] == answer.json["request_id"]


def test_both_ways_are_counted(client, refused):
    for _ in range(3):
        ask(client)
    metrics = client.get("/metrics").text
    assert 'requests_total{route="/translate",status="429"} 3.0' in metrics
    assert 'translation_requests_total{status="429",target="ko"} 3.0' in metrics


def test_the_work_of_a_list_is_that_of_its_texts(client, refused):
    ask(client)
    ask(client, src_text=["Hello", "Good morning"])
    assert refused[-1] == (len("Hello") + len("Good morning") + 40, 2)


def test_a_moment_after_the_last_refusal_nobody_is_asked_twice(
    client, refused, way, monkeypatch: pytest.MonkeyPatch
):
    ask(client)
    monkeypatch.setattr(Lane, "is_refusing", False)
    ask(client)
    assert way == ["ko", "ko"]


Send = Callable[[FlaskClient], Any]


@pytest.mark.parametrize(
    ("send", "status"),
    [
        pytest.param(lambda c: ask(c, tgt_lang="xx"), 422, id="language"),
        pytest.param(lambda c: ask(c, tgt_lang=7), 422, id="no language"),
        pytest.param(lambda c: ask(c, src_text=[7]), 422, id="no text"),
        pytest.param(lambda c: ask(c, src_text={}), 422, id="object"),
        pytest.param(lambda c: ask(c, src_text=[]), 422, id="empty list"),
        pytest.param(lambda c: c.post("/", data="{"), 400, id="no JSON"),
        pytest.param(lambda c: c.post("/", data="[" * 4000), 400, id="brackets"),
        pytest.param(
            lambda c: c.post("/", json=WANTED, headers={"X-Timeout-Ms": "soon"}),
            400,
            id="time",
        ),
        pytest.param(lambda c: c.get("/healthz"), 200, id="health"),
        pytest.param(lambda c: c.post("/identify", json=WANTED), 200, id="identify"),
    ],
)
def test_what_its_route_must_judge_gets_there(client, refused, send: Send, status):
    ask(client)
    assert send(client).status_code == status
