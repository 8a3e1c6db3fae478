"""The part of nginx's configuration that follows from the APIs: whose path a request has, the
documents of nginx's own errors, and where clients put their keys.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from contract.dialects import EITHER, FOREIGN, KEY_FIELDS, KEY_HEADERS, OURS, Dialect
from contract.problems import write_problem

#: nginx.conf includes this file, and has the texts of the errors itself.
FILE = "errors.conf"
_HEAD = "# Written from contract/dialects.py by `make up` and `make reload`: edit nothing.\n"
#: Slug and status of each error, by the name that nginx.conf gives it.
ERRORS = {
    "bad_request": ("malformed-request", 400),
    "forbidden": ("forbidden", 403),
    "not_found": ("not-found", 404),
    "method_not_allowed": ("method-not-allowed", 405),
    "body_too_large": ("body-too-large", 413),
    "header_too_large": ("header-too-large", 431),
    "too_many_connections": ("too-many-connections", 429),
    "tls_required": ("tls-required", 400),
    "not_ready": ("not-ready", 503),
    "deadline": ("deadline", 504),
}


def render() -> str:
    """The file as nginx reads it."""
    headers = (f"$http_{name}" for name in ("Authorization", *KEY_HEADERS))
    sources = [name.lower().replace("-", "_") for name in headers]
    sources += [f"$arg_{name}" for name in KEY_FIELDS]
    maps = {
        ("$request", "$errors"): dict(_list_paths()),
        ("$uri", "$problem"): dict(_list_documents()),
        ("".join(sources), "$keyless"): {"default": "''", "''": "keyless"},
    }
    return _HEAD + "".join(_render_map(*names, maps[names]) for names in maps)


def _list_paths() -> Iterator[tuple[str, str]]:
    """List the paths of an error's documents. $request has the path even where the URL is
    too long for the rest."""
    yield "default", f"/problems/{OURS.name}"
    yield r'"~^GET /[? ]"', "$first_page"
    theirs = {path for api in FOREIGN for path in api.translating}
    shared = [path for path in OURS.translating if path in theirs]
    yield _match(shared, "/?[? ]"), f"/problems/{EITHER.name}"
    for api in FOREIGN:
        yield _match(api.paths, "[/? ]"), f"/problems/{api.name}"


def _match(paths: Iterable[str], end: str) -> str:
    return f'"~^[A-Z]+ ({"|".join(paths)}){end}"'


def _list_documents() -> Iterator[tuple[str, str]]:
    for dialect in (OURS, EITHER, *FOREIGN):
        for name in ERRORS:
            yield f"~/{dialect.name}/{name}$", f"'{_write(dialect, name)}'"


def _write(dialect: Dialect, name: str) -> str:
    slug, status = ERRORS[name]
    document = write_problem(slug, status, "$detail", request_id="$request_id")
    return json.dumps(dialect.answer(document).content, separators=(",", ":"))


def _render_map(source: str, name: str, entries: Mapping[str, str]) -> str:
    lines = "".join(f"    {key} {value};\n" for key, value in entries.items())
    return f"map {source} {name} {{\n{lines}}}\n"
