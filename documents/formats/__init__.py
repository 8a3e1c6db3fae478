"""The document formats: one module each, found by a file's extension."""

from pathlib import PurePath

from documents.errors import UnknownFormat
from documents.formats import (
    csv,
    epub,
    gettext,
    html,
    json,
    markdown,
    opendocument,
    openxml,
    subtitles,
    text,
    xliff,
)
from documents.formats.format import Format

FORMATS: tuple[Format, ...] = (
    text.FORMAT,
    markdown.FORMAT,
    html.FORMAT,
    subtitles.SUBRIP,
    subtitles.WEBVTT,
    gettext.FORMAT,
    xliff.FORMAT,
    json.FORMAT,
    json.ARB,
    csv.COMMAS,
    csv.TABS,
    *openxml.FORMATS,
    *opendocument.FORMATS,
    epub.FORMAT,
)
_BY_SUFFIX = {suffix: each for each in FORMATS for suffix in each.suffixes}
#: All file extensions, with their dots, in the order of the formats.
SUFFIXES = tuple(_BY_SUFFIX)


def find_format(name: str) -> Format:
    """Return the format of a file by its name. Raises UnknownFormat, listing all extensions."""
    ending = PurePath(name).suffix.lower()
    if ending in _BY_SUFFIX:
        return _BY_SUFFIX[ending]
    known = ", ".join(SUFFIXES)
    shown = f"ends in {ending[:20]!r}" if ending else "has no extension"
    raise UnknownFormat(f"The file's name {shown}; expected one of {known}")
