"""`POST /translate`; `tests/contract` has the answers to wrong requests."""

import json
from typing import Any

import pytest
from flask.testing import FlaskClient

from tests.gateway.http.test_event_stream import read

WANTED = {"src_lang": "en", "src_text": "Hello", "tgt_lang": "ko"}
EVENTS = "text/event-stream"


def post(client: FlaskClient, accept: str = "*/*", **changes: Any) -> Any:
    headers = {"Accept": accept}
    return client.post("/translate", json=WANTED | changes, headers=headers)


def test_the_target_chooses_the_model_which_gets_normalised_languages(
    client, torchserve
):
    for target in ("ko", "zh_Hant", "PT_br"):
        post(client, src_lang="EN_us", tgt_lang=target)
    assert [call.model for call in torchserve.calls] == ["ko", "zh", "pt"]
    options = {"beam_size": 2, "alternatives": 0}
    assert torchserve.calls[1].row == WANTED | {"tgt_lang": "zh"} | options


@pytest.mark.parametrize(
    ("field", "warning"),
    [
        ("x" * 50, f"{'x' * 40}: unknown field"),
        ("\ud800é", "?é: unknown field"),
        ("api_key", None),  # another API's field for the key
    ],
    ids=["long", "no Unicode", "a key"],
)
def test_an_unknown_field_is_ignored_and_named(client, field, warning):
    answer = client.post("/", data=json.dumps(WANTED | {field: 1}))
    assert answer.status_code == 200
    assert answer.json.get("warnings") == (warning and [warning])


def test_many_unknown_fields_are_not_all_compared(client):
    many: dict[str, Any] = {f"glossary{number}": 1 for number in range(10_000)}
    assert len(post(client, src_text=["a", "b"], **many).json["warnings"]) == 5


def test_a_refusal_names_the_unknown_field_as_well(client):
    answer = client.post("/", json={"src_text": "Hello", "target_lang": "ko"})
    assert answer.status_code == 422
    faults = {each["field"]: each["expected"] for each in answer.json["errors"]}
    assert faults["tgt_lang"].startswith("missing")
    assert faults["target_lang"] == "unknown field, did you mean tgt_lang?"


@pytest.mark.parametrize(
    ("text", "field"),
    [("a <g>b", "src_text"), (["a", "b & c"], "src_text[1]")],
    ids=["one", "list"],
)
def test_xml_that_is_not_well_formed_is_refused_with_its_place(client, text, field):
    answer = post(client, src_text=text, format="xml")
    assert answer.status_code == 422
    assert answer.json["errors"][0]["field"] == field
    assert "line 1, column" in answer.json["detail"]


def read_events(client: FlaskClient, **fields: Any) -> list[tuple[str, Any]]:
    response = post(client, EVENTS, **fields)
    assert response.status_code == 200
    assert response.mimetype == EVENTS
    assert response.headers["X-Accel-Buffering"] == "no"
    return [read(block) for block in response.data.split(b"\n\n")[:-1]]


def test_a_text_comes_sentence_by_sentence_and_then_whole(client):
    *texts, last = read_events(client, src_text="One.\n\n- Two. Three.\n")
    shown = ["ko:One.", "ko:One.\n\n- ko:Two.", "ko:One.\n\n- ko:Two. ko:Three."]
    assert texts == [
        ("text", {"index": 0, "translated": text, "warnings": []}) for text in shown
    ]
    assert last == ("done", {"translated": f"{shown[-1]}\n"})


def test_each_text_of_a_list_comes_for_itself(client):
    *texts, last = read_events(client, src_text=["First. Second.", "", "Third."])
    by_text: dict[int, list[str]] = {0: [], 1: [], 2: []}
    for _, content in texts:
        by_text[content["index"]].append(content["translated"])
    first = ["ko:First.", "ko:First. ko:Second."]
    assert by_text == {0: first, 1: [], 2: ["ko:Third."]}
    assert last == ("done", {"translated": [first[-1], "", "ko:Third."]})


@pytest.mark.parametrize(
    ("second", "shown"), [("echo", "ko:One. ko:Two."), ("doubt", "One. Two.")]
)
def test_no_text_is_shown_that_a_later_sentence_takes_back(
    client, torchserve, second, shown
):
    torchserve.will("echo", second)
    events = read_events(client, src_text="One. Two.", min_quality=0.5)
    assert [name for name, _ in events] == ["text", "done"]
    assert {content["translated"] for _, content in events} == {shown}


def test_a_text_whose_parts_stand_elsewhere_comes_whole(client):
    message = "{n, plural, one {One file.} other {Many files.}}"
    events = read_events(client, src_text=message)
    (name, content) = events[0]
    assert (len(events), name) == (1, "done")
    assert "ko:Many files." in content["translated"]


def test_a_request_that_fails_before_its_first_sentence_fails_as_any(
    client, torchserve
):
    assert post(client, EVENTS, tgt_lang="xx").status_code == 422
    torchserve.will("row-no-image")
    response = post(client, EVENTS)
    assert (response.status_code, response.json["status"]) == (422, 422)


@pytest.mark.parametrize(
    ("fault", "status", "detail"),
    [("row-no-image", 422, "src_text["), ("not-json", 500, "The request failed.")],
    ids=["a problem", "a fault of ours"],
)
def test_a_problem_of_a_later_sentence_is_the_last_event(
    client, torchserve, caplog, fault, status, detail
):
    torchserve.will("echo", fault)
    response = post(client, EVENTS, src_text=["A.", "B."])
    (name, _), (last, problem) = map(read, response.data.split(b"\n\n")[:-1])
    assert (name, last, problem["status"]) == ("text", "error", status)
    assert problem["detail"].startswith(detail)
    assert problem["request_id"] == response.headers["X-Request-ID"]
    assert "expected value" not in caplog.text
