"""The page at `GET /`, its assets and its form; `GET /docs` and `GET /openapi.json`."""

import gzip
import html
import re

import pytest

from documents.formats import FORMATS, SUFFIXES
from gateway.api.page import PAGE, read_assets
from tests.gateway.conftest import TASKS, write_map

HTML = {"Accept": "text/html,*/*;q=0.8"}
#: The limit for the whole page in one language, uncompressed.
MOST_BYTES = 150_000
HOSTILE = "</textarea><script>alert(1)</script>\u202e\" onload='x'"


def read_page(client, **query: str):
    return client.get("/", headers=HTML, query_string=query)


@pytest.mark.parametrize("accepted", ["*/*", "application/json", ""])
def test_whoever_is_no_browser_gets_what_there_was(client, accepted):
    response = client.get("/", headers={"Accept": accepted})
    assert response.status_code == 405
    assert response.json["type"] == "urn:babelgate:method-not-allowed"
    assert response.headers["Allow"] == "POST"
    assert client.post("/", json={"src_text": "", "tgt_lang": "ko"}).status_code == 200


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_a_page_lets_nothing_in_that_is_not_its_own(client, path):
    page = client.get(path, headers=HTML)
    assert page.status_code == 200
    policy = page.headers["Content-Security-Policy"].split("; ")
    assert set(policy) >= {
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    }
    assert "unsafe" not in page.headers["Content-Security-Policy"]
    assert page.headers["X-Content-Type-Options"] == "nosniff"
    assert page.headers["Referrer-Policy"] == "no-referrer"
    foreign = r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+="
    assert re.findall(foreign, page.text) == []
    links = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert [link for link in links if "//" in link.removeprefix("data:")[:9]] == []
    for link in re.findall(r'="(docs/[^"]+)"', page.text):
        assert client.get(f"/{link}").status_code == 200, link


def test_what_the_page_links_is_kept_forever(client):
    links = re.findall(r'="(page/[^"]+)"', read_page(client).text)
    assert len(links) > 10
    for link in links:
        found = client.get(f"/{link}")
        assert found.status_code == 200, link
        expected = "public, max-age=31536000, immutable"
        assert found.headers["Cache-Control"] == expected
    found = client.get("/page/0123456789abcdef/page.js")  # of another version
    assert (found.status_code, found.headers["Cache-Control"]) == (200, "no-cache")


def test_there_are_no_other_files(client):
    folder = f"/page/{read_assets().digest}"
    files = [f"{folder}/{name}" for name in ("index.html", "..%2fapp.py", "xx.json")]
    for path in (*files, "/docs/../__init__.py", "/docs/redoc.js"):
        found = client.get(path, headers=HTML)
        assert found.status_code == 404
        assert found.json["type"] == "urn:babelgate:not-found"


def test_answers_are_packed_for_those_who_can_unpack(client):
    packing = {**HTML, "Accept-Encoding": "gzip"}
    for path in ("/", f"/page/{read_assets().digest}/page.js"):
        packed = client.get(path, headers=packing)
        plain = client.get(path, headers=HTML)
        assert packed.headers["Content-Encoding"] == "gzip"
        assert "Content-Encoding" not in plain.headers
        assert gzip.decompress(packed.data) == plain.data
        assert "Accept-Encoding" in packed.headers["Vary"]


@pytest.mark.parametrize(
    "path", ["/", "/openapi.json", "/docs", "/docs/swagger_bundle.js"]
)
def test_who_has_it_already_does_not_get_it_again(client, description, path):
    first = client.get(path, headers=HTML)
    assert first.headers["Cache-Control"] == "no-cache"
    match = {**HTML, "If-None-Match": first.headers["ETag"]}
    again = client.get(path, headers=match)
    assert (again.status_code, again.data) == (304, b"")
    description.check("GET", path, again.status_code, again.headers, again.text)


def test_all_that_a_browser_loads_is_small(client):
    assets = read_assets()
    words = [len(f) for name, f in assets.files.items() if name.endswith(".json")]
    code = [len(f) for name, f in assets.files.items() if not name.endswith(".json")]
    assert len(read_page(client).data) + sum(code) + max(words) < MOST_BYTES


def test_the_page_speaks_the_language_of_the_browser(client):
    french = client.get("/", headers={**HTML, "Accept-Language": "fr-CA,en;q=0.5"})
    assert '<html lang="fr" dir="ltr">' in french.text
    assert "Glossaires" in french.text
    arabic = client.get("/", headers={**HTML, "Accept-Language": "ar"})
    assert '<html lang="ar" dir="rtl">' in arabic.text
    unknown = client.get("/", headers={**HTML, "Accept-Language": "tlh"})
    assert '<html lang="en"' in unknown.text
    taiwan = client.get("/", headers={**HTML, "Accept-Language": "zh-TW,en;q=0.5"})
    assert '<html lang="zh" dir="ltr">' in taiwan.text
    assert re.search(r'<option value="zh-Hant"[^>]* selected', taiwan.text)


def test_every_language_has_the_same_words_with_the_same_values():
    words = read_assets().words
    assert set(words) == set("ko en zh es fr ru id ja vi de it hi ar pt".split())
    english = words["en"]
    values = re.compile(r"\{\w+\}")
    for language, found in words.items():
        assert found.keys() == english.keys(), language
        for key, sentence in found.items():
            assert sentence.strip(), (language, key)
            expected = sorted(values.findall(english[key]))
            assert sorted(values.findall(sentence)) == expected, (language, key)


def test_every_word_is_used_and_every_used_word_is_there():
    english = read_assets().words["en"]
    texts = {path: path.read_text("utf-8") for path in PAGE.iterdir() if path.is_file()}
    whole = "\n".join(texts.values())
    named = re.compile(
        r"""say\("(\w+)"|data-(?:word|label|hint)="(\w+)"|words\.(\w+)|(?:word|label)\("(\w+)"\)"""
    )
    used = {next(filter(None, found)) for found in named.findall(whole)}
    used -= {"words", "say", "load", "begin", "js", "json"}
    assert sorted(used - english.keys()) == []
    unused = [key for key in english if not re.search(rf'["`.]{key}\b', whole)]
    assert [key for key in unused if not key.startswith("theme_")] == []


def test_a_link_has_its_translation_on_the_page(client, torchserve):
    torchserve.will("doubt")
    page = read_page(client, source="en", target="ko", q="Hello")
    assert '<span class="doubt">The model is not sure.</span>' in page.text
    assert re.search(r'id="output"[^>]*lang="ko" dir="ltr">ko:Hello<', page.text, re.S)
    assert page.headers["Cache-Control"] == "no-store"
    assert "ETag" not in page.headers


def test_what_is_hostile_is_text(make_client, torchserve):
    torchserve.translate = lambda target, text: text
    client = make_client(timeout_s=600)  # enough for a busy machine
    page = client.post("/page", data={"target": "ko", "q": HOSTILE}, headers=HTML)
    assert HOSTILE not in page.text
    assert page.text.count("<script>") == 0
    assert html.unescape(page.text).count(HOSTILE) == 2


@pytest.mark.parametrize(
    ("form", "status", "said"),
    [
        ({"target": "tlh", "q": "Hello"}, 422, "&#39;tlh&#39; is not served"),
        ({"source": "1", "target": "ko", "q": "a"}, 422, "&#39;1&#39; is not served"),
        ({"target": ["ko", "en"], "q": "a"}, 422, "target"),
        (r'{"target": "ko", "q": "\ud800"}', 422, "half of a surrogate pair"),
    ],
    ids=["target", "source", "twice", "half"],
)
def test_what_is_wrong_is_on_the_page_with_its_status(client, form, status, said):
    page = client.post("/page", data=form, headers=HTML)
    assert page.status_code == status
    assert page.content_type.startswith("text/html")
    assert said in page.text
    problem = client.post("/page", data=form)
    assert problem.status_code == status
    assert problem.content_type == "application/problem+json"


def test_an_overload_says_when_to_come_again(client, torchserve):
    torchserve.will("unavailable")
    torchserve.queued = 4096
    page = read_page(client, source="en", target="ko", q="Hello")
    assert page.status_code == 429
    assert int(page.headers["Retry-After"]) >= 1


def test_a_stack_without_languages_has_a_page_for_its_pictures(make_client, map_path):
    write_map(map_path, (), TASKS)
    page = read_page(make_client(), q="Hello")
    assert page.status_code == 404
    assert "does not serve translation" in page.text
    assert read_page(make_client()).status_code == 200


def test_the_page_names_every_format_of_documents(client):
    (named,) = re.findall(r'<span class="note">(docx, [^<]+)<', read_page(client).text)
    endings = {f".{ending}" for ending in named.split(", ")}
    assert endings <= set(SUFFIXES)
    assert [one for one in FORMATS if endings.isdisjoint(one.suffixes)] == []
