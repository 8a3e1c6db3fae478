"""Fields from bodies and URLs of every form, and whose request they make it."""

from __future__ import annotations

import pytest
from flask import Flask, request

from contract.dialects import DEEPL, EITHER, LIBRETRANSLATE, OURS
from gateway.errors import MalformedRequest
from gateway.transport.connection import WholeBody
from gateway.transport.fields import find_spoken, read_fields, speaks_libretranslate

LISTS = {"q": ["a"], "s": ["b", "c"]}
FORM = "application/x-www-form-urlencoded"
PARTS = (
    b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\nn\xc3\xa9\r\n'
    b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\nb\r\n'
    b'--x\r\nContent-Disposition: form-data; name="f"; filename="f"\r\n\r\nc\r\n--x--'
)
#: A backslash takes the quotation mark's meaning away.
NAMELESS = b'--x\r\nContent-Disposition: form-data; name="q\\"\r\n\r\na\r\n--x--'


def read(body: bytes = b"", kind: str | None = None, query: str = "", **given: str):
    context = Flask(__name__).test_request_context(
        f"/translate{query}", data=body, content_type=kind, **{"method": "POST"} | given
    )
    with context:
        return read_fields(request)


@pytest.mark.parametrize(
    ("body", "kind", "query", "fields"),
    [
        pytest.param(b"", None, "", {}, id="nothing"),
        pytest.param(b"", "application/json", "", {}, id="no JSON at all"),
        pytest.param(b"", None, "?q=a&q=b&s=", {"q": ["a", "b"], "s": ""}, id="URL"),
        pytest.param(b"", None, "?q=n%C3%A9+b", {"q": "né b"}, id="escapes"),
        pytest.param(b'{"q": "a"}', "application/json", "", {"q": "a"}, id="JSON"),
        pytest.param(b' {"q": "a"}', FORM, "", {"q": "a"}, id="JSON as a form"),
        pytest.param(b'{"q": "a"}', None, "", {"q": "a"}, id="JSON as nothing"),
        pytest.param(b'{"q": "a"}', "text/plain", "", {"q": "a"}, id="JSON as text"),
        pytest.param(b'\xef\xbb\xbf{"q": 1}', FORM, "", {"q": 1}, id="byte-order mark"),
        pytest.param(b'{"q": "a", "k": null}', FORM, "?k=b&q=c", {"q": "a"}, id="null"),
        pytest.param(b"q=a&q=b&q=c", FORM, "", {"q": ["a", "b", "c"]}, id="form"),
        pytest.param(b"q[]=a&s[0]=b&s[1]=c", FORM, "", LISTS, id="brackets"),
        pytest.param(b"q=a%26b+c", FORM, "?q=d&s=e", {"q": "a&b c", "s": "e"}, id="+"),
        pytest.param("q=né".encode(), FORM, "", {"q": "né"}, id="not escaped"),
        pytest.param(b"q=a", "text/plain", "", {"q": "a"}, id="form as text"),
        pytest.param(b"hello", FORM, "", {"hello": ""}, id="no form"),
        pytest.param(
            PARTS, "multipart/form-data; boundary=x", "", {"q": ["né", "b"]}, id="parts"
        ),
    ],
)
def test_fields_are_found_wherever_they_are(body, kind, query, fields):
    assert read(body, kind, query) == fields
    assert read(body, kind, query, method="GET") == fields


@pytest.mark.parametrize(
    ("body", "kind", "query"),
    [
        pytest.param(b"{", FORM, "", id="half an object"),
        pytest.param(b"[1]", FORM, "", id="a list"),
        pytest.param(b"7", "application/json", "", id="a number"),
        pytest.param(b"q=a", "application/json", "", id="a form as JSON"),
        pytest.param(b"q=\xff", FORM, "", id="not UTF-8"),
        pytest.param(b"q=%ff", FORM, "", id="not UTF-8 in an escape"),
        pytest.param(b"", None, "?q=%ff", id="not UTF-8 in the URL"),
        pytest.param(NAMELESS, "multipart/form-data; boundary=x", "", id="no name"),
    ],
)
def test_what_cannot_be_read_is_refused(body, kind, query):
    with pytest.raises(MalformedRequest):
        read(body, kind, query)


@pytest.mark.parametrize(
    ("names", "is_theirs"),
    [
        ("q source target", True),
        ("q", True),
        ("source target", True),
        ("target", True),
        ("q src_lang tgt_lang", True),
        ("src_text tgt_lang", False),
        ("src_text q", False),
        ("tgt_lang source", False),
        ("format", False),
        ("", False),
    ],
)
def test_the_fields_say_whose_request_it_is(names, is_theirs):
    assert speaks_libretranslate(dict.fromkeys(names.split(), "a")) is is_theirs


@pytest.mark.parametrize(
    ("path", "body", "dialect"),
    [
        ("/translate", b'{"q": "a"}', LIBRETRANSLATE),
        ("/translate?q=a", b"", LIBRETRANSLATE),
        ("/translate", b'{"src_text": "a"}', OURS),
        ("/translate", b"{", EITHER),
        ("/", b'{"q": "a"}', OURS),
        ("/detect", b"", LIBRETRANSLATE),
        ("/v2/translate", b"{", DEEPL),
    ],
)
def test_an_error_is_told_in_the_clients_api(path, body, dialect):
    with Flask(__name__).test_request_context(path, method="POST", data=body):
        assert find_spoken(request) is find_spoken(request)
        request.environ["wsgi.input"] = WholeBody(body)
        assert find_spoken(request) is dialect


def test_a_body_that_has_not_come_is_not_waited_for():
    with Flask(__name__).test_request_context("/translate", data=b'{"q": "a"}'):
        assert find_spoken(request) is EITHER
