"""The fields of a request, wherever its client puts them: in JSON, in a form or in the URL."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterable, Mapping
from typing import Any, cast
from urllib.parse import parse_qsl

from flask import Request

from contract.dialects import EITHER, LIBRETRANSLATE, OURS, Dialect, find_dialect
from contract.tasks import PATHS, TRANSLATION
from gateway.errors import MalformedRequest, Problem
from gateway.schemas import read_object
from gateway.transport.connection import WholeBody

Fields = Mapping[str, Any]

#: The fields by which the two APIs of `/translate` are told apart.
_OURS = frozenset({"src_text", "src_lang", "tgt_lang"})
_LIBRETRANSLATES = frozenset({"q", "source", "target"})


def read_fields(request: Request) -> Fields:
    """All fields, those of the body before those of the URL. What comes several times is a
    list; what is null is left out. The content of a body says what it is: curl sends JSON as
    a form. Raises MalformedRequest.
    """
    fields = _read_pairs(request.query_string) | _read_body(request)
    return {name: value for name, value in fields.items() if value is not None}


def speaks_libretranslate(fields: Fields) -> bool:
    """Whether a request to `/translate` has LibreTranslate's fields and not ours."""
    if "src_text" in fields:
        return False
    return "q" in fields or not (
        _LIBRETRANSLATES.isdisjoint(fields) or _OURS & fields.keys()
    )


def find_spoken(request: Request) -> Dialect:
    """The API that a client speaks: its path says that, and on `/translate` its fields, once
    they are there."""
    if request.path != PATHS[TRANSLATION]:
        return find_dialect(request.path)
    if not isinstance(request.environ["wsgi.input"], WholeBody):
        return EITHER
    try:
        fields = read_fields(request)
    except Problem:
        return EITHER
    if speaks_libretranslate(fields):
        return LIBRETRANSLATE
    return OURS if _OURS & fields.keys() else EITHER


def _read_body(request: Request) -> dict[str, Any]:
    body = request.get_data().removeprefix(BOM_UTF8)
    if request.is_json or body.lstrip()[:1] in (b"{", b"["):
        return read_object(body) if body else {}
    if request.mimetype == "multipart/form-data":
        return _merge(_list_parts(request))
    return _read_pairs(body)


def _list_parts(request: Request) -> list[tuple[str, str]]:
    parts: list[tuple[str | None, str]] = list(request.form.items(multi=True))
    if any(name is None for name, _ in parts):
        raise MalformedRequest("A part of the form has no name.")
    return cast(list[tuple[str, str]], parts)


def _read_pairs(text: bytes) -> dict[str, Any]:
    """A query, or a form of the same kind."""
    try:
        return _merge(parse_qsl(text.decode(), keep_blank_values=True, errors="strict"))
    except UnicodeDecodeError as error:
        raise MalformedRequest("A field is not UTF-8.") from error


def _merge(pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """`q=a&q=b` is a list, and so is what some clients write: `q[]=a`, `q[0]=a`."""
    values: dict[str, list[str]] = {}
    lists = set()
    for given, value in pairs:
        name, bracket, _ = given.partition("[")
        values.setdefault(name, []).append(value)
        if bracket:
            lists.add(name)
    return {
        name: found if len(found) > 1 or name in lists else found[0]
        for name, found in values.items()
    }
