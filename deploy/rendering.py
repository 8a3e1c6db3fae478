"""Configuration files with the values that follow from the gateway's settings."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from string import Template

from gateway.settings import AHEAD_BYTES, PREFIX, ROW_BYTES, Settings

#: A value of nginx.conf whose comment begins with what it follows from.
_VALUE = re.compile(rf"(\w+)(; +# ){PREFIX}([A-Z_]+)(?: ([*+]) (\d+))?(?=:|$)", re.M)
_LOCATIONS = re.compile(r"(?: +location @\d+ .*\n)+")
_LOCATION = (
    "{:8}location @{} {{ proxy_read_timeout {}ms; proxy_pass http://gateway; }}\n"
)
#: How much longer than a request's limit nginx waits for the gateway, in milliseconds.
_GRACE_MS = 750


def render_nginx(text: str, settings: Settings) -> str:
    """nginx.conf for these settings. A value whose setting has its default stays as it was
    edited."""
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
        shown = f"{value:g}s" if value == int(value) else f"{value * 1000:.0f}ms"
    else:
        shown = f"{int(value) >> 20}m" if value % (1 << 20) == 0 else str(value)
    return shown + found[0].removeprefix(was)


def _render_limits(text: str, timeout_s: float) -> str:
    """A location for each whole second of the longest time for a request."""
    most = int(timeout_s + _GRACE_MS / 3000)
    limits = [max(1000, 1000 * second + _GRACE_MS) for second in range(most + 1)]
    locations = (_LOCATION.format("", *limit) for limit in enumerate(limits))
    text = _LOCATIONS.sub("".join(locations), text)
    text, was = re.sub(r"(default +)@\d+;", rf"\g<1>@{most};", text), text
    if text == was:
        return text
    return text.replace(r"([12]?\d)", f"({'|'.join(map(str, range(most)))})")


def render_torchserve(text: str, settings: Settings) -> str:
    """config.properties for these settings, unchanged if they are the defaults. A row is an
    image or a text, and JSON's longest escapes write two bytes of UTF-8 as six."""
    if _is_default(settings, "max_body_bytes", "max_image_bytes"):
        return text
    row = AHEAD_BYTES + max(ROW_BYTES, settings.max_image_bytes)
    most = max(3 * settings.max_body_bytes, row)
    return re.sub(r"(?m)^(max_request_size)=.*", rf"\1={most}", text)


def render_supervisor(
    text: str, settings: Settings, places: Mapping[str, Path], programs: Collection[str]
) -> str:
    """supervisord.conf for these settings, paths and programs."""
    # supervisor expands percent signs.
    known = {name: str(place).replace("%", "%%") for name, place in places.items()}
    stop_s = int(settings.upload_timeout_s) + 10
    first, *sections = re.split(r"(?m)^(?=\[program:)", text)
    kept = [part for part in sections if part[9 : part.index("]")] in programs]
    return Template("".join([first, *kept])).substitute(known, stop_s=str(stop_s))
