"""A whole body: how it is unpacked, and what is no body at all."""

from __future__ import annotations

import gzip
import io
import time
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import (
    BodyTooLarge,
    ClientGone,
    MalformedRequest,
    UnsupportedEncoding,
)
from gateway.transport.bodies import read_whole
from gateway.transport.connection import Incoming
from gateway.transport.sending import LeastRate

MOST = 1 << 20
LATER = time.monotonic() + 3600


def read(body: bytes, encoding: str = "", *, length: int | None = None) -> bytes:
    incoming = Incoming(io.BytesIO(body), length)
    return read_whole(incoming, encoding, MOST, deadline=LATER, rate=LeastRate(1, 60))


@given(st.binary(max_size=20_000), st.sampled_from(["gzip", "x-gzip", " GZip "]))
def test_what_is_packed_comes_out_as_it_went_in(body, encoding):
    assert read(gzip.compress(body), encoding) == body


@pytest.mark.parametrize("encoding", ["", "identity", "gzip"])
def test_nothing_is_nothing_in_every_encoding(encoding):
    assert read(b"", encoding) == b""


@pytest.mark.parametrize("encoding", ["", "gzip"])
def test_the_limit_is_exact(encoding):
    for size in (MOST - 1, MOST, MOST + 1):
        body = bytes(size)
        given = gzip.compress(body) if encoding else body
        if size <= MOST:
            assert read(given, encoding) == body
        else:
            with pytest.raises(BodyTooLarge):
                read(given, encoding)


def test_a_bomb_is_not_unpacked_to_its_end():
    bomb = io.BytesIO(gzip.compress(bytes(256 << 20)))
    with pytest.raises(BodyTooLarge):
        read_whole(Incoming(bomb), "gzip", MOST, deadline=LATER, rate=LeastRate(1, 60))
    assert bomb.tell() < 16 << 10, "a few kilobytes of it hold more than a megabyte"


PACKED = gzip.compress(b"Hello")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        pytest.param(b"Hello", "this is no gzip", id="plain"),
        pytest.param(zlib.compress(b"Hello"), "this is no gzip", id="deflate"),
        pytest.param(PACKED[:-1], "ends too early", id="cut off"),
        pytest.param(PACKED[:-8] + bytes(8), "this is no gzip", id="checksum"),
        pytest.param(PACKED + b"x", "goes on", id="more"),
        pytest.param(PACKED * 2, "goes on", id="twice"),
    ],
)
def test_what_is_no_gzip_is_malformed(body, said):
    with pytest.raises(MalformedRequest, match=said):
        read(body, "gzip")


@pytest.mark.parametrize("encoding", ["deflate", "br", "zstd", "gzip, gzip", "x"])
def test_another_encoding_is_refused_before_anything_is_read(encoding):
    with pytest.raises(UnsupportedEncoding) as caught:
        read(b"", encoding)
    assert caught.value.headers == {"Accept-Encoding": "gzip"}


def test_a_body_that_ends_too_early_is_that_of_a_client_that_has_gone():
    with pytest.raises(ClientGone):
        read(b"Hello", length=6)
