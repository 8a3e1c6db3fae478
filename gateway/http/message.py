"""Reads whole small requests to translate as they come from a connection: one in a single
piece, whose answer is in one as well, with nothing in it that two programs could read in
different ways. Gunicorn reads others.
"""

import re
from functools import lru_cache
from io import BytesIO
from typing import NamedTuple

from contract.dialects import EVENT_STREAM, FOREIGN, OURS

#: The paths to which texts are sent.
TRANSLATING = frozenset(path for api in (OURS, *FOREIGN) for path in api.translating)
_PATH = "|".join(map(re.escape, sorted(TRANSLATING)))
#: A request's line and the lines of its headers, without control characters, bare or folded
#: lines, and `_` in names, which WSGI cannot tell from `-`. No repeat backtracks.
_HEAD = re.compile(
    rb"POST (%s) HTTP/1\.1\r\n" % _PATH.encode()
    + rb"((?:[!#-'*+.0-9A-Z^`a-z|~-]++:[^\x00-\x08\x0a-\x1f\x7f]*+\r\n){1,99}+)\r\n"
)
#: Headers that change how a request is read, or whether its connection goes on.
_OTHER = frozenset(
    f"HTTP_{name}"
    for name in "CONNECTION EXPECT TE TRAILER TRANSFER_ENCODING UPGRADE".split()
)


class WholeBody(BytesIO):
    """A body that has come."""


class Message(NamedTuple):
    """A request to translate: its path, its headers as WSGI has them, and its body."""

    path: str
    environ: dict[str, str]
    body: bytes


def is_head(data: bytes) -> bool:
    """Whether the body of such a request is to follow right behind this."""
    return bool(_HEAD.fullmatch(data)) and b"\r\nexpect:" not in data.lower()


@lru_cache(256)
def _name_variable(header: str) -> str:
    return f"HTTP_{header.upper().replace('-', '_')}"


def read_message(data: bytes) -> Message | None:
    """The request that `data` is, and None if it is anything else."""
    head = _HEAD.match(data)
    if head is None:
        return None
    environ: dict[str, str] = {}
    for line in head[2].decode("latin-1").split("\r\n")[:-1]:
        name, _, value = line.partition(":")
        key, value = _name_variable(name), value.strip(" \t")
        is_usual = key == "HTTP_CONNECTION" and value.lower() == "keep-alive"
        if key in environ or (key in _OTHER and not is_usual):
            return None
        environ[key] = value
    if EVENT_STREAM in environ.get("HTTP_ACCEPT", ""):
        return None
    body = data[head.end() :]
    if environ.pop("HTTP_CONTENT_LENGTH", "") != str(len(body)):
        return None
    environ["CONTENT_LENGTH"] = str(len(body))
    if content_type := environ.pop("HTTP_CONTENT_TYPE", None):
        environ["CONTENT_TYPE"] = content_type
    return Message(head[1].decode(), environ, body)
