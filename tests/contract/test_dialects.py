"""The answers to each API's clients, and the owner of each path."""

from __future__ import annotations

import json
from typing import Any

import pytest

from contract.dialects import DEEPL, GOOGLE, LIBRETRANSLATE, OURS, find_dialect
from contract.problems import write_problem


def read_google(status: int, reason: str, name: str, message: str) -> dict[str, Any]:
    one = {"message": message, "domain": "global", "reason": reason}
    error = {"code": status, "message": message, "errors": [one], "status": name}
    return {"error": error}


#: Slug and status; then status and content for each API.
PROBLEMS = {
    "invalid-key": (
        401,
        (403, {"error": "Invalid API key: Why."}),
        (403, {"message": "Forbidden", "detail": "Why."}),
        (403, read_google(403, "forbidden", "PERMISSION_DENIED", "Why.")),
    ),
    "quota-exceeded": (
        403,
        (403, {"error": "Why."}),
        (456, {"message": "Quota Exceeded", "detail": "Why."}),
        (403, read_google(403, "dailyLimitExceeded", "PERMISSION_DENIED", "Why.")),
    ),
    "rate-limited": (
        429,
        (429, {"error": "Slowdown: Why."}),
        (429, {"message": "Too many requests", "detail": "Why."}),
        (429, read_google(429, "rateLimitExceeded", "RESOURCE_EXHAUSTED", "Why.")),
    ),
    "body-too-large": (
        413,
        (413, {"error": "Invalid request: request exceeds text limit: Why."}),
        (413, {"message": "Why."}),
        (413, read_google(413, "invalid", "INVALID_ARGUMENT", "Why.")),
    ),
    "too-many-rows": (
        413,
        (400, {"error": "Invalid request: request exceeds text limit: Why."}),
        (413, {"message": "Why."}),
        (413, read_google(413, "invalid", "INVALID_ARGUMENT", "Why.")),
    ),
    "unknown-language": (
        422,
        (400, {"error": "Why."}),
        (400, {"message": "Why."}),
        (400, read_google(400, "invalid", "INVALID_ARGUMENT", "Why.")),
    ),
    "not-found": (
        404,
        (404, {"error": "Why."}),
        (404, {"message": "Not found", "detail": "Why."}),
        (404, read_google(404, "notFound", "NOT_FOUND", "Why.")),
    ),
    "not-ready": (
        503,
        (503, {"error": "Why."}),
        (503, {"message": "Why."}),
        (503, read_google(503, "backendError", "UNAVAILABLE", "Why.")),
    ),
}


@pytest.mark.parametrize("slug", PROBLEMS)
def test_a_problem_is_written_as_each_api_writes_it(slug):
    status, *expected = PROBLEMS[slug]
    document = write_problem(slug, status, "Why.", request_id="a")
    answers = [d.answer(document) for d in (LIBRETRANSLATE, DEEPL, GOOGLE)]
    assert [(a.status, a.content) for a in answers] == expected
    assert {answer.content_type for answer in answers} == {"application/json"}
    ours = OURS.answer(document)
    assert (ours.status, ours.content) == (status, document)
    assert ours.content_type == "application/problem+json"


@pytest.mark.parametrize(
    ("dialect", "content"),
    [
        (LIBRETRANSLATE, {"error": "No: q[3] is odd"}),
        (DEEPL, {"message": "No", "detail": "text[3] is odd"}),
        (GOOGLE, read_google(400, "required", "INVALID_ARGUMENT", "No: q[3] is odd")),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_a_refusal_in_their_words_has_our_explanation(dialect, content):
    field = dialect.text_field
    extra = {"explanation": f"{field}[3] is odd", "reason": "required"}
    document = write_problem("malformed-request", 400, "No", **extra)
    assert dialect.answer(document).content == content


@pytest.mark.parametrize("dialect", [LIBRETRANSLATE, DEEPL, GOOGLE])
def test_a_problem_names_the_field_that_the_client_knows(dialect):
    document = write_problem("text-too-long", 422, "src_text[3]: too long")
    said = json.dumps(dialect.answer(document).content)
    assert f"{dialect.text_field}[3]: too long" in said
    assert "src_text" not in said


@pytest.mark.parametrize(
    ("path", "dialect"),
    [
        ("/", OURS),
        ("/translate", OURS),
        ("/languages", OURS),
        ("/healthz", OURS),
        ("/detect-objects", OURS),
        ("/v20", OURS),
        ("/detect", LIBRETRANSLATE),
        ("/health", LIBRETRANSLATE),
        ("/frontend/settings", LIBRETRANSLATE),
        ("/download_file/a.txt", LIBRETRANSLATE),
        ("/v2/translate", DEEPL),
        ("/v3/glossaries", DEEPL),
        ("/v2", DEEPL),
        ("/language/translate/v2", GOOGLE),
        ("/language/translate/v2/detect", GOOGLE),
    ],
)
def test_a_path_belongs_to_one_api(path, dialect):
    assert find_dialect(path) is dialect


def test_an_answer_can_be_written_to_a_socket():
    document = write_problem("quota-exceeded", 403, "Why.")
    written = DEEPL.answer(document).write({"Retry-After": 1}).decode()
    head, _, body = written.partition("\r\n\r\n")
    first, *lines = head.split("\r\n")
    assert first == "HTTP/1.1 456 Quota Exceeded"
    assert {"Retry-After: 1", f"Content-Length: {len(body)}"} < set(lines)
    assert json.loads(body) == {"message": "Quota Exceeded", "detail": "Why."}
