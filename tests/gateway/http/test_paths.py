"""Paths as clients put them together."""

from __future__ import annotations

import pytest

WANTED = {"q": "Hello", "source": "en", "target": "ko"}


@pytest.mark.parametrize(
    "path", ["/translate", "//translate", "/translate/", "//translate//"]
)
def test_slashes_that_are_too_many_do_not_matter(client, path):
    response = client.post("/", json=WANTED, environ_overrides={"PATH_INFO": path})
    assert response.json == {"translatedText": "ko:Hello"}


@pytest.mark.parametrize("path", ["/languages/", "/v2/languages/", "/health/"])
def test_a_slash_at_the_end_of_a_path_for_texts_does_not_matter(client, path):
    assert client.get(path).data == client.get(path[:-1]).data


def test_other_paths_end_without_a_slash(client):
    """nginx keeps `/metrics` to its own machine, and no other path must lead there."""
    assert client.get("/metrics/").status_code == 404


def test_an_error_is_told_in_the_api_of_the_path(client):
    given = {"PATH_INFO": "//v2//nothing"}
    response = client.get("/", environ_overrides=given)
    assert (response.status_code, response.json["message"]) == (404, "Not found")
