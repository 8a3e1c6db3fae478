"""Google's API; `tests/contract` has what its client really sends."""

from __future__ import annotations

import pytest

PATH = "/language/translate/v2"
WANTED = {"q": "Hello", "target": "ko", "source": "en"}


@pytest.fixture
def post(shared_client):
    def post(**changes: object):
        given = {k: v for k, v in (WANTED | changes).items() if v is not ...}
        return shared_client.post(PATH, json=given)

    return post


@pytest.mark.parametrize(
    ("changes", "translations"),
    [
        ({}, [{"translatedText": "ko:Hello"}]),
        ({"q": ["a", "b"]}, [{"translatedText": "ko:a"}, {"translatedText": "ko:b"}]),
        ({"q": "<b>a</b> & b"}, [{"translatedText": "ko:<b>a</b> &amp; b"}]),
        ({"q": "a & b", "format": "text"}, [{"translatedText": "ko:a & b"}]),
        ({"q": "a & b", "format": None}, [{"translatedText": "ko:a &amp; b"}]),
        ({"target": "zh-CN", "model": "nmt"}, [{"translatedText": "zh:Hello"}]),
        (
            {"q": "Wo ist der Bahnhof?", "source": ...},
            [
                {
                    "translatedText": "ko:Wo ist der Bahnhof?",
                    "detectedSourceLanguage": "de",
                }
            ],
        ),
        (
            {"q": "12", "source": ""},
            [{"translatedText": "12", "detectedSourceLanguage": "und"}],
        ),
    ],
)
def test_it_translates_as_google_does(post, changes, translations):
    response = post(**changes)
    expected = {"data": {"translations": translations}}
    assert (response.status_code, response.json) == (200, expected)


@pytest.mark.parametrize(
    ("changes", "message", "reason"),
    [
        ({"q": ...}, "Required parameter: q", "required"),
        ({"q": []}, "Required parameter: q", "required"),
        ({"target": ...}, "Required parameter: target", "required"),
        (
            {"target": "xx"},
            "Invalid Value: target: found 'xx', expected one of ko, en, zh, pt",
            "invalid",
        ),
        (
            {"target": "zh-TW"},
            "Invalid Value: target: found 'zh-TW', Chinese is written in simplified "
            "characters here, as zh; expected one of ko, en, zh, pt",
            "invalid",
        ),
        ({"source": "xx"}, "Invalid Value: source: found 'xx'", "invalid"),
        (
            {"format": "md"},
            'Invalid Value: format: found a string, expected "html" or "text"',
            "invalid",
        ),
        (
            {"q": ["a"] * 1001},
            "Too many text segments: found 1001, expected at most 1000",
            "invalid",
        ),
    ],
)
def test_what_is_wrong_is_said_in_its_words(post, changes, message, reason):
    response = post(**changes)
    error = response.json["error"]
    assert (response.status_code, error["code"]) == (400, 400)
    assert (error["message"], error["status"]) == (message, "INVALID_ARGUMENT")
    expected = [{"message": message, "domain": "global", "reason": reason}]
    assert error["errors"] == expected


def test_failures_have_its_shape(client, torchserve):
    torchserve.will("not-registered")
    response = client.post(PATH, json=WANTED)
    assert (response.status_code, response.json["error"]["code"]) == (503, 503)
    assert client.get(f"{PATH}/nothing").json["error"]["status"] == "NOT_FOUND"
