"""Requests whose sentences were translated before."""

from __future__ import annotations

import json
from typing import Any

import pytest
from flask.testing import FlaskClient

from gateway.admission.dispatcher import ModelDispatcher
from gateway.cache import table
from gateway.errors import Overloaded
from tests.gateway.conftest import MakeClient
from tests.gateway.fake_torchserve import FakeTorchServe


@pytest.fixture
def known(make_client: MakeClient, torchserve: FakeTorchServe) -> FlaskClient:
    """A client whose model has translated two sentences."""
    table.share_memory.cache_clear()
    torchserve.will(*["sign"] * 20)
    client = make_client()
    assert post(client, "One. Two.").json == {"translated": "ko:One. ko:Two."}
    torchserve.calls.clear()
    return client


def post(client: FlaskClient, text: str | list[str], **fields: Any) -> Any:
    wanted = {"src_lang": "en", "src_text": text, "tgt_lang": "ko"} | fields
    return client.post("/translate", data=json.dumps(wanted))


def count(client: FlaskClient, outcome: str) -> float:
    page = client.get("/metrics").text
    name = f'babelgate_cached_rows_total{{outcome="{outcome}"}} '
    return float(page.partition(name)[2].partition("\n")[0])


def test_only_what_is_new_is_asked(known, torchserve):
    assert post(known, "Two. Three.").json == {"translated": "ko:Two. ko:Three."}
    assert [call.row["src_text"] for call in torchserve.calls] == ["Three."]
    assert (count(known, "hit"), count(known, "miss")) == (1, 3)


@pytest.mark.parametrize(
    ("path", "fields", "answer"),
    [
        ("/v2/translate", {"text": ["One."], "target_lang": "KO"}, "ko:One."),
        ("/translate", {"q": "One.", "source": "en", "target": "ko"}, "ko:One."),
        ("/language/translate/v2", {"q": "One.", "source": "en", "target": "ko"}, ""),
    ],
    ids=["DeepL", "LibreTranslate", "Google"],
)
def test_other_apis_find_it_too(known, torchserve, path, fields, answer):
    fields |= {"source_lang": "EN"} if "text" in fields else {}
    response = known.post(path, data=json.dumps(fields))
    assert response.status_code == 200
    assert answer in response.text
    assert torchserve.calls == []


def test_what_is_kept_is_answered_while_the_model_has_too_much_to_do(
    known, monkeypatch
):
    def refuse(*_: Any) -> None:
        raise Overloaded("Too much.")

    monkeypatch.setattr(ModelDispatcher, "check", refuse)
    assert post(known, ["Two.", "One."]).json == {"translated": ["ko:Two.", "ko:One."]}
    assert post(known, ["Two.", "Three."]).status_code == 429
