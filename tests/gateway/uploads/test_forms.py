"""Peeking at a body and reading it, and the files of a form one by one."""

from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.errors import BodyTooLarge, MalformedRequest
from gateway.uploads.forms import Form, Stream

FORM = 'multipart/form-data; charset=utf-8; boundary="xyz"'
HEAD = b'Content-Disposition: form-data; name="image"; filename="a"\r\n\r\n'
END = b"--xyz--\r\n"
#: Many near misses of the boundary.
TORN = b"\r\n--xy\r\n--xyzz\r\n--xyz -\n\n--\r"


def join(*parts: bytes) -> bytes:
    return b"".join(b"--xyz\r\n" + HEAD + part + b"\r\n" for part in parts) + END


def chop(data: bytes, *sizes: int) -> Iterator[bytes]:
    """Yield the data in pieces of these sizes, then the rest."""
    at = 0
    for size in sizes:
        yield data[at : at + size]
        at += size
    yield data[at:]


def take_rest(stream: Stream) -> bytes:
    return b"".join(iter(lambda: stream.take(7), b""))


def read(data: bytes, *sizes: int) -> list[bytes]:
    form = Form(Stream(chop(data, *sizes)), FORM)
    return [take_rest(part.stream) for part in form]


@given(data=st.binary(max_size=50), sizes=st.lists(st.integers(0, 9), max_size=9))
def test_what_was_looked_at_is_still_there(data, sizes):
    stream = Stream(chop(data, *sizes))
    assert stream.peek(5) == data[:5]
    assert stream.peek(20) == data[:20]
    assert stream.take_all(3) == data[:3]
    assert take_rest(stream) == data[3:]
    assert stream.peek(1) == stream.take(1) == b""


@pytest.mark.parametrize(
    "parts", [[], [b""], [b"one"], [b"", b"two", b""], [TORN, TORN]]
)
def test_the_files_of_a_form_come_as_they_are_in_its_order(parts):
    assert read(b"what comes before\r\n" + join(*parts) + b"after") == parts


PARTS = [b"one", TORN, b"", b"\r\n" * 30]


@example(sizes=[len(join(*PARTS)) - len(b"-\r\n")])
@given(sizes=st.lists(st.integers(0, 120), max_size=60))
def test_they_are_the_same_whatever_the_pieces_are(sizes):
    assert read(join(*PARTS), *sizes) == PARTS


@pytest.mark.parametrize(
    ("data", "problem", "detail"),
    [
        (join(b"a")[: -len(END)], MalformedRequest, "ends before its last boundary"),
        (b"--xyz\r\na: b\r\n\r\nc\r\n" + END, MalformedRequest, "headers of a part"),
        (b"\r\n" * 2**19 + join(), BodyTooLarge, "too much data before, between"),
        (join() + b" " * 2**20, BodyTooLarge, "too much data before, between or after"),
        (b"--xyz\r\n" + b"a" * 2**20, BodyTooLarge, "too much data before, between"),
        (join(b"a").replace(b";", b";" * 9999), BodyTooLarge, "too much data before"),
    ],
)
def test_what_is_no_form_is_refused(data, problem, detail):
    with pytest.raises(problem) as caught:
        read(data)
    assert detail in caught.value.detail


@pytest.mark.parametrize("boundary", ["", "; boundary=", "; boundary=é", "y" * 201])
def test_a_form_without_a_boundary_is_refused(boundary):
    with pytest.raises(MalformedRequest, match="needs a boundary of 1 to 200"):
        Form(Stream(iter([])), "multipart/form-data" + boundary)
