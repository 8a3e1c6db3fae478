"""Fields of bodies and URLs, the API that they belong to, the client and its deadline."""

import json
import threading
import time
from typing import Any

import pytest
from werkzeug.datastructures import Headers
from werkzeug.test import EnvironBuilder

from contract.dialects import DEEPL, EITHER, LIBRETRANSLATE, OURS
from gateway.errors import BodyTooLarge, MalformedRequest
from gateway.http import request as fields
from gateway.http.request import (
    Call,
    GatewayRequest,
    Timing,
    find_spoken,
    read_call,
    read_fields,
)

LISTS = {"q": ["a"], "s": ["b", "c"]}
FORM, JSON = "application/x-www-form-urlencoded", "application/json"
MULTIPART = "multipart/form-data; boundary=x"
PART = b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\n%b\r\n'
FILE = (
    b'--x\r\nContent-Disposition: form-data; name="f"; filename="f"\r\n\r\nc\r\n--x--'
)
PARTS = PART % "né".encode() + PART % b"b" + FILE
#: The backslash escapes the quotation mark.
NAMELESS = b'--x\r\nContent-Disposition: form-data; name="q\\"\r\n\r\na\r\n--x--'


def make_request(path: str, body: bytes, method: str = "POST", **given: Any):
    builder = EnvironBuilder(path, method=method, data=body, **given)
    return GatewayRequest(builder.get_environ())


def read(body: bytes = b"", kind: str | None = None, query: str = "", **given: str):
    request = make_request(f"/translate{query}", body, content_type=kind, **given)
    request.body = request.get_data()
    return read_fields(request)


@pytest.mark.parametrize(
    ("body", "kind", "query", "fields"),
    [
        pytest.param(b"", JSON, "", {}, id="nothing"),
        pytest.param(b"", None, "?q=a&q=b&s=", {"q": ["a", "b"], "s": ""}, id="URL"),
        pytest.param(b'{"q": "a"}', JSON, "", {"q": "a"}, id="JSON"),
        pytest.param(b'{"q": "a"}', None, "", {"q": "a"}, id="JSON as nothing"),
        pytest.param(b'\xef\xbb\xbf{"q": 1}', FORM, "", {"q": 1}, id="byte-order mark"),
        pytest.param(b'{"q": "a", "k": null}', FORM, "?k=b&q=c", {"q": "a"}, id="null"),
        pytest.param(b"q=a&q=b&q=c", FORM, "", {"q": ["a", "b", "c"]}, id="form"),
        pytest.param(b"q[]=a&s[0]=b&s[1]=c", FORM, "", LISTS, id="brackets"),
        pytest.param(b"q=a%26b+c", FORM, "?q=d&s=e", {"q": "a&b c", "s": "e"}, id="+"),
        pytest.param("q=né".encode(), FORM, "", {"q": "né"}, id="not escaped"),
        pytest.param(b"hello", FORM, "", {"hello": ""}, id="no form"),
        pytest.param(PARTS, MULTIPART, "", {"q": ["né", "b"]}, id="parts"),
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
        pytest.param(b"q=a", JSON, "", id="a form as JSON"),
        pytest.param(b"q=\xff", FORM, "", id="not UTF-8"),
        pytest.param(b"", None, "?q=%ff", id="not UTF-8 in the URL"),
        pytest.param(NAMELESS, MULTIPART, "", id="no name"),
    ],
)
def test_what_cannot_be_read_is_refused(body, kind, query):
    with pytest.raises(MalformedRequest):
        read(body, kind, query)


MOST = GatewayRequest.most_fields
MORE = MOST + 1


@pytest.mark.parametrize(
    ("body", "kind", "query"),
    [
        pytest.param(b"&".join([b"q=a"] * MORE), FORM, "", id="form"),
        pytest.param(b"&" * MOST, FORM, "", id="form of nothing"),
        pytest.param(b"", None, "?" + "&".join(["q=a"] * MORE), id="URL"),
        pytest.param(PART % b"a" * MORE + b"--x--", MULTIPART, "", id="parts"),
        pytest.param(json.dumps({"q": ["a"] * MORE}), FORM, "", id="list"),
        pytest.param(json.dumps(dict.fromkeys(range(MORE))), FORM, "", id="object"),
    ],
)
def test_more_fields_than_there_may_be_are_refused_with_the_bound(body, kind, query):
    with pytest.raises(BodyTooLarge, match=f"may have at most {MOST} fields"):
        read(body, kind, query)
    assert read(b"&".join([b"q=a"] * MOST), FORM) == {"q": ["a"] * MOST}


@pytest.fixture
def parsed(monkeypatch) -> list[int]:
    """The threads in which bodies are parsed."""
    threads: list[int] = []
    for name in ("_read_pairs", "read_object"):
        parse = getattr(fields, name)

        def note(text: Any, *given: Any, parse: Any = parse) -> Any:
            if text:
                threads.append(threading.get_ident())
            return parse(text, *given)

        monkeypatch.setattr(fields, name, note)
    return threads


@pytest.mark.parametrize("body", [b"{", b"q=a&q=b", b'{"q": 1}'])
def test_a_body_is_parsed_once_whatever_is_in_it(body, parsed):
    request = make_request("/", body)
    results = []
    for _ in range(3):
        try:
            results.append(repr(read_fields(request)))
        except MalformedRequest as problem:
            results.append(problem.detail)
    assert len(set(results)) == 1
    assert len(parsed) <= 1


@pytest.mark.parametrize(
    ("body", "padding", "kind"),
    [
        (b"q=a&target=ko&source=en&x=", b"%41", FORM),
        (b'{"q": "a", "source": "en", "target": "ko"}', b" ", JSON),
    ],
)
def test_only_a_large_body_is_parsed_beside_the_loop(
    client, parsed, body, padding, kind
):
    for count in (1, 60_000):
        padded = body + padding * count
        answer = client.post("/translate", data=padded, content_type=kind)
        assert answer.status_code == 200
    loop = threading.get_ident()
    assert [thread == loop for thread in parsed] == [True, False]


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
    request = make_request(path, body)
    if path == "/translate":  # a body that has not arrived is not awaited
        assert find_spoken(request) is EITHER
    request.body, request.is_read = request.get_data(), True
    assert find_spoken(request) is dialect


def read_client(given: dict[str, str], address: str = "198.51.100.7") -> Call:
    environment = EnvironBuilder(
        headers=Headers(given), environ_base={"REMOTE_ADDR": address}
    ).get_environ()
    return read_call(environment, 30)


def left_s(caller: Call) -> float:
    return caller.deadline - time.monotonic()


def test_headers_say_whose_request_it_is_and_how_much_time_it_has():
    caller = read_client({})
    assert (caller.address, caller.limit_s) == ("198.51.100.7", 30)
    assert 29 < left_s(caller) <= 30
    for given, address in {
        "203.0.113.9": "203.0.113.9",
        "2001:db8:0:1::9": "2001:db8:0:1::/64",
        "2001:db8:0:1::/64": "2001:db8:0:1::/64",  # of a document
        "::ffff:203.0.113.9": "::ffff:203.0.113.9",
        "a:b": "a:b",
    }.items():
        assert read_client({"X-Real-IP": given}).address == address
    assert 4 < left_s(read_client({"X-Timeout-Ms": "5000"})) <= 5
    header = f"t={time.time() - 10:.3f}"
    assert 19 < left_s(read_client({"X-Request-Start": header})) < 20.1


@pytest.mark.parametrize(
    "header",
    [
        pytest.param(f"t={time.time() - 3600:.3f}", id="of a clock that was set"),
        pytest.param(f"t={time.time() + 3600:.3f}", id="in an hour"),
        "", "t=", "soon", "t=nan", "t=inf", "t=-inf",
    ],
)  # fmt: skip
def test_a_time_that_cannot_be_is_not_counted(header: str):
    assert left_s(read_client({"X-Request-Start": header})) > 29


@pytest.mark.parametrize(
    ("rows", "written"),
    [
        pytest.param(
            [(0.0, 0.1, 0.1), (0.2, 0.2, 0.0), (0.0, 0.3, 0.3)],
            "gateway;dur=100.0, queue;dur=200.0, batch;dur=200.0, compute;dur=0.0",
            id="the slowest counts",
        ),
        pytest.param(
            [(0.0, 0.6, 0.7)],
            "gateway;dur=0.0, queue;dur=0.0, batch;dur=0.0, compute;dur=600.0",
            id="clocks differ",
        ),
        pytest.param(
            [(0.1, 0.3, 0.1, 0.15)],
            "gateway;dur=100.0, queue;dur=100.0, load;dur=150.0, batch;dur=50.0, "
            "compute;dur=100.0",
            id="loaded",
        ),
    ],
)
def test_a_timing_has_the_stages_of_an_answer(rows, written, monkeypatch):
    monkeypatch.setattr("time.perf_counter", lambda: 100.5)
    timing = Timing(100.0)
    for row in rows:
        timing.note(*row)
    assert timing.explain() == {"timing": written}
