"""nginx's own errors equal those that the gateway would write, in each API."""

import json
import re

import pytest

from benchmarks.instruments.generator import GRACE_S
from contract.dialects import EITHER, FOREIGN, OURS, find_dialect
from contract.problems import write_problem
from deploy.rendering import ERRORS, render_errors
from tests.test_docs import NGINX, default_of, read_location, read_nginx

MAP = re.compile(r"^ *map \$(\w+) \$(\w+) \{\n(.*?)^ *\}$", re.DOTALL | re.MULTILINE)
ENTRY = re.compile(r"^\s*(?:\"(~.+?)\"|(\S+))\s+(?:\"(.*)\"|'(.*)'|(\S+));$", re.M)
#: nginx's maps by the variable they set: the source variable, and the patterns with values.
MAPS = {
    name: (source, [(a or b, c or d or e) for a, b, c, d, e in ENTRY.findall(entries)])
    for source, name, entries in MAP.findall(NGINX + render_errors())
}
APIS = {dialect.name: dialect for dialect in (OURS, EITHER, *FOREIGN)}
#: Paths of each API, paths below them, and paths that only have a prefix in common.
PATHS = (
    "/", "/languages", "/detect-objects", "/healthz", "/v20", "/x",
    *(f"{path}{end}" for api in FOREIGN for path in api.paths for end in ("", "/x")),
    *(path for api in FOREIGN for path in api.translating),
)  # fmt: skip


def expand(text: str, **known: str) -> str:
    """Expand nginx's variables in a text; `known` has those of the request."""

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
    """Return nginx's timeout for the gateway's answer to a request with this X-Timeout-Ms."""
    location = read_location(expand("$within", http_x_timeout_ms=limit))
    return float(read_nginx("proxy_read_timeout", location).removesuffix("ms")) / 1000


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


@pytest.mark.parametrize(("sent", "scheme"), [("https, http", "https"), ("", "http")])
def test_the_gateway_hears_that_a_proxy_has_used_tls(sent, scheme):
    (used,) = re.findall(r"X-Forwarded-Proto (\S+);", NGINX)
    assert expand(used, http_x_forwarded_proto=sent, scheme="http") == scheme


@pytest.mark.parametrize(("uri", "origin"), [("/problems/x", "*"), ("/v2/x", "")])
def test_web_pages_may_read_its_errors_and_only_these(uri, origin):
    assert expand("$error_origin", uri=uri) == origin
    assert NGINX.count("add_header Access-Control-Allow-Origin $error_origin") == 1


def test_every_error_has_its_text_and_its_status():
    rules = re.findall(r"error_page ([\d ]+?)( =\d+)? \$errors/(\w+);", NGINX)
    for codes, changed, name in rules:
        assert ERRORS[name][1] == int(changed.strip(" =") or codes)
        assert expand("$detail", uri=f"/problems/{name}")
    assert [name for *_, name in rules] == [*dict.fromkeys(name for *_, name in rules)]
    assert {name for *_, name in rules} == ERRORS.keys()


@pytest.mark.parametrize("path", PATHS)
def test_nginx_and_the_gateway_agree_whose_path_it_is(path):
    name = EITHER.name if path == "/translate" else find_dialect(path).name
    doubled = path.replace("/", "//")
    for line in (f"GET {doubled} HTTP/1.1", f"POST {path}?q=a HTTP/1.1"):
        found = expand("$errors", request=line, http_accept="*/*")
        assert found == f"/problems/{name}"


@pytest.mark.parametrize(
    ("line", "accept", "expected"),
    [
        pytest.param("GET /?q=a", "text/html,*/*", "/problems/page", id="page"),
        pytest.param("GET /", "*/*", "/problems/babelgate", id="program"),
        pytest.param("POST /", "text/html", "/problems/babelgate", id="request"),
        pytest.param("GET /languages", "text/html", "/problems/babelgate", id="other"),
    ],
)
def test_who_opens_the_page_gets_a_page(line, accept, expected):
    found = expand("$errors", request=f"{line} HTTP/1.1", http_accept=accept)
    assert found == expected


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize("dialect", APIS.values(), ids=APIS)
def test_an_error_of_nginx_is_what_the_gateway_would_write(dialect, name):
    slug, status = ERRORS[name]
    uri = f"/problems/{dialect.name}/{name}"
    found = expand("$problem", uri=uri, request_id="1")
    detail = expand("$detail", uri=uri)
    answer = dialect.answer(write_problem(slug, status, detail, request_id="1"))
    assert json.loads(found) == answer.content
    assert answer.status == status, "nginx keeps the status of its error"
    (ours,) = re.findall(
        r"location ~ (\S+) \{\s+default_type application/problem\+json;", NGINX
    )
    is_ours = re.match(ours, uri) is not None
    assert answer.content_type == f"application/{'problem+' * is_ours}json"


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
