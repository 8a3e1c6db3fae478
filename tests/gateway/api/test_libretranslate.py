"""LibreTranslate's API; `tests/contract` has what its clients really send."""

from __future__ import annotations

from typing import Any

import pytest

WANTED = {"q": "Hello", "source": "en", "target": "ko"}


@pytest.fixture
def post(client):
    def post(**changes: object):
        given = {k: v for k, v in (WANTED | changes).items() if v is not ...}
        return client.post("/translate", json=given)

    return post


@pytest.mark.parametrize(
    ("changes", "answer"),
    [
        ({}, {"translatedText": "ko:Hello"}),
        ({"q": ["a", "b"]}, {"translatedText": ["ko:a", "ko:b"]}),
        ({"q": ["a"]}, {"translatedText": ["ko:a"]}),
        ({"q": ""}, {"translatedText": ""}),
        ({"target": "zh_Hans"}, {"translatedText": "zh:Hello"}),
        ({"target": "PB", "api_key": ""}, {"translatedText": "pt:Hello"}),
        ({"alternatives": "0"}, {"translatedText": "ko:Hello"}),
        ({"alternatives": 1}, {"translatedText": "ko:Hello", "alternatives": []}),
        (
            {"q": "<p>Hello</p>", "format": "html"},
            {"translatedText": "<p>ko:Hello</p>"},
        ),
        ({"q": "<p>Hello</p>", "format": ""}, {"translatedText": "ko:<p>Hello</p>"}),
        (
            {"q": "Where is the station?", "source": "auto"},
            {
                "translatedText": "ko:Where is the station?",
                "detectedLanguage": {"confidence": 100, "language": "en"},
            },
        ),
        (
            {"q": "12", "source": "auto"},
            {
                "translatedText": "12",
                "detectedLanguage": {"confidence": 0, "language": "ko"},
            },
        ),
    ],
)
def test_it_translates_as_libretranslate_does(post, changes, answer):
    response = post(**changes)
    assert (response.status_code, response.json) == (200, answer)


def test_alternatives_are_texts(post, torchserve):
    torchserve.will("choose")
    assert post(alternatives=2).json["alternatives"] == ["ko:Hello 1", "ko:Hello 2"]


def test_each_text_of_a_list_has_its_own_language(post, torchserve):
    texts = ["Where is the station?", "Wo ist der Bahnhof?", "안녕하세요"]
    answer = post(q=texts, source="auto").json
    found = [detected["language"] for detected in answer["detectedLanguage"]]
    assert found == ["en", "de", "ko"]
    assert {call.row["src_lang"] for call in torchserve.calls} == {"en", "de"}


def test_tags_do_not_hide_the_language(post):
    text = "<div class='x'><a href='y'>Wo</a> ist der <b>Bahnhof</b>?</div>"
    answer = post(q=text, source="auto", format="html").json
    assert answer["detectedLanguage"]["language"] == "de"


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"q": ...}, "Invalid request: missing q parameter"),
        ({"q": None}, "Invalid request: missing q parameter"),
        ({"q": []}, "Invalid request: missing q parameter"),
        ({"source": ...}, "Invalid request: missing source parameter"),
        ({"target": ...}, "Invalid request: missing target parameter"),
        ({"source": "zz"}, "zz is not supported"),
        ({"target": "zz"}, "zz is not supported: expected one of ko, en, zh, pt"),
        ({"target": ""}, " is not supported: expected one of ko, en, zh, pt"),
        (
            {"target": "zh-Hant"},
            "zh-Hant is not supported: Chinese is written in simplified characters here, "
            "as zh; expected one of ko, en, zh, pt",
        ),
        (
            {"q": 7},
            "Invalid request: q: found a number, expected a string or a list of strings",
        ),
        (
            {"format": "pdf"},
            'Invalid request: format: found a string, expected "text" or "html"',
        ),
        (
            {"alternatives": 6},
            "Invalid request: alternatives: found 6, expected 0 to 5",
        ),
        (
            {"alternatives": "x"},
            "Invalid request: alternatives: found 'x', expected a whole number of at least 0",
        ),
        (
            {"q": ["a"] * 1001},
            "Invalid request: request (1001) exceeds text limit (1000): "
            "send the texts in several requests",
        ),
    ],
)
def test_what_is_wrong_is_said_in_its_words(post, changes, error):
    response = post(**changes)
    assert (response.status_code, response.json) == (400, {"error": error})


@pytest.mark.parametrize(
    ("behaviour", "status"),
    [("not-registered", 503), ("row-broken", 500), ("row-late", 504)],
)
def test_failures_have_its_shape(post, torchserve, behaviour, status):
    torchserve.will(*[behaviour] * 3)
    response = post()
    assert response.status_code == status
    assert list(response.json) == ["error"]


def test_a_problem_in_a_list_names_its_text(post, torchserve):
    torchserve.will("row-broken")
    assert post(q=["a"]).json == {"error": "q[0]: The handler says internal."}


def test_detection_has_one_candidate_at_least(client):
    def detect(q: object) -> Any:
        return client.post("/detect", json={"q": q}).json

    first, *_ = detect("Where is the station?")
    assert first == {"confidence": 100, "language": "en"}
    assert detect("12") == [{"confidence": 0, "language": "en"}]
    assert [rows[0]["language"] for rows in detect(["안녕", "12"])] == ["ko", "en"]
    assert client.post("/detect").json == {
        "error": "Invalid request: missing q parameter"
    }


def test_requests_are_counted_by_target(post, client):
    post()
    post(target="zz")
    metrics = client.get("/metrics").text
    assert 'translation_requests_total{status="200",target="ko"} 1.0' in metrics
    assert 'translation_requests_total{status="400",target="none"} 1.0' in metrics
    assert 'babelgate_characters_total{target="ko"} 5.0' in metrics


@pytest.mark.parametrize(
    ("method", "body", "status"),
    [
        ("POST", b"", 400),
        ("POST", b"{}", 422),
        ("POST", b'{"q": "Hello"', 400),
        ("POST", b"q=%ff", 400),
        ("GET", b"", 405),
    ],
    ids=["no body", "no fields", "no JSON", "no UTF-8", "wrong method"],
)
def test_a_problem_of_whoever_asks_has_its_error_as_well(client, method, body, status):
    response = client.open("/translate", method=method, data=body)
    assert response.status_code == response.json["status"] == status
    assert response.json["error"] == response.json["detail"]
