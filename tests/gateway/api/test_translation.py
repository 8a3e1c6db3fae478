"""`POST /translate`; `tests/contract` has what wrong requests get."""

from __future__ import annotations

import json

import pytest

WANTED = {"src_lang": "en", "src_text": "Hello", "tgt_lang": "ko"}


@pytest.fixture
def post(client):
    def post(**changes: object):
        return client.post("/translate", json=WANTED | changes)

    return post


def test_the_target_chooses_the_model_which_gets_normalised_languages(post, torchserve):
    for target in ("ko", "zh_Hant", "PT_br"):
        post(src_lang="EN_us", tgt_lang=target)
    assert [call.model for call in torchserve.calls] == ["ko", "zh", "pt"]
    options = {"beam_size": 2, "alternatives": 0}
    assert torchserve.calls[1].row == WANTED | {"tgt_lang": "zh"} | options


@pytest.mark.parametrize(
    "content_type",
    [None, "multipart/form-data; boundary=x", "application/json; charset=latin-1"],
)
def test_the_clients_content_type_does_not_matter(client, content_type):
    body = json.dumps(WANTED | {"src_text": "né"}, ensure_ascii=False).encode()
    response = client.post("/", data=body, content_type=content_type)
    assert (response.status_code, response.json) == (200, {"translated": "ko:né"})


def test_answers_are_plain_utf8(post):
    response = post(src_text="안녕 🏳️‍🌈")
    assert response.content_type == "application/json"
    assert response.data == '{"translated":"ko:안녕 🏳️‍🌈"}\n'.encode()


@pytest.mark.parametrize(
    ("field", "warning"),
    [
        ("x" * 50, f"{'x' * 40}: unknown field"),
        ("\ud800é", "?é: unknown field"),
        ("api_key", None),  # where another API has its key
    ],
    ids=["long", "no Unicode", "a key"],
)
def test_an_unknown_field_is_ignored_and_named(client, field, warning):
    answer = client.post("/", data=json.dumps(WANTED | {field: 1}))
    assert answer.status_code == 200
    assert answer.json.get("warnings") == (warning and [warning])


def test_many_unknown_fields_are_not_all_compared(post):
    many = {f"glossary{number}": 1 for number in range(10_000)}
    assert len(post(src_text=["a", "b"], **many).json["warnings"]) == 5


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
def test_xml_that_is_not_well_formed_is_refused_with_its_place(post, text, field):
    answer = post(src_text=text, format="xml")
    assert answer.status_code == 422
    assert answer.json["errors"][0]["field"] == field
    assert "line 1, column" in answer.json["detail"]
