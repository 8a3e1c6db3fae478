"""Builds the OpenAPI document: which routes there are Flask knows, what they take and
answer their functions say.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus
from importlib.metadata import version
from typing import Any, NoReturn, get_type_hints

from flask import Flask, Response
from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema
from werkzeug.routing import Rule

from contract.dialects import FOREIGN, Dialect, find_dialect
from contract.problems import title
from gateway.openapi.operations import (
    BINARY,
    MULTIPART,
    BodySchema,
    Operation,
    find_operation,
)
from gateway.openapi.refusals import (
    EVERYWHERE,
    ProblemDocument,
    describe_shape,
    list_statuses,
)
from gateway.openapi.security import REFUSALS, SCHEMES, Keys

Json = dict[str, Any]

_IMAGES = ("image/jpeg", "image/png", "image/webp", "application/octet-stream")
_METHODS = {"GET", "POST", "PUT", "PATCH", "DELETE"}
_WITH_BODY = ("post", "put", "patch")
_REFERENCE = "#/components/schemas/{model}"
#: Their types, and what they mean.
_HEADERS = {
    "X-Request-ID": ("string", "The request's id, as in the logs."),
    "Retry-After": ("integer", "Seconds to wait before sending the request again."),
    "Accept-Encoding": ("string", "The Content-Encoding that this path takes."),
    "WWW-Authenticate": ("string", "How to send a key."),
    "Location": ("string", "The path of what was made."),
}
_HEADERS_BY_STATUS = {
    201: "Location",
    401: "WWW-Authenticate",
    415: "Accept-Encoding",
    429: "Retry-After",
    503: "Retry-After",
}
_TIME_LIMIT: Json = {
    "name": "X-Timeout-Ms",
    "in": "header",
    "description": "The time limit of this request. It can only lower the server's.",
    "schema": {"type": "integer", "minimum": 1, "maximum": 999_999_999},
}


class _Untitled(GenerateJsonSchema):
    """Pydantic repeats each field's name as its title."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


@dataclass(frozen=True)
class Route:
    """A path and method of the document, and the function behind it."""

    rule: Rule
    method: str
    view: Callable[..., Any]
    operation: Operation

    @property
    def bodies(self) -> tuple[BodySchema, ...]:
        """The schemas of a body; none if the fields are in the URL."""
        return self.operation.bodies if self.method in _WITH_BODY else ()

    @property
    def dialects(self) -> tuple[Dialect, ...]:
        """The APIs that it belongs to."""
        return self.operation.dialects or (find_dialect(self.rule.rule),)

    @property
    def has_answer(self) -> bool:
        """Whether it ever succeeds."""
        return self.answer is not NoReturn

    @property
    def is_empty(self) -> bool:
        """Whether it answers without a body."""
        return self.operation.status == HTTPStatus.NO_CONTENT

    @cached_property
    def answer(self) -> Any:
        """The type of what it answers."""
        found = get_type_hints(self.view)["return"]
        return str if found is Response else found


def build(app: Flask, served: Collection[str], keys: Keys) -> Json:
    """The document of the tasks that are served."""
    routes = list(_list_routes(app, served))
    schemas = _Schemas(routes)
    paths: dict[str, Json] = {}
    for route in routes:
        path = re.sub(r"<(\w+)>", r"{\1}", route.rule.rule)
        paths.setdefault(path, {})[route.method] = _describe(route, schemas, keys)
    document = {
        "openapi": "3.1.0",
        "info": {
            "title": "Babelgate",
            "version": version("babelgate"),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{name: []} for name in SCHEMES] if keys.is_required else [],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": schemas.definitions,
            "headers": {
                name: {"description": meaning, "schema": {"type": kind}}
                for name, (kind, meaning) in _HEADERS.items()
            },
            "securitySchemes": SCHEMES,
        },
    }
    return _shorten_names(document)


def _list_routes(app: Flask, served: Collection[str]) -> Iterator[Route]:
    for rule in app.url_map.iter_rules():
        view = app.view_functions[rule.endpoint]
        operation = find_operation(view)
        if operation is None or operation.task not in (None, *served):
            continue
        for method in sorted(_METHODS & (rule.methods or set())):
            yield Route(rule, method.lower(), view, operation)


class _Schemas:
    """The schemas of all models; what has a name is in `definitions`."""

    def __init__(self, routes: Iterable[Route]) -> None:
        bodies = [body for route in routes for body in route.operation.bodies]
        queries = [route.operation.query for route in routes if route.operation.query]
        answers = [
            route.answer for route in routes if route.has_answer and not route.is_empty
        ]
        models = [body.model for body in bodies] + queries
        found, definitions = TypeAdapter.json_schemas(
            [
                (model, "validation", TypeAdapter(model))
                for model in dict.fromkeys(models)
            ]
            + [
                (answer, "serialization", TypeAdapter(answer))
                for answer in dict.fromkeys([*answers, ProblemDocument])
            ],
            ref_template=_REFERENCE,
            schema_generator=_Untitled,
        )
        self._found = {model: schema for (model, _), schema in found.items()}
        self.definitions: Json = definitions["$defs"]
        for api in FOREIGN:
            described = {"description": f"{api.title}'s errors."}
            self.definitions[f"{api.title}Error"] = described | describe_shape(
                api.shape
            )
        for body in bodies:
            self._bound(body)

    def _bound(self, body: BodySchema) -> None:
        fields = self.resolve(body.model).get("properties", {})
        for name, members in body.bounds.items():
            if "enum" in members:
                fields[name].pop("examples", None)
            fields[name].update(members)

    def __getitem__(self, model: Any) -> Json:
        """A schema, or a reference to it."""
        return self._found[model]

    def resolve(self, model: Any) -> Json:
        """A schema with its properties."""
        schema = self._found[model]
        name = schema.get("$ref", "").rpartition("/")[2]
        return self.definitions[name] if name else schema


def _describe(route: Route, schemas: _Schemas, keys: Keys) -> Json:
    operation, path = route.operation, route.rule.rule
    described: Json = {
        "operationId": f"{route.method}_{route.rule.endpoint.replace('.', '_')}",
        "summary": operation.summary,
        "tags": [dialect.name for dialect in route.dialects],
        "parameters": list(_list_parameters(route, schemas)),
        "responses": _list_responses(route, schemas, keys),
    }
    content = _list_images(route) if operation.images else _list_media(route, schemas)
    if content:
        described["requestBody"] = {"required": True, "content": content}
    if keys.is_required and not keys.needs(path, route.method.upper()):
        described["security"] = []
    return described


def _list_parameters(route: Route, schemas: _Schemas) -> Iterator[Json]:
    operation = route.operation
    for name, values in operation.path.items():
        schema: Json = {"type": "string", **({"enum": list(values)} if values else {})}
        yield {"name": name, "in": "path", "required": True, "schema": schema}
    in_url = [operation.query] if operation.query else []
    if route.method not in _WITH_BODY:
        in_url += [body.model for body in operation.bodies]
    examples = [e for body in operation.bodies for e in body.examples.values()]
    example = examples[0] if examples else {}
    for model in in_url:
        schema = schemas.resolve(model)
        for name, found in schema["properties"].items():
            yield {
                "name": name,
                "in": "query",
                "required": name in schema.get("required", ()),
                "schema": found,
                **({"example": example[name]} if name in example else {}),
            }
    if operation.has_limit:
        yield _TIME_LIMIT


def _list_media(route: Route, schemas: _Schemas) -> Json:
    """The bodies by content type; what has several shapes is one of them."""
    shapes: dict[str, list[Json]] = {}
    examples: dict[str, Json] = {}
    for body in route.bodies:
        for media in body.media:
            shapes.setdefault(media, []).append(schemas[body.model])
            examples.setdefault(media, {}).update(
                {name: {"value": value} for name, value in body.examples.items()}
            )
    return {
        media: {
            "schema": found[0] if len(found) == 1 else {"oneOf": found},
            "examples": examples[media],
        }
        for media, found in shapes.items()
    }


def _list_images(route: Route) -> Json:
    is_one = route.operation.images == "one"
    files = BINARY if is_one else {"type": "array", "items": BINARY, "minItems": 1}
    form = {"type": "object", "properties": {"image": files}, "required": ["image"]}
    content: Json = {media: {"schema": BINARY} for media in _IMAGES}
    return content | {MULTIPART: {"schema": form}}


def _list_responses(route: Route, schemas: _Schemas, keys: Keys) -> Json:
    responses: Json = {}
    if route.has_answer:
        content = _list_answers(route, schemas)
        responses[str(route.operation.status)] = {
            "description": "The answer." if content else "Done.",
            "headers": _refer_to_headers(route.operation.status),
            **({"content": content} if content else {}),
        }
    if route.operation.is_cached:
        responses["304"] = {
            "description": "It has not changed since `If-None-Match`.",
            "headers": _refer_to_headers(304),
        }
    refused = (*EVERYWHERE, *route.operation.refusals)
    if keys.needs(route.rule.rule, route.method.upper()):
        refused += REFUSALS
    for dialect in route.dialects:
        for status, meanings in list_statuses(refused, dialect).items():
            response = responses.setdefault(
                str(status),
                {
                    "description": _explain(status, meanings),
                    "headers": _refer_to_headers(status),
                    "content": {},
                },
            )
            model = f"{dialect.title}Error" if dialect.shape else "ProblemDocument"
            schema = {"$ref": _REFERENCE.format(model=model)}
            response["content"][dialect.content_type] = {"schema": schema}
    return responses


def _list_answers(route: Route, schemas: _Schemas) -> Json:
    """List the answers of success, by content type."""
    operation = route.operation
    if route.is_empty:
        return {}
    if operation.is_file:
        from documents.formats import FORMATS  # only this needs all their libraries

        return {found.media_type: {"schema": BINARY} for found in FORMATS}
    schema = schemas[route.answer]
    return {media: {"schema": schema} for media in operation.media}


def _explain(status: int, meanings: Mapping[str, str]) -> str:
    """The name of a status, and the problems behind it."""
    listed = [f"- `{slug}`: {meaning}" for slug, meaning in meanings.items()]
    return "\n".join([f"{title(status)}.", "", *listed])


def _refer_to_headers(status: int) -> Json:
    names = ["X-Request-ID"]
    if status in _HEADERS_BY_STATUS:
        names.append(_HEADERS_BY_STATUS[status])
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _shorten_names(document: Json) -> Json:
    """Models of one name in two files have the files' names before their own."""
    text = json.dumps(document)
    text = re.sub(r"gateway__api__([a-z]+)__", r"\1.", text)
    return dict(json.loads(text.replace("gateway__schemas__", "")))
