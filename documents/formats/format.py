"""The interface of a format: a document as texts in order, and the same document with other
texts. Everything else in the file stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

#: The markup of a format's texts. In "xml", a text is a fragment: a bold word of a
#: sentence is `<g id="1">word</g>`, and what has no text (an image, a line break, a
#: field) is `<x id="2"/>`. The translation has the same elements, each once, perhaps in
#: another order.
Markup: TypeAlias = Literal["text", "xml"]


@dataclass(frozen=True)
class LanguagePair:
    """The languages of a translation: codes of ours. `source` is None if it is identified."""

    source: str | None
    target: str


@dataclass(frozen=True)
class Format:
    """A file format. Both functions raise DocumentError, and read the file again; neither holds
    more of it in memory than its format forces it to."""

    #: Endings of file names, with their dots, in lower case.
    suffixes: tuple[str, ...]
    #: The media type of the result.
    media_type: str
    markup: Markup
    #: read(source, target): the texts of the file that are missing in the target language, in
    #: a fixed order. A text has a letter.
    read: Callable[[Path, str], Iterator[str]]
    #: write(source, translations, target, languages): writes `target`, which does not exist.
    #: `translations` has one for each text of `read`, in its order.
    write: Callable[[Path, Iterator[str], Path, LanguagePair], None]
