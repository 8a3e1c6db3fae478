"""What a browser is told that asks for a page of another origin."""

from __future__ import annotations

import pytest

PAGE = "https://example.org"
ASKED = {
    "Origin": PAGE,
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization, content-type",
}
TEXTS = [
    *("/", "/translate", "/identify", "/languages", "/detect", "/frontend/settings"),
    *("/documents", "/documents/any/result"),
    *("/v2/translate", "/v2/glossaries", "/language/translate/v2/detect"),
    *("/glossaries", "/glossaries/a/entries"),
]
OTHERS = ["/metrics", "/healthz", "/caption", "/nowhere"]
ALLOWED = "Access-Control-Allow-Origin"


@pytest.mark.parametrize("path", TEXTS)
def test_a_page_may_ask_for_translations(client, path):
    response = client.options(path, headers=ASKED)
    assert (response.status_code, response.data) == (204, b"")
    assert "Content-Type" not in response.headers
    assert response.headers[ALLOWED] == "*"
    assert "POST" in response.headers["Access-Control-Allow-Methods"]
    allowed = response.headers["Access-Control-Allow-Headers"]
    assert allowed == ASKED["Access-Control-Request-Headers"]
    assert "Access-Control-Allow-Credentials" not in response.headers


@pytest.mark.parametrize(
    ("path", "can_change"),
    [
        ("/glossaries/a", True),
        ("/v3/glossaries/a", True),
        ("/documents/a", True),
        ("/v2/translate", False),
    ],
)
def test_a_page_may_change_only_what_is_kept(client, path, can_change):
    methods = client.options(path, headers=ASKED).headers
    for name in ("Access-Control-Allow-Methods", "Allow"):
        assert ("PUT, PATCH, DELETE" in methods[name]) == can_change


@pytest.mark.parametrize("path", OTHERS)
def test_a_page_may_ask_for_nothing_else(client, path):
    response = client.options(path, headers=ASKED)
    assert response.status_code in (404, 405)
    assert ALLOWED not in client.get(path, headers={"Origin": PAGE}).headers


def test_a_page_may_read_answers_and_errors(client):
    for path in ("/languages", "/v2/glossaries"):
        headers = client.get(path, headers={"Origin": PAGE}).headers
        assert headers[ALLOWED] == "*"
        assert "Retry-After" in headers["Access-Control-Expose-Headers"]


def test_programs_are_told_nothing_of_origins(client):
    assert ALLOWED not in client.get("/languages").headers
    assert client.options("/v2/translate").status_code == 204
    assert client.options("/languages").status_code == 405


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [("https://a.org", "https://a.org"), ("http://b:81", "http://b:81"), (PAGE, None)],
)
def test_only_pages_that_are_named_may_ask(make_client, origin, allowed):
    client = make_client(cors_origins="https://a.org, http://b:81")
    response = client.get("/languages", headers={"Origin": origin})
    assert response.headers.get(ALLOWED) == allowed
    assert response.headers["Vary"] == "Origin"


def test_no_page_may_ask_where_none_is_named(make_client):
    client = make_client(cors_origins="")
    assert client.options("/v2/translate", headers=ASKED).status_code == 405
    assert ALLOWED not in client.get("/languages", headers={"Origin": PAGE}).headers
