"""Paths as clients put them together."""

from __future__ import annotations

import pytest

WANTED = {"q": "Hello", "source": "en", "target": "ko"}


@pytest.mark.parametrize("path", ["/translate", "//translate", "///translate"])
def test_slashes_that_are_too_many_do_not_matter(client, path):
    response = client.post("/", json=WANTED, environ_overrides={"PATH_INFO": path})
    assert response.json == {"translatedText": "ko:Hello"}


def test_an_error_is_told_in_the_api_of_the_path(client):
    given = {"PATH_INFO": "//v2//nothing"}
    response = client.get("/", environ_overrides=given)
    assert (response.status_code, response.json["message"]) == (404, "Not found")
