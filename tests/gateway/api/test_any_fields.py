"""Each API answers any fields in its own shape, and never with a fault of ours."""

from __future__ import annotations

import json
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.dialects import FOREIGN, Dialect, find_dialect
from gateway.openapi import FIELDS, find_operation
from gateway.schemas import ForeignSchema
from tests.description import Description

#: Fields that another API's server knows, and ours ignores or refuses.
OTHERS = ["context", "custom_instructions", "style_id", "model"]

each_api = pytest.mark.parametrize("api", FOREIGN, ids=lambda api: api.name)

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


@pytest.fixture(scope="module")
def description(shared_client) -> Description:
    return Description(shared_client.get("/openapi.json").get_json())


@pytest.fixture(scope="module")
def list_fields(shared_client):
    def list_fields(api: Dialect) -> list[tuple[str, list[str]]]:
        """The paths of an API that take fields in any form, and their names."""
        app = shared_client.application
        bodies = {
            rule.rule: body
            for rule in app.url_map.iter_rules()
            for operation in [find_operation(app.view_functions[rule.endpoint])]
            for body in (operation.bodies if operation else ())
            if body.media == FIELDS and issubclass(body.model, ForeignSchema)
        }
        return [
            (path, list(body.model.model_fields))
            for path, body in bodies.items()
            if "<" not in path
            and (path in api.translating or find_dialect(path) is api)
        ]

    return list_fields


@each_api
@given(data=st.data())
def test_any_fields_are_answered_in_the_apis_shape(
    shared_client, description, list_fields, api, data
):
    path, names = data.draw(st.sampled_from(list_fields(api)), "path")
    given = st.dictionaries(st.sampled_from(names + OTHERS), VALUES, max_size=6)
    fields = data.draw(given, "fields")
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
            found = response.status_code, response.headers, response.text
            description.check("POST", path, *found)


@each_api
@given(body=st.binary(max_size=40), query=st.text("abq=&%ü[]0", max_size=12))
def test_any_bytes_are_answered(shared_client, list_fields, api, body, query):
    paths = [path for path, _ in list_fields(api)]
    kinds = (None, "application/json", "multipart/form-data; boundary=x")
    for path, kind in product(paths, kinds):
        response = shared_client.post(f"{path}?{query}", data=body, content_type=kind)
        assert response.status_code < 500
        assert response.is_json
