"""The formats: one module each, found by the ending of a file's name."""

from __future__ import annotations

from documents.errors import UnknownFormat
from documents.formats.format import Format


def find_format(name: str) -> Format:
    """The format of files with such a name. Raises UnknownFormat."""
    raise UnknownFormat(f"No format has the ending of {name!r}.")
