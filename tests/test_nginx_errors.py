"""nginx's own errors are what the gateway would write, in each API."""

from __future__ import annotations

import json
import re

import pytest

from benchmarks.instruments.generator import GRACE_S
from contract.dialects import (
    DEEPL,
    GOOGLE,
    LIBRETRANSLATE,
    OURS,
    Dialect,
    find_dialect,
)
from contract.problems import write_problem
from tests.test_docs import NGINX, default_of, read_location, read_nginx

MAP = re.compile(r"^    map \$(\w+) \$(\w+) \{\n(.*?)^    \}", re.DOTALL | re.MULTILINE)
ENTRY = re.compile(r"^\s*(?:\"(~.+?)\"|(\S+))\s+(?:\"(.*)\"|'(.*)'|(\S+));$", re.M)
#: By the variable that it sets: what it looks at, and its patterns with their values.
MAPS = {
    name: (source, [(a or b, c or d or e) for a, b, c, d, e in ENTRY.findall(entries)])
    for source, name, entries in MAP.findall(NGINX)
}
DOCUMENT = re.compile(
    r"location = /problems/(\w+) \{[^}]*?return (\d+) '(\{\"type\":\"urn:babelgate:"
    r"([a-z-]+)\".*?\})\\n'"
)
#: Name of the page, status, text and slug.
DOCUMENTS = DOCUMENT.findall(NGINX)
OTHERS = {dialect.name: dialect for dialect in (LIBRETRANSLATE, DEEPL, GOOGLE)}
PATHS = (
    *("/", "/translate", "/languages", "/detect", "/detect-objects", "/frontend/x"),
    *("/suggest", "/health", "/healthz", "/spec", "/translate_file", "/v2", "/v2/x"),
    *("/download_file/a.txt", "/v3/x", "/v20", "/language/translate/v2/x", "/nowhere"),
)


def expand(text: str, **known: str) -> str:
    """The text as nginx would write it, with what is known of the request."""

    def look_up(match: re.Match[str]) -> str:
        name = match[1]
        if name not in MAPS:
            return known[name]
        source, entries = MAPS[name]
        for pattern, value in entries:
            if pattern[0] == "~" and (found := re.search(pattern[1:], known[source])):
                captured = {str(i): group for i, group in enumerate(found.groups(), 1)}
                return expand(value, **known, **captured)
        return expand(dict(entries).get("default", ""), **known)

    return re.sub(r"\$(\w+)", look_up, text)


def find_timeout_s(limit: str) -> float:
    """How long nginx waits for the gateway's answer, by what X-Timeout-Ms says."""
    location = read_location(expand("$within", http_x_timeout_ms=limit))
    return float(read_nginx("proxy_read_timeout", location).removesuffix("ms")) / 1000


def read_page(dialect: Dialect) -> str:
    inside = NGINX.partition(f"location /problems/{dialect.name}/ {{")[2]
    (text,) = re.findall(r"return 200 '(.*?)\\n'", inside.partition("}\n")[0])
    return str(text)


ID = "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize(
    ("asked", "logged"),
    [
        ("/translate?key=bg_1", "/translate"),
        (f"/documents/{ID}", "/documents/01234567"),
        (f"/documents/{ID}/result?key=bg_1", "/documents/01234567/result"),
        (f"//documents//{ID}//result", "//documents//01234567//result"),
        (f"/./documents/{ID}", "/./documents/01234567"),
        (f"/v2/document/{ID}/result", "/v2/document/01234567/result"),
        (f"/documents/{ID}%2fresult", "/documents/01234567"),
        (f"/documents/%30{ID[1:]}/result", "/documents/"),
        (f"/document%73/{ID}", "/document"),
        (f"/%64ocuments/{ID}/documents/{ID}", "/"),
        ("/documents", "/documents"),
        ("/documents/", "/documents/"),
        (f"/download_file/open-{ID}-x", "/download_file/"),
        (f"//download_file/open-{ID}-x", "/download_file/"),
    ],
)
def test_the_log_has_no_query_and_no_whole_id_of_a_document(asked, logged):
    source, entries = MAPS["asked_path"]
    assert source == "request_uri"
    matches = (
        (re.search(pattern[1:].replace("(?<", "(?P<"), asked), value)
        for pattern, value in entries
    )
    found, shown = next((found, value) for found, value in matches if found)
    for name, text in found.groupdict().items():
        shown = shown.replace(f"${name}", text or "")
    assert shown == logged


@pytest.mark.parametrize(("uri", "origin"), [("/problems/x", "*"), ("/v2/x", "")])
def test_web_pages_may_read_its_errors_and_only_these(uri, origin):
    assert expand("$error_origin", uri=uri) == origin
    assert NGINX.count("add_header Access-Control-Allow-Origin $error_origin") == 1


def test_every_error_has_a_page():
    pages = set(re.findall(r"error_page [^;]*\$errors/(\w+);", NGINX))
    assert pages == {name for name, *_ in DOCUMENTS}


@pytest.mark.parametrize("path", PATHS)
def test_nginx_and_the_gateway_agree_whose_path_it_is(path):
    name = find_dialect(path).name
    expected = "/problems" if name == OURS.name else f"/problems/{name}"
    for line in (f"GET {path} HTTP/1.1", f"POST {path}?q=a HTTP/1.1"):
        assert expand("$errors", request=line, http_accept="*/*") == expected


@pytest.mark.parametrize(
    ("line", "accept", "expected"),
    [
        pytest.param("GET /?q=a", "text/html,*/*", "/problems/page", id="page"),
        pytest.param("GET /", "*/*", "/problems", id="program"),
        pytest.param("POST /", "text/html", "/problems", id="request"),
        pytest.param("GET /languages", "text/html", "/problems", id="other"),
    ],
)
def test_who_opens_the_page_gets_a_page(line, accept, expected):
    found = expand("$errors", request=f"{line} HTTP/1.1", http_accept=accept)
    assert found == expected


@pytest.mark.parametrize(("page", "status", "text", "slug"), DOCUMENTS)
def test_our_document_is_the_gateways(page, status, text, slug):
    known = {"uri": f"/problems/{page}", "request_id": "", "request": "POST / HTTP/1.1"}
    found = json.loads(expand(text, **known))
    assert found["detail"]
    assert found == write_problem(slug, int(status), found["detail"], request_id="")


@pytest.mark.parametrize("dialect", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize(("page", "status", "text", "slug"), DOCUMENTS)
def test_another_apis_page_is_the_gateways(dialect, page, status, text, slug):
    uri = f"/problems/{dialect.name}/{page}"
    detail = expand("$detail", uri=uri)
    found = expand(read_page(dialect), uri=uri, status=status)
    answer = dialect.answer(write_problem(slug, int(status), detail))
    assert json.loads(found) == answer.content
    assert answer.status == int(status)


@pytest.mark.parametrize(("page", "status", "text", "slug"), DOCUMENTS)
def test_a_document_for_both_apis_has_both_members(page, status, text, slug):
    line = "POST /translate HTTP/1.1"
    known = {"uri": f"/problems/{page}", "request_id": "", "request": line}
    found = json.loads(expand(text, **known))
    answer = LIBRETRANSLATE.answer(write_problem(slug, int(status), found["detail"]))
    assert found["error"] == answer.content["error"]


@pytest.mark.parametrize("zeros", ["", "00"])
def test_nginx_answers_within_the_grace_and_hardly_before_the_limit(zeros):
    for limit_ms in range(1, 30_000, 7):
        limit_s = limit_ms / 1000
        waits_s = find_timeout_s(f"{zeros}{limit_ms}")
        assert 0.85 * limit_s < waits_s <= max(1.0, limit_s + 0.75 * GRACE_S), limit_ms


@pytest.mark.parametrize("limit", ["", "30000", "300000000", "soon", "-5", "1e3"])
def test_without_a_limit_of_its_own_a_request_has_the_gateways(limit):
    longest_s = default_of("timeout_s")
    assert longest_s < find_timeout_s(limit) < longest_s + GRACE_S
