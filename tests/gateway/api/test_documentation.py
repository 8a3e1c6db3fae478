"""`GET /openapi.json`, and `GET /docs` with what it is made of."""

from __future__ import annotations

import re

import pytest

from tests.description import Description


def test_the_page_asks_this_host_only(shared_client):
    page = shared_client.get("/docs")
    assert page.content_type == "text/html; charset=utf-8"
    policy = page.headers["Content-Security-Policy"]
    assert "default-src 'none'; script-src 'self'; connect-src 'self'" in policy
    assert "unsafe" not in policy
    assert "//" not in policy
    links = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert [link for link in links if "//" in link] == []
    assert "<script>" not in page.text


def test_what_the_page_links_is_there(shared_client):
    page = shared_client.get("/docs").text
    for link in re.findall(r'(?:src|href)="(docs/[^"]+)"', page):
        assert shared_client.get(f"/{link}").status_code == 200, link
    script = shared_client.get("/docs/start.js").text
    assert 'url: "openapi.json"' in script
    assert "SwaggerUIBundle" in shared_client.get("/docs/swagger_bundle.js").text


@pytest.mark.parametrize("path", ["/openapi.json", "/docs", "/docs/swagger_bundle.js"])
def test_who_has_it_already_does_not_get_it_again(shared_client, path):
    description = Description(shared_client.get("/openapi.json").get_json())
    first = shared_client.get(path)
    again = shared_client.get(path, headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.data) == (304, b"")
    description.check("GET", path, again.status_code, again.headers, again.text)


def test_there_are_no_other_files(shared_client):
    response = shared_client.get("/docs/../__init__.py")
    assert response.status_code == 404
    assert shared_client.get("/docs/redoc.js").status_code == 404


def test_the_answers_are_in_the_document(shared_client):
    description = Description(shared_client.get("/openapi.json").get_json())
    for path in ("/openapi.json", "/docs", "/docs/start.js", "/docs/x.js"):
        found = shared_client.get(path)
        description.check("GET", path, found.status_code, found.headers, found.text)
