"""Images, arrays and forms that nobody should send; the same ones for the same seed."""

from __future__ import annotations

import io
import pickle
import random
import struct
import zlib
from collections.abc import Callable, Iterator

import numpy as np
from PIL import Image

Draw = Callable[[random.Random], bytes]

_SIDE = 48
_HUGE = (2**31 - 1, 2**32 - 1, 100_000, 65_535, 0)
BOUNDARY = "edge-of-a-part"
MULTIPART = f"multipart/form-data; boundary={BOUNDARY}"


def draw_bodies(count: int, seed: int = 0) -> Iterator[tuple[bytes, str]]:
    """Hostile bodies, each with its content type."""
    rng = random.Random(seed)
    for number in range(count):
        if number % 5 == 4:
            yield _write_parts(rng), MULTIPART
        else:
            yield rng.choice(_KINDS)(rng), "application/octet-stream"


def _draw_picture(rng: random.Random) -> np.ndarray:
    shape = (rng.randint(1, _SIDE), rng.randint(1, _SIDE), 3)
    return np.frombuffer(rng.randbytes(int(np.prod(shape))), np.uint8).reshape(shape)


def _write_file(rng: random.Random) -> bytes:
    stream = io.BytesIO()
    kind = rng.choice(["JPEG", "PNG", "WEBP", "npy", "npys"])
    if kind == "npy":
        np.save(stream, _draw_picture(rng))
    elif kind == "npys":
        np.save(stream, np.stack([_draw_picture(rng)] * rng.randint(1, 3)))
    else:
        Image.fromarray(_draw_picture(rng)).save(stream, kind)
    return stream.getvalue()


def _flip_bytes(rng: random.Random) -> bytes:
    body = bytearray(_write_file(rng))
    # Headers are where lies are told.
    end = len(body) if rng.random() < 0.3 else min(len(body), 128)
    for _ in range(rng.randint(1, 12)):
        body[rng.randrange(end)] = rng.randrange(256)
    return bytes(body)


def _cut_or_insert(rng: random.Random) -> bytes:
    """A file that ends too early, goes on after its end, or has more in the middle."""
    body, more = _write_file(rng), rng.randbytes(rng.randint(1, 4096))
    place = rng.randrange(len(body))
    return rng.choice([body[:place], body + more, body[:place] + more + body[place:]])


def _make_noise(rng: random.Random) -> bytes:
    starts = (
        b"",
        b"\x93NUMPY",
        b"\xff\xd8\xff",
        b"\x89PNG\r\n\x1a\n",
        b"RIFF",
        b"GIF8",
    )
    return rng.choice(starts) + rng.randbytes(rng.randint(0, 2000))


def _write_array(rng: random.Random) -> bytes:
    """A well-formed `.npy` of something else than frames."""
    stream = io.BytesIO()
    dtype = rng.choice(["<f4", ">u2", "?", "<U3", "S5", "<M8[s]", "u1,u1", "<c8", "i1"])
    shape = tuple(rng.randint(0, 4) for _ in range(rng.randint(0, 6)))
    np.save(stream, np.zeros(shape, dtype))
    return stream.getvalue()


def _write_header(rng: random.Random) -> bytes:
    """An `.npy` header that promises anything."""
    shape = tuple(rng.choice([*_HUGE, -1, 3, 8]) for _ in range(rng.randint(1, 5)))
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
    size = (
        struct.pack("<H", length & 0xFFFF)
        if version[0] == 1
        else struct.pack("<I", length)
    )
    return b"\x93NUMPY" + bytes(version) + size + text + b"\n" + rng.randbytes(64)


def _write_pickle(rng: random.Random) -> bytes:
    """A pickle that would run a command where it was loaded."""
    stream = io.BytesIO()
    np.save(stream, np.array([{"a": 1}, None], dtype=object), allow_pickle=True)
    return rng.choice([stream.getvalue(), pickle.dumps([1]), pickle.dumps(_Bomb())])


class _Bomb:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (open, ("/nonexistent/unpickled",))


def _write_bomb(rng: random.Random) -> bytes:
    """A small file that unpacks into far too much."""
    width, height = rng.choice([(40_000, 40_000), (100_000, 1), (2**31 - 1, 2)])
    line = b"\0" * (1 + min(width, 1 << 20))
    data = zlib.compress(line * min(height, 64))
    header = struct.pack(
        ">IIBBBBB", width, height, 8, rng.choice([0, 2, 3, 6]), 0, 0, 0
    )
    chunks = [(b"IHDR", header), (b"IDAT", data), (b"IEND", b"")]
    if rng.random() < 0.5:
        text = b"a\0\0" + zlib.compress(b"\0" * (1 << 22))
        chunks.insert(1, (b"zTXt", text))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_write_chunk(*chunk) for chunk in chunks)


def _write_chunk(kind: bytes, data: bytes) -> bytes:
    check = struct.pack(">I", zlib.crc32(kind + data))
    return struct.pack(">I", len(data)) + kind + data + check


def _write_odd_image(rng: random.Random) -> bytes:
    """A good file of a kind, mode or shape that few expect."""
    stream = io.BytesIO()
    kind, mode = rng.choice(
        [
            *(("PNG", "1"), ("PNG", "I;16"), ("PNG", "LA"), ("PNG", "P"), ("GIF", "P")),
            *(("JPEG", "CMYK"), ("JPEG", "L"), ("TIFF", "F"), ("BMP", "RGB")),
            *(("WEBP", "RGBA"), ("PPM", "RGB"), ("ICO", "RGBA")),
        ]
    )
    size = rng.choice([(1, 1), (1, 3000), (3000, 1), (33, 7)])
    if kind == "ICO":
        size = (32, 32)
    Image.new(mode, size).save(stream, kind)
    return stream.getvalue()


_KINDS: tuple[Draw, ...] = (
    *(_flip_bytes, _flip_bytes, _flip_bytes),
    *(_cut_or_insert, _cut_or_insert, _cut_or_insert, _cut_or_insert),
    *(_make_noise, _write_array, _write_header, _write_header, _write_pickle),
    *(_write_bomb, _write_odd_image),
)


def _write_parts(rng: random.Random) -> bytes:
    """A form whose parts, and sometimes whose seams, are as bad."""
    edge = f"--{BOUNDARY}".encode()
    pieces = []
    for _ in range(rng.randint(0, 3)):
        name = rng.choice(
            [b'; name="a"; filename="b"', b'; name="top_k"', b"", b'; x="']
        )
        header = b"Content-Disposition: form-data" + name
        pieces += [edge, b"\r\n", header, b"\r\n\r\n", rng.choice(_KINDS)(rng), b"\r\n"]
    body = b"".join(pieces) + rng.choice([edge + b"--\r\n", edge, b"", b"\r\n"])
    if rng.random() < 0.3:
        body = body[: rng.randrange(len(body) + 1)]
    return body
