"""A realistic mix of requests, with mistakes, slow clients and clients that hang up."""

from __future__ import annotations

import json
import random
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from benchmarks.instruments.generator import Request, Target, write_messages
from benchmarks.instruments.sentences import draw, write_document
from handlers.engine.translation.m2m100 import Sentence

SENTENCE = "sentence"
#: How many of a hundred requests each is.
SHARES = {SENTENCE: 75, "list": 8, "document": 2, "HTML": 7, "mistake": 8}
_LIST_TEXTS, _DOCUMENT_BYTES = 5, 2000
_PATIENCE_S = 40.0
_SLOW_PARTS = 5


@dataclass(frozen=True)
class MedleyPiece:
    """A request, and the status that it is to get."""

    kind: str
    request: Request
    status: str = "200"


def draw_medley(
    count: int, languages: Sequence[str] = (), *, seed: int = 0
) -> list[MedleyPiece]:
    """`count` requests of all kinds in random order, into these languages or any."""
    rng = random.Random(seed)
    kinds = rng.choices(list(SHARES), list(SHARES.values()), k=count)
    sentences = iter(draw(count * _LIST_TEXTS, languages, seed=seed))
    return [_make_piece(rng, kind, sentences) for kind in kinds]


def _make_piece(
    rng: random.Random, kind: str, sentences: Iterator[Sentence]
) -> MedleyPiece:
    sentence = next(sentences)
    body: dict[str, Any] = {
        "src_lang": sentence.source,
        "src_text": sentence.text,
        "tgt_lang": sentence.target,
    }
    match kind:
        case "list":
            body["src_text"] = [sentence.text] * _LIST_TEXTS
        case "document":
            body["src_text"] = write_document(
                sentence.source, _DOCUMENT_BYTES, seed=rng.randrange(2**32)
            )
        case "HTML":
            body["src_text"] = f"<ul><li>{sentence.text}</li><li><b>1</b></li></ul>"
            body["format"] = "html"
        case "mistake":
            return _make_mistake(rng, body)
    return MedleyPiece(kind, Request(_encode(body), "/translate"))


def _make_mistake(rng: random.Random, body: Mapping[str, Any]) -> MedleyPiece:
    content, path, status = rng.choice(
        [
            (_encode({**body, "tgt_lang": "xx"}), "/translate", "422"),
            (_encode({**body, "src_text": 7}), "/translate", "422"),
            (_encode(body)[:-2], "/translate", "400"),
            (_encode(body), "/no/such/path", "404"),
            (_encode({**body, "src_text": "a" * (1 << 20)}), "/translate", "413"),
        ]
    )
    return MedleyPiece("mistake", Request(content, path), status)


def _encode(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False).encode()


def ask_badly(url: str, pieces: Sequence[MedleyPiece]) -> None:
    """One client sends slowly, and one hangs up before its answer."""
    parts = urlsplit(url)
    address = (parts.hostname or "", parts.port or 80)
    for act in (_send_slowly, _leave):
        target = Target(url, [random.choice(pieces).request])
        (message,) = write_messages(target, None)
        with (
            suppress(OSError),
            socket.create_connection(address, _PATIENCE_S) as client,
        ):
            act(client, message)


def _send_slowly(client: socket.socket, message: bytes) -> None:
    size = len(message) // _SLOW_PARTS + 1
    for start in range(0, len(message), size):
        client.sendall(message[start : start + size])
        time.sleep(0.2)
    client.recv(1 << 16)


def _leave(client: socket.socket, message: bytes) -> None:
    client.sendall(message)
    time.sleep(0.02)
