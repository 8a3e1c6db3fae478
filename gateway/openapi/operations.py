"""The descriptions of routes for the OpenAPI document, beside their code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from pydantic import BaseModel

from contract.dialects import Dialect
from gateway.errors import Problem
from gateway.openapi.refusals import RefusalSchema

JSON = "application/json"
MULTIPART = "multipart/form-data"
#: A file in a form, or a whole answer.
BINARY: dict[str, Any] = {"type": "string", "format": "binary"}
#: The content types in which fields of other APIs may come.
FIELDS = (JSON, "application/x-www-form-urlencoded", MULTIPART)

View = TypeVar("View", bound=Callable[..., Any])


@dataclass(frozen=True)
class BodySchema:
    """The fields of a request. A `GET` has them in its URL."""

    model: type[BaseModel]
    media: tuple[str, ...] = (JSON,)
    #: Additions of JSON Schema to the model's fields, from a stack's map and settings.
    bounds: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    examples: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Operation:
    """A route. What it answers when it succeeds is in its function's annotation."""

    summary: str
    bodies: tuple[BodySchema, ...] = ()
    #: The parameters in the URL beside its body.
    query: type[BaseModel] | None = None
    #: Whether it takes images: exactly one, or several.
    images: Literal["one", "several"] | None = None
    #: The refusals beside those of every route.
    refusals: tuple[type[Problem] | RefusalSchema, ...] = ()
    #: Absent from the document where the map does not have this task.
    task: str | None = None
    #: The content types of its answers.
    media: tuple[str, ...] = (JSON,)
    #: Whether clients may ask if it has changed.
    is_cached: bool = False
    #: The APIs that it belongs to, if its path does not tell.
    dialects: tuple[Dialect, ...] = ()
    #: The status when it succeeds.
    status: int = 200
    #: Whether it answers with a document, of whatever format.
    is_file: bool = False
    #: The values of the variable parts of its path. None of them are any.
    path: Mapping[str, Sequence[str]] = field(default_factory=dict)
    #: Whether the request may set its time limit.
    has_limit: bool = False


_ATTRIBUTE = "openapi_operation"


def describe(operation: Operation) -> Callable[[View], View]:
    """Notes what a route says of itself at its function, whose calls cost nothing more."""

    def mark(view: View) -> View:
        setattr(view, _ATTRIBUTE, operation)
        return view

    return mark


def find_operation(view: Callable[..., Any]) -> Operation | None:
    """Return the operation that `describe` has noted."""
    return getattr(view, _ATTRIBUTE, None)


def choose(served: Sequence[str], preferred: str) -> str:
    """A language for an example: the preferred one if it is served."""
    return preferred if preferred in served or not served else served[0]
