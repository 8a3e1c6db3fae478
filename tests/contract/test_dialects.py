"""The description of each API, and the errors for its clients. `errors/NAME.json` has the
answers of an API's own server."""

import json
from itertools import product
from pathlib import Path

import jsonschema_rs
import pytest

from contract.dialects import DEEPL, FOREIGN, GOOGLE, OURS, find_dialect
from contract.problems import write_problem
from gateway.openapi import describe_errors
from gateway.schemas import ForeignSchema

ERRORS = Path(__file__).with_name("errors")
#: Our status for each problem in `errors`.
STATUSES = {
    "invalid-key": 401,
    "quota-exceeded": 403,
    "rate-limited": 429,
    "body-too-large": 413,
    "too-many-rows": 413,
    "unknown-language": 422,
    "not-found": 404,
    "not-ready": 503,
}

each_api = pytest.mark.parametrize("api", FOREIGN, ids=lambda api: api.name)


@each_api
def test_a_problem_is_what_the_apis_own_server_answers(api):
    path = ERRORS / f"{api.name}.json"
    assert path.is_file(), f"{path} must say what {api.title} answers for {[*STATUSES]}"
    found = {}
    for slug, status in STATUSES.items():
        answer = api.answer(write_problem(slug, status, "Why.", request_id="a"))
        found[slug] = {"status": answer.status, "body": answer.content}
        assert answer.content_type == "application/json"
    assert found == json.loads(path.read_text("utf-8"))


@each_api
def test_every_error_has_the_shape_that_is_described(api):
    shape = describe_errors(api) | {"additionalProperties": False}
    validator = jsonschema_rs.Draft202012Validator(shape)
    extra: tuple[dict[str, str], ...] = (
        {},
        {"explanation": f"{api.fields.text}[3] is odd", "reason": "required"},
    )
    for (slug, status), members in product(STATUSES.items(), extra):
        document = write_problem(slug, status, "src_text[3]: No", **members)
        content = api.answer(document).content
        validator.validate(content)
        said = json.dumps(content)
        assert f"{api.fields.text}[3]: No" in said
        assert "src_text" not in said, "the client knows another field"
    google = GOOGLE.answer(document).content["error"]["errors"][0]
    assert google["reason"] == "required"
    assert DEEPL.answer(document).content["message"] == "text[3]: No"


def test_every_route_that_takes_other_fields_than_ours_is_of_an_api(shared_client):
    app = shared_client.application
    for rule in app.url_map.iter_rules():
        operation = getattr(app.view_functions[rule.endpoint], "operation", None)
        assert operation, f"{rule.rule} needs its Operation(…)"
        if any(issubclass(body.model, ForeignSchema) for body in operation.bodies):
            apis = operation.dialects or (find_dialect(rule.rule),)
            said = f"contract/dialects.py has no API with the path {rule.rule}"
            assert set(apis) & set(FOREIGN), said


@each_api
def test_a_path_belongs_to_one_api(api):
    for path in api.paths:
        assert find_dialect(path) is find_dialect(f"{path}/x") is api
        assert find_dialect(f"{path}z") is not api
    for path in (*api.documents, *api.glossaries):
        assert find_dialect(path) is api
    for path in ("/", "/translate", "/languages", "/healthz", "/detect-objects"):
        assert find_dialect(path) is OURS
