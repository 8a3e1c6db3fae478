"""The interface of a format: it replaces the texts of a document, in order. Everything else in
the file stays. Text formats are defined by edits: spans of characters to replace, between which
all bytes stay the same.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Literal, TypeAlias

from contract.languages import LANGUAGES, normalize_variant
from documents.formats.encoding import (
    MAX_BYTES,
    Encoding,
    find_encoding,
    mend,
    read_text,
    write_text,
)
from text.messages import strip

#: The markup of a format's texts. In "xml", a text is a fragment: a bold word of a sentence is
#: `<g id="1">word</g>`, and an element without text (an image, a line break, a field) is
#: `<x id="2"/>`. The translation has the same elements, each once, perhaps in another order.
Markup: TypeAlias = Literal["text", "xml"]


@dataclass(frozen=True)
class DocumentContext:
    """The target language and, if the owner named it, the source language, as our codes; the
    warnings for the owner."""

    target: str
    source: str | None = None
    #: Each once, in order.
    warnings: dict[str, None] = field(default_factory=dict)

    def warn(self, said: str) -> None:
        """Add a warning for the owner. It must not quote the document's text."""
        self.warnings[said] = None


#: Returns the translation of a text, or the text itself to only read the document.
Ask: TypeAlias = Callable[[str], str]


@dataclass(frozen=True)
class Format:
    """A file format."""

    #: File extensions, with their dots, in lower case.
    suffixes: tuple[str, ...]
    #: The media type of the result.
    media_type: str
    markup: Markup
    #: translate(source, ask, target, context): calls `ask` for each text of the file without a
    #: translation in the target language, in a fixed order; it has at least one letter. Writes
    #: the document to `target`, which must not exist; None only reads it. Keeps no more of it
    #: in memory than the format requires, and raises DocumentError.
    translate: Callable[[Path, Ask, Path | None, DocumentContext], None]


#: The warning about words with a reading above them.
LOST_READINGS = "Translated sentences have lost their ruby text (readings of words)."


@dataclass(frozen=True, slots=True)
class Edit:
    """The replacement of characters `start` to `end` of a document, and its source texts."""

    start: int
    end: int
    texts: tuple[str, ...]
    #: Returns the replacement, given the texts' translations and their language.
    write: Callable[[Sequence[str], str], str]
    #: For texts from elsewhere in the file: whether the characters already are a translation
    #: into a language, and stay. Other edits are dropped if all translations equal the texts.
    is_done: Callable[[str], bool] | None = None
    #: A warning about a loss in the translation.
    warning: str = ""


#: Each line of a text with its line ending.
LINE = re.compile(r"[^\r\n]*+(?:\r\n|\r|\n|\Z)")
#: Yields the edits of a document, in order.
FindEdits = Callable[[str], Iterable[Edit]]
#: The parts of a file, each with its edits.
Parts = Iterator[tuple[str, Iterable[Edit]]]
#: Yields the parts of a file.
FindParts = Callable[[Path, Encoding], Parts]


def read_whole(find_edits: FindEdits, max_bytes: int = MAX_BYTES) -> FindParts:
    """Return a function that yields a whole file as its only part."""

    def find_parts(path: Path, encoding: Encoding) -> Parts:
        content = read_text(path, encoding, max_bytes=max_bytes)
        yield content, find_edits(content)

    return find_parts


def make_format(
    suffixes: tuple[str, ...],
    media_type: str,
    markup: Markup,
    find_parts: FindParts,
    *,
    declaration: re.Pattern[bytes] | None = None,
    has_numbers: bool = False,
) -> Format:
    """Make the format of a kind of text file. `declaration` finds a file's encoding. With
    `has_numbers`, characters that it lacks are written as numeric references, as in HTML."""

    def translate(
        source: Path, ask: Ask, target: Path | None, context: DocumentContext
    ) -> None:
        warn = context.warn
        encoding = find_encoding(
            source, declaration, language=context.source, warn=warn
        )
        parts = find_parts(source, encoding)
        pieces = chain.from_iterable(_splice(*part, ask, context) for part in parts)
        if target:
            write_text(pieces, target, encoding, has_numbers=has_numbers, warn=warn)
        for _ in pieces:
            pass  # a document that is only read

    return Format(suffixes, media_type, markup, translate)


def _splice(
    content: str, edits: Iterable[Edit], ask: Ask, context: DocumentContext
) -> Iterator[str]:
    place, language = 0, context.target
    for edit in edits:
        if edit.is_done and edit.is_done(language):
            continue
        if edit.warning:
            context.warn(edit.warning)
        yield content[place : edit.start]
        texts = [*map(mend, edit.texts)]
        new = [*map(ask, texts)]
        is_same = not edit.is_done and bool(new) and new == texts
        yield content[edit.start : edit.end] if is_same else edit.write(new, language)
        place = edit.end
    yield content[place:]


def split_edges(text: str, space: str | None = None) -> tuple[str, str, str]:
    """Split a text into its leading white space, its content and its trailing white space."""
    inner = text.strip(space)
    before = text[: len(text) - len(text.lstrip(space))]
    return before, inner, text[len(before) + len(inner) :]


def surround(model: str, text: str, space: str | None = None) -> str:
    """Return a text with the leading and trailing white space of `model`."""
    before, _, after = split_edges(model, space)
    return before + text + after


def is_right_to_left(language: str) -> bool:
    """Whether a language, given as our code, is written from right to left."""
    found = LANGUAGES.get(language)
    return bool(found and found.is_right_to_left)


def name_language(old: str, language: str) -> str:
    """Return `language`, or `old` if that is the same language with a country."""
    return old if normalize_variant(old) == language else language


_LONGEST_WORD = 64
_CODES = re.compile(
    r"""
    [a-z][\w+.-]*://.*                              # an address
    | (?:mailto|tel|data|urn|javascript):.*
    | \S+@\S+\.\w+                                  # a mailbox
    | .*[\d_@\\={}<>\[\]|$%\#].*                    # a number, an identifier, a variable
    | .*\w[.:]+\w.*                                 # a file, a domain, a name in a name
    | [./~\#]\S*[/\w]\S*                            # a path, a selector
    | (?:application|audio|font|image|message|model|multipart|text|video)/\S+
    | \S+/                                          # a folder
    | [a-z]+[A-Z]\S*                                # camelCase
    | (?:[A-Z][a-z]+){2,}                           # PascalCase
    | [a-z]+(?:-[a-z]+){2,}                         # kebab-case-with-parts
    | [a-z]{2,3}-(?:[A-Z]{2}|[A-Z][a-z]{3})         # a language
    | true | false | null
    """,
    re.VERBOSE,
)
_VARIABLES = re.compile(
    r"\{\{[^{}]*\}\}|\$?\{[^{}]*\}|%(?:\(\w+\))?(?:\d+\$)?[-+#0 ]?\d*[a-zA-Z@]|<[^<>]*>"
)
#: A word in bold or in a link.
_ELEMENT = re.compile(r"<(\w++)>([^<>]*+)</\1>")


def has_letter(text: str) -> bool:
    """Whether a text has anything to translate."""
    return any(map(str.isalpha, text))


def is_prose(text: str) -> bool:
    """Whether a program's value needs translation: it has letters, and is not a single word
    that looks like an identifier, an address, a path or another code."""
    text = strip(_ELEMENT.sub(r"\2", text.strip()))
    if not has_letter(text):
        return False
    if any(map(str.isspace, text)):
        return has_letter(_VARIABLES.sub("", text))
    # Languages without spaces have sentences that look like one word.
    if not text.isascii():
        return "://" not in text
    return len(text) <= _LONGEST_WORD and not _CODES.fullmatch(text)
