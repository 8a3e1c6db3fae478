"""The statuses that a route may answer beside 200, and each API's documents for them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from contract.dialects import Dialect
from contract.problems import write_problem
from gateway import errors
from gateway.errors import Problem


@dataclass(frozen=True)
class RefusalSchema:
    """A problem that is not of the gateway's own making."""

    slug: str
    status: int
    meaning: str


#: From nginx, and from the gateway's connections.
_BEFORE_ROUTES = (
    RefusalSchema("too-many-connections", 429, "Too many requests at the same time."),
    RefusalSchema("header-too-large", 431, "The URL or a header is too long."),
)
FROM_THIS_MACHINE_ONLY = RefusalSchema(
    "forbidden", 403, "The path is open to the server's own machine only."
)
_OUT_OF_MEMORY = RefusalSchema(
    "out-of-memory", 503, "It does not fit into the device's memory, even alone."
)
#: On every path: bodies are read before a route is asked.
EVERYWHERE = (
    *(errors.MalformedRequest, errors.BodyTooSlow, errors.BodyTooLarge),
    *(errors.UnsupportedEncoding, *_BEFORE_ROUTES, errors.InternalError),
    *(errors.Overloaded, errors.NotReady, errors.DeadlineExceeded),
)
#: The refusals of routes that translate texts.
TRANSLATING = (
    *(errors.InvalidRequest, errors.UnknownLanguage, errors.TooManyRows),
    RefusalSchema("text-too-long", 422, "A word has more tokens than the model takes."),
    _OUT_OF_MEMORY,
)
#: The refusals of translations with glossaries, and of routes that store these.
USING_GLOSSARIES = (
    *(errors.UnknownGlossary, errors.NoDictionary, errors.GlossariesUnavailable),
)
STORING_GLOSSARIES = (
    *(errors.InvalidRequest, errors.UnknownLanguage, errors.UnknownGlossary),
    *(errors.TooManyGlossaries, errors.GlossariesUnavailable, errors.Overloaded),
    *(errors.DiskFull, errors.Forbidden),
)
#: The refusals of routes for images.
LOOKING = (
    *(errors.UnsupportedImage, errors.InvalidImage, errors.InvalidRequest),
    _OUT_OF_MEMORY,
)


class FieldError(TypedDict):
    """A field of a request, and what was expected in it."""

    field: str
    expected: str


class ProblemDocument(TypedDict):
    """RFC 9457. Programs should compare `type`; the others may be reworded."""

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
    #: For LibreTranslate's clients, where nginx answers on `/translate`; or the problem of a
    #: document that has no result.
    error: NotRequired[str | dict[str, Any]]


def describe_shape(shape: Any) -> dict[str, Any]:
    """The JSON Schema of an API's errors, from the types of its fields."""
    if isinstance(shape, type):
        return {"type": {str: "string", int: "integer"}[shape]}
    if isinstance(shape, list):
        return {"type": "array", "items": describe_shape(shape[0])}
    return {
        "type": "object",
        "properties": {
            name.removesuffix("?"): describe_shape(value)
            for name, value in shape.items()
        },
        "required": [name for name in shape if not name.endswith("?")],
    }


def list_statuses(
    refusals: Iterable[type[Problem] | RefusalSchema], dialect: Dialect
) -> dict[int, dict[str, str]]:
    """By status in an API: the slugs of its problems, and what they mean."""
    statuses: dict[int, dict[str, str]] = {}
    for refusal in refusals:
        document = write_problem(refusal.slug, refusal.status, "")
        status = dialect.answer(document).status
        statuses.setdefault(status, {})[refusal.slug] = _explain(refusal)
    return dict(sorted(statuses.items()))


def _explain(refusal: type[Problem] | RefusalSchema) -> str:
    if isinstance(refusal, RefusalSchema):
        return refusal.meaning
    first, _, _ = " ".join((refusal.__doc__ or "").split()).partition(". ")
    return first.removesuffix(".") + "."
