"""The layers around every route: normalised paths, and pages of other origins (CORS)."""

from itertools import product

import pytest
from flask.testing import FlaskClient

from contract.dialects import FOREIGN

PAGE = "https://example.org"
ASKED = {
    "Origin": PAGE,
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization, content-type",
}
TEXTS = [
    "/", "/identify", "/languages", "/detect", "/frontend/settings",
    *(path for api in FOREIGN for path in api.translating),
]  # fmt: skip
ENDS = ("", "/a")
KEPT = [
    "/documents", "/documents/any/result", "/glossaries", "/glossaries/a/entries",
    *(f"{path}{end}" for api in FOREIGN for path in api.glossaries for end in ENDS),
    "/v2/document", "/v2/document/a/result", "/translate_file",
]  # fmt: skip
OTHERS = ["/metrics", "/healthz", "/caption", "/nowhere"]
ALLOWED = "Access-Control-Allow-Origin"


def test_a_page_may_ask_for_translations(shared_client):
    for path in TEXTS:
        assert_open(shared_client, path)


def test_where_keys_are_required_a_page_may_ask_for_all(make_guarded):
    client = make_guarded()
    for path in TEXTS + KEPT:
        assert_open(client, path)


def assert_open(client: FlaskClient, path: str) -> None:
    exposed = client.get(path, headers={"Origin": PAGE}).headers
    assert exposed[ALLOWED] == "*"
    assert "Retry-After" in exposed["Access-Control-Expose-Headers"]
    response = client.options(path, headers=ASKED)
    assert (response.status_code, response.data) == (204, b""), path
    assert "Content-Type" not in response.headers
    assert response.headers[ALLOWED] == "*"
    assert "POST" in response.headers["Access-Control-Allow-Methods"]
    allowed = response.headers["Access-Control-Allow-Headers"]
    assert allowed == ASKED["Access-Control-Request-Headers"]
    assert "Access-Control-Allow-Credentials" not in response.headers


def test_a_page_may_change_only_what_is_kept(make_guarded):
    client = make_guarded()
    for path, can_change in {
        "/glossaries/a": True,
        "/v3/glossaries/a": True,
        "/documents/a": True,
        "/v2/translate": False,
        "/v2/document/a": False,
    }.items():
        methods = client.options(path, headers=ASKED).headers
        for name in ("Access-Control-Allow-Methods", "Allow"):
            assert ("PUT, PATCH, DELETE" in methods[name]) == can_change, path


@pytest.mark.parametrize("path", OTHERS)
def test_a_page_may_ask_for_nothing_else(shared_client, path):
    response = shared_client.options(path, headers=ASKED)
    assert response.status_code in (404, 405)
    assert ALLOWED not in shared_client.get(path, headers={"Origin": PAGE}).headers


METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


@pytest.mark.parametrize("origins", ["*", "", "https://named.org"])
def test_without_keys_pages_of_elsewhere_see_and_change_nothing(make_client, origins):
    client = make_client(cors_origins=origins)
    others = (PAGE, "null", "http://localhost:80")
    for path, method in product([*KEPT, "/download_file/a"], METHODS):
        for origin in others if method == "GET" else others[:1]:
            answer = client.open(path, method=method, headers={"Origin": origin})
            assert answer.status_code == 403, (path, method, origin)
            assert ALLOWED not in answer.headers
            assert "other origins" in answer.text or method == "HEAD"


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [("http://localhost", None), ("https://localhost", None), (PAGE, PAGE)],
)
def test_our_own_page_and_those_that_are_named_use_what_is_kept(
    make_client, origin, allowed
):
    client = make_client(cors_origins=PAGE)
    answer = client.get("/glossaries", headers={"Origin": origin})
    assert (answer.status_code, answer.headers.get(ALLOWED)) == (200, allowed)


@pytest.mark.parametrize(("site", "status"), [("same-origin", 200), ("same-site", 403)])
def test_behind_a_proxy_a_browser_says_whose_page_it_is(shared_client, site, status):
    headers = {"Origin": PAGE, "Sec-Fetch-Site": site}
    assert shared_client.get("/glossaries", headers=headers).status_code == status


def test_programs_are_told_nothing_of_origins(client):
    assert ALLOWED not in client.get("/languages").headers
    assert client.options("/v2/translate").status_code == 204
    assert client.options("/languages").status_code == 405


def test_only_pages_that_are_named_may_ask(make_client):
    client = make_client(cors_origins="https://A.org, http://b:81")
    for origin, is_named in {"https://a.org": 1, "http://b:81": 1, PAGE: 0}.items():
        response = client.get("/languages", headers={"Origin": origin})
        assert response.headers.get(ALLOWED) == (origin if is_named else None)
        assert response.headers["Vary"] == "Origin"


def test_no_page_may_ask_where_none_is_named(make_client):
    client = make_client(cors_origins="")
    assert client.options("/v2/translate", headers=ASKED).status_code == 405
    assert ALLOWED not in client.get("/languages", headers={"Origin": PAGE}).headers


WANTED = {"q": "Hello", "source": "en", "target": "ko"}


@pytest.mark.parametrize("path", ["//translate", "/translate/", "//translate//"])
def test_slashes_that_are_too_many_do_not_matter(client, path):
    response = client.post("/", json=WANTED, environ_overrides={"PATH_INFO": path})
    assert response.json == {"translatedText": "ko:Hello"}
    for path in ("/languages", "/v2/languages", "/health"):
        assert client.get(f"{path}/").data == client.get(path).data


def test_other_paths_end_without_a_slash(client):
    """nginx serves `/metrics` only to its own machine, so no other path may reach it."""
    assert client.get("/metrics/").status_code == 404
