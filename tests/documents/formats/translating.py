"""Translates documents given as bytes with a function instead of a model."""

import re
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from documents.formats import find_format
from documents.formats.format import DocumentContext

_MARKUP, _ENTITIES = re.compile(r"(<[^>]*>|&\w+;)"), re.compile(r"(&\w+;)")

Translate = Callable[[str], str]


def read(name: str, content: bytes, target: str | DocumentContext = "de") -> list[str]:
    with TemporaryDirectory() as folder:
        source = Path(folder, name)
        source.write_bytes(content)
        return list_texts(source, _find_context(target))


def list_texts(source: Path, context: DocumentContext) -> list[str]:
    texts: list[str] = []

    def note(text: str) -> str:
        texts.append(text)
        return text

    find_format(source.name).translate(source, note, None, context)
    return texts


def translate(
    name: str,
    content: bytes,
    translate: Translate,
    target: str | DocumentContext = "de",
) -> bytes:
    format, context = find_format(name), _find_context(target)
    with TemporaryDirectory() as folder:
        source, written = Path(folder, name), Path(folder, f"new-{name}")
        source.write_bytes(content)
        format.translate(source, translate, written, context)
        return written.read_bytes()


def _find_context(target: str | DocumentContext) -> DocumentContext:
    return target if isinstance(target, DocumentContext) else DocumentContext(target)


def keep(text: str) -> str:
    return text


def shout(text: str) -> str:
    """Return the text in capitals, with its elements and entities unchanged."""
    # No element ends after the last ">", and searching for one there takes quadratic time.
    marked, end, rest = text.rpartition(">")
    parts = [*_MARKUP.split(marked + end), "", *_ENTITIES.split(rest)]
    return "".join(p if n % 2 else p.upper() for n, p in enumerate(parts))
