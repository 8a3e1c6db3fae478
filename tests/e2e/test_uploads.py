"""Large uploads through a real nginx and Gunicorn: neither buffers a whole one."""

import io
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import psutil
import pytest
import requests

from gateway.settings import Settings
from tests.e2e.reverse_proxy import ReverseProxy, start_proxy
from tests.e2e.test_reverse_proxy import read_problem
from tests.gateway.test_gunicorn import begin
from tests.scripted_server import LIMIT_S

SHAPE = (480, 640, 3)
FRAME = bytes(480 * 640 * 3)
PNG = b"\x89PNG\r\n\x1a\n"
#: 184 MB: much more than a process may buffer.
FRAMES = 200
#: The memory that a process may use beyond the bytes that it reports: a few rows are copied.
SLACK_BYTES = 32 << 20


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReverseProxy]:
    with start_proxy(tmp_path_factory.mktemp("proxy")) as opened:
        yield opened


def make_array(frames: int, descr: str = "|u1") -> Iterator[bytes]:
    file = io.BytesIO()
    header = {"descr": descr, "fortran_order": False, "shape": (frames, *SHAPE)}
    np.lib.format.write_array_header_1_0(file, header)
    yield file.getvalue()
    yield from (FRAME for _ in range(frames))


def upload(
    client: requests.Session, url: str, pieces: Iterator[bytes], *, is_chunked: bool
) -> requests.Response:
    return client.post(
        f"{url}/caption",
        data=pieces if is_chunked else b"".join(pieces),
        headers={"X-Timeout-Ms": "120000"},
        timeout=LIMIT_S,
    )


def measure_peak(process: psutil.Process) -> int:
    status = Path(f"/proc/{process.pid}/status").read_text()
    (kilobytes,) = re.findall(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)
    return int(kilobytes) << 10


@pytest.mark.parametrize("is_chunked", [False, True], ids=["length", "chunked"])
def test_of_a_large_upload_nobody_keeps_more_than_a_few_rows(proxy, is_chunked):
    before = {p: p.memory_info().rss for p in (proxy.nginx, proxy.gateway)}
    proxy.torchserve.keeps_bodies = False
    with requests.Session() as client:
        pieces = make_array(FRAMES)
        answer = upload(client, proxy.url, pieces, is_chunked=is_chunked)
    assert answer.json() == {"captions": ["pixel 0 0 0"] * FRAMES}
    held = Settings().upload_buffer_bytes + SLACK_BYTES
    assert measure_peak(proxy.gateway) - before[proxy.gateway] < held
    assert measure_peak(proxy.nginx) - before[proxy.nginx] < 4 << 20
    assert not [path for path in (proxy.run / "temp").rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("status", "frames", "descr", "is_chunked"),
    [
        pytest.param(422, FRAMES // 3, "<f4", False, id="dtype"),
        pytest.param(413, 3 * FRAMES, "|u1", True, id="upload size"),
        pytest.param(422, FRAMES // 3, "|u1", False, id="row of a length"),
        pytest.param(422, FRAMES // 3, "|u1", True, id="row in chunks"),
    ],
)
def test_who_is_refused_in_the_middle_is_told_so_and_goes_on(
    proxy, status, frames, descr, is_chunked
):
    proxy.torchserve.will(*["echo"] * 3, "row-no-image")
    with requests.Session() as client:
        pieces = make_array(frames, descr)
        answer = upload(client, proxy.url, pieces, is_chunked=is_chunked)
        assert (answer.status_code, answer.json()["status"]) == (status, status)
        proxy.torchserve.will()
        answer = client.post(f"{proxy.url}/caption", data=PNG, timeout=LIMIT_S)
        assert answer.json() == {"captions": ["image/png of 8 bytes"]}


def test_a_deadline_in_the_middle_of_an_upload_is_a_document_too(proxy):
    """The upload has one row and the beginning of another, which never ends."""
    proxy.torchserve.will("hang")
    sent = b"".join(islice(make_array(FRAMES), 12))
    headers = ("Transfer-Encoding: chunked", "X-Timeout-Ms: 1000")
    with begin(proxy.url, "/caption", *headers) as client:
        client.sendall(b"%x\r\n%b\r\n" % (len(sent), sent))
        assert read_problem(client) == (504, "deadline")


def test_a_request_that_nginx_cannot_read_is_a_document_however_long_it_is(proxy):
    both = {"Content-Length": str(1 << 30), "Transfer-Encoding": "chunked"}
    url = f"{proxy.url}/caption"
    answer = requests.post(url, data=b"x", headers=both, timeout=LIMIT_S)
    assert (answer.status_code, answer.json()["status"]) == (400, 400)
