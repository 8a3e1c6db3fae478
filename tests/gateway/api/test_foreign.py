"""Other APIs, by the cases of `foreign.yaml`; `tests/contract` has real clients' requests."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from contract.dialects import FOREIGN

CASES = Path(__file__).with_name("foreign.yaml").read_text("utf-8")
APIS = yaml.load(CASES, yaml.CSafeLoader)


def post(client, api: str, without=(), **given: object):
    fields = APIS[api]["fields"] | given
    kept = {name: value for name, value in fields.items() if name not in without}
    return client.post(APIS[api]["path"], json=kept)


@pytest.mark.parametrize(
    ("api", "name"), [(api, name) for api in APIS for name in APIS[api]["cases"]]
)
def test_a_request_is_answered_as_its_own_server_does(client, torchserve, api, name):
    case: dict[str, Any] = APIS[api]["cases"][name]
    response = post(client, api, case.get("without", ()), **case.get("given", {}))
    assert response.status_code == case.get("status", 200), response.text
    assert response.json == case.get("answer", response.json)
    rows = sorted(call.row["src_text"] for call in torchserve.calls)
    assert rows == sorted(case.get("rows", rows))


@pytest.mark.parametrize(
    ("api", "field", "said"),
    [
        ("deepl", "text", "Too many texts."),
        ("google", "q", "Too many text segments: found 1001, expected at most 1000"),
        ("libretranslate", "q", "request (1001) exceeds text limit (1000)"),
    ],
)
def test_too_many_texts_are_told_in_its_words(client, api, field, said):
    response = post(client, api, **{field: ["a"] * 1001})
    assert (response.status_code, said in response.text) == (400, True)


@pytest.mark.parametrize("field", ["glossary_ids", "ignore_tags"])
def test_half_a_surrogate_pair_among_deepls_names_is_refused(client, field):
    api = APIS["deepl"]
    given = {**api["fields"], "text": "<a>Hello</a>" * 200, "tag_handling": "html"}
    wanted = json.dumps(given | {field: ["\ud800"]})  # Flask's client cannot write it
    response = client.post(api["path"], data=wanted, content_type="application/json")
    assert (response.status_code, "surrogate" in response.text) == (400, True)


@pytest.mark.parametrize("api", FOREIGN, ids=lambda api: api.name)
def test_a_failure_has_its_shape(client, description, torchserve, api):
    torchserve.will("not-registered", "row-broken")
    failed = post(client, api.name)
    broken = post(client, api.name, **{api.fields.text: ["a"]})
    assert (failed.status_code, broken.status_code) == (503, 500)
    assert int(failed.headers["Retry-After"]) > 0
    assert f"{api.fields.text}[0]: The handler says internal." in broken.text
    for answer in (failed, broken):
        given = answer.status_code, answer.headers, answer.text
        description.check("POST", api.translating[0], *given)


def test_libretranslates_alternatives_are_texts(client, torchserve):
    torchserve.will("choose")
    answer = post(client, "libretranslate", alternatives=2).json
    assert answer["alternatives"] == ["ko:Hello 1", "ko:Hello 2"]


def test_without_keys_deepls_usage_counts_what_all_clients_have_sent(client):
    used = {"character_count": 0, "character_limit": 10**12}
    assert client.get("/v2/usage").json == used
    post(client, "deepl", text=["né 😀", "<b>"])
    post(client, "google", q="<b>Hello</b>")
    post(client, "deepl", target_lang="XX")
    assert client.get("/v2/usage").json == used | {"character_count": 12}
