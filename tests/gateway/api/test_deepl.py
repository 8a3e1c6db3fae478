"""DeepL's API; `tests/contract` has what its clients really send."""

from __future__ import annotations

import pytest

import catalog
from gateway.access import Access
from gateway.access.usage import Usage
from gateway.app import create_app
from gateway.settings import Settings

WANTED = {"text": ["Hello"], "target_lang": "KO", "source_lang": "EN"}


@pytest.fixture
def post(client):
    def post(**changes: object):
        given = {k: v for k, v in (WANTED | changes).items() if v is not ...}
        return client.post("/v2/translate", json=given)

    return post


def write(text: str, billed: int, source: str = "EN", **more: str) -> dict[str, object]:
    return {
        "detected_source_language": source,
        "text": text,
        "billed_characters": billed,
        **more,
    }


@pytest.mark.parametrize(
    ("changes", "translations"),
    [
        ({}, [write("ko:Hello", 5)]),
        ({"text": "Hello"}, [write("ko:Hello", 5)]),
        ({"text": ["a", ""]}, [write("ko:a", 1), write("", 0)]),
        ({"text": ["🏳️"]}, [write("🏳️", 2)]),
        ({"source_lang": "en-us"}, [write("ko:Hello", 5)]),
        ({"source_lang": "ZH-HANT"}, [write("ko:Hello", 5, "ZH")]),
        ({"target_lang": "pt-BR"}, [write("pt:Hello", 5)]),
        ({"target_lang": "PT"}, [write("pt:Hello", 5)]),
        ({"target_lang": "ZH-HANS"}, [write("zh:Hello", 5)]),
        (
            {"text": ["Wo ist der Bahnhof?"], "source_lang": ...},
            [write("ko:Wo ist der Bahnhof?", 19, "DE")],
        ),
        ({"text": ["12"], "source_lang": ""}, [write("12", 2, "KO")]),
        ({"formality": "prefer_more", "context": "A greeting"}, [write("ko:Hello", 5)]),
        ({"show_billed_characters": True, "new": {"a": 1}}, [write("ko:Hello", 5)]),
        ({"preserve_formatting": "1"}, [write("ko:Hello", 5)]),
        (
            {"model_type": "latency_optimized"},
            [write("ko:Hello", 5, model_type_used="latency_optimized")],
        ),
        (
            {"text": ["<p>Hello</p> &amp;"], "tag_handling": "html"},
            [write("<p>ko:Hello</p> &amp;", 7)],
        ),
        (
            {"text": ["<a>Hello <x>you</x></a>"], "tag_handling": "XML"},
            [write("<a>ko:Hello <x>you</x></a>", 9)],
        ),
        (
            {"text": ["<a>Hello"], "tag_handling": "xml", "tag_handling_version": "v1"},
            [write("<a>ko:Hello", 5)],
        ),
        ({"tag_handling": ""}, [write("ko:Hello", 5)]),
    ],
)
def test_it_translates_as_deepl_does(post, changes, translations):
    response = post(**changes)
    assert (response.status_code, response.json) == (
        200,
        {"translations": translations},
    )


def list_rows(torchserve) -> list[str]:
    return [call.row["src_text"] for call in torchserve.calls]


LINES = "One\ntwo. Three"


@pytest.mark.parametrize(
    ("given", "rows"),
    [
        ({}, ["One", "two.", "Three"]),
        ({"split_sentences": "1"}, ["One", "two.", "Three"]),
        ({"split_sentences": 1}, ["One", "two.", "Three"]),
        ({"split_sentences": "nonewlines"}, ["One two.", "Three"]),
        ({"split_sentences": "0"}, ["One two. Three"]),
        ({"split_sentences": False}, ["One two. Three"]),
        ({"tag_handling": "html"}, ["One two.", "Three"]),
        ({"tag_handling": "xml"}, ["One", "two.", "Three"]),
    ],
)
def test_sentences_are_divided_as_asked(post, torchserve, given, rows):
    post(text=[LINES], **given)
    assert sorted(list_rows(torchserve)) == sorted(rows)


@pytest.mark.parametrize("names", ["x, y", ["x", "y"], ["x,y"]])
def test_names_of_elements_come_in_any_form(post, torchserve, names):
    text = "Open <x>a</x> and <y>b</y> now"
    post(text=[text], tag_handling="xml", ignore_tags=names)
    assert list_rows(torchserve) == ["Open {0} and {1} now"]


def test_a_form_repeats_its_names(client, torchserve):
    form = {
        "text": "<p>Open <x>a</x> <y>b</y> here<q>now</q></p>",
        "target_lang": "KO",
        "source_lang": "EN",
        "tag_handling": "xml",
        "outline_detection": "0",
        "ignore_tags": ["x", "y"],
        "splitting_tags": "q,p",
    }
    client.post("/v2/translate", data=form)
    assert sorted(list_rows(torchserve)) == ["Open {0} {1} here", "now"]


def test_quality_has_a_wider_beam(post, torchserve):
    for model in ("quality_optimized", "prefer_quality_optimized"):
        answer = post(model_type=model).json["translations"][0]
        assert answer["model_type_used"] == "quality_optimized"
    assert [call.row["beam_size"] for call in torchserve.calls] == [5, 5]


NOT_SUPPORTED = "Value for '{}' not supported."
SERVED = "EN-GB, EN-US, KO, PT-BR, PT-PT, ZH, ZH-HANS"


@pytest.mark.parametrize(
    ("changes", "message", "detail"),
    [
        ({"text": ...}, "Parameter 'text' not specified.", None),
        ({"text": []}, "Parameter 'text' not specified.", None),
        ({"target_lang": ...}, "Parameter 'target_lang' not specified.", None),
        (
            {"target_lang": "XX"},
            NOT_SUPPORTED.format("target_lang"),
            f"found 'XX', expected one of {SERVED}",
        ),
        (
            {"target_lang": "ZH-HANT"},
            NOT_SUPPORTED.format("target_lang"),
            "found 'ZH-HANT', Chinese is written in simplified characters here, as zh; "
            f"expected one of {SERVED}",
        ),
        ({"source_lang": "XX"}, NOT_SUPPORTED.format("source_lang"), "found 'XX'"),
        (
            {"text": [7]},
            NOT_SUPPORTED.format("text"),
            "found a number at index 0, expected a list of strings",
        ),
        (
            {"tag_handling": "md"},
            NOT_SUPPORTED.format("tag_handling"),
            'found a string, expected "xml" or "html" or null',
        ),
        (
            {"formality": "very"},
            NOT_SUPPORTED.format("formality"),
            'found a string, expected "default" or "more" or "less" or "prefer_more" or '
            '"prefer_less"',
        ),
        (
            {"formality": "more"},
            "'formality' is not supported for given 'target_lang'.",
            None,
        ),
        (
            {"custom_instructions": ["Be brief."]},
            "'custom_instructions' is not supported for given 'target_lang'.",
            None,
        ),
        (
            {"text": ["a"] * 1001},
            "Too many texts.",
            "found 1001, expected at most 1000",
        ),
        (
            {"text": ["a", "<b>c"], "tag_handling": "xml"},
            "Tag handling parsing failed, please check input.",
            "text[1]: mismatched tag at line 1, column 7",
        ),
    ],
)
def test_what_is_wrong_is_said_in_its_words(post, changes, message, detail):
    response = post(**changes)
    expected = {"message": message} | ({"detail": detail} if detail else {})
    assert (response.status_code, response.json) == (400, expected)


@pytest.mark.parametrize("name", ["style_id", "translation_memory_id"])
def test_what_is_stored_at_deepl_is_not_found(post, name):
    response = post(**{name: "a"})
    assert response.status_code == 404
    assert response.json["message"] == "Not found"
    assert name in response.json["detail"]
    assert post(**{name: None}).status_code == 200


@pytest.mark.parametrize(
    "path",
    ["/v2/documents", "/v3/style_rules"],
)
def test_routes_of_later_are_not_found_in_its_shape(client, path):
    response = client.post(path, data=b"x" * 1000)
    assert (response.status_code, set(response.json)) == (404, {"message", "detail"})


def test_failures_have_its_shape(post, torchserve):
    torchserve.will("not-registered")
    response = post()
    assert response.status_code == 503
    assert int(response.headers["Retry-After"]) > 0
    assert all(isinstance(value, str) for value in response.json.values())


def test_the_usage_is_that_of_the_key(map_path, torchserve, monkeypatch):
    class Counting(Access):
        is_required = True

        def read_usage(self) -> Usage:
            return Usage(7, 10)

    monkeypatch.setattr("gateway.app.open_access", lambda *_: Counting())
    app = create_app(Settings(map=map_path), models=catalog.load(map_path))
    client = app.test_client()
    assert client.get("/v2/usage").json == {"character_count": 7, "character_limit": 10}
    assert client.get("/frontend/settings").get_json()["keyRequired"] is True
