"""Renders configuration files with values derived from the gateway's settings and the APIs."""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from string import Template

from contract.dialects import EITHER, FOREIGN, KEY_FIELDS, KEY_HEADERS, OURS
from contract.problems import write_problem
from gateway.settings import AHEAD_BYTES, PREFIX, ROW_BYTES, Settings

#: A value of nginx.conf whose comment begins with the setting that it is derived from.
_VALUE = re.compile(rf"(\w+)(; +# ){PREFIX}([A-Z_]+)(?: ([*+]) (\d+))?(?=:|$)", re.M)
_LOCATIONS = re.compile(r"(?: +location @\d+ .*\n)+")
_LOCATION = "location @{} {{ proxy_read_timeout {}ms; proxy_pass http://gateway; }}"
#: The time, in milliseconds, that nginx waits for the gateway beyond a request's limit.
_GRACE_MS = 750
#: The most seconds with a location each: for every second of a day, nginx needs 600 MB.
_NAMED_S = 3600
#: With a larger number, TorchServe does not start.
_JAVA_MOST = (1 << 31) - 1
#: nginx.conf includes this file; the texts of the errors are in nginx.conf itself.
ERRORS_FILE = "errors.conf"
_HEAD = "# Written from contract/dialects.py by `make up` and `make reload`: edit nothing.\n"
#: Slug and status of each error, by its name in nginx.conf.
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


def render_nginx(text: str, settings: Settings) -> str:
    """Render nginx.conf for these settings. A value whose setting has its default stays."""
    text = _VALUE.sub(lambda found: _write_value(found, settings), text)
    sizes = {
        "images or arrays": settings.max_upload_bytes,
        "a document": settings.document_bytes,
        "a glossary": settings.most_glossary_body_bytes,
        "anything else": settings.max_body_bytes,
    }
    for name, size in sizes.items():
        known = f"{size >> 20} MiB" if size % (1 << 20) == 0 else f"{size} bytes"
        text = re.sub(rf"\d+ MiB of {name}", f"{known} of {name}", text)
    if _is_default(settings, "timeout_s"):
        return text
    return _render_limits(text, settings.timeout_s)


def _is_default(settings: Settings, *names: str) -> bool:
    return all(
        getattr(settings, name) == Settings.model_fields[name].default for name in names
    )


def _write_value(found: re.Match[str], settings: Settings) -> str:
    was, _, name, sign, number = found.groups()
    if _is_default(settings, name.lower()):
        return found[0]
    value: float = getattr(settings, name.lower())
    value = value * int(number) if sign == "*" else value + int(number or 0)
    if name.endswith("_S"):
        shown = f"{value:.0f}s" if value == int(value) else f"{value * 1000:.0f}ms"
    else:
        shown = f"{int(value) >> 20}m" if value % (1 << 20) == 0 else str(value)
    return shown + found[0].removeprefix(was)


def _render_limits(text: str, timeout_s: float) -> str:
    """Write a location for each whole second of a request's longest time, up to an hour, on as
    many lines as before: nginx's messages name lines."""
    most = int(timeout_s + _GRACE_MS / 3000)
    named = min(most, _NAMED_S)
    written = " ".join(
        _LOCATION.format(second, max(1000, 1000 * second + _GRACE_MS))
        for second in (*range(named), most)
    )
    text = _LOCATIONS.sub(lambda was: written + "\n" * was[0].count("\n"), text)
    text, was = re.sub(r"(default +)@\d+;", rf"\g<1>@{most};", text), text
    # The numbers below `named`; of a list, nginx would read only 4,095 bytes.
    digits = str(named)
    shorter = rf"\d{{1,{len(digits) - 1}}}" if named > 9 else "0"
    alike = (
        f"{digits[:place]}[0-{int(digit) - 1}]" + r"\d" * len(digits[place + 1 :])
        for place, digit in enumerate(digits)
        if digit != "0"
    )
    below = "|".join((shorter, *alike))
    return text if text == was else text.replace(r"([12]?\d)", f"({below})")


def render_torchserve(text: str, settings: Settings) -> str:
    """Render config.properties for these settings; defaults change nothing. A row is an image
    or a text, and JSON's longest escapes write two bytes of UTF-8 as six."""
    if _is_default(settings, "max_body_bytes", "max_image_bytes"):
        return text
    row = AHEAD_BYTES + max(ROW_BYTES, settings.max_image_bytes)
    most = min(max(3 * settings.max_body_bytes, row), _JAVA_MOST)
    return re.sub(r"(?m)^(max_request_size)=.*", rf"\1={most}", text)


def render_supervisor(
    text: str, settings: Settings, places: Mapping[str, Path], programs: Collection[str]
) -> str:
    """Render supervisord.conf for these settings, paths and programs."""
    # supervisor expands percent signs, and those of stdout_logfile twice.
    known = {name: str(place).replace("%", "%%") for name, place in places.items()}
    known["logs"] = f"{known['run']}/logs".replace("%", "%%")
    stop_s = int(settings.longest_s) + 10
    first, *sections = re.split(r"(?m)^(?=\[program:)", text)
    kept = [part for part in sections if part[9 : part.index("]")] in programs]
    return Template("".join([first, *kept])).substitute(known, stop_s=str(stop_s))


def render_errors() -> str:
    """Render the part of nginx's configuration derived from the APIs: the API of a request's
    path, the documents of nginx's own errors, and the places of clients' keys."""
    headers = (f"$http_{name}" for name in ("Authorization", *KEY_HEADERS))
    sources = [name.lower().replace("-", "_") for name in headers]
    sources += [f"$arg_{name}" for name in KEY_FIELDS]
    maps = {
        "$request $errors": _list_paths(),
        "$uri $problem": _list_documents(),
        f"{''.join(sources)} $keyless": [("default", "''"), ("''", "keyless")],
    }
    text = _HEAD
    for names, entries in maps.items():
        lines = "".join(f"    {key} {value};\n" for key, value in entries)
        text += f"map {names} {{\n{lines}}}\n"
    return text


def _list_paths() -> Iterator[tuple[str, str]]:
    """Yield the paths of an error's documents. $request has the path even of a URL that is
    too long for other variables."""
    yield "default", f"/problems/{OURS.name}"
    yield r'"~^GET /[? ]"', "$first_page"
    theirs = {path for api in FOREIGN for path in api.translating}
    shared = [path for path in OURS.translating if path in theirs]
    yield _match(shared, "/?[? ]"), f"/problems/{EITHER.name}"
    for api in FOREIGN:
        yield _match(api.paths, "[/? ]"), f"/problems/{api.name}"


def _match(paths: Iterable[str], end: str) -> str:
    slashes = "|".join(paths).replace("/", "/+")  # the gateway reads several as one
    return f'"~^[A-Z]+ ({slashes}){end}"'


def _list_documents() -> Iterator[tuple[str, str]]:
    for dialect in (OURS, EITHER, *FOREIGN):
        for name, (slug, status) in ERRORS.items():
            document = write_problem(slug, status, "$detail", request_id="$request_id")
            content = dialect.answer(document).content
            written = json.dumps(content, separators=(",", ":"))
            yield f"~/{dialect.name}/{name}$", f"'{written}'"
