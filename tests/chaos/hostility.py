"""Requests that nobody should send, drawn from a seed."""

from __future__ import annotations

import gzip
import json
import random
import string

from benchmarks.measure.hostile import SHAPES, TextShape
from tests.chaos.load import Question

#: A body's size: just under what nginx lets through.
_LARGEST_BYTES = 1_000_000
_SIZES = (16_000, 64_000, 256_000, _LARGEST_BYTES)


def draw_text(rng: random.Random, marker: str) -> Question:
    """A piece again and again, or one of up to six random characters, as one text."""
    alphabet = string.ascii_letters + string.digits + string.punctuation + " \n\t中あ가"
    drawn = "".join(rng.choices(alphabet, k=rng.randint(1, 6)))
    kind = "html" if drawn[0] in "<&" else "text"
    shape = rng.choice([*SHAPES, TextShape("drawn", drawn, kind)])
    size = rng.choice(_SIZES)
    body = {
        "src_lang": "en",
        "src_text": marker + shape.write(size),
        "tgt_lang": "fr",
        "format": shape.format,
    }
    name = f"text of {shape.unit!r}, {size} bytes"
    return Question(name, json.dumps(body, ensure_ascii=False).encode())


def draw_junk(rng: random.Random, marker: str) -> Question:
    name, path = marker.encode(), rng.choice(["/", "/translate", "/identify"])
    headers = {}
    kind = rng.choice(["bytes", "depth", "numbers", "gzip", "list", "cut", "path"])
    match kind:
        case "depth":
            body = b'{"src_text": "%s", "x": ' % name + b"[" * 100_000
        case "numbers":
            body = b'{"src_text": "%s", "beam_size": %s}' % (name, b"9" * 5000)
        case "gzip":
            body = gzip.compress(name + b" " * 20_000_000, 9, mtime=0)
            headers = {"Content-Encoding": "gzip"}
        case "list":
            body = json.dumps({"src_text": [marker] * 1001, "tgt_lang": "fr"}).encode()
        case "cut":
            whole = json.dumps({"src_text": marker, "tgt_lang": "fr"}).encode()
            body = whole[: rng.randrange(len(whole))]
        case "path":
            body, path = name, f"/no/such/path/{rng.randrange(10)}"
        case _:
            body = name + rng.randbytes(rng.randint(0, 10_000))
    return Question(f"junk: {kind}", body, path=path, headers=headers)


def write_message(body: bytes) -> bytes:
    """A request as it goes over the wire."""
    head = f"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def draw_beginning(rng: random.Random, marker: str) -> bytes:
    """The first part of a request: of its line, its headers or its body."""
    whole = write_message(json.dumps({"src_text": marker * 100}).encode())
    return whole[: rng.randrange(1, len(whole) - 1)]
