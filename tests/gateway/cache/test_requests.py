"""Requests whose sentences were translated before."""

import json
import re
from typing import Any
from unittest.mock import Mock

import pytest
from flask.testing import FlaskClient

from gateway.admission.dispatcher import ModelDispatcher
from gateway.cache import table
from gateway.errors import Overloaded
from tests.gateway.conftest import MakeClient
from tests.gateway.fake_torchserve import FakeTorchServe
from tests.gateway.test_metrics import select


@pytest.fixture
def known(make_client: MakeClient, torchserve: FakeTorchServe) -> FlaskClient:
    """A client whose model has translated two sentences."""
    table.share.cache_clear()
    torchserve.will(*["sign"] * 20)
    client = make_client()
    assert post(client, "One. Two.").json == {"translated": "ko:One. ko:Two."}
    torchserve.calls.clear()
    return client


def post(client: FlaskClient, text: str | list[str], **fields: Any) -> Any:
    headers = fields.pop("headers", {})
    wanted = {"src_lang": "en", "src_text": text, "tgt_lang": "ko"} | fields
    return client.post("/translate", data=json.dumps(wanted), headers=headers)


def test_only_what_is_new_is_asked(known, torchserve):
    assert post(known, "Two. Three.").json == {"translated": "ko:Two. ko:Three."}
    assert [call.row["src_text"] for call in torchserve.calls] == ["Three."]
    counted = select(known, "babelgate_cached_rows_total")
    assert counted == {("hit",): 1, ("miss",): 3}


def test_what_is_kept_is_answered_while_the_model_has_too_much_to_do(
    known, monkeypatch
):
    def refuse(*_: Any) -> None:
        raise Overloaded("Too much.")

    monkeypatch.setattr(ModelDispatcher, "check", refuse)
    assert post(known, ["Two.", "One."]).json == {"translated": ["ko:Two.", "ko:One."]}
    assert post(known, ["Two.", "Three."]).status_code == 429


def test_others_run_while_many_known_sentences_are_written(known, monkeypatch):
    pauses = Mock()
    monkeypatch.setattr("gateway.services.translation.let_others_run", pauses)
    post(known, ["One."] * 200)
    assert pauses.call_count == 3


def test_an_answer_says_what_has_made_it_and_how_long_that_took(known):
    kept, new = post(known, "One."), post(known, ["One.", "Three."], explain=True)
    named = (answer.headers["X-Babelgate-Model"] for answer in (kept, new))
    assert {*named, new.json["model"]} == {"phrasebook@digest"}
    kept_timing = re.sub(r"=\d+\.\d", "", kept.headers["Server-Timing"])
    assert kept_timing == "cache;desc=hit, gateway;dur"
    for timing in (new.headers["Server-Timing"], new.json["timing"]):
        stages = re.sub(r";dur=\d+\.\d", "", timing)
        assert stages == "gateway, queue, batch, compute"


def test_the_last_event_explains_the_answer_instead_of_the_headers(known):
    headers = {"Accept": "text/event-stream"}
    response = post(known, "One. Two.", explain=True, headers=headers)
    assert not {"X-Babelgate-Model", "Server-Timing"} & {*response.headers.keys()}
    done = json.loads(response.text.partition("event: done\ndata: ")[2])
    assert done["model"] == "phrasebook@digest"
    assert done["timing"].startswith("cache;desc=hit, gateway;dur=")


@pytest.mark.parametrize(
    ("given", "is_passed_on"),
    [
        (f"00-{'a' * 32}-{'b' * 16}-01", True),
        (f"00-{'A' * 32}-{'b' * 16}-01", False),
        ("a\tb", False),
    ],
    ids=["a trace", "capitals", "no trace"],
)
def test_a_trace_goes_on_to_the_model(client, torchserve, given, is_passed_on):
    post(client, "Hello", headers={"traceparent": given})
    (call,) = torchserve.calls
    assert call.headers.get("traceparent") == (given if is_passed_on else None)
