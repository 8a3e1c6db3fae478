"""Parsing bytes into a request, or an error that names the place, without a server."""

import math
from itertools import product
from typing import Any

import pytest

from gateway.errors import InvalidRequest, MalformedRequest, UnknownLanguage
from gateway.http.request import read_limit
from gateway.schemas import (
    ClassificationParameters,
    DetectionParameters,
    TranslationLimits,
    parse_translation,
    read_object,
    validate,
)
from text.options import TranslationRequest

SERVED = ("ko", "en", "zh", "pt")
LIMITS = TranslationLimits(SERVED, SERVED, 3, max_beam_size=8, max_alternatives=5)
GOOD = {"src_lang": "en", "src_text": "Hello", "tgt_lang": "ko"}


def parse(body: bytes | dict[str, Any]) -> TranslationRequest:
    content = read_object(body) if isinstance(body, bytes) else body
    return parse_translation(content, LIMITS)


@pytest.mark.parametrize(
    ("field", "tag"),
    [
        *product(("src_lang", "tgt_lang"), ("", " ", "_KO", "english", "ко", "../ko")),
        *product(["tgt_lang"], ("fr", "en;q=1")),
    ],
)
def test_a_language_that_is_not_served_is_named_with_those_that_are(field, tag):
    with pytest.raises(UnknownLanguage) as caught:
        parse(GOOD | {field: tag})
    assert caught.value.status == 422
    assert caught.value.extra == {"field": field, "served": list(SERVED)}
    assert repr(tag) in caught.value.detail
    with pytest.raises(UnknownLanguage) as caught:
        parse(GOOD | {field: "x" * 100_000})
    assert len(caught.value.detail) < 200


def test_a_candidate_that_the_model_does_not_read_is_named():
    with pytest.raises(UnknownLanguage) as caught:
        parse(GOOD | {"languages": ["en", "nl"]})
    assert caught.value.extra == {"field": "languages[1]", "served": list(SERVED)}


@pytest.mark.parametrize(
    ("body", "where"),
    [
        pytest.param(b'{"src_lang": 1,\n "src_text" 1}', "line 2, column 13", id="cut"),
        pytest.param(b"\xef\xbb\xbf" * 2, "BOM", id="two byte order marks"),
        pytest.param('{"a": 1}'.encode("utf-16"), "byte 0", id="UTF-16"),
        pytest.param(b'"\xed\xa0\x80"', "byte 1", id="surrogate in UTF-8"),
        pytest.param(b"[" * 500_000, "nested too deeply", id="deep list"),
        pytest.param(b'{"a":' * 200_000, "nested too deeply", id="deep object"),
        pytest.param(b"[" + b"9" * 5000 + b"]", "too many digits", id="huge number"),
    ],
)
def test_a_body_that_cannot_be_read_says_where(body, where):
    with pytest.raises(MalformedRequest) as caught:
        parse(body)
    assert caught.value.status == 400
    assert where in caught.value.detail


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("tgt_lang", {"to": "ko"}, "found an object, expected a language code"),
        ("src_text", ["a", "\udc00"], "at index 1 holds half of a surrogate pair"),
        ("beam_size", 2.0, "found 2.0, expected a whole number from 1 to 8"),
        ("beam_size", True, "found a boolean, expected a whole number from 1 to 8"),
        ("min_quality", -0.1, "found -0.1, expected a number from 0 to 1"),
        ("min_quality", math.nan, "found nan, expected a number from 0 to 1"),
        ("min_quality", "0.5", "found '0.5', expected a number from 0 to 1"),
        ("languages", [], "an empty list, expected at least one string"),
        ("languages", "en", "found a string, expected a list"),
    ],
)
def test_a_wrong_field_is_named_with_what_was_found(field, value, expected):
    with pytest.raises(InvalidRequest) as caught:
        parse(GOOD | {field: value})
    (error,) = caught.value.extra["errors"]
    assert error["field"] == field
    assert expected in error["expected"]
    assert caught.value.detail.startswith(f"{field}: ")


@pytest.mark.parametrize(
    "header", ["", "0", "-1", "1.5", "1e3", "１００", "1 000", "nan"]
)
def test_a_time_is_a_whole_number_that_lowers_the_limit(header):
    assert read_limit({}, 30) == 30
    for given, timeout_s in (("1", 0.001), ("2147483647", 30), ("1" * 5000, 30)):
        assert read_limit({"HTTP_X_TIMEOUT_MS": given}, 30) == timeout_s
    with pytest.raises(MalformedRequest, match="X-Timeout-Ms"):
        read_limit({"HTTP_X_TIMEOUT_MS": header}, 30)


@pytest.mark.parametrize(
    ("schema", "name", "wrong", "expected"),
    [
        (ClassificationParameters, "top_k", ["101", "1.5", "٥", " 5", "1_0"], "100"),
        (DetectionParameters, "threshold", ["1.1", "nan", "inf"], "1"),
    ],
    ids=["labels", "threshold"],
)
def test_a_parameter_is_a_number_within_its_bounds(schema, name, wrong, expected):
    for value in ["", "-1", "five", "9" * 5000, *wrong]:
        with pytest.raises(InvalidRequest) as caught:
            validate(schema, {name: value})
        assert caught.value.detail.startswith(f"{name}: found {value[:20]!r}, expected")
        assert caught.value.detail.endswith(f" to {expected}")
