"""Uploads that Gunicorn takes slowly, refuses in the middle or loses the client of."""

from __future__ import annotations

import socket
import threading

import psutil
import pytest

from contract.npy import write_header
from tests.e2e.real_stack import wait_until
from tests.gateway.test_gunicorn import (
    begin,
    count_requests,
    folder,
    running,
    torchserve,
    url,
)
from tests.scripted_server import LIMIT_S

pytestmark = pytest.mark.slow

__all__ = ["folder", "running", "torchserve", "url"]

PNG = b"\x89PNG\r\n\x1a\n"
#: A row of 32 of these frames has 1.5 MiB.
FRAME = (128, 128, 3)
FRAME_BYTES = 128 * 128 * 3


def is_closed(worker: psutil.Process, port: int) -> bool:
    """Whether the worker has been told that the client at this port has closed."""
    return any(
        (one.raddr and one.raddr.port, one.status) == (port, psutil.CONN_CLOSE_WAIT)
        for one in worker.net_connections("tcp4")
    )


def read_answer(client: socket.socket) -> bytes:
    answer = b""
    while b"\r\n\r\n" not in answer:
        more = client.recv(4096)
        assert more, answer
        answer += more
    return answer


def test_a_refusal_comes_while_the_client_still_sends(url, torchserve):
    torchserve.will("row-no-image")
    with begin(url, "/caption", f"Content-Length: {FRAME_BYTES * 1000}") as client:
        client.sendall(write_header((1000, *FRAME)) + bytes(FRAME_BYTES * 40))
        assert read_answer(client).startswith(b"HTTP/1.1 422 ")


def test_who_sends_on_after_a_refusal_is_not_cut_off(url, torchserve):
    """nginx drops an answer if it cannot write to the gateway."""
    torchserve.will("row-no-image")
    with begin(url, "/caption", "Transfer-Encoding: chunked") as client:
        data = write_header((1000, *FRAME)) + bytes(FRAME_BYTES * 40)
        client.sendall(b"%x\r\n%b\r\n" % (len(data), data))
        with client.makefile("rb") as answer:
            assert answer.read().startswith(b"HTTP/1.1 422 ")
        for _ in range(3):
            client.sendall(data)


@pytest.mark.parametrize(
    ("header", "body"),
    [
        ("Content-Length: 1000", b"\x93NUMPY"),
        ("Transfer-Encoding: chunked", b"8\r\n" + PNG + b"\r\n"),
    ],
)
def test_a_body_that_does_not_come_in_time_is_a_504(url, torchserve, header, body):
    with begin(url, "/caption", header, "X-Timeout-Ms: 100") as client:
        client.sendall(body)
        assert read_answer(client).startswith(b"HTTP/1.1 504 ")
    assert torchserve.calls == []


@pytest.mark.parametrize(
    "header", [f"Content-Length: {FRAME_BYTES * 1000}", "Transfer-Encoding: chunked"]
)
def test_a_client_that_goes_while_it_sends_is_noticed(url, torchserve, header):
    before = count_requests(url, "/caption", 499)
    with begin(url, "/caption", header) as client:
        data = write_header((1000, *FRAME)) + bytes(FRAME_BYTES * 64)
        is_chunked = header.startswith("T")
        client.sendall(b"%x\r\n%b\r\n" % (len(data), data) if is_chunked else data)
        torchserve.wait_for_calls(1)
    wait_until(lambda: count_requests(url, "/caption", 499) == before + 1)
    assert len(torchserve.calls) <= 2


def test_of_a_client_that_has_gone_no_further_row_is_sent(running, url, torchserve):
    before = count_requests(url, "/caption", 499)
    torchserve.together = threading.Barrier(5)
    torchserve.will(*["together"] * 4)
    data = write_header((32 * 5, *FRAME)) + bytes(32 * 5 * FRAME_BYTES)
    (worker,) = running[1].children()
    with begin(url, "/caption", f"Content-Length: {len(data)}") as client:
        client.sendall(data)
        torchserve.wait_for_calls(4)
        port = client.getsockname()[1]
    wait_until(lambda: is_closed(worker, port))
    torchserve.together.wait(LIMIT_S)
    wait_until(lambda: count_requests(url, "/caption", 499) == before + 1)
    assert len(torchserve.calls) == 4
