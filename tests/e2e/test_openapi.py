"""A real stack's answers match its own OpenAPI document."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import APIOperation, Case, GenerationMode
from schemathesis.config import SchemathesisConfig
from schemathesis.core.result import Ok

from deploy.stack import Stack
from tests.description import Description
from tests.e2e.real_stack import delete_glossaries

TIMEOUT_S = 120
CONFIGURATION = SchemathesisConfig.from_dict(
    {
        "seed": 1,
        # Without a socket, answers are not decompressed.
        "headers": {"Accept-Encoding": "identity"},
        "checks": {
            # The API accepts more than it describes: it reads `EN`, and ignores unknown fields.
            "negative_data_rejection": {"enabled": False},
            "positive_data_acceptance": {"enabled": False},
        },
    }
)
TEXTS = {
    "/": {"src_text": "See you tomorrow", "tgt_lang": "de", "alternatives": 2},
    "/translate": {"src_text": "Taxi", "tgt_lang": "de", "quality": True},
    "/identify": {"src_text": ["Where is the station?", "1"]},
    "/detect": {"q": ["Where is the station?", "Wo ist der Bahnhof?"]},
    "/v2/translate": {
        "text": ["Hello"],
        "target_lang": "DE",
        "model_type": "quality_optimized",
    },
    "/language/translate/v2": {"q": "Where is the station?", "target": "fr"},
}

Ask = Callable[..., int]


def read_description(stack: Stack) -> Description:
    return Description(requests.get(f"{stack.url}/openapi.json", timeout=5).json())


@pytest.fixture(scope="module")
def ask(stack: Stack) -> Iterator[Ask]:
    """A function that sends the stack a request, and checks the answer."""
    description = read_description(stack)

    def ask(method: str, path: str, body: object = None, **headers: str) -> int:
        content = {"json": body} if isinstance(body, dict) else {"data": body}
        answer = requests.request(
            method, f"{stack.url}{path}", headers=headers, timeout=TIMEOUT_S, **content
        )
        status = answer.status_code
        description.check(method, path, status, answer.headers, answer.text)
        return status

    yield ask
    delete_glossaries(stack.url)


def test_its_examples_work(stack, ask):
    statuses = {
        one: ask(one.method.upper(), one.path, one.body, **one.headers)
        for one in read_description(stack).list_examples()
    }
    assert len(statuses) > 20
    failed = {found for found, status in statuses.items() if status not in (200, 201)}
    assert failed == set()


@pytest.mark.parametrize("path", TEXTS)
def test_translations_and_refusals_are_as_described(ask, path):
    assert ask("POST", path, TEXTS[path]) == 200
    assert ask("POST", path, b"{") == 400
    assert ask("POST", path, b"a" * (2 << 20)) == 413
    assert ask("POST", path, b"{}", **{"Content-Encoding": "br"}) == 415
    assert ask("POST", path, TEXTS[path], **{"X-Long": "a" * (70 << 10)}) == 431
    assert ask("POST", path, {}) in (400, 422)


def _can_be_wrong(operation: APIOperation[Any, Any, Any, Any]) -> bool:
    """Whether a request can be invalid, by its body or a parameter with restricted values."""
    raw = operation.definition.raw
    bounded = [
        given
        for given in raw["parameters"]
        if given["schema"].get("type") != "string"
        or "enum" in given["schema"]
        or (given["required"] and given["in"] == "query")
    ]
    return bool(bounded) or "requestBody" in raw


@pytest.mark.parametrize("mode", GenerationMode)
def test_any_request_is_answered_as_described(stack, mode):
    """All answers to valid and invalid requests are described; none is a server error."""
    url = f"{stack.url}/openapi.json"
    api = schemathesis.openapi.from_url(url, config=CONFIGURATION)
    found = list(api.get_all_operations())
    operations = [each.ok() for each in found if isinstance(each, Ok)]
    assert len(operations) == len(found)
    for operation in operations:
        if mode is GenerationMode.NEGATIVE and not _can_be_wrong(operation):
            continue

        @settings(
            max_examples=3,
            derandomize=True,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def ask(case: Case[Any]) -> None:
            # A time limit of a millisecond is rightly answered with 504.
            case.headers.pop("X-Timeout-Ms", None)
            case.call_and_validate()

        ask()


def test_the_page_to_try_it_passes_nginx(url):
    page = requests.get(f"{url}/docs", timeout=5)
    assert "docs/swagger_bundle.js" in page.text
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    script = requests.get(f"{url}/docs/swagger_bundle.js", timeout=TIMEOUT_S)
    assert (script.status_code, len(script.content) > 1 << 20) == (200, True)
