"""An OpenAPI document as tests use it: to check answers, and to send its examples."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import jsonschema_rs
from urllib3 import encode_multipart_formdata

FORM, MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"


@dataclass(frozen=True)
class Example:
    """An example request of the document."""

    method: str
    path: str
    body: bytes = b""
    content_type: str = ""

    @property
    def headers(self) -> dict[str, str]:
        return {"Content-Type": self.content_type} if self.content_type else {}


class Description:
    """The OpenAPI document of a gateway."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self._components = _close(document["components"])

    def list_operations(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Yield the path, method and description of each operation."""
        for path, methods in self.document["paths"].items():
            for method, operation in methods.items():
                yield path, method, operation

    def list_examples(self) -> Iterator[Example]:
        """Yield each example of a body, and per operation one of all its parameters."""
        for path, method, operation in self.list_operations():
            query = {
                given["name"]: given["example"]
                for given in operation["parameters"]
                if "example" in given
            }
            if query:
                yield Example(method, f"{path}?{urlencode(query, doseq=True)}")
            content = operation.get("requestBody", {}).get("content", {})
            for media, described in content.items():
                for example in described.get("examples", {}).values():
                    yield Example(method, path, *_encode(media, example["value"]))

    def check(
        self, method: str, path: str, status: int, headers: Mapping[str, str], body: str
    ) -> None:
        """Fail unless the document describes an answer, or it refuses an unknown request."""
        found = self.document["paths"].get(self.find_path(path), {})
        operation = found.get({"HEAD": "get"}.get(method, method.lower()))
        if operation is None or status == 405:
            assert status in (404, 405) or method == "OPTIONS", (method, path, status)
            return
        assert str(status) in operation["responses"], (method, path, status)
        content = operation["responses"][str(status)].get("content")
        if content is None:
            assert body == "", (method, path, status)
            return
        media = headers.get("Content-Type", "").partition(";")[0]
        assert media in content, (method, path, status, media)
        if method != "HEAD":
            answer = json.loads(body) if media.endswith("json") else body
            schema = {**content[media]["schema"], "components": self._components}
            jsonschema_rs.Draft202012Validator(schema).validate(answer)

    def find_path(self, path: str) -> str:
        """Return the template of a request's path, or an empty string."""
        asked = path.partition("?")[0]
        known = {
            re.sub(r"{\w+}", "[^/]+", each): each for each in self.document["paths"]
        }
        return next((known[each] for each in known if re.fullmatch(each, asked)), "")


def _close(schema: Any) -> Any:
    """Forbid properties that an object's schema does not name."""
    if isinstance(schema, list):
        return [_close(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: _close(inner) for name, inner in schema.items()}
    if schema.get("type") == "object" and "properties" in schema:
        closed.setdefault("additionalProperties", False)
    return closed


def _encode(media: str, fields: dict[str, Any]) -> tuple[bytes, str]:
    if media == FORM:
        return urlencode(fields, doseq=True).encode(), media
    if media == MULTIPART:
        pairs = [
            (name, value)
            for name, values in fields.items()
            for value in (values if isinstance(values, list) else [values])
        ]
        return encode_multipart_formdata(pairs)
    return json.dumps(fields).encode(), media
