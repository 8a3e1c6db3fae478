"""Parses small translation requests that arrive whole, want an answer in one piece, and contain
nothing that two programs could parse differently. Gunicorn parses all others."""

import re
from functools import lru_cache
from io import BytesIO
from typing import NamedTuple

from contract.dialects import EVENT_STREAM, FOREIGN, OURS

#: The paths of translation requests.
TRANSLATING = frozenset(path for api in (OURS, *FOREIGN) for path in api.translating)
_PATH = "|".join(map(re.escape, sorted(TRANSLATING)))
#: A request line and header lines, without control characters, bare or folded lines, and `_` in
#: names, which WSGI cannot distinguish from `-`. No repetition backtracks.
_HEAD = re.compile(
    rb"POST (%s) HTTP/1\.1\r\n" % _PATH.encode()
    + rb"((?:[!#-'*+.0-9A-Z^`a-z|~-]++:[^\x00-\x08\x0a-\x1f\x7f]*+\r\n){1,99}+)\r\n"
)
#: Headers that change how a request is parsed, or whether its connection stays open.
_OTHER = frozenset(
    f"HTTP_{name}"
    for name in "CONNECTION EXPECT TE TRAILER TRANSFER_ENCODING UPGRADE".split()
)


class WholeBody(BytesIO):
    """A body that has arrived completely."""


class Message(NamedTuple):
    """A translation request: its path, its headers as WSGI variables, and its body."""

    path: str
    environ: dict[str, str]
    body: bytes


def is_head(data: bytes) -> bool:
    """Whether this is the head of a translation request whose body follows at once."""
    return bool(_HEAD.fullmatch(data)) and b"\r\nexpect:" not in data.lower()


@lru_cache(256)
def _name_variable(header: str) -> str:
    return f"HTTP_{header.upper().replace('-', '_')}"


def read_message(data: bytes) -> Message | None:
    """Parse a whole translation request; None if `data` is anything else."""
    head = _HEAD.match(data)
    if head is None:
        return None
    environ: dict[str, str] = {}
    for line in head[2].decode("latin-1").split("\r\n")[:-1]:
        name, _, value = line.partition(":")
        key = _name_variable(name)
        value = value.strip(" \t")
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
