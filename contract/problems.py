"""Problem documents (RFC 9457), as every part of the stack writes them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

CONTENT_TYPE = "application/problem+json"
#: What Python 3.11 calls otherwise, or not at all.
_TITLES = {
    413: "Content Too Large",
    422: "Unprocessable Content",
    499: "Client Closed Request",
}


def title(status: int) -> str:
    """The name of a status (RFC 9110)."""
    return _TITLES.get(status) or HTTPStatus(status).phrase


def write_problem(
    slug: str, status: int, detail: str, **members: Any
) -> dict[str, Any]:
    """A document. `members` are further fields, such as `request_id`."""
    return {
        "type": f"urn:babelgate:{slug}",
        "title": title(status),
        "status": int(status),
        "detail": detail,
        **members,
    }


def write_answer(problem: Mapping[str, Any], headers: Mapping[str, Any]) -> bytes:
    """A document as a whole HTTP answer, for those who have only a socket."""
    body, status = json.dumps(problem), problem["status"]
    headers = {"Content-Type": CONTENT_TYPE, "Content-Length": len(body), **headers}
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} {title(status)}\r\n{head}\r\n{body}".encode()
