"""Whole bodies: decompression, limits, and bodies that are damaged or never arrive."""

import gzip
import io
import json
import random
import time
from functools import partial
from typing import Any
from unittest.mock import Mock

import gevent
import pytest
from gunicorn.http.errors import InvalidChunkSize, NoMoreData  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import BodyTooLarge, ClientGone, DeadlineExceeded, MalformedRequest
from gateway.http.bodies import Incoming, read_chunk, read_whole
from gateway.http.request import Deadline

MOST = 1 << 20
LATER = Deadline(time.monotonic() + 3600)


def read(
    body: bytes, encoding: str = "gzip", length: int | None = None, **given: Any
) -> bytes:
    incoming = Incoming(io.BytesIO(body), length)
    return read_whole(incoming, encoding, MOST, deadline=LATER, grace_s=60, **given)


@given(st.binary(max_size=20_000), st.sampled_from(["gzip", "x-gzip", " GZip "]))
def test_what_is_packed_comes_out_as_it_went_in(body, encoding):
    assert read(gzip.compress(body), encoding) == body


@pytest.mark.parametrize("encoding", ["", "gzip"])
def test_the_limit_is_exact_and_nothing_is_nothing(encoding):
    assert read(b"", encoding) == b""
    for size in (MOST - 1, MOST, MOST + 1):
        body = bytes(size)
        given = gzip.compress(body) if encoding else body
        if size <= MOST:
            assert read(given, encoding) == body
        else:
            with pytest.raises(BodyTooLarge):
                read(given, encoding)


def test_a_bomb_is_not_unpacked_to_its_end():
    held: list[int] = []
    with pytest.raises(BodyTooLarge):
        read(gzip.compress(bytes(64 << 20)), hold=held.append)
    assert max(held) < 2 * MOST


def test_while_a_body_is_awaited_nothing_of_it_is_unpacked():
    packed, held = gzip.compress(bytes(MOST)), list[int]()
    with pytest.raises(ClientGone):
        read(packed[:-9], length=len(packed), hold=held.append)
    assert 0 < max(held) <= 8192


@pytest.mark.parametrize(
    "body", [bytes(MOST), random.Random(0).randbytes(MOST - 4096)], ids=["0", "random"]
)
def test_what_is_held_is_what_is_in_memory(body):
    held: list[int] = []
    assert read(gzip.compress(body), hold=held.append) == body
    assert max(held) < 1.5 * MOST
    assert held[-1] == len(body)


def test_between_two_pieces_of_a_packed_body_others_have_a_turn():
    turns: list[int] = []

    def count() -> None:
        while True:
            turns.append(1)
            gevent.sleep(0)

    other = gevent.spawn(count)
    read(gzip.compress(bytes(MOST)))
    other.kill()
    assert len(turns) >= 8


def test_a_body_without_room_is_told_to_come_again(make_client):
    small = {"max_image_bytes": 1, "max_glossary_bytes": 1, "max_body_bytes": 16 << 20}
    client = make_client(**small)
    other = client.application.test_client()
    wanted = {"src_text": "Hello", "src_lang": "en", "tgt_lang": "ko"}
    body = json.dumps(wanted).encode().ljust(12 << 20)
    statuses: list[tuple[int, str | None]] = []

    class Slow(io.BytesIO):
        """A body before whose end two other requests arrive."""

        def read(self, size: int | None = -1, /) -> bytes:
            if self.tell() > 11 << 20 and not statuses:
                for given in (body, b"{}"):
                    send = partial(other.post, "/", data=given)
                    answer = gevent.get_hub().threadpool.apply(send)
                    after = answer.headers.get("Retry-After")
                    statuses.append((answer.status_code, after))
            return super().read(size)

    first = client.post("/", input_stream=Slow(body), content_length=len(body))
    assert (first.status_code, statuses) == (200, [(429, "1"), (422, None)])
    assert client.post("/", data=body).status_code == 200


PACKED = gzip.compress(b"Hello")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        pytest.param(b"Hello", "this is no gzip", id="plain"),
        pytest.param(PACKED[:-1], "in the middle of gzip", id="cut off"),
        pytest.param(PACKED[:-8] + bytes(8), "this is no gzip", id="checksum"),
        pytest.param(PACKED * 2, "continues after the end", id="twice"),
    ],
)
def test_what_is_no_gzip_is_malformed(body, said):
    with pytest.raises(MalformedRequest, match=said):
        read(body)


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (NoMoreData(), ClientGone),
        (ConnectionResetError(), ClientGone),
        (InvalidChunkSize(b"x"), MalformedRequest),
    ],
)
def test_what_gunicorn_raises_is_a_problem(error, problem):
    with pytest.raises(problem):
        read_chunk(Mock(read=Mock(side_effect=error)), LATER)


@pytest.mark.parametrize("limit_s", [-1, 0, 0.01])
def test_a_body_that_does_not_come_is_a_deadline_that_passed(limit_s):
    body = Mock(read=lambda _: gevent.sleep(3600))
    with pytest.raises(DeadlineExceeded):
        read_chunk(body, Deadline(time.monotonic() + limit_s))
