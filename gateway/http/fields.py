"""The fields of a request, wherever its client puts them: in JSON, in a form or in the URL.
Each is parsed once.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from io import BytesIO
from typing import Any, cast
from urllib.parse import parse_qsl

from flask import Flask, Request, request
from werkzeug.exceptions import RequestEntityTooLarge
from werkzeug.formparser import FormDataParser
from werkzeug.http import parse_options_header

from contract.dialects import (
    EITHER,
    KEY_HEADERS,
    LIBRETRANSLATE,
    OURS,
    Dialect,
    find_dialect,
)
from contract.tasks import PATHS, TRANSLATION
from gateway.errors import BodyTooLarge, MalformedRequest, Problem
from gateway.http.connection import WholeBody
from gateway.schemas import read_object

Fields = Mapping[str, Any]

#: The header that holds a key with its scheme.
AUTHORIZATION = "Authorization"

#: Where a request's environment has what was read of it, and, if its body is large, the
#: function that parses it.
_FIELDS, _JSON, PARSE = "babelgate.fields", "babelgate.json", "babelgate.parse"


def register_fields(app: Flask) -> None:
    """Refuses a URL with too many fields before anybody parses them."""

    @app.before_request
    def count_fields() -> None:
        if query := request.query_string:
            _check_number(query, _count_allowed(request))


def read_fields(request: Request) -> Fields:
    """All fields, those of the body before those of the URL. What comes several times is a
    list; what is null is left out. The content of a body says what it is: curl sends JSON as
    a form. Raises MalformedRequest and BodyTooLarge.
    """
    return _read_once(request, _FIELDS, _read_fields)


def read_json(request: Request) -> dict[str, Any]:
    """The JSON object in the body. Raises MalformedRequest."""
    return _read_once(
        request, _JSON, lambda request: _parse(request, read_object, request.get_data())
    )


def speaks_libretranslate(fields: Fields) -> bool:
    """Whether a request to `/translate` has LibreTranslate's fields and not ours."""
    if OURS.text_field in fields:
        return False
    return LIBRETRANSLATE.text_field in fields or not (
        LIBRETRANSLATE.fields.isdisjoint(fields) or OURS.fields & fields.keys()
    )


def find_spoken(request: Request) -> Dialect:
    """The API that a client speaks: its path says that, and on `/translate` its fields, once
    they are there."""
    if request.path != PATHS[TRANSLATION]:
        return find_dialect(request.path)
    if not isinstance(request.environ["wsgi.input"], WholeBody):
        # LibreTranslate's clients show their keys in fields, some in those of the query.
        if speaks_libretranslate(request.args):
            return LIBRETRANSLATE
        is_ours = any(name in request.headers for name in (AUTHORIZATION, *KEY_HEADERS))
        return OURS if is_ours else EITHER
    try:
        fields = read_fields(request)
    except Problem:
        return EITHER
    if speaks_libretranslate(fields):
        return LIBRETRANSLATE
    return OURS if OURS.fields & fields.keys() else EITHER


def _read_once(
    request: Request, name: str, read: Callable[[Request], dict[str, Any]]
) -> dict[str, Any]:
    """Return or raise the result of `read`, also a second time."""
    if name not in request.environ:
        try:
            request.environ[name] = read(request)
        except Problem as problem:
            request.environ[name] = copy(problem)  # without its frames
            raise
    found = request.environ[name]
    if isinstance(found, Problem):
        raise copy(found)
    return cast(dict[str, Any], found)


def _read_fields(request: Request) -> dict[str, Any]:
    most = _count_allowed(request)
    fields = _read_pairs(request.query_string, most) | _read_body(request, most)
    lists = (value for value in fields.values() if isinstance(value, list))
    if max(len(fields), *map(len, lists), 0) > most:  # in JSON
        raise _refuse_number(most)
    return {name: value for name, value in fields.items() if value is not None}


def _read_body(request: Request, most: int) -> dict[str, Any]:
    body = request.get_data().removeprefix(BOM_UTF8)
    if request.is_json or body.lstrip()[:1] in (b"{", b"["):
        return read_json(request) if body else {}
    if request.mimetype == "multipart/form-data":
        return _parse(request, _read_parts, body, request.content_type, most)
    return _parse(request, _read_pairs, body, most)


def _parse(
    request: Request, function: Callable[..., dict[str, Any]], *given: Any
) -> dict[str, Any]:
    """Parse the request's body by the function, a large one beside the loop."""
    parse = request.environ.get(PARSE)
    return cast(dict[str, Any], parse(function, *given)) if parse else function(*given)


def _read_parts(body: bytes, content_type: str, most: int) -> dict[str, Any]:
    kind, options = parse_options_header(content_type)
    parser = FormDataParser(
        lambda *_, **__: BytesIO(),  # a file is no field, and nothing goes to disk
        max_form_memory_size=len(body),
        max_form_parts=most,
    )
    try:
        _, form, _ = parser.parse(BytesIO(body), kind, len(body), options)
    except RequestEntityTooLarge as error:
        raise _refuse_number(most) from error
    parts: list[tuple[str | None, str]] = list(form.items(multi=True))
    if any(name is None for name, _ in parts):
        raise MalformedRequest("A part of the form has no name.")
    return _merge(cast(list[tuple[str, str]], parts))


def _count_allowed(request: Request) -> int:
    return cast(int, request.max_form_parts)  # a setting of the application's


def _check_number(text: bytes, most: int) -> None:
    if text.count(b"&") >= most:
        raise _refuse_number(most)


def _refuse_number(most: int) -> BodyTooLarge:
    return BodyTooLarge(
        f"A form, a list or a URL may have {most} fields; this one has more."
    )


def _read_pairs(text: bytes, most: int) -> dict[str, Any]:
    """A query, or a form of the same kind."""
    _check_number(text, most)
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
