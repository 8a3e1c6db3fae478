"""Problem documents (RFC 9457), as every part of the stack writes them."""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

CONTENT_TYPE = "application/problem+json"
#: The names of statuses (RFC 9110), with those that differ or are missing in Python 3.11.
TITLES = {status.value: status.phrase for status in HTTPStatus} | {
    413: "Content Too Large",
    422: "Unprocessable Content",
    456: "Quota Exceeded",
    499: "Client Closed Request",
}
#: The statuses of the problems of rows, by slug.
STATUSES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


def write_problem(
    slug: str, status: int, detail: str, **members: Any
) -> dict[str, Any]:
    """Return a problem document. `members` are further fields, such as `request_id`."""
    return {
        "type": f"urn:babelgate:{slug}",
        "title": TITLES[status],
        "status": int(status),
        "detail": detail,
        **members,
    }


@dataclass(frozen=True)
class ErrorAnswer:
    """An answer other than 200, in the form of the client's API."""

    status: int
    content_type: str
    content: Mapping[str, Any]

    def write(self, headers: Mapping[str, Any]) -> bytes:
        """Return the whole HTTP response, for callers that have only a socket."""
        body = json.dumps(self.content)
        head = {
            "Content-Type": self.content_type,
            "Content-Length": len(body),
            **headers,
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
        first = f"HTTP/1.1 {self.status} {TITLES[self.status]}"
        return f"{first}\r\n{lines}\r\n{body}".encode()
