"""Small documents from hand-written XML, and what is read from them and written."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

from documents.formats.format import Format, LanguagePair

_TYPES = "http://schemas.openxmlformats.org/package/2006/content-types"
_DOCUMENT = "application/vnd.openxmlformats-officedocument."
#: A tag, an entity, or small letters.
_PIECE = re.compile(r"<[^>]*>|&\w+;|[a-zà-ÿ]+")


def pack(path: Path, members: Mapping[str, str | bytes]) -> Path:
    """A zip file with these members in order."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for name, content in members.items():
            out.writestr(name, content)
    return path


def pack_openxml(path: Path, parts: Mapping[str, tuple[str, str | bytes]]) -> Path:
    """Office Open XML: its parts with the last words of their types and their content."""
    overrides = "".join(
        f'<Override PartName="/{name}" ContentType="{_DOCUMENT}{kind}"/>'
        for name, (kind, _) in parts.items()
    )
    types = f'<Types xmlns="{_TYPES}">{overrides}</Types>'
    contents = {name: content for name, (_, content) in parts.items()}
    return pack(path, {"[Content_Types].xml": types, **contents})


def mark(text: str) -> str:
    """A translation that can be told from its text: small letters are capital ones."""
    return _PIECE.sub(lambda p: p[0] if p[0][0] in "<&" else p[0].upper(), text)


def translate(
    form: Format,
    source: Path,
    change: Callable[[str], str],
    languages: LanguagePair | None = None,
) -> Path:
    """The file that is written with each text changed."""
    languages = languages or LanguagePair("en", "en")
    texts = list(form.read(source, "de"))
    number = len(list(source.parent.iterdir()))
    target = source.with_name(f"{number}-{source.name}")
    form.write(source, map(change, texts), target, languages)
    return target


def unpack(path: Path) -> dict[str, bytes]:
    """The content of each member, in order."""
    with zipfile.ZipFile(path) as opened:
        return {name: opened.read(name) for name in opened.namelist()}
