"""Each API answers any fields in its own shape, and never with a fault of ours."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

FIELDS = {
    "/translate": "q source target format alternatives",
    "/detect": "q",
    "/v2/translate": "text target_lang source_lang split_sentences tag_handling "
    "tag_handling_version outline_detection ignore_tags splitting_tags formality "
    "preserve_formatting model_type glossary_id context custom_instructions",
    "/v2/languages": "type",
    "/language/translate/v2": "q source target format model",
    "/language/translate/v2/detect": "q",
    "/language/translate/v2/languages": "target",
}
#: Texts with half of a surrogate pair, which `json` reads, among others.
TEXTS = st.text(max_size=5) | st.sampled_from(
    ["en", "KO", "zh-Hant", "html", "xml", "0", "1", "<a>b</a>", "<a", "&", "\ud800"]
)
VALUES = st.recursive(
    TEXTS | st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=2)
    ),
    max_leaves=4,
)


def has_shape_of(path: str, content: Any) -> bool:
    if path.startswith("/v2"):
        return all(isinstance(value, str) for value in content.values())
    if path.startswith("/language"):
        return bool(content["error"]["code"] == 400)
    return isinstance(content["error"], str)


@pytest.mark.parametrize("path", FIELDS)
@given(data=st.data())
def test_any_fields_are_answered_in_the_apis_shape(shared_client, path, data):
    names = st.sampled_from(FIELDS[path].split())
    fields = data.draw(st.dictionaries(names, VALUES, max_size=6), "fields")
    if path == "/translate":  # otherwise it may be ours
        fields["target"] = fields.get("target") or "ko"
    bodies = [
        (json.dumps(fields).encode(), "application/json"),
        (json.dumps(fields).encode(), "application/x-www-form-urlencoded"),
    ]
    for body, kind in bodies:
        response = shared_client.post(path, data=body, content_type=kind)
        assert response.status_code in (200, 400, 404)
        if response.status_code != 200:
            assert has_shape_of(path, response.json)


@pytest.mark.parametrize("path", FIELDS)
@given(body=st.binary(max_size=40), query=st.text("abq=&%ü[]0", max_size=12))
def test_any_bytes_are_answered(shared_client, path, body, query):
    for kind in (None, "application/json", "multipart/form-data; boundary=x"):
        response = shared_client.post(f"{path}?{query}", data=body, content_type=kind)
        assert response.status_code < 500
        assert response.is_json
