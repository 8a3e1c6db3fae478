"""Requests that need no Gunicorn, and those that two parsers could read differently."""

import random
from io import BytesIO
from types import SimpleNamespace

import pytest
from gunicorn.config import Config  # type: ignore[import-untyped]
from gunicorn.http import get_parser, wsgi  # type: ignore[import-untyped]

from gateway.http.message import is_head, read_message

#: Pieces that HTTP parsers have read differently.
PIECES = (
    b"\r\n|\n|\r| |\t|:|_|-|\0|\x0b|\x7f|\x85|+|0|1|?|//|;|,|%2e|http://a|HTTP/1.0|"
    b"Content-Length: 17\r\n|content-length:17\r\n|Transfer-Encoding: chunked\r\n|"
    b"Connection: close\r\n|Upgrade: h2c\r\n|X_Real_IP: 6.6.6.6\r\n|SCRIPT_NAME: /a\r\n|"
    b"Script-Name: /a\r\n|Host: b\r\n|X-A: 1\r\n"
).split(b"|")
BODY = b'{"src_text": "a"}'
LENGTH = b"Content-Length: %d" % len(BODY)
EXPECT = b"Expect: 100-continue"


def write(
    *headers: bytes, line: bytes = b"POST /translate HTTP/1.1", body: bytes = BODY
) -> bytes:
    return b"\r\n".join((line, *headers, b"", body))


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(write(LENGTH, line=b"GET /translate HTTP/1.1"), id="method"),
        pytest.param(write(LENGTH, line=b"POST /translate HTTP/1.0"), id="version"),
        pytest.param(write(LENGTH, line=b"POST /translate?a=b HTTP/1.1"), id="query"),
        pytest.param(write(LENGTH, line=b"POST /identify HTTP/1.1"), id="other path"),
        pytest.param(write(LENGTH, line=b"POST  /translate HTTP/1.1"), id="two spaces"),
        pytest.param(write(LENGTH).replace(b"\r\n", b"\n"), id="bare line feeds"),
        pytest.param(write(LENGTH, b"A: b\n c"), id="line feed in a value"),
        pytest.param(write(LENGTH, b"A: b\r\n c: d"), id="folded line"),
        pytest.param(write(LENGTH, b"A: b\0"), id="control character"),
        pytest.param(write(LENGTH, b"A : b"), id="space before a colon"),
        pytest.param(write(LENGTH, b": b"), id="no name"),
        pytest.param(write(LENGTH, b"A"), id="no colon"),
        pytest.param(write(LENGTH, b"X_Real_IP: 1.2.3.4"), id="underscore"),
        pytest.param(write(LENGTH, LENGTH), id="two lengths"),
        pytest.param(write(LENGTH, b"A: b", b"a: c"), id="a header twice"),
        pytest.param(write(LENGTH, *[b"Connection: keep-alive"] * 2), id="kept twice"),
        pytest.param(write(LENGTH, b"Transfer-Encoding: chunked"), id="chunks as well"),
        pytest.param(write(b"Transfer-Encoding: chunked"), id="chunks"),
        pytest.param(write(LENGTH, b"Connection: close"), id="closes"),
        pytest.param(write(LENGTH, EXPECT), id="asks first"),
        pytest.param(write(LENGTH, b"Upgrade: h2c"), id="another protocol"),
        pytest.param(write(b"Content-Length: +17"), id="length with a sign"),
        pytest.param(write(b"Content-Length: 017"), id="length with a zero"),
        pytest.param(write(b"Host: a"), id="no length"),
        pytest.param(write(LENGTH)[:-1], id="not all"),
        pytest.param(write(LENGTH) * 2, id="two requests"),
        pytest.param(write(LENGTH, *(b"A%d: b" % n for n in range(99))), id="headers"),
        pytest.param(b"", id="nothing"),
    ],
)
def test_gunicorn_reads_everything_else(data):
    assert read_message(data) is None


@pytest.mark.parametrize(
    ("data", "is_awaited"),
    [
        pytest.param(write(LENGTH, body=b""), True, id="head"),
        pytest.param(write(LENGTH), False, id="whole"),
        pytest.param(write(LENGTH, EXPECT, body=b""), False, id="asks"),
        (write(LENGTH, line=b"POST /a HTTP/1.1", body=b""), False),
    ],
)
def test_a_body_is_awaited_where_it_follows_its_head(data, is_awaited):
    assert is_head(data) is is_awaited


def test_gunicorn_reads_the_same_in_whatever_is_not_left_to_it():
    headers = b"Host: a", b"content-type:text/plain", b"Connection: Keep-Alive", LENGTH
    small = write(*headers, b"X-Name: \xe9 \t")
    assert read_message(small) is not None
    rng, config, agreed = random.Random(1), Config(), 0
    address = "127.0.0.1", 1
    for _ in range(4000):
        data = bytearray(small)
        for _ in range(rng.choice((1, 1, 2, 3))):
            start = rng.randrange(len(data))
            data[start : start + rng.choice((0, 0, 1, 4))] = rng.choice(PIECES)
        message = read_message(bytes(data))
        if message is None:
            continue
        connection = SimpleNamespace(recv=BytesIO(data).read)
        parser = get_parser(config, connection, address)
        request = next(parser)
        _, environ = wsgi.create(request, connection, address, address, config)
        assert environ["REQUEST_METHOD"] == "POST"
        assert environ["PATH_INFO"] == message.path
        names = [name for name in environ if name.startswith(("HTTP_", "CONTENT_"))]
        assert {name: environ[name] for name in names} == message.environ
        assert request.body.read() == message.body
        assert parser.unreader.take_buffered() == b""
        assert not request.should_close()
        agreed += 1
    assert agreed > 100
