"""Reads HTML as runs of text with marks in them: every character of the input is in
exactly one run, so that what is not translated comes back as it was written.
"""

from __future__ import annotations

import html
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from itertools import pairwise

from gateway.protection import Mark, Role

#: Elements that are part of a sentence (HTML Living Standard, 4.5 and 4.7).
_INLINE = frozenset(
    """a abbr acronym b bdi bdo big cite data del dfn em font i img ins label mark q s
    small span strike strong sub sup time tt u var wbr""".split()
)
#: Elements whose content is no text in a language.
_OPAQUE = frozenset(
    "code kbd math noscript pre samp script style svg template textarea tt".split()
)
_INLINE_OPAQUE = frozenset("code kbd samp tt".split())
_VOID = frozenset(
    """area base br col embed hr img input link meta param source track wbr""".split()
)


@dataclass(frozen=True)
class Run:
    """A stretch of text with inline tags as marks; a run that `is_markup` stays as it is."""

    text: str
    marks: tuple[Mark, ...] = ()
    is_markup: bool = False


def parse(source: str) -> list[Run]:
    """The runs of an HTML document or fragment, in order.

    Text is unescaped; `escape` is its reverse. The reader never refuses: what is no
    proper HTML is kept as markup or taken for text, as a browser does.
    """
    scanner = _Scanner()
    scanner.feed(source)
    scanner.close()
    lines = [0]
    for line in source.split("\n"):
        lines.append(lines[-1] + len(line) + 1)
    places = [lines[token.line - 1] + token.column for token in scanner.tokens]
    tokens = [
        replace(token, raw=source[start:end])
        for token, (start, end) in zip(
            scanner.tokens, pairwise([*places, len(source)]), strict=True
        )
    ]
    return _gather(tokens)


def escape(text: str) -> str:
    """Text as HTML writes it."""
    return html.escape(text, quote=False).replace("\u00a0", "&nbsp;")


@dataclass(frozen=True)
class _Token:
    """One tag, comment or piece of text. `name` is empty unless it is a tag."""

    line: int
    column: int
    name: str = ""
    is_start: bool = False
    is_text: bool = False
    is_kept: bool = False
    raw: str = ""


class _Scanner(HTMLParser):
    """Notes where each token begins."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.tokens: list[_Token] = []

    def _note(self, **facts: object) -> None:
        line, column = self.getpos()
        self.tokens.append(_Token(line, column, **facts))  # type: ignore[arg-type]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        is_kept = (
            tag in _OPAQUE
            or (given.get("translate") or "").lower() == "no"
            or "notranslate" in (given.get("class") or "").split()
        )
        self._note(name=tag, is_start=True, is_kept=is_kept)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """To HTML the slash of `<br/>` means nothing, and `<b/>` opens."""
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        self._note(name=tag)

    def handle_data(self, data: str) -> None:
        self._note(is_text=True)

    def handle_entityref(self, name: str) -> None:
        self._note(is_text=True)

    def handle_charref(self, name: str) -> None:
        self._note(is_text=True)

    def handle_comment(self, data: str) -> None:
        self._note()

    def handle_decl(self, decl: str) -> None:
        self._note()

    def handle_pi(self, data: str) -> None:
        self._note()

    def unknown_decl(self, data: str) -> None:
        self._note()


@dataclass
class _Builder:
    """Collects tokens into runs."""

    runs: list[Run] = field(default_factory=list)
    text: str = ""
    marks: list[Mark] = field(default_factory=list)

    def add_text(self, raw: str) -> None:
        self.text += html.unescape(raw)

    def add_mark(self, shown: str, role: Role) -> None:
        place = len(self.text)
        self.marks.append(Mark(place, place, shown, role))

    def add_markup(self, raw: str) -> None:
        if self.text or self.marks:
            self.runs.append(Run(self.text, tuple(self.marks)))
            self.text, self.marks = "", []
        if raw:
            self.runs.append(Run(raw, is_markup=True))


def _gather(tokens: list[_Token]) -> list[Run]:
    builder = _Builder()
    i = 0
    while i < len(tokens):
        token = tokens[i]
        end = _find_end(tokens, i) if token.is_kept else i + 1
        raw = "".join(inner.raw for inner in tokens[i:end])
        is_inline = token.name in _INLINE or token.name in _INLINE_OPAQUE
        if token.is_text:
            builder.add_text(raw)
        elif not is_inline:
            builder.add_markup(raw)
        elif token.is_kept:
            builder.add_mark(raw, Role.WORD)
        elif token.name in _VOID:
            builder.add_mark(raw, Role.LOOSE)
        else:
            builder.add_mark(raw, Role.OPENING if token.is_start else Role.CLOSING)
        i = end
    builder.add_markup("")
    return builder.runs


def _find_end(tokens: list[_Token], first: int) -> int:
    """The index after the element that begins at `first`; to the end if it is not closed."""
    name, depth = tokens[first].name, 0
    if name in _VOID:
        return first + 1
    for i in range(first, len(tokens)):
        if tokens[i].name == name:
            depth += 1 if tokens[i].is_start else -1
        if depth == 0:
            return i + 1
    return len(tokens)
