"""Each API answers any fields in its own form, and never with an internal error."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.dialects import FOREIGN, find_dialect
from gateway.openapi import FIELDS

#: Fields that other APIs' servers accept, and ours ignores or refuses.
OTHERS = ["context", "custom_instructions", "style_id", "model"]

#: Texts, including half of a surrogate pair, which `json` accepts.
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


@pytest.mark.parametrize("api", FOREIGN, ids=lambda api: api.name)
@given(data=st.data())
def test_any_fields_are_answered_in_the_apis_shape(
    shared_client, description, api, data
):
    app = shared_client.application
    names = {
        rule.rule: list(body.model.model_fields)
        for rule in app.url_map.iter_rules()
        if rule.rule in api.translating or find_dialect(rule.rule) is api
        for body in app.view_functions[rule.endpoint].operation.bodies
        if body.media == FIELDS and body.model.__module__.endswith(api.name)
    }
    path = data.draw(st.sampled_from(sorted(names)), "path")
    given = st.dictionaries(st.sampled_from(names[path] + OTHERS), VALUES, max_size=6)
    fields = data.draw(given, "fields")
    if path == "/translate":  # without it, our own API answers
        fields["target"] = fields.get("target") or "ko"
    for kind in ("application/json", "application/x-www-form-urlencoded"):
        response = shared_client.post(path, data=json.dumps(fields), content_type=kind)
        assert response.status_code in (200, 400, 404)
        if response.status_code != 200:
            found = response.status_code, response.headers, response.text
            description.check("POST", path, *found)
