"""The real stack answers three thousand hostile bodies; no worker ends, and memory does not
grow. While the gateway gets hostile forms, it answers all other clients."""

import gzip
import io
import math
import pickle
import random
import struct
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from urllib3 import connection_from_url
from urllib3.exceptions import HTTPError

from deploy.stack import Stack
from tests.e2e.real_stack import processes
from tests.e2e.reverse_proxy import start_proxy
from tests.handlers.encoding import write_image, write_npy

pytestmark = pytest.mark.faults

ROUTES = ("/caption", "/classify", "/detect-objects")
COUNT = 3_000
#: The number of bodies after which the memory of every program has settled.
SETTLED = 1_000
CLIENTS = 8
#: The most growth of the whole stack: less than if one row in twenty-five leaked.
GROWTH_BYTES = 80_000_000
HUGE = (2**31 - 1, 2**32 - 1, 100_000, 65_535, 0)
EDGE = b"--edge-of-a-part"
MULTIPART = f"multipart/form-data; boundary={EDGE[2:].decode()}"


def draw_bodies(count: int) -> Iterator[tuple[bytes, str]]:
    """Yield hostile images, arrays and forms with their content types; always the same ones."""
    rng = random.Random(0)
    for number in range(count):
        if number % 5 == 4:
            yield write_parts(rng), MULTIPART
        else:
            yield draw_body(rng), "application/octet-stream"


def draw_body(rng: random.Random) -> bytes:
    kinds = [write_header, write_pickle, write_bomb, write_odd_image]
    return rng.choice([*[damage] * 8, *kinds])(rng)


def damage(rng: random.Random) -> bytes:
    """Return a file with changed bytes, a missing end, or extra bytes inside or at the end."""
    shape = (rng.randint(1, 48), rng.randint(1, 48), 3)
    pixels = np.frombuffer(rng.randbytes(math.prod(shape)), np.uint8).reshape(shape)
    if (kind := rng.choice(["JPEG", "PNG", "WEBP", "npy", "npy"])) == "npy":
        body = write_npy([pixels] * rng.randint(1, 3))
    else:
        body = write_image(pixels, kind)
    more, place = rng.randbytes(rng.randint(1, 4096)), rng.randrange(len(body))
    flipped = bytearray(body)
    # Damage to headers is the most dangerous.
    end = len(body) if rng.random() < 0.3 else min(len(body), 128)
    for _ in range(rng.randint(1, 12)):
        flipped[rng.randrange(end)] = rng.randrange(256)
    cut, longer = body[:place], body[:place] + more + body[place:]
    return rng.choice([bytes(flipped), bytes(flipped), cut, body + more, longer])


def write_header(rng: random.Random) -> bytes:
    """Return an `.npy` header with arbitrary values."""
    shape = tuple(rng.choice([*HUGE, -1, 3, 8]) for _ in range(rng.randint(1, 5)))
    descr = rng.choice(
        ["|u1", "u1", "|O", "|V1000000000", "__import__('os')", "9" * 300]
    )
    text = rng.choice(
        [
            f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}",
            f"{{'descr': '{descr}', 'fortran_order': 1, 'shape': {shape}}}",
            "{'descr': '|u1'}",
            "[" * 5000,
            "{" + "'a': 1, " * 2000 + "}",
            "",
        ]
    ).encode()
    version = rng.choice([(1, 0), (2, 0), (3, 0), (9, 9)])
    length = rng.choice([len(text), 0, 65_535, 2**31])
    size = struct.pack("<I", length)[: 2 if version[0] == 1 else 4]
    return b"\x93NUMPY" + bytes(version) + size + text + b"\n" + rng.randbytes(64)


class Bomb:
    """An object whose pickle would open a file when loaded."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (open, ("/nonexistent/unpickled",))


def write_pickle(rng: random.Random) -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.array([{"a": 1}, None], dtype=object), allow_pickle=True)
    return rng.choice([stream.getvalue(), pickle.dumps([1]), pickle.dumps(Bomb())])


def write_bomb(rng: random.Random) -> bytes:
    """Return a small PNG that decompresses to far too much."""
    width, height = rng.choice([(40_000, 40_000), (100_000, 1), (2**31 - 1, 2)])
    line = b"\0" * (1 + min(width, 1 << 20))
    mode = rng.choice([0, 2, 3, 6])
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, mode, 0, 0, 0)),
        (b"IDAT", zlib.compress(line * min(height, 64))),
        (b"IEND", b""),
    ]
    if rng.random() < 0.5:
        chunks.insert(1, (b"zTXt", b"a\0\0" + zlib.compress(b"\0" * (1 << 22))))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + zlib.crc32(kind + data).to_bytes(4)
        for kind, data in chunks
    )


def write_odd_image(rng: random.Random) -> bytes:
    """Return a valid image of a rare format, mode or shape."""
    stream = io.BytesIO()
    kinds = "PNG 1,PNG I;16,PNG LA,PNG P,GIF P,JPEG CMYK,JPEG L,TIFF F,BMP RGB"
    kind, mode = rng.choice(f"{kinds},WEBP RGBA,PPM RGB,ICO RGBA".split(",")).split()
    size = rng.choice([(1, 1), (1, 3000), (3000, 1), (33, 7)])
    Image.new(mode, (32, 32) if kind == "ICO" else size).save(stream, kind)
    return stream.getvalue()


def write_parts(rng: random.Random) -> bytes:
    """Return a form whose parts, and sometimes whose boundaries, are as hostile."""
    body = b""
    for _ in range(rng.randint(0, 3)):
        name = rng.choice(
            [b'; name="a"; filename="b"', b'; name="top_k"', b"", b'; x="']
        )
        header = b"Content-Disposition: form-data" + name
        body += EDGE + b"\r\n" + header + b"\r\n\r\n" + draw_body(rng) + b"\r\n"
    body += rng.choice([EDGE + b"--\r\n", EDGE, b"", b"\r\n"])
    return body[: rng.randrange(len(body) + 1)] if rng.random() < 0.3 else body


def send(url: str, bodies: Iterable[tuple[int, tuple[bytes, str]]]) -> Counter[int]:
    """Send requests and count each status; 0 stands for no answer."""

    def ask(numbered: tuple[int, tuple[bytes, str]]) -> int:
        number, (body, content_type) = numbered
        route = ROUTES[number % len(ROUTES)]
        headers = {"Content-Type": content_type}
        try:
            return pool.request("POST", route, body=body, headers=headers).status
        except HTTPError:
            return 0

    with (
        connection_from_url(url, maxsize=CLIENTS, retries=False, timeout=120) as pool,
        ThreadPoolExecutor(CLIENTS) as threads,
    ):
        return Counter(threads.map(ask, bodies))


def measure(stack: Stack) -> tuple[int, set[tuple[int, str]]]:
    """Return the bytes of all the stack's processes, and their ids and names."""
    family = processes(stack)
    memory = sum(process.memory_full_info().pss for process in family)
    return memory, {(process.pid, process.name()) for process in family}


@pytest.mark.timeout(900)
def test_hostile_bodies_are_answered_and_leave_nothing_behind(vision: Stack):
    bodies = list(enumerate(draw_bodies(COUNT)))
    statuses = send(vision.url, bodies[:SETTLED])
    memory, family = measure(vision)
    statuses += send(vision.url, bodies[SETTLED:])
    memory_after, family_after = measure(vision)
    assert set(statuses) <= {200, 400, 413, 415, 422}, statuses
    assert sum(statuses.values()) == COUNT
    assert family_after == family, "a process has ended or come"
    assert memory_after - memory < GROWTH_BYTES


_FORM, _JSON = "application/x-www-form-urlencoded", "application/json"
_MULTIPART = "multipart/form-data; boundary=x"
_PART = b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\n'
TEXT_ROUTES = ("/translate", "/v2/translate", "/language/translate/v2", "/identify")
#: Content types and bodies.
FORMS = (
    (_FORM, b"key&" + b"%41&" * ((1 << 18) - 2)),
    (_FORM, b"q=" + b"%41" * 349_000),
    (_FORM, b"q=a&" * 1000 + b"%41" * 300_000),
    (_JSON, b'{"q": [' + b"[]," * 340_000 + b"[]]}"),
    (_JSON, b'{"q": "a", "source": "auto"' + b" " * 1_000_000),
    (_MULTIPART, _PART * 2000 + b"--x--"),
    (_MULTIPART, _PART + b"\r\n--" * 200_000 + b"--x--"),
)


def list_requests() -> list[tuple[str, bytes, dict[str, str]]]:
    """Return the route, body and headers of every form on every route, plain and gzipped."""
    return [
        (route, content, {"Content-Type": kind, "Content-Encoding": encoding})
        for kind, body in FORMS
        for encoding, content in (("identity", body), ("gzip", gzip.compress(body)))
        for route in TEXT_ROUTES
    ]


WANTED = {"src_lang": "en", "src_text": "Good morning", "tgt_lang": "ko"}


@pytest.mark.timeout(300)
def test_hostile_forms_are_in_nobodys_way(tmp_path: Path):
    """Another client gets at least a quarter as many answers: forms once blocked the loop."""

    def ask(route: str, body: bytes, headers: dict[str, str]) -> int:
        return pool.request("POST", route, body=body, headers=headers).status

    with (
        start_proxy(tmp_path) as proxy,
        connection_from_url(proxy.url, maxsize=30, retries=False, timeout=60) as pool,
        ThreadPoolExecutor(20) as threads,
    ):
        hostile = [threads.submit(ask, *request) for request in list_requests() * 4]
        others: Counter[int] = Counter()
        while wait(hostile, timeout=0).not_done:
            others[pool.request("GET", "/healthz").status] += 1
            others[pool.request("POST", "/", json=WANTED).status] += 1
    assert set(others) == {200}
    assert {one.result() for one in hostile} <= {400, 413, 422, 429}
    assert others.total() >= len(hostile) / 4
