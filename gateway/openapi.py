"""Builds the OpenAPI document from the `Operation` of each route and the dialects' entries."""

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from types import NoneType
from typing import (
    Annotated,
    Any,
    Concatenate,
    Literal,
    NoReturn,
    NotRequired,
    get_type_hints,
)

import yaml
from flask import Response
from flask.sansio.app import App
from pydantic import BaseModel, Field, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode
from typing_extensions import TypedDict
from werkzeug.routing import Rule

from contract.dialects import EVENT_STREAM, FOREIGN, OURS, Dialect, find_dialect
from contract.problems import TITLES, write_problem
from gateway import errors
from gateway.errors import Problem
from gateway.http.request import GatewayRequest

Json = dict[str, Any]

JSON = "application/json"
MULTIPART = "multipart/form-data"
#: A file in a form, or as a whole answer.
BINARY: Json = {"type": "string", "format": "binary"}
#: The content types in which clients may send fields of other APIs.
FIELDS = (JSON, "application/x-www-form-urlencoded", MULTIPART)

#: Refusals on every path, as bodies are read before a route is called. Two come from nginx and
#: from the gateway's connections.
EVERYWHERE = (
    errors.MalformedRequest, errors.BodyTooSlow, errors.BodyTooLarge,
    errors.UnsupportedEncoding, errors.TooManyConnections, errors.HeaderTooLarge,
    errors.InternalError, errors.Overloaded, errors.NotReady,
    errors.DeadlineExceeded,
)  # fmt: skip
#: The refusals of a key.
KEYS = (
    errors.InvalidKey,
    errors.KeyNotAllowed,
    errors.QuotaExceeded,
    errors.RateLimited,
    errors.KeysUnavailable,
)
#: The refusals of routes that translate texts.
TRANSLATING = (
    errors.InvalidRequest,
    errors.UnknownLanguage,
    errors.TooManyRows,
    errors.TextTooLong,
    errors.DeviceFull,
)
#: The refusals of translations with glossaries, and of routes that store these.
USING_GLOSSARIES = (
    errors.UnknownGlossary,
    errors.NoDictionary,
    errors.GlossariesUnavailable,
)
STORING_GLOSSARIES = (
    errors.InvalidRequest, errors.UnknownLanguage, errors.UnknownGlossary,
    errors.TooManyGlossaries, errors.GlossariesUnavailable, errors.Overloaded,
    errors.DiskFull, errors.Forbidden,
)  # fmt: skip
#: The refusals of routes that accept documents, and of those that find one.
RECEIVING = (
    errors.UnsupportedDocument,
    errors.InvalidRequest,
    errors.TooManyDocuments,
    errors.DiskFull,
    errors.Forbidden,
)
FINDING = (errors.NoDocument, errors.Forbidden)
#: The refusals of routes for images.
LOOKING = (
    errors.UnsupportedImage,
    errors.InvalidImage,
    errors.InvalidRequest,
    errors.DeviceFull,
)
IMAGES = ("image", "images")
#: Bodies that routes read themselves, in pieces. The key may be in a document's form.
IN_PIECES = (*IMAGES, "document")


@dataclass(frozen=True)
class BodySchema:
    """The schema of a request's fields. A `GET` has them in its URL."""

    model: type[BaseModel]
    media: tuple[str, ...] = (JSON,)
    #: Additions of JSON Schema to the model's fields, from a stack's map and settings.
    bounds: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    examples: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    #: The description of the file that a form has besides the fields.
    file: str = ""


@dataclass(frozen=True)
class Operation:
    """The description of a route, which decorates its function. The function's annotation has
    the type of the answer on success."""

    summary: str
    #: The task; if the map does not contain it, the document omits the route.
    task: str | None = None
    bodies: tuple[BodySchema, ...] = ()
    #: The parameters in the URL besides its body.
    query: type[BaseModel] | None = None
    #: The refusals besides those of every route.
    refusals: tuple[type[Problem], ...] = ()
    #: The content types of its answers.
    media: tuple[str, ...] = (JSON,)
    #: Whether clients may send conditional requests.
    is_cached: bool = False
    #: The APIs that it belongs to, if its path does not determine them.
    dialects: tuple[Dialect, ...] = ()
    #: The status on success.
    status: int = 200
    #: The field of its answer that completes the path of the created object, if there is one.
    made: str = ""
    #: Whether it answers with a document, of any format.
    is_file: bool = False
    #: Whether it may answer with events.
    streams: bool = False
    #: The values of variable parts of its path; the other parts accept any.
    path: Mapping[str, Sequence[str]] = field(default_factory=dict)
    #: Whether the request may set its time limit.
    has_limit: bool = False
    #: The body that it accepts. Fields and glossaries are read before the route is called.
    takes: Literal["fields", "glossary", "image", "images", "document"] = "fields"
    #: Whether it needs no key.
    is_open: bool = False
    #: Creates the page that shows an error, if the route is for people.
    show_problem: Callable[[Problem, GatewayRequest], Response] | None = None

    def __call__(self, view: Callable[Concatenate[GatewayRequest, ...], Any]) -> Any:
        """Store the operation as an attribute of the view, which adds no cost to calls. Flask's
        types allow only views that return responses."""
        view.__dict__["operation"] = self
        return view


def choose(served: Sequence[str], preferred: str) -> str:
    """Return a language for an example: the preferred one if it is served."""
    return preferred if preferred in served or not served else served[0]


_FIXED = Path(__file__).with_suffix(".yaml")
_IMAGES = ("image/jpeg", "image/png", "image/webp", "application/octet-stream")
_EVENTS = {"schema": {"type": "string", "description": "Server-sent events."}}
_METHODS = {"GET", "POST", "PUT", "PATCH", "DELETE"}
_WITH_BODY = ("post", "put", "patch")
_REFERENCE = "#/components/schemas/{model}"
#: The headers of answers from models.
_TIMED = ("Server-Timing", "X-Babelgate-Model")
_HEADERS_BY_STATUS = {
    201: "Location",
    202: "Location",
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


def _name_place(place: str, name: str, description: str) -> dict[str, str]:
    return {"type": "apiKey", "in": place, "name": name, "description": description}


def _list_places(api: Dialect) -> Iterator[tuple[str, dict[str, str]]]:
    sent = f"As {api.title}'s clients send it"
    if name := api.key_header:
        yield name, _name_place("header", name, f"{sent}.")
    if name := api.key_scheme:
        yield name, _name_place("header", "Authorization", f"{sent}: `{name} KEY`.")
    for name in api.key_fields:
        yield name, _name_place("query", name, f"{sent}; also as a field of a body.")


#: The ways in which clients may send their keys, if keys are required. One of them is enough.
SCHEMES: dict[str, dict[str, Any]] = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "x-api-key": _name_place("header", OURS.key_header or "", "The key alone."),
    **{name.lower(): place for api in FOREIGN for name, place in _list_places(api)},
}


class FieldError(TypedDict):
    """A field of a request, and the value expected in it."""

    field: str
    expected: str


class ProblemDocument(TypedDict):
    """A problem (RFC 9457). Programs should compare `type`; other fields may be reworded."""

    type: Annotated[str, Field(pattern="^urn:babelgate:[a-z-]+$")]
    title: str
    status: int
    detail: str
    request_id: str
    errors: NotRequired[list[FieldError]]
    field: NotRequired[str]
    served: NotRequired[list[str]]
    missing: NotRequired[list[str]]
    reasons: NotRequired[dict[str, str]]
    limit: NotRequired[int]
    tokens: NotRequired[int]
    allowed: NotRequired[list[str]]
    asked: NotRequired[int]
    used: NotRequired[int]
    #: For LibreTranslate's clients, if the API of a request to `/translate` is unknown; or the
    #: problem of a document that has no result.
    error: NotRequired[str | dict[str, Any]]


def describe_errors(api: Dialect) -> Json:
    """Return the JSON Schema of an API's errors. Fields for an `explanation` are optional."""
    problem = write_problem("internal", 500, "")
    schema = _describe_value(api.write(problem | {"explanation": "-"}))
    return schema | {"required": list(api.write(problem))}


def _describe_value(written: Any) -> Json:
    if isinstance(written, list):
        return {"type": "array", "items": _describe_value(written[0])}
    if isinstance(written, dict):
        fields = {name: _describe_value(value) for name, value in written.items()}
        return {"type": "object", "properties": fields, "required": list(fields)}
    return {"type": "integer" if isinstance(written, int) else "string"}


class _Untitled(GenerateJsonSchema):
    """A generator that omits titles, in which pydantic repeats the names of fields."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


@dataclass(frozen=True)
class Route:
    """A path and method of the document, and the function behind it."""

    rule: Rule
    method: str
    operation: Operation
    #: The type of its answer: NoneType without a body, NoReturn if it never succeeds.
    answer: Any
    needs_key: bool

    @property
    def dialects(self) -> tuple[Dialect, ...]:
        """The APIs that it belongs to."""
        return self.operation.dialects or (find_dialect(self.rule.rule),)


def build(app: App, served: Collection[str], *, needs_key: bool) -> Json:
    """Return the document of the served tasks. With `needs_key`, all routes except the open
    ones need a key."""
    routes = list(_list_routes(app, served, needs_key=needs_key))
    schemas = _Schemas(routes)
    paths: dict[str, Json] = {}
    security = [{name: list[str]()} for name in SCHEMES] if needs_key else []
    for route in routes:
        path = re.sub(r"<(\w+)>", r"{\1}", route.rule.rule)
        described = _describe_route(route, schemas)
        if security and not route.needs_key:
            described["security"] = []
        paths.setdefault(path, {})[route.method] = described
    document = yaml.safe_load(_FIXED.read_text("utf-8"))
    document["info"]["version"] = version("babelgate")
    document |= {"security": security, "paths": dict(sorted(paths.items()))}
    made = {"schemas": schemas.definitions, "securitySchemes": SCHEMES}
    document["components"] |= made
    return _shorten_names(document)


def _list_routes(
    app: App, served: Collection[str], *, needs_key: bool
) -> Iterator[Route]:
    for rule in app.url_map.iter_rules():
        view = app.view_functions[rule.endpoint]
        operation: Operation = view.__dict__["operation"]
        if operation.task not in (None, *served):
            continue
        answer = get_type_hints(view)["return"]
        answer = str if answer in (Response, bytes) else answer
        for method in sorted(_METHODS & (rule.methods or set())):
            is_asked = needs_key and not operation.is_open
            yield Route(rule, method.lower(), operation, answer, is_asked)


class _Schemas:
    """The schemas of all models; those with a name are in `definitions`."""

    def __init__(self, routes: Iterable[Route]) -> None:
        bodies = [body for route in routes for body in route.operation.bodies]
        queries = [route.operation.query for route in routes if route.operation.query]
        answers = [r.answer for r in routes if r.answer not in (NoneType, NoReturn)]
        models: dict[tuple[Any, JsonSchemaMode], None] = {
            **{(body.model, "validation"): None for body in bodies},
            **{(query, "validation"): None for query in queries},
            **{(answer, "serialization"): None for answer in answers},
            (ProblemDocument, "serialization"): None,
        }
        found, definitions = TypeAdapter.json_schemas(
            [(model, mode, TypeAdapter(model)) for model, mode in models],
            ref_template=_REFERENCE,
            schema_generator=_Untitled,
        )
        self._found = {model: schema for (model, _), schema in found.items()}
        self.definitions: Json = definitions["$defs"]
        for api in FOREIGN:
            errors = {"description": f"{api.title}'s errors."}
            self.definitions[f"{api.title}Error"] = errors | describe_errors(api)
        for body in bodies:
            schema = self.resolve(body.model)
            if body.file:
                schema["properties"]["file"] = BINARY | {"description": body.file}
                schema["required"].append("file")
            for name, members in body.bounds.items():
                field = schema["properties"][name]
                if "enum" in members:
                    field.pop("examples", None)
                field.update(members)

    def __getitem__(self, model: Any) -> Json:
        """Return a schema, or a reference to it."""
        return self._found[model]

    def resolve(self, model: Any) -> Json:
        """Return a schema with its properties."""
        schema = self._found[model]
        name = schema.get("$ref", "").rpartition("/")[2]
        return self.definitions[name] if name else schema


def _describe_route(route: Route, schemas: _Schemas) -> Json:
    operation = route.operation
    described: Json = {
        "operationId": f"{route.method}_{route.rule.endpoint.replace('.', '_')}",
        "summary": operation.summary,
        "tags": [dialect.name for dialect in route.dialects],
        "parameters": list(_list_parameters(route, schemas)),
        "responses": _list_responses(route, schemas),
    }
    has_images = operation.takes in IMAGES
    content = _list_images(route) if has_images else _list_media(route, schemas)
    if content:
        described["requestBody"] = {"required": True, "content": content}
    return described


def _list_parameters(route: Route, schemas: _Schemas) -> Iterator[Json]:
    operation = route.operation
    for name in re.findall(r"<(\w+)>", route.rule.rule):
        values = operation.path.get(name)
        schema: Json = {"type": "string", **({"enum": list(values)} if values else {})}
        yield {"name": name, "in": "path", "required": True, "schema": schema}
    in_url = [operation.query] if operation.query else []
    if route.method not in _WITH_BODY:
        in_url += [body.model for body in operation.bodies]
    examples = (e for body in operation.bodies for e in body.examples.values())
    example = next(examples, {})
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
    """Return the schemas of bodies by content type: `oneOf` them, if there are several."""
    found: dict[str, list[BodySchema]] = {}
    # The fields of a GET are in its URL.
    for body in route.operation.bodies if route.method in _WITH_BODY else ():
        for media in body.media:
            found.setdefault(media, []).append(body)
    content: Json = {}
    for media, bodies in found.items():
        shapes = [schemas[body.model] for body in bodies]
        examples = [each for body in bodies for each in body.examples.items()]
        content[media] = {
            "schema": shapes[0] if len(shapes) == 1 else {"oneOf": shapes},
            "examples": {name: {"value": value} for name, value in examples},
        }
    return content


def _list_images(route: Route) -> Json:
    is_one = route.operation.takes == "image"
    files = BINARY if is_one else {"type": "array", "items": BINARY, "minItems": 1}
    form = {"type": "object", "properties": {"image": files}, "required": ["image"]}
    content: Json = {media: {"schema": BINARY} for media in _IMAGES}
    return content | {MULTIPART: {"schema": form}}


def _list_responses(route: Route, schemas: _Schemas) -> Json:
    responses: Json = {}
    operation = route.operation
    if route.answer is not NoReturn:
        content = _list_answers(route, schemas)
        timed = _TIMED if operation.has_limit else ()
        responses[str(operation.status)] = {
            "description": "The answer." if content else "Done.",
            "headers": _refer_to_headers(operation.status, *timed),
            **({"content": content} if content else {}),
        }
    if operation.is_cached:
        responses["304"] = {
            "description": "It has not changed since `If-None-Match`.",
            "headers": _refer_to_headers(304),
        }
    refused = [*EVERYWHERE, *operation.refusals, *(KEYS if route.needs_key else ())]
    for dialect in route.dialects:
        model = f"{dialect.title}Error" if dialect in FOREIGN else "ProblemDocument"
        schema = {"$ref": _REFERENCE.format(model=model)}
        for status, meanings in _list_statuses(refused, dialect).items():
            lines = [f"{TITLES[status]}.", "", *meanings.values()]
            refusal = {
                "description": "\n".join(lines),
                "headers": _refer_to_headers(status),
                "content": {},
            }
            response = responses.setdefault(str(status), refusal)
            response["content"][dialect.content_type] = {"schema": schema}
    return responses


def _list_statuses(
    refusals: Iterable[type[Problem]], dialect: Dialect
) -> dict[int, dict[str, str]]:
    """Return a line for each problem, by its status in an API and its slug."""
    statuses: dict[int, dict[str, str]] = {}
    for refusal in refusals:
        meaning, _, _ = " ".join((refusal.__doc__ or "").split()).partition(". ")
        status = dialect.answer(write_problem(refusal.slug, refusal.status, "")).status
        line = f"- `{refusal.slug}`: {meaning.removesuffix('.')}."
        statuses.setdefault(status, {})[refusal.slug] = line
    return dict(sorted(statuses.items()))


def _list_answers(route: Route, schemas: _Schemas) -> Json:
    operation = route.operation
    if route.answer is NoneType:
        return {}
    if operation.is_file:
        from documents.formats import FORMATS  # loads the libraries of all formats

        return {found.media_type: {"schema": BINARY} for found in FORMATS}
    schema = schemas[route.answer]
    answers = {media: {"schema": schema} for media in operation.media}
    return answers | ({EVENT_STREAM: _EVENTS} if operation.streams else {})


def _refer_to_headers(status: int, *more: str) -> Json:
    names = filter(None, ("X-Request-ID", *more, _HEADERS_BY_STATUS.get(status)))
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _shorten_names(document: Json) -> Json:
    """Shorten the prefixes of models that have the same name in two files to the file names."""
    text = json.dumps(document)
    text = re.sub(r"gateway__api__([a-z]+)__", r"\1.", text)
    return dict(json.loads(text.replace("gateway__schemas__", "")))
